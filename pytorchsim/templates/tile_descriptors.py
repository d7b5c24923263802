"""The DMA descriptor of an access on a tile: which axes it walks, its bounds, its index tiles.

In: a program, a tile, an access. Out: a `TileTransfer`. Axes along which a tile has one element need not be walked; if
there are too many, they become one axis of stride 1 whose origin is the sum of what they add (`summed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pytorchsim.target.descriptor import MAX_BOUNDS, MAX_RANK, Axis, Bound, Descriptor, IndexTile, TransferOp
from pytorchsim.target.dtypes import I64
from pytorchsim.templates.gathers import IndexForm, IndexTileKey, direct_axes, index_tile_of
from pytorchsim.templates.loop_program import Access, LoopProgram, direct_load
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.window_loads import WindowAxis, WindowLoad

__all__ = ["TileTransfer", "access_transfer", "index_tile_transfer", "listed_rank", "window_fits", "window_transfer"]


@dataclass(frozen=True)
class TileTransfer:
    """`axes`: the tile axis behind each descriptor axis that takes an origin. `summed`: stride by tile axis of what
    the descriptor's last axis stands for. `index_tiles`: the index tiles in the descriptor's order."""

    descriptor: Descriptor
    axes: tuple[int, ...]
    summed: tuple[tuple[int, int], ...] = ()
    index_tiles: tuple[IndexTileKey, ...] = ()


def listed_rank(program: LoopProgram, tile: Tile, access: Access) -> int:
    """The fewest axes that a descriptor of `access` has."""
    walked, summed = _walked(program, tile, access)
    return len(walked) + (bool(summed) or bool(access.gathers)) + _repeats(program, tile, access)


def window_fits(program: LoopProgram, tile: Tile, window: WindowLoad) -> bool:
    """Whether one descriptor loads all taps of a tile."""
    walked, summed = _walked(program, tile, window.access, len(window.axes))
    rank = len(walked) + len(window.axes) + bool(summed) + _repeats(program, tile, window.access)
    return rank <= MAX_RANK and len(_bounds(program, tile, window.access, walked, rank)) <= MAX_BOUNDS


def window_transfer(program: LoopProgram, tile: Tile, window: WindowLoad, slot: int, tap_elements: int) -> TileTransfer:
    """The load of one tile of every tap, `tap_elements` apart in the scratchpad."""
    transfer = access_transfer(program, tile, window.access, TransferOp.LOAD, slot, taps=window.axes)
    descriptor = transfer.descriptor
    axes, dense = list(descriptor.axes), tap_elements
    first = len(transfer.axes)
    for number in reversed(range(first, first + len(window.axes))):
        axes[number] = replace(axes[number], spad_stride=dense)
        dense *= axes[number].size
    return replace(transfer, descriptor=replace(descriptor, axes=tuple(axes)))


def access_transfer(
    program: LoopProgram, tile: Tile, access: Access, op: TransferOp, slot: int, *, taps: Sequence[WindowAxis] = ()
) -> TileTransfer:
    """The transfer of one tile of `access` from or to argument `slot`."""
    row_level = program.is_row_level(access)
    walked, summed = _walked(program, tile, access, len(taps))
    if access.gathers:  # the order in the scratchpad, which is that of index tiles
        walked = [axis for axis in (*tile.outer_axes, *tile.inner_axes) if axis in walked]
    axes = [
        Axis(
            tile.sizes[axis],
            access.index.strides[axis],
            tile.scratchpad_stride(axis, row_level=row_level),
            lane=axis == tile.lane_axis,
        )
        for axis in walked
    ]
    axes += [Axis(tap.count, tap.stride, 0) for tap in taps]
    streams = tile.streams(program.sizes)
    keys = [
        index_tile_of(program, access, gather, rows_inner=tile.rows_inner, streams=streams) for gather in access.gathers
    ]
    repeats = bool(_repeats(program, tile, access)) and (
        op is TransferOp.LOAD or any(key.form is IndexForm.ROW for key in keys)
    )
    if repeats:
        axes.append(Axis(tile.vector_elements, 0, 1))  # one value per row, in every element of its vector
    bounds = _bounds(program, tile, access, walked, len(axes), taps)
    if repeats and op is not TransferOp.LOAD:  # of which one is stored
        bounds.append(Bound(0, (*[0] * len(walked), 1), 1))
    index_axes = [_index_axes(program, tile, key, walked, repeats=repeats) for key in keys]
    if summed or not all(index_axes):
        axes.append(Axis(1, 1, 0))  # takes the sum, and is what an index runs over that is the same everywhere
        bounds = [Bound(bound.base, (*bound.steps, 0), bound.extent) for bound in bounds]
    descriptor = Descriptor(
        slot=slot,
        op=op,
        dtype=access.dtype,
        axes=tuple(axes),
        offset=access.index.offset,
        lane_stride=tile.lane_run,
        fill=access.fill,
        bounds=tuple(bounds),
        index_tiles=tuple(
            IndexTile(
                0,
                program.operations[gather.value].dtype == I64,
                listed or (len(axes) - 1,),
                gather.stride,
                gather.extent,
                gather.wrap,
            )
            for gather, listed in zip(access.gathers, index_axes, strict=True)
        ),
    )
    strides = tuple((axis, access.index.strides[axis]) for axis in summed)
    return TileTransfer(descriptor, tuple(walked), strides, tuple(keys))


def index_tile_transfer(program: LoopProgram, tile: Tile, key: IndexTileKey, slot: int) -> TileTransfer:
    """The load of a direct index tile: dense over the axes that its index varies over, in the scratchpad's order."""
    access = direct_load(program, key.value)
    if access is None:
        raise ValueError(f"operation {key.value} is not loaded as it is")
    varying = direct_axes(access)
    walked = [axis for axis in (*tile.outer_axes, *tile.inner_axes) if axis in varying]
    axes: list[Axis] = []
    dense = 1
    for axis in reversed(walked):
        axes.insert(0, Axis(tile.sizes[axis], access.index.strides[axis], dense, lane=axis == tile.lane_axis))
        dense *= tile.in_lane(axis)
    descriptor = Descriptor(
        slot=slot,
        op=TransferOp.LOAD,
        dtype=access.dtype,
        axes=tuple(axes) or (Axis(1, 0, 1),),
        offset=access.index.offset,
        lane_stride=tile.lane_run,
        fill=access.fill,
        bounds=tuple(_bounds(program, tile, access, walked, max(1, len(axes)))),
    )
    return TileTransfer(descriptor, tuple(walked))


def _walked(program: LoopProgram, tile: Tile, access: Access, taps: int = 0) -> tuple[list[int], list[int]]:
    """(axes to walk, axes to sum up), each in order; `taps`: axes of a window beside them."""
    axes = [axis for axis in range(len(tile.sizes)) if axis in tile.row_axes or not program.is_row_level(access)]
    # A gather may need an axis for an index that is the same everywhere.
    if len(axes) + taps + bool(access.gathers) + _repeats(program, tile, access) <= MAX_RANK:
        return axes, []
    bounded = {axis for guard in access.guards for axis, step in enumerate(guard.position.strides) if step}
    summed = [axis for axis in axes if tile.sizes[axis] == 1 and axis != tile.lane_axis and axis not in bounded]
    return [axis for axis in axes if axis not in summed], summed


def _repeats(program: LoopProgram, tile: Tile, access: Access) -> int:
    """1 where a row-level buffer holds each value once per element of a vector, along an axis of its own."""
    return int(program.is_row_level(access) and not tile.rows_inner)


def _bounds(
    program: LoopProgram,
    tile: Tile,
    access: Access,
    walked: Sequence[int],
    rank: int,
    taps: Sequence[WindowAxis] = (),
) -> list[Bound]:
    def steps(strides: Sequence[int], of_taps: Sequence[int] = ()) -> tuple[int, ...]:
        own = [*(strides[axis] for axis in walked), *of_taps]
        return (*own, *([0] * (rank - len(own))))

    ragged = [
        Bound(0, steps([int(axis == other) for other in range(len(tile.sizes))]), program.sizes[axis])
        for axis in walked
        if program.sizes[axis] % tile.sizes[axis]
    ]
    guards = [
        Bound(guard.position.offset, steps(guard.position.strides, [tap.steps[number] for tap in taps]), guard.extent)
        for number, guard in enumerate(access.guards)
    ]
    return [*ragged, *guards]


def _index_axes(
    program: LoopProgram, tile: Tile, key: IndexTileKey, walked: Sequence[int], *, repeats: bool
) -> tuple[int, ...]:
    """The descriptor axes that an index tile runs over."""
    if key.form is IndexForm.DIRECT:
        access = direct_load(program, key.value)
        varying = direct_axes(access) if access is not None else ()
    else:
        varying = tuple(axis for axis in range(len(tile.sizes)) if axis in tile.row_axes or key.form is IndexForm.FULL)
    listed = [number for number, axis in enumerate(walked) if axis in varying]
    if repeats and key.form is IndexForm.ROW:
        listed.append(len(walked))  # the repetition along the vector
    return tuple(listed)
