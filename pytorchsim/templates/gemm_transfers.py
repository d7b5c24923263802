"""The descriptor that moves a block of a frame: axes, bounds, and which origins they take.

In: an access over a frame, the frame's sizes, a block. Out: a `BlockTransfer`, or a reason why a descriptor cannot say
it. Pure: the tile search asks before anything is built. What a window leaves out (padding) and what lies beyond a
tensor's end are bounds; a load fills with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pytorchsim.target.descriptor import MAX_BOUNDS, MAX_RANK, Axis, Bound, Descriptor, TransferOp
from pytorchsim.templates.gemm_tile import Block
from pytorchsim.templates.loop_program import Access

__all__ = ["BlockTransfer", "block_transfer", "clearing_transfer"]


@dataclass(frozen=True)
class BlockTransfer:
    """A descriptor; `origins`: for each of its axes the frame's axes and by what their origins are multiplied.
    `refusal`: why the machine has no such descriptor; empty where it has."""

    descriptor: Descriptor | None
    origins: tuple[tuple[tuple[int, int], ...], ...]
    refusal: str = ""


@dataclass(frozen=True)
class _Line:
    """One axis of a descriptor before it is written: `steps` by bound."""

    axis: Axis
    origins: tuple[tuple[int, int], ...]
    steps: tuple[int, ...]


def block_transfer(
    access: Access, frame: tuple[int, ...], block: Block, slot: int, op: TransferOp, *, row_level: int = 0
) -> BlockTransfer:
    """Moves `access`. `row_level`: it has one value per slot, in that many elements side by side (a store takes the
    first of them)."""
    walked = len(frame) - block.walked
    pitch = row_level or block.pitch
    axes = range(walked if row_level else len(frame))
    strides = _scratchpad_strides(block, pitch)
    limits = [(guard.position.offset, guard.position.strides, guard.extent) for guard in access.guards]
    guarded = {axis for _, steps, _ in limits for axis in range(walked, len(frame)) if steps[axis]}
    for axis in axes:
        overhangs = frame[axis] % block.sizes[axis] or axis in block.ragged
        if overhangs and not (op is TransferOp.LOAD and axis in guarded):
            limits.append((0, tuple(int(other == axis) for other in range(len(frame))), frame[axis]))
    lines = [
        _Line(
            Axis(block.sizes[axis], access.index.strides[axis], strides[axis], lane=axis in block.lane),
            ((axis, 1),),
            tuple(steps[axis] for _, steps, _ in limits),
        )
        for axis in axes
        if max(frame[axis], block.sizes[axis]) > 1
    ]
    lines = _folded(lines)
    copied = row_level or block.copied
    if copied > 1 or not lines:
        size = copied if op is TransferOp.LOAD else 1
        lines.append(_Line(Axis(size, 0, 1), (), (0,) * len(limits)))
    if len(lines) > MAX_RANK:
        return BlockTransfer(None, (), f"its transfers have more than {MAX_RANK} axes")
    if len(limits) > MAX_BOUNDS:
        return BlockTransfer(None, (), f"its transfers have more than {MAX_BOUNDS} bounds")
    bounds = tuple(
        Bound(base, tuple(line.steps[number] for line in lines), extent)
        for number, (base, _, extent) in enumerate(limits)
    )
    descriptor = Descriptor(
        slot=slot,
        op=op,
        dtype=access.dtype,
        axes=tuple(line.axis for line in lines),
        offset=access.index.offset,
        bounds=bounds,
    )
    return BlockTransfer(descriptor, tuple(line.origins for line in lines))


def clearing_transfer(access: Access, block: Block, slot: int) -> Descriptor:
    """Zeros behind each run of a block, where no load writes: a load of what does not exist."""
    run = prod(block.sizes[len(block.sizes) - block.walked :])
    return Descriptor(
        slot=slot,
        op=TransferOp.LOAD,
        dtype=access.dtype,
        axes=(Axis(block.slots, 0, block.pitch), Axis(block.pitch - run, 0, 1)),
        spad_address=run * access.dtype.bytes,
        bounds=(Bound(0, (0, 0), 0),),
    )


def _scratchpad_strides(block: Block, pitch: int) -> list[int]:
    """Elements in the lane between neighbours of each axis."""
    rank = len(block.sizes)
    strides = [0] * rank
    dense = 1
    for axis in reversed(range(rank - block.walked, rank)):
        strides[axis] = dense
        dense *= block.sizes[axis]
    slots = 1
    for axis in reversed(range(rank - block.walked)):
        if axis not in block.lane:
            strides[axis] = slots * pitch
            slots *= block.sizes[axis]
    for axis in block.lane:
        strides[axis] = slots * pitch
    return strides


def _folded(lines: list[_Line]) -> list[_Line]:
    """Where there would be too many axes: those of one element, which only have an origin, as one axis that moves the
    first element and one for each bound that they move."""
    spread = any(line.axis.lane and line.axis.size > 1 for line in lines)
    free = [line for line in lines if line.axis.size == 1 and (spread or not line.axis.lane)]
    if len(lines) <= MAX_RANK:
        return lines
    bounds = len(lines[0].steps)
    moves = [(line.axis.dram_stride, *line.steps) for line in free]
    folded = []
    for number in range(1 + bounds):
        pairs = [(line, move[number]) for line, move in zip(free, moves, strict=True) if move[number]]
        origins = tuple((axis, factor) for line, factor in pairs for axis, _ in line.origins)
        if origins:
            steps = tuple(int(bound == number - 1) for bound in range(bounds))
            folded.append(_Line(Axis(1, int(number == 0), 0), origins, steps))
    return [*folded, *(line for line in lines if line not in free)]
