"""Is the progress line silent for quick work and off terminals, and does it say what runs?"""

from __future__ import annotations

import io
import time

from pytorchsim.runtime.progress import ProgressLine


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def _wait_for(terminal: Terminal, text: str) -> None:
    deadline = time.monotonic() + 10
    while text not in terminal.getvalue() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert text in terminal.getvalue()


def test_slow_work_says_what_runs() -> None:
    terminal = Terminal()
    with ProgressLine("compiling graph", 3, stream=terminal, delay_seconds=0) as line:
        line.start("first")
        line.start("second")
        _wait_for(terminal, "compiling graph: 2 of 3 second")


def test_quick_work_says_nothing() -> None:
    terminal = Terminal()
    with ProgressLine("compiling graph", 3, stream=terminal) as line:
        line.start("first")
    assert terminal.getvalue() == ""


def test_nothing_where_there_is_no_terminal() -> None:
    stream = io.StringIO()
    with ProgressLine("compiling graph", stream=stream, delay_seconds=0) as line:
        line.start("first")
        time.sleep(0.05)
    assert stream.getvalue() == ""


def test_only_one_line_at_a_time() -> None:
    first, second = Terminal(), Terminal()
    with ProgressLine("outer", stream=first, delay_seconds=0):
        _wait_for(first, "outer")
        with ProgressLine("inner", stream=second, delay_seconds=0):
            time.sleep(0.1)
    assert second.getvalue() == ""
    with ProgressLine("later", stream=second, delay_seconds=0):
        _wait_for(second, "later")


def test_an_error_takes_the_line_away() -> None:
    terminal = Terminal()
    try:
        with ProgressLine("failing", stream=terminal, delay_seconds=0):
            _wait_for(terminal, "failing")
            raise RuntimeError
    except RuntimeError:
        pass
    with ProgressLine("next", stream=terminal, delay_seconds=0):
        _wait_for(terminal, "next")
