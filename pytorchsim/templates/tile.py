"""A tile: a block of a loop program's space, and how it lies over the lanes.

In the lane a buffer is `outer` rows of `pitch` elements: the inner axes are dense and padded to whole vectors, the
outer ones stride over them. Either the row axes are inner (`rows_inner`: a vector holds different rows, a walk steps
over whole pitches) or the reduced axes are (a vector holds one row's elements, a walk steps over vectors). Either way
a tile function sees `blocks` blocks and `walk_count` steps in each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from pytorchsim.templates.gathers import IndexForm, IndexTileKey, TransferPlan, direct_axes, plan_transfers
from pytorchsim.templates.loop_program import LoopProgram, direct_load
from pytorchsim.templates.phases import MOST_PHASES
from pytorchsim.templates.stages import Stage, plan_stages

__all__ = ["BUFFER_COPIES", "Tile"]

BUFFER_COPIES = 2
"""Each buffer that a transfer touches exists twice: one half computes while the other loads."""


@dataclass(frozen=True)
class Tile:
    """`sizes`: elements per axis, the last `reduced` of them reduced.

    Axis `lane_axis` is split so that lane l holds its elements `l * lane_run .. (l + 1) * lane_run - 1`; the other axes
    stay inside the lane. `vector_elements` are computed at once; a walk keeps `unroll` partial results per reduction
    and cuts a step into at most `phases`.
    """

    sizes: tuple[int, ...]
    reduced: int
    lane_axis: int
    lane_run: int
    rows_inner: bool
    vector_elements: int
    unroll: int = 1
    phases: int = MOST_PHASES

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

    def walks_past_rows(self, extents: tuple[int, ...]) -> bool:
        """Whether vectors of a walk over a space of `extents` have elements past a row's end. Steps past the end are
        not taken where rows are inner."""
        if self.rows_inner:
            return False
        ragged = any(extents[axis] % self.sizes[axis] for axis in self.reduced_axes)
        return ragged or self.pitch != self.inner_elements

    def elements(self, *, row_level: bool) -> int:
        """Elements per lane of one copy of a buffer."""
        return self.blocks * self.vector_elements if row_level else self.outer_count * self.pitch

    def counts(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Tiles along each axis of a space of `extents`."""
        return tuple(-(-extent // size) for extent, size in zip(extents, self.sizes, strict=True))

    def streams(self, extents: tuple[int, ...]) -> bool:
        """Whether a row needs several tiles, so that its stages run one after another over all of them."""
        return any(count > 1 for count in self.counts(extents)[len(self.row_axes) :])

    def in_order(self, extents: tuple[int, ...]) -> bool:
        """Whether walks over one tile after the other pass the elements of a row in order, as each element of the
        vector sees them."""
        counts = self.counts(extents)
        split = [axis for axis in self.reduced_axes if counts[axis] > 1]
        return not split or all(self.in_lane(axis) == 1 for axis in self.reduced_axes if axis < split[-1])

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
