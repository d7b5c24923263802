"""A line on the terminal for work that takes more than two seconds: what is done, what runs, how long so far.

In: steps as they start. Out: one transient line on stderr, if that is a terminal; nothing else, and nothing for quick
work. A thread of its own draws it, so it also moves while a launch runs in C++ (which releases the GIL). One line at
a time: where another one is shown, this one stays silent.
"""

from __future__ import annotations

import sys
import threading
from types import TracebackType
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["DELAY_SECONDS", "ProgressLine"]

DELAY_SECONDS = 2.0

_SHOWN = threading.Lock()
"""Held by the line that is on the terminal."""


class ProgressLine:
    """A context manager around the work. `total` steps, if known."""

    def __init__(
        self, text: str, total: int | None = None, *, stream: TextIO | None = None, delay_seconds: float = DELAY_SECONDS
    ) -> None:
        self._text, self._total = text, total
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self._steps, self._current, self._over = 0, "", False
        self._shown: tuple[Progress, TaskID] | None = None
        self._timer: threading.Timer | None = None
        if self._stream.isatty():
            self._timer = threading.Timer(delay_seconds, self._show)
            self._timer.daemon = True

    def __enter__(self) -> ProgressLine:
        if self._timer is not None:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        with self._lock:
            self._over = True
            if self._shown is not None:
                self._shown[0].stop()
                self._shown = None
                _SHOWN.release()

    def start(self, step: str) -> None:
        """The next step begins; the one before it is done."""
        with self._lock:
            self._steps += 1
            self._current = step
            if self._shown is not None:
                self._shown[0].update(self._shown[1], completed=self._steps - 1, description=self._description())

    def _description(self) -> str:
        of = f" of {self._total}" if self._total is not None else ""
        return f"{self._text}: {self._steps}{of} {self._current}" if self._steps else self._text

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        with self._lock:
            if self._over or not _SHOWN.acquire(blocking=False):
                return
            progress = Progress(
                SpinnerColumn(),
                TextColumn("{task.description}", markup=False),
                TimeElapsedColumn(),
                console=Console(file=self._stream),
                transient=True,
            )
            self._shown = progress, progress.add_task(self._description(), total=self._total)
            progress.start()
