"""`Session`: what one `torch.compile` call asked for, as a frozen value that travels with its graphs.

In: a machine, a mode, strictness. Out: a value with a digest, and `current_session()` for the layers that generate
code while a graph of that session is compiled. Assumes: one session per compile; threads never share one compile, so a
context variable is enough (it does not follow into pool threads: pass the session to them).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pytorchsim.config.model import NpuConfig
from pytorchsim.config.tiles import NO_CHOICES, TileChoices

__all__ = ["DEFAULT_MODE", "Mode", "Session", "current_session", "session_scope"]

Mode: TypeAlias = Literal["functional+timing", "functional", "timing"]
DEFAULT_MODE: Mode = "functional+timing"


@dataclass(frozen=True)
class Session:
    """The machine a graph is compiled for, how it runs, whether work on the host is an error, tiles that the user
    prescribes, and whether each kernel's results are compared with eager's."""

    config: NpuConfig
    mode: Mode = DEFAULT_MODE
    strict: bool = False
    tiles: TileChoices = NO_CHOICES
    verify: bool = False

    def options_json(self) -> str:
        """Everything but the machine, as one line of JSON with sorted keys."""
        options: dict[str, object] = {"mode": self.mode, "strict": self.strict}
        if self.verify:
            options["verify"] = True
        if self.tiles.measured > 1:
            options["measured_tiles"] = self.tiles.measured
        if self.tiles.entries:
            options["tiles"] = {key: dict(sizes) for key, sizes in self.tiles.entries}
        return json.dumps(options, sort_keys=True, separators=(",", ":"))

    def digest(self) -> str:
        """SHA-256 of the content, 16 hex digits: equal sessions generate equal code."""
        content = f"{self.config.canonical_json()}\n{self.options_json()}"
        return hashlib.sha256(content.encode()).hexdigest()[:16]


_CURRENT: ContextVar[Session | None] = ContextVar("pytorchsim_session", default=None)


def current_session() -> Session:
    """The session of the graph that this thread is compiling.

    Raises:
        RuntimeError: this thread is not compiling a graph for the NPU.
    """
    session = _CURRENT.get()
    if session is None:
        raise RuntimeError("no graph is being compiled for the NPU in this thread; pass the session as an argument")
    return session


@contextmanager
def session_scope(session: Session) -> Iterator[Session]:
    """Make `session` the current one of this thread for the duration of a `with` block."""
    token = _CURRENT.set(session)
    try:
        yield session
    finally:
        _CURRENT.reset(token)
