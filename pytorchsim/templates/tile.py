"""A tile: a block of a loop program's space, how it lies over the lanes, and how much scratchpad it takes.

In the lane a buffer is `outer` rows of `pitch` elements: the inner axes are dense and padded to whole vectors, the
outer ones stride over them. Either the row axes are inner (`rows_inner`: a vector holds different rows, a walk steps
over whole pitches) or the reduced axes are (a vector holds one row's elements, a walk steps over vectors). Either way
a tile function sees `blocks` blocks and `walk_count` steps in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pytorchsim.config.model import NpuConfig
from pytorchsim.templates.gathers import IndexForm, IndexTileKey, TransferPlan, direct_axes, plan_transfers
from pytorchsim.templates.loop_program import Access, LoopProgram, direct_load
from pytorchsim.templates.stages import Stage, plan_stages

__all__ = ["BUFFER_COPIES", "Footprint", "Tile", "footprint"]

BUFFER_COPIES = 2
"""Each buffer that a transfer touches exists twice: one half computes while the other loads."""

_ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class Tile:
    """`sizes`: elements per axis, the last `reduced` of them reduced.

    Axis `lane_axis` is split so that lane l holds its elements `l * lane_run .. (l + 1) * lane_run - 1`; the other axes
    stay inside the lane. `vector_elements` are computed at once; a walk keeps `unroll` partial results per reduction.
    """

    sizes: tuple[int, ...]
    reduced: int
    lane_axis: int
    lane_run: int
    rows_inner: bool
    vector_elements: int
    unroll: int = 1

    @property
    def row_axes(self) -> range:
        """Axes that are not reduced."""
        return range(len(self.sizes) - self.reduced)

    @property
    def reduced_axes(self) -> range:
        """Axes that a walk passes over."""
        return range(len(self.sizes) - self.reduced, len(self.sizes))

    @property
    def inner_axes(self) -> range:
        """Axes along a vector."""
        return self.row_axes if self.rows_inner else self.reduced_axes

    @property
    def outer_axes(self) -> range:
        """Axes that stride over pitches."""
        return self.reduced_axes if self.rows_inner else self.row_axes

    def in_lane(self, axis: int) -> int:
        """Elements of `axis` that one lane holds."""
        return self.lane_run if axis == self.lane_axis else self.sizes[axis]

    @property
    def inner_elements(self) -> int:
        """Elements of one pitch, without padding."""
        return prod(self.in_lane(axis) for axis in self.inner_axes)

    @property
    def pitch(self) -> int:
        """Elements from one outer index to the next: whole vectors."""
        return -(-self.inner_elements // self.vector_elements) * self.vector_elements

    @property
    def outer_count(self) -> int:
        """Pitches of one buffer."""
        return prod(self.in_lane(axis) for axis in self.outer_axes)

    @property
    def blocks(self) -> int:
        """Vectors of row-level values in a tile."""
        return self.pitch // self.vector_elements if self.rows_inner else self.outer_count

    @property
    def block_stride(self) -> int:
        """Elements between the starts of two blocks in a full buffer (in a row-level one: `vector_elements`)."""
        return self.vector_elements if self.rows_inner else self.pitch

    @property
    def walk_count(self) -> int:
        """Vectors that a walk over one block passes."""
        return self.outer_count if self.rows_inner else self.pitch // self.vector_elements

    @property
    def walk_stride(self) -> int:
        """Elements between two steps of a walk."""
        return self.pitch if self.rows_inner else self.vector_elements

    @property
    def folds_lanes(self) -> bool:
        """Whether a row is spread over the lanes."""
        return self.lane_axis in self.reduced_axes

    def elements(self, *, row_level: bool) -> int:
        """Elements per lane of one copy of a buffer."""
        return self.blocks * self.vector_elements if row_level else self.outer_count * self.pitch

    def counts(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Tiles along each axis of a space of `extents`."""
        return tuple(-(-extent // size) for extent, size in zip(extents, self.sizes, strict=True))

    def streams(self, extents: tuple[int, ...]) -> bool:
        """Whether a row needs several tiles, so that its stages run one after another over all of them."""
        return any(count > 1 for count in self.counts(extents)[len(self.row_axes) :])

    def inner_stride(self, axis: int) -> int:
        """Elements between neighbours of `axis` among its group's (inner or outer) in-lane elements."""
        group = self.inner_axes if axis in self.inner_axes else self.outer_axes
        return prod(self.in_lane(other) for other in group if other > axis)

    def scratchpad_stride(self, axis: int, *, row_level: bool) -> int:
        """Elements between neighbours of `axis` in a buffer."""
        if axis in self.inner_axes:
            return self.inner_stride(axis)
        return self.inner_stride(axis) * (self.vector_elements if row_level else self.pitch)

    def plan(self, program: LoopProgram, stages: tuple[Stage, ...] | None = None) -> TransferPlan:
        """What tiles of this shape load when."""
        streams = self.streams(program.sizes)
        return plan_transfers(program, stages or plan_stages(program), rows_inner=self.rows_inner, streams=streams)

    def index_tile_elements(self, program: LoopProgram, key: IndexTileKey) -> int:
        """Entries per lane of one copy of an index tile."""
        if key.form is not IndexForm.DIRECT:
            return self.elements(row_level=key.form is IndexForm.ROW)
        access = direct_load(program, key.value)
        return prod(self.in_lane(axis) for axis in direct_axes(access)) if access is not None else 0

    def describe(self) -> dict[str, int]:
        """The tile as a flat record for reports."""
        sizes = {f"axis{axis}": size for axis, size in enumerate(self.sizes)}
        return sizes | {"lane_axis": self.lane_axis, "lane_run": self.lane_run, "vector": self.vector_elements}


@dataclass(frozen=True)
class Footprint:
    """Scratchpad bytes per lane. `shares`: one copy of each transferred buffer; `accumulators`: held over the tiles
    of a row."""

    shares: dict[str, int]
    accumulators: dict[str, int]
    stack_bytes: int

    @property
    def total_bytes(self) -> int:
        """All copies of all buffers, accumulators and the stack."""
        return BUFFER_COPIES * sum(self.shares.values()) + sum(self.accumulators.values()) + self.stack_bytes

    @property
    def one_tile_bytes(self) -> int:
        """What a single tile needs: each buffer once, accumulators and the stack."""
        return sum(self.shares.values()) + sum(self.accumulators.values()) + self.stack_bytes

    def all_shares(self) -> dict[str, int]:
        """Bytes by buffer, all copies, with the stack."""
        copies = {name: BUFFER_COPIES * size for name, size in self.shares.items()}
        return copies | self.accumulators | {"stack": self.stack_bytes}


def footprint(
    program: LoopProgram, tile: Tile, config: NpuConfig, stages: tuple[Stage, ...] | None = None
) -> Footprint:
    """Bytes per lane: a buffer for each distinct load, index tile and store, an accumulator for each reduction that
    outlives a tile."""

    def size(access: Access) -> int:
        return _aligned(tile.elements(row_level=program.is_row_level(access)) * access.dtype.bytes)

    plan = tile.plan(program, stages)
    shares = {f"in{number}:{access.buffer}": size(access) for number, access in enumerate(plan.loads)}
    for number, key in enumerate(plan.index_tiles):
        entries = tile.index_tile_elements(program, key)
        shares[f"index{number}"] = _aligned(entries * program.operations[key.value].dtype.bytes)
    shares |= {f"out{number}:{store.access.buffer}": size(store.access) for number, store in enumerate(program.stores)}
    held = {
        f"acc{number}": _aligned(tile.elements(row_level=True) * op.dtype.bytes)
        for number, op in enumerate(program.operations)
        if op.reduction is not None and tile.streams(program.sizes)
    }
    return Footprint(shares, held, config.core.stack_reserve_bytes)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
