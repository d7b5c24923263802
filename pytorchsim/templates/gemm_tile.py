"""One step of a matrix product: its sizes, its blocks in the scratchpad, the buffers it needs.

In: a problem, what is fused, the machine. Out: values. A step multiplies X[m, k] by W[k, n] and adds to Y[m, n]. A
*block* is what a buffer holds of a frame (batch, lane axis, walked axis): slots of the lane axis, each a dense run
along the walked axis. Steps run k innermost; of the two operands the one that the inner tile loop does not index
stays in the scratchpad over that loop (`stationary`), with a copy for each k tile; where that is too much, none does.
Once all of a stationary X is there, a step may take several of its k tiles at once (`deep`): the arrays are filled and
drained less often, and nothing waits for a large first load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import I32
from pytorchsim.templates.footprint import BufferNeed
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand, Part
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.tile_search import vector_registers

__all__ = ["RESULT", "Block", "GemmTile", "Stationary", "fused_tile", "program_blocks"]

Body = Literal["array", "lanes"]

Stationary = Literal["x", "w", "none"]


@dataclass(frozen=True)
class Block:
    """`lane_size` elements of the lane axis, over the lanes one by one (or, not `spread`, all of them in every lane);
    in the lane `slots` runs of `pitch` elements of the walked axis, `walked_size` of them moved."""

    lane_size: int
    slots: int
    pitch: int
    walked_size: int
    spread: bool = True

    @property
    def elements(self) -> int:
        """Per lane and copy."""
        return self.slots * self.pitch


@dataclass(frozen=True)
class GemmTile:
    """`m` rows, `n_slots` times `lanes` columns, `k` products; `vector` elements are handled at once: rows on the
    arrays, products on the lanes. `column`: the result's buffer holds all rows of its columns, not `m` of them.
    `blocked`: a step sums into a buffer of its own, which is then added to the result: rounding errors of long sums."""

    body: Body
    m: int
    n_slots: int
    k: int
    stationary: Stationary
    vector: int
    lanes: int
    column: bool = False
    deep: int = 1
    blocked: bool = False

    @property
    def n(self) -> int:
        """Columns of the result."""
        return self.n_slots * self.lanes

    @property
    def k_blocks(self) -> int:
        """Weight matrices of an array per step."""
        return self.k // self.lanes

    @property
    def outer(self) -> Operand:
        """The operand that the outer tile loop indexes: X over m, W over n."""
        return "x" if self.stationary == "x" else "w"

    def counts(self, problem: GemmProblem) -> tuple[int, int, int]:
        """Tiles along m, n, k."""
        return -(-problem.m // self.m), -(-problem.n // self.n), -(-problem.k // self.k)

    def deepened(self) -> GemmTile:
        """What a step does once the stationary operand is there."""
        return replace(self, k=self.k * self.deep, deep=1)

    def block(self, part: Part, problem: GemmProblem) -> Block:
        """What one copy of a part's buffer holds."""
        if part == "y":
            rows = self.counts(problem)[0] * self.m if self.column else self.m
            return Block(self.n, self.n_slots, rows, rows)
        if part == "w":
            return Block(self.n, self.n_slots, self.k, self.k)
        if self.body == "array":
            return Block(self.k, self.k_blocks, self.m, self.m)
        return Block(self.m, self.m, self.k, self.k, spread=False)

    def copies(self, operand: Operand, problem: GemmProblem, *, computed: bool) -> int:
        """Buffers of an operand: one per k tile where it is stationary, else one to use and one to fill. A streamed
        operand that a prologue computes is filled just before it is used."""
        if operand == self.stationary:
            return max(2, self.counts(problem)[2])
        return 1 if computed else 2

    def describe(self) -> dict[str, int]:
        """The tile as a flat record for reports."""
        return {
            "m": self.m,
            "n": self.n,
            "k": self.k,
            "arrays": self.n_slots if self.body == "array" else 0,
            "stationary_x": int(self.stationary == "x"),
            "stationary_w": int(self.stationary == "w"),
            "column": int(self.column),
            "deep": self.deep,
            "blocked": int(self.blocked),
        }

    def label(self) -> str:
        """Short, for messages."""
        return f"{self.m}x{self.n}x{self.k}, {self.stationary.upper()} stays" + (
            f", {self.deep} deep" if self.deep > 1 else ""
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
        block = self.block("y", problem)
        needs["y"] = BufferNeed(block.elements, problem.accumulator, 2)
        if self.blocked:
            needs["partial"] = BufferNeed(self.n_slots * self.m, problem.accumulator, 1)
        if fusion.tail is not None:
            needs |= self._tail_buffers(fusion.tail, block, config)
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


RESULT = "<result>"
"""The name under which a tail reads the accumulated result."""


def fused_tile(program: LoopProgram, block: Block, config: NpuConfig) -> Tile:
    """How a program over a frame runs on a block: a vector lies along the walked axis; slots are its rows."""
    lmul, unroll = vector_registers(program, plan_stages(program))
    widest = max(
        I32.bits,  # of positions, by which the ends of blocks are masked
        *(access.dtype.bits for access in program.accesses()),
        *(op.dtype.bits for op in program.operations),
    )
    vector = max(2, lmul * config.core.vlen_bits // widest)
    while block.pitch % vector:
        vector //= 2
    return Tile(
        (1, block.lane_size, block.pitch), 1, 1, block.slots, rows_inner=False, vector_elements=vector, unroll=unroll
    )
