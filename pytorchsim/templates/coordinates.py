"""Coordinates of a buffer over the axes of a frame.

Most frames walk a buffer axis by axis: every axis is a coordinate, from 0 to the buffer's extent. A frame that holds
only some positions of a buffer (phases of a strided gradient: h = 2 * q + 1), or that makes a coordinate of several
axes, says which (`Coordinate`). Some points of such a frame may lie outside of the buffer: guards tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytorchsim.templates.loop_program import Access, AffineIndex, Guard, LoopProgram

__all__ = ["Coordinate", "all_coordinates", "guarded"]


@dataclass(frozen=True)
class Coordinate:
    """`extent` positions of a buffer, `stride` elements apart; `position`: over the axes of a frame."""

    extent: int
    stride: int
    position: AffineIndex


def all_coordinates(sizes: Sequence[int], index: AffineIndex, made: Sequence[Coordinate]) -> tuple[Coordinate, ...]:
    """`made`, and every axis that is in none of them, of a buffer that lies at `index` over axes of `sizes`."""
    rank = len(sizes)
    own = tuple(
        Coordinate(size, stride, AffineIndex(tuple(int(axis == other) for other in range(rank))))
        for axis, (size, stride) in enumerate(zip(sizes, index.strides, strict=True))
        if not any(coordinate.position.strides[axis] for coordinate in made)
    )
    return (*made, *own)


def guarded(program: LoopProgram, guards: Sequence[Guard]) -> LoopProgram:
    """The program with `guards` at each access that moves where they do."""

    def at(access: Access) -> Access:
        moves = [axis for axis, stride in enumerate(access.index.strides) if stride]
        held = tuple(guard for guard in guards if any(guard.position.strides[axis] for axis in moves))
        return replace(access, guards=(*access.guards, *held)) if held else access

    operations = tuple(op if op.access is None else replace(op, access=at(op.access)) for op in program.operations)
    stores = tuple(replace(store, access=at(store.access)) for store in program.stores)
    return replace(program, operations=operations, stores=stores)
