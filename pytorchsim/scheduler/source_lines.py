"""The user's source line behind an FX node. In: the node's stack trace, as text. Out: its innermost frame."""

from __future__ import annotations

import re
from typing import NamedTuple

__all__ = ["SourceLine", "source_line"]

_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in (?P<function>.*)$')


class SourceLine(NamedTuple):
    """A file's path ("" where nothing is known), the line's number and text."""

    file: str
    line: int
    code: str


def source_line(stack_trace: str | None) -> SourceLine:
    """The innermost frame of an FX stack trace."""
    lines = (stack_trace or "").splitlines()
    for position in range(len(lines) - 1, -1, -1):
        frame = _FRAME.match(lines[position])
        if frame:
            code = lines[position + 1].strip() if position + 1 < len(lines) else ""
            return SourceLine(frame["file"], int(frame["line"]), code)
    return SourceLine("", 0, "")
