"""Loads of one buffer that differ by constant distances (the taps of a window) as one transfer.

In: a loop program. Out: `WindowLoad`s. A transfer fetches each burst once however many of its positions read it, so the
taps of a pool or a stencil cost their input once, not once each. In the scratchpad the taps stay apart: tile functions
see a dense buffer for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product

from pytorchsim.templates.loop_program import Access, AffineIndex, Guard, LoopProgram

__all__ = ["WindowAxis", "WindowLoad", "window_loads"]

_MOST_AXES = 3


@dataclass(frozen=True)
class WindowAxis:
    """`count` taps, `stride` elements apart. `steps`: of the positions of the load's guards."""

    count: int
    stride: int
    steps: tuple[int, ...]


@dataclass(frozen=True)
class WindowLoad:
    """`taps` are the accesses in row-major order of `axes`; `access`: the first one, with guards that say for each tap
    what its own do."""

    access: Access
    axes: tuple[WindowAxis, ...]
    taps: tuple[Access, ...]


@lru_cache(maxsize=256)
def window_loads(program: LoopProgram) -> tuple[WindowLoad, ...]:
    """Every group of loads that make up a grid of taps, where guards can say what theirs say."""
    groups: dict[object, list[Access]] = {}
    for access in program.loads:
        if not access.gathers:
            key = (access.buffer, access.dtype, access.index.strides, access.fill, program.is_row_level(access))
            groups.setdefault(key, []).append(access)
    found = (_window(program, group) for group in groups.values() if len(group) > 1)
    return tuple(load for load in found if load is not None)


def _window(program: LoopProgram, group: Sequence[Access]) -> WindowLoad | None:
    by_offset = {access.index.offset: access for access in group}
    offsets = sorted(by_offset)
    grid = _grid(offsets)
    if len(offsets) < len(group) or grid is None:
        return None
    numbers = list(product(*(range(count) for count, _ in grid)))
    taps = tuple(by_offset[offset] for offset in offsets)
    guards, steps = [], []
    for moving in dict.fromkeys(guard.position.strides for tap in taps for guard in tap.guards):
        allowed = [_allowed(program.sizes, moving, tap) for tap in taps]
        limits = _least_and_most(program.sizes, moving)
        choices = [_steps(moving, taps[0].index.strides, stride) for _, stride in grid]
        guard = next(filter(None, (_guard(limits, allowed, numbers, by) for by in product(*choices))), None)
        if guard is None:
            return None
        base, extent, by = guard
        guards.append(Guard(AffineIndex(moving, base), extent))
        steps.append(by)
    axes = tuple(
        WindowAxis(count, stride, tuple(by[axis] for by in steps)) for axis, (count, stride) in enumerate(grid)
    )
    return WindowLoad(replace(taps[0], guards=tuple(guards)), axes, taps)


def _grid(offsets: Sequence[int]) -> list[tuple[int, int]] | None:
    """(count, distance) of each axis, outermost first, of which the sorted `offsets` are the row-major sums."""
    if len(offsets) == 1:
        return []
    distance = offsets[1] - offsets[0]
    count = 1
    while count < len(offsets) and offsets[count] - offsets[0] == count * distance:
        count += 1
    starts = offsets[::count]
    whole = [start + number * distance for start in starts for number in range(count)]
    outer = _grid(starts) if whole == list(offsets) else None
    if outer is None or len(outer) == _MOST_AXES:
        return None
    return [*outer, (count, distance)]


def _least_and_most(sizes: Sequence[int], moving: Sequence[int]) -> tuple[int, int]:
    reaches = [step * (size - 1) for step, size in zip(moving, sizes, strict=True)]
    return sum(min(0, reach) for reach in reaches), sum(max(0, reach) for reach in reaches)


def _allowed(sizes: Sequence[int], moving: tuple[int, ...], tap: Access) -> tuple[int, int]:
    """The values of `moving` at which the tap's guards over it hold."""
    low, high = _least_and_most(sizes, moving)
    for guard in tap.guards:
        if guard.position.strides == moving:
            low, high = max(low, -guard.position.offset), min(high, guard.extent - 1 - guard.position.offset)
    return low, high


def _steps(moving: tuple[int, ...], strides: tuple[int, ...], distance: int) -> tuple[int, ...]:
    """By what a guard over `moving` may move where the element does by `distance`: as along an axis that moves both, or
    not at all."""
    both = [
        distance * step // stride
        for step, stride in zip(moving, strides, strict=True)
        if step and stride and distance * step % stride == 0
    ]
    return tuple(dict.fromkeys([*both, 0]))


def _guard(
    limits: tuple[int, int],
    allowed: Sequence[tuple[int, int]],
    numbers: Sequence[tuple[int, ...]],
    by: tuple[int, ...],
) -> tuple[int, int, tuple[int, ...]] | None:
    """(base, extent, by) of a guard that holds for each tap where it is `allowed`, if there is one that moves `by`."""
    least, most = limits
    shifts = [sum(step * number for step, number in zip(by, tap, strict=True)) for tap in numbers]
    some = [(low, high, shift) for (low, high), shift in zip(allowed, shifts, strict=True) if low <= high]
    bases = {-low - shift for low, _, shift in some if low > least}
    base = max(bases) if bases else max((-least - shift for _, _, shift in some), default=0)
    ends = {high + 1 + base + shift for _, high, shift in some if high < most}
    extent = min(ends) if ends else max((most + 1 + base + shift for _, _, shift in some), default=0)
    for (low, high), shift in zip(allowed, shifts, strict=True):
        first, last = max(least, -base - shift), min(most, extent - 1 - base - shift)
        if (first, last) != (low, high) and (first <= last or low <= high):
            return None
    return base, extent, by
