"""Cycles of a fixed set of kernels are those that were recorded: an unexplained change is a bug.

A wanted change: `python -m benchmarks.cycles --write`, and its lines explained in CHANGELOG.md.
"""

from __future__ import annotations

import json

import pytest

from benchmarks.cycles import CASES, RECORD, cycles, differences

RECORDED: dict[str, int] = json.loads(RECORD.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", CASES)
def test_cycles_are_the_recorded_ones(name: str) -> None:
    assert {name: cycles(CASES[name])} == {name: RECORDED.get(name)}


def test_no_recorded_kernel_is_gone() -> None:
    assert not set(RECORDED) - set(CASES)


def test_differences_name_what_moved_came_and_went() -> None:
    assert differences({"a": 100, "b": 5, "c": 7}, {"a": 110, "c": 7, "d": 9}) == [
        "a: 100 -> 110 cycles (+10.0 %)",
        "b: gone, 5 cycles",
        "d: new, 9 cycles",
    ]
