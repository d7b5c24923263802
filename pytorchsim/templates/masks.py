"""What a mask says about the axes: ranges of affine functions of positions, which transfers check by themselves.

In: comparisons of positions with each other and with numbers. Out: `Guard`s. A condition that is not *complete* says
less than its mask.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytorchsim.target.descriptor import MAX_BOUNDS
from pytorchsim.templates.index_analysis import affine_of
from pytorchsim.templates.index_terms import IndexSum, Interval
from pytorchsim.templates.loop_program import Guard

__all__ = ["MAX_GUARDS", "NOTHING_KNOWN", "Condition", "compared", "guards_of"]

MAX_GUARDS = MAX_BOUNDS - 1
"""Guards of one access. One bound is left for the axis over the lanes, which ends inside a tile."""

_UNBOUNDED = 1 << 60


@dataclass(frozen=True)
class Condition:
    """All `ranges` hold: each an affine sum without constant and the interval it lies in. `complete`: that is all."""

    ranges: tuple[tuple[IndexSum, Interval], ...]
    complete: bool = True

    def and_also(self, other: Condition) -> Condition:
        """Both hold."""
        return Condition((*self.ranges, *other.ranges), self.complete and other.complete)


NOTHING_KNOWN = Condition((), complete=False)

_DIFFERENCES: dict[str, Interval] = {
    "lt": (-_UNBOUNDED, -1),
    "le": (-_UNBOUNDED, 0),
    "gt": (1, _UNBOUNDED),
    "ge": (0, _UNBOUNDED),
    "eq": (0, 0),
}
"""What a comparison says of the left side minus the right one."""


def compared(name: str, difference: IndexSum) -> Condition | None:
    """What comparison `name` says, `difference` being left minus right; None where it is no range."""
    if name not in _DIFFERENCES or not difference.is_affine:
        return None
    low, high = _DIFFERENCES[name]
    least, most = difference.interval()
    if low <= least and most <= high:
        return Condition(())
    moving = replace(difference, constant=0)
    low, high = low - difference.constant, high - difference.constant
    if moving.terms and moving.terms[0][1] < 0:
        moving, low, high = moving.times(-1), -high, -low
    return Condition(((moving, (low, high)),))


def guards_of(conditions: Sequence[Condition], rank: int) -> tuple[Guard, ...]:
    """The guards that hold exactly where all ranges of `conditions` do: one for each sum, of intersected ranges."""
    met: dict[IndexSum, Interval] = {}
    for condition in conditions:
        for moving, (low, high) in condition.ranges:
            least, most = moving.interval()
            before = met.get(moving, (least, most))
            met[moving] = max(before[0], low), min(before[1], high)
    return tuple(
        Guard(affine_of(replace(moving, constant=-low), rank), max(0, high - low + 1))
        for moving, (low, high) in met.items()
    )
