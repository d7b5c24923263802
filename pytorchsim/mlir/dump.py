"""Writing the stages of a compilation where the user asked for them.

In: a folder or None. Out: files, or nothing. A folder that cannot be written is the user's mistake, so it is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from pytorchsim.errors import ConfigError

__all__ = ["Dump"]


class Dump:
    """The artifacts of one kernel. Without a folder every `write` does nothing."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    @property
    def location(self) -> str:
        """The folder for messages, "" without one."""
        return "" if self.folder is None else str(self.folder)

    def write(self, name: str, produce: Callable[[], str | bytes]) -> None:
        """Write what `produce` returns to `name`. ConfigError: the folder cannot be written."""
        if self.folder is None:
            return
        content = produce()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self.folder.joinpath(name).write_bytes(content if isinstance(content, bytes) else content.encode())
        except OSError as error:
            raise ConfigError(
                f"cannot write {name} to the dump folder {self.folder} ({error.strerror});"
                " name a writable folder with PYTORCHSIM_DUMP_DIR, or unset it"
            ) from error
