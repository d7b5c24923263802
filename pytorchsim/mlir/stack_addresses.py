"""Which registers hold addresses in the stack frame, instruction by instruction.

In: the instructions of one function, in order, with its labels. Out: for each instruction the integer registers that
surely hold `sp` plus something when it executes, whatever path led to it. What is far from `sp`, spills in a large
frame and arguments beyond the eighth, is accessed through such registers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["stack_registers"]

_LABEL = re.compile(r"(\S+):$")
_BRANCH = re.compile(r"(?:b(?:eq|ne|lt|ge|gt|le)\w*|j)\s+(?:.*[\s,])?(\S+)$")
_END = re.compile(r"(?:ret|j|jr|tail)\b")
_CALL = re.compile(r"(?:call|jalr?)\b")
_NO_RESULT = re.compile(r"(?:s[bhwd]|fs[hwd]|vs\w*\.v|vse\w*)\s")
_SUM = re.compile(r"(?:addi?|sub)\s+(\w+), (\w+), (-?\w+)$")
_MOVE = re.compile(r"mv\s+(\w+), (\w+)$")
_FIRST_OPERAND = re.compile(r"\S+\s+(\w+)")

_KEPT_BY_CALLS = frozenset({"sp", *(f"s{number}" for number in range(12))})
_START = frozenset({"sp"})


def stack_registers(lines: Sequence[str]) -> list[frozenset[str]]:
    """For each of `lines` (instructions and labels, no comments) the registers that hold stack addresses before it."""
    texts = [" ".join(line.split()) for line in lines]
    labels = {match[1]: number for number, text in enumerate(texts) if (match := _LABEL.match(text))}
    before: list[frozenset[str] | None] = [None] * len(texts)
    todo = [(0, _START)] if texts else []
    while todo:
        number, arriving = todo.pop()
        known = before[number]
        state = arriving if known is None else known & arriving
        if state == known:
            continue
        before[number] = state
        after = _after(texts[number], state)
        branch = _BRANCH.match(texts[number])
        if branch is not None and branch[1] in labels:
            todo.append((labels[branch[1]], after))
        if not _END.match(texts[number]) and number + 1 < len(texts):
            todo.append((number + 1, after))
    return [_START if state is None else state for state in before]


def _after(text: str, state: frozenset[str]) -> frozenset[str]:
    """The registers that hold stack addresses after one instruction."""
    if _CALL.match(text):
        return state & _KEPT_BY_CALLS
    if _LABEL.match(text) or _BRANCH.match(text) or _NO_RESULT.match(text):
        return state
    total, move = _SUM.match(text), _MOVE.match(text)
    if total is not None and total[2] in state and total[3] not in state:
        return state | {total[1]}
    if total is not None and text.startswith("add ") and total[3] in state and total[2] not in state:
        return state | {total[1]}
    if move is not None and move[2] in state:
        return state | {move[1]}
    written = _FIRST_OPERAND.match(text)
    return state - {written[1]} if written is not None and written[1] != "sp" else state
