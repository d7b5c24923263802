"""One step of a matrix product: its sizes, its blocks in the scratchpad, the buffers it needs.

In: a problem, what is fused, the machine. Out: values. A step multiplies X[m, k] by W[k, n] and adds to Y[m, n]. A
*block* is what a buffer holds of a frame (batch, slot group, walked group): slots, each a dense run along the walked
axes. Steps run k innermost; of the two operands the one that the inner tile loop does not index
stays in the scratchpad over that loop (`stationary`), with a copy for each k tile; where that is too much, none does.
Once all of a stationary X is there, a step may take several of its k tiles at once (`deep`): the arrays are filled and
drained less often, and nothing waits for a large first load. Where there are few result tiles, the first of their k
tiles may be smaller (`lead`): its load, which nothing hides, is short, and while it is multiplied the next one loads.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import takewhile
from math import prod
from typing import Literal

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import I32
from pytorchsim.templates.footprint import BufferNeed
from pytorchsim.templates.gemm_problem import Body, GemmFusion, GemmProblem, Operand, Part, Role
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.vector_shape import LARGEST_GROUP, VectorShape, vector_shape

__all__ = ["LEAD", "RESULT", "ROWS_AT_ONCE", "Block", "GemmTile", "Stationary", "fused_tile", "program_blocks"]

Stationary = Literal["x", "w", "none"]

_COUNTED: tuple[Role, Role, Role] = ("m", "n", "k")

ROWS_AT_ONCE = 8
"""Rows that share a load of weights on the vector lanes."""

_MOST_VECTORS_AT_ONCE = 4


@dataclass(frozen=True)
class Block:
    """What a buffer holds of a frame: `sizes` along its axes. The axes `lane` are spread over the lanes one by one, as
    one group (none: all of it is in every lane). In the lane there are `slots` runs of `pitch` elements; the last
    `walked` axes lie densely at a run's start. `copied`: each element stands so often side by side. `ragged`: axes
    along which the last tile reaches beyond the frame even if their sizes divide it: the first tile is smaller."""

    sizes: tuple[int, ...]
    lane: tuple[int, ...]
    walked: int
    slots: int
    pitch: int
    copied: int = 1
    ragged: tuple[int, ...] = ()

    @property
    def elements(self) -> int:
        """Per lane and copy."""
        return self.slots * self.pitch

    @property
    def padded(self) -> bool:
        """Whether runs have elements that no transfer writes."""
        return prod(self.sizes[len(self.sizes) - self.walked :]) < self.pitch // self.copied


@dataclass(frozen=True)
class GemmTile:
    """Sizes of the row and of the product axes, `n_slots` times `lanes` columns; `vector` elements are handled at once:
    products on the lanes, else rows. `parts`: arrays that share their columns and divide the work
    (`array_schedule.py`). `column`: the result's buffer holds all rows of its columns, not those of a tile.
    `blocked`: a step sums into a buffer of its own, which is then added to the result: rounding errors of long sums.
    Where batches lie over the lanes, `n_slots` columns, `lanes` batches. `lead`: products along the cut axis of the
    first step of a result; 0: as many as in the others."""

    body: Body
    m_sizes: tuple[int, ...]
    n_slots: int
    k_sizes: tuple[int, ...]
    stationary: Stationary
    vector: int
    lanes: int
    column: bool = False
    deep: int = 1
    blocked: bool = False
    parts: int = 1
    lead: int = 0

    @cached_property
    def m(self) -> int:
        """Rows of a step, in whole vectors."""
        rows = prod(self.m_sizes)
        unit = self.vector
        if self.body == "lanes":
            unit = min(ROWS_AT_ONCE, max(2, 1 << (rows - 1).bit_length()))
        elif self.body == "batch":
            unit *= self.vectors_at_once
        return -(-rows // unit) * unit

    @cached_property
    def vectors_at_once(self) -> int:
        """Vectors of rows that share a load of a weight where batches lie over the lanes."""
        return min(_MOST_VECTORS_AT_ONCE, -(-prod(self.m_sizes) // self.vector))

    @cached_property
    def k(self) -> int:
        """Products of a step, in whole matrices or vectors."""
        unit = {"array": self.lanes, "lanes": self.vector, "batch": 1}[self.body]
        return -(-prod(self.k_sizes) // unit) * unit

    @property
    def n(self) -> int:
        """Columns of the result."""
        return self.n_slots if self.body == "batch" else self.n_slots * self.lanes

    @property
    def k_blocks(self) -> int:
        """Weight matrices of an array per step."""
        return self.k // self.lanes

    @property
    def arrays(self) -> int:
        """Arrays in use: `parts` for each `lanes` columns."""
        return self.n_slots * self.parts if self.body == "array" else 0

    @property
    def outer(self) -> Operand:
        """The operand that the outer tile loop indexes: X over m, W over n."""
        return "x" if self.stationary == "x" else "w"

    def sizes(self, role: Role, problem: GemmProblem) -> tuple[int, ...]:
        """Elements along each axis of a group that a step takes."""
        if role == "b":
            last = self.lanes if self.body == "batch" else 1
            return (*(1 for _ in problem.batch_axes[1:]), last)
        return {"m": self.m_sizes, "n": (self.n,), "k": self.k_sizes}[role]

    def axis_counts(self, role: Role, problem: GemmProblem) -> tuple[int, ...]:
        """Tiles along each axis of a group."""
        lead = self.lead if role == "k" else 0
        return tuple(
            -(-(extent - lead) // size) + (lead > 0) if size < extent else 1
            for extent, size in zip(problem.axes(role), self.sizes(role, problem), strict=True)
        )

    def counts(self, problem: GemmProblem) -> tuple[int, int, int]:
        """Tiles along m, n, k."""

        def count() -> tuple[int, int, int]:
            m, n, k = (prod(self.axis_counts(role, problem)) for role in _COUNTED)
            return m, n, k

        return problem.derive(("counts", *self._shape), count)

    def batches(self, problem: GemmProblem) -> int:
        """Tiles along the batches."""
        return problem.derive(("batches", self.body, self.lanes), lambda: prod(self.axis_counts("b", problem)))

    def deepened(self) -> GemmTile:
        """What a step does once the stationary operand is there."""
        return replace(self, k_sizes=(self.k_sizes[0] * self.deep,), deep=1) if self.deep > 1 else self

    def leading(self, problem: GemmProblem) -> GemmTile:
        """What the first step of a result does."""
        sizes = zip(self.k_sizes, problem.k_axes, strict=True)
        return replace(self, k_sizes=tuple(self.lead if size < extent else size for size, extent in sizes), lead=0)

    def _ragged(self, part: Part, problem: GemmProblem) -> tuple[int, ...]:
        """Axes of a part's frame along which the last tile is not whole because of the first one's size."""
        if not self.lead or part == "y":
            return ()
        first = sum(len(problem.axes(role)) for role in takewhile(lambda role: role != "k", problem.roles(part)))
        axes = enumerate(zip(self.k_sizes, problem.k_axes, strict=True), first)
        return tuple(axis for axis, (size, extent) in axes if size < extent and (extent - self.lead) % size)

    @cached_property
    def _shape(self) -> tuple[object, ...]:
        """What blocks and counts depend on."""
        return (self.body, self.m_sizes, self.n_slots, self.k_sizes, self.vector, self.lanes, self.column, self.lead)

    def block(self, part: Part, problem: GemmProblem) -> Block:
        """What one copy of a part's buffer holds."""

        def block() -> Block:
            whole, ragged = self._whole(part, problem), self._ragged(part, problem)
            return replace(whole, ragged=ragged) if ragged else whole

        return problem.derive((part, *self._shape), block)

    def _whole(self, part: Part, problem: GemmProblem) -> Block:
        batch, group, run = problem.roles(part)
        sizes = tuple(size for role in (batch, group, run) for size in self.sizes(role, problem))
        rank, walked, batches = len(sizes), problem.walked(part), len(problem.batch_axes)
        spread = tuple(range(batches, rank - walked))
        pitch = self.m if run == "m" else self.k
        if self.body == "batch":
            slots = prod(self.sizes(group, problem))
            if part == "w":
                return Block(sizes, (batches - 1,), 0, slots * self.k, self.vector, self.vector)
            return Block(sizes, (batches - 1,), walked, slots, pitch)
        if part == "x" and self.body == "lanes":
            return Block(sizes, (), walked, self.m, pitch)
        if part == "x":
            return Block(sizes, spread, walked, self.k_blocks, pitch)
        if part == "y" and self.column:
            pitch = self.counts(problem)[0] * self.m
            sizes = (*sizes[: rank - walked], pitch)
        return Block(sizes, spread, walked, self.n_slots, pitch)

    def copies(self, operand: Operand, problem: GemmProblem, *, computed: bool) -> int:
        """Buffers of an operand: one per k tile where it is stationary, else one to use and one to fill. A streamed
        operand that a prologue computes is filled just before it is used. A smaller first k tile has a buffer of its
        own."""
        if operand == self.stationary and self.lead:
            return self.counts(problem)[2] - 1
        if operand == self.stationary:
            return max(2, self.counts(problem)[2])
        return 1 if computed else 2

    def describe(self) -> dict[str, int]:
        """The tile as a flat record for reports."""
        return {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "arrays": self.arrays,
            "parts": self.parts,
            "stationary_x": int(self.stationary == "x"),
            "stationary_w": int(self.stationary == "w"),
            "column": int(self.column),
            "deep": self.deep,
            "blocked": int(self.blocked),
            "lead": self.lead,
            **_by_axis("m", self.m_sizes),
            **_by_axis("k", self.k_sizes),
        }

    def label(self) -> str:
        """Short, for messages."""
        stays = "nothing" if self.stationary == "none" else self.stationary.upper()
        return (
            f"{self.m}x{self.n}x{self.k}, {stays} stays"
            + (f", {self.deep} deep" if self.deep > 1 else "")
            + (f", {self.lead} first" if self.lead else "")
        )

    def buffers(self, problem: GemmProblem, fusion: GemmFusion, config: NpuConfig) -> dict[str, BufferNeed]:
        """Every buffer of the kernel by name: x, w, y; a prologue's loads x_in0 ...; the tail's in0 ..., out0 ..."""
        needs: dict[str, BufferNeed] = {}
        operands: tuple[Operand, Operand] = ("x", "w")
        for operand in operands:
            program = fusion.prologue(operand)
            block = self.block(operand, problem)
            copies = self.copies(operand, problem, computed=program is not None)
            if operand == self.stationary:
                needs[operand] = BufferNeed(block.elements, problem.dtype, copies, once=self.deep)
            else:
                needs[operand] = BufferNeed(self.deepened().block(operand, problem).elements, problem.dtype, copies)
            if program is not None:
                fused = fused_tile(program, block, config)
                for number, access in enumerate(program.loads):
                    elements = fused.elements(row_level=program.is_row_level(access))
                    needs[f"{operand}_in{number}"] = BufferNeed(elements, access.dtype, 2)
        if self.lead:
            first = self.leading(problem)
            for operand in operands:
                needs[LEAD + operand] = BufferNeed(first.block(operand, problem).elements, problem.dtype, 1)
        block = self.block("y", problem)
        needs["y"] = BufferNeed(block.elements, problem.accumulator, 2)
        if self.blocked:
            needs["partial"] = BufferNeed(self.n_slots * self.m, problem.accumulator, 1)
        if (tail := fusion.tail) is not None:
            machine = config.core.vlen_bits, config.core.max_lmul
            needs |= fusion.derive(("buffers", block, *machine), lambda: self._tail_buffers(tail, block, config))
        return needs

    @staticmethod
    def _tail_buffers(tail: LoopProgram, block: Block, config: NpuConfig) -> dict[str, BufferNeed]:
        fused = fused_tile(tail, block, config)
        needs = {}
        for name, access, copies in program_blocks(tail):
            elements = fused.elements(row_level=tail.is_row_level(access))
            needs[name] = BufferNeed(elements, access.dtype, copies)
        return needs


def program_blocks(tail: LoopProgram) -> list[tuple[str, Access, int]]:
    """(buffer, access, copies) of what a tail loads and stores; the result itself is `y`. Loads are there when the tile
    is finished; stores overlap with the next one."""
    loads = [(f"in{number}", access, 1) for number, access in enumerate(tail.loads) if access.buffer != RESULT]
    stores = [(f"out{number}", store.access, 2) for number, store in enumerate(tail.stores)]
    return loads + stores


LEAD = "lead_"
"""Of names: what serves the first step of a result."""

RESULT = "<result>"
"""The name under which a tail reads the accumulated result."""


def fused_tile(program: LoopProgram, block: Block, config: NpuConfig) -> Tile:
    """How a program over a frame runs on a block: a vector lies along the walked axis; slots are its rows."""
    core = config.core
    shape = _fused_shape(program, core.vlen_bits, core.max_lmul)
    of_positions = (
        min(LARGEST_GROUP, core.max_lmul) * core.vlen_bits // I32.bits
    )  # by which the ends of blocks are masked
    vector = max(2, min(shape.elements, of_positions))
    while block.pitch % vector:
        vector //= 2
    rank = len(block.sizes)
    sizes = (*block.sizes[: rank - block.walked], *(1 for _ in range(block.walked - 1)), block.pitch)
    (lane_axis,) = block.lane or (rank - block.walked - 1,)
    others = prod(sizes[axis] for axis in range(rank - block.walked) if axis != lane_axis)
    return Tile(
        sizes,
        block.walked,
        lane_axis,
        block.slots // others,
        rows_inner=False,
        vector_elements=vector,
        unroll=shape.unroll,
        phases=shape.phases,
    )


@lru_cache(maxsize=64)
def _fused_shape(program: LoopProgram, vlen_bits: int, max_lmul: int) -> VectorShape:
    """The same for all blocks."""
    return vector_shape(program, plan_stages(program), vlen_bits, max_lmul)


def _by_axis(name: str, sizes: tuple[int, ...]) -> dict[str, int]:
    """Sizes of a group of several axes, numbered."""
    return {f"{name}{axis}": size for axis, size in enumerate(sizes)} if len(sizes) > 1 else {}
