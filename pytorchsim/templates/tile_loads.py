"""Which loads of a tile are one transfer, and how much DRAM an access of a tile touches.

In: a program, a tile. Out: windows and single loads; bytes in whole bursts. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from pytorchsim.templates.gathers import direct_axes
from pytorchsim.templates.loop_program import Access, LoopProgram, direct_load
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.tile_descriptors import window_fits
from pytorchsim.templates.window_loads import WindowAxis, WindowLoad, window_loads

__all__ = ["joined_loads", "moved_bytes", "window_taps"]


def joined_loads(
    program: LoopProgram, tile: Tile, burst_bytes: int
) -> tuple[tuple[WindowLoad, ...], tuple[Access, ...]]:
    """Windows that one descriptor moves and whose taps meet in bursts; then the other loads."""

    def saves(window: WindowLoad) -> bool:
        each = sum(moved_bytes(program, tap, tile, burst_bytes) for tap in window.taps)
        return moved_bytes(program, window.access, tile, burst_bytes, window.axes) < each

    windows = tuple(window for window in window_loads(program) if window_fits(program, tile, window) and saves(window))
    joined = {tap for window in windows for tap in window.taps}
    return windows, tuple(access for access in program.loads if access not in joined)


def window_taps(program: LoopProgram, tile: Tile, burst_bytes: int) -> dict[Access, tuple[WindowLoad, int]]:
    """The window that an access is loaded with, and which of its taps it is."""
    windows, _ = joined_loads(program, tile, burst_bytes)
    return {tap: (window, number) for window in windows for number, tap in enumerate(window.taps)}


def moved_bytes(
    program: LoopProgram, access: Access, tile: Tile, burst_bytes: int, taps: Sequence[WindowAxis] = ()
) -> int:
    """Bytes moved for one tile, whole bursts: the block's runs, between whose elements no burst is left out, each
    rounded up to bursts. Elements with different indices are never one run."""
    gathered = {axis for gather in access.gathers for axis in _index_axes(program, gather.value)}
    steps = [
        (abs(stride), size)
        for axis, (stride, size) in enumerate(zip(access.index.strides, tile.sizes, strict=True))
        if axis not in gathered
    ]
    steps += [(abs(tap.stride), tap.count) for tap in taps]
    run, rows = 1, 1
    for stride, size in sorted(step for step in steps if step[0] and step[1] > 1):
        if rows == 1 and (stride - run) * access.dtype.bytes < burst_bytes:
            run += stride * (size - 1)
        else:
            rows *= size
    rows *= prod(tile.sizes[axis] for axis in gathered)
    run_bytes = run * access.dtype.bytes
    partial = 1 if rows > 1 and run_bytes % burst_bytes else 0
    return rows * (-(-run_bytes // burst_bytes) + partial) * burst_bytes


def _index_axes(program: LoopProgram, value: int) -> tuple[int, ...]:
    """The axes that an index varies over; all where it is computed."""
    access = direct_load(program, value)
    return tuple(range(len(program.sizes))) if access is None else direct_axes(access)
