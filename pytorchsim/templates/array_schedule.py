"""The order of pushes and pops of one step of a matrix product on the systolic arrays.

In: a `GemmTile`, the operands' type, the machine. Out: an `ArraySchedule`. Pure; `array_step` writes it as code,
`gemm_cost` follows it through queues and fill.

Arrays that share their columns (`parts`) divide the matrices of weights among themselves: each multiplies all rows by
every n-th matrix, so that it changes its weights once where it would do so n times with a part of the rows. Matrices
that are left over are shared: each array takes a part of the rows.

A row's result comes 2 * lanes - 1 cycles after its push, hence pops lag pushes by as many rows as the queues hold
(`depth`). A matrix loads in `lanes` cycles, in which the array uses up what was queued, so its weights are pushed all
at once behind the last row of the one before: the pops that wait for results come after them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.gemm_problem import accumulator_dtype
from pytorchsim.templates.gemm_tile import GemmTile

__all__ = ["STEP_LMUL", "ArraySchedule", "Event", "instruction_counts"]

STEP_LMUL = 4
"""Registers per vector of results: eight groups hold inputs, weights and two pops of two arrays."""

_MOST_MATRICES_AHEAD = 4
"""Matrices in flight where they have few rows: enough to hide fill and drain behind `lanes` cycles of weights each."""


class Event(NamedTuple):
    """`number`: the piece of the weights, or the vector of rows. `matrix` counts those of one array in the step."""

    kind: Literal["weights", "inputs", "pop"]
    matrix: int
    number: int


@dataclass(frozen=True)
class ArraySchedule:
    """Numbers that shape the code. In vectors of `vector` rows: `rows` of the step; `depth`, that pops lag pushes. In
    matrices: `blocks` of the step in each column of arrays. `pieces`: pushes that load one matrix, of `piece` weights
    each. `slots`: columns of arrays; `parts`: arrays in each. `sum_bits`: of a result."""

    rows: int
    depth: int
    blocks: int
    pieces: int
    piece: int
    vector: int
    slots: int
    parts: int
    sum_bits: int

    @classmethod
    def of(cls, tile: GemmTile, dtype: Dtype, config: NpuConfig) -> ArraySchedule:
        """The schedule of a step."""
        rows = tile.m // tile.vector
        depth = max(1, min(config.array.queue_entries // tile.vector, _MOST_MATRICES_AHEAD * rows))
        lmul = min(STEP_LMUL, config.core.max_lmul)
        piece = min(tile.lanes, builders.longest_vector(config, max(dtype.bits, 16), lmul))
        pieces, bits = tile.lanes // piece, accumulator_dtype(dtype).bits
        return cls(rows, depth, tile.k_blocks, pieces, piece, tile.vector, tile.n_slots, tile.parts, bits)

    @property
    def shared(self) -> int:
        """The first matrices, whose rows the arrays of a column divide among themselves."""
        return self.blocks % self.parts

    @property
    def matrices(self) -> int:
        """That pass an array."""
        return self.shared + self.blocks // self.parts

    @property
    def part_rows(self) -> int:
        """Vectors of rows of a shared matrix in one array; the last array may have fewer."""
        return -(-self.rows // self.parts)

    def rows_of(self, matrix: int) -> int:
        """Vectors of rows of a matrix."""
        return self.part_rows if matrix < self.shared else self.rows

    def parts_at(self, matrix: int, row: int) -> int:
        """How many arrays of a column have vector `row` of a matrix."""
        if matrix >= self.shared:
            return self.parts
        return sum(1 for part in range(self.parts) if part * self.part_rows + row < self.rows)

    def rounds(self, matrix: int) -> list[tuple[Event | None, Event]]:
        """Pushes of a matrix's rows, each with the pop that makes room for it, where one must."""
        start = self._start(matrix)
        return [
            (self._pop(start + row - self.depth), Event("inputs", matrix, row)) for row in range(self.rows_of(matrix))
        ]

    def drain(self, matrices: int) -> list[Event]:
        """What is still to be popped when all rows of the first `matrices` have been pushed."""
        end = self._start(matrices)
        return [pop for number in range(end - min(end, self.depth), end) if (pop := self._pop(number))]

    def steady(self, *, accumulate: bool) -> int:
        """The first matrix from which on all are alike: not shared, every push behind a pop, every popped vector added
        to the result (the first matrix's is not, without `accumulate`)."""
        matrix = self.shared
        before = self._start(1 if not accumulate or self.shared else 0)
        while self._start(matrix) - self.depth < max(before, self._start(self.shared)):
            matrix += 1
        return matrix

    def events(self, matrices: int) -> Iterator[Event]:
        """Pushes and pops of the first `matrices`, in order."""
        for matrix in range(matrices):
            yield from (Event("weights", matrix, piece) for piece in range(self.pieces))
            for pop, push in self.rounds(matrix):
                if pop:
                    yield pop
                yield push
        yield from self.drain(matrices)

    def _start(self, matrix: int) -> int:
        """Vectors pushed before it."""
        shared = min(matrix, self.shared)
        return shared * self.part_rows + (matrix - shared) * self.rows

    def _pop(self, number: int) -> Event | None:
        """The pop of the vector that was pushed as that."""
        if number < 0:
            return None
        start = self._start(self.shared)
        if number < start:
            return Event("pop", *divmod(number, self.part_rows))
        matrix, row = divmod(number - start, self.rows)
        return Event("pop", self.shared + matrix, row)


def instruction_counts(tile: GemmTile, dtype: Dtype, config: NpuConfig) -> int:
    """Pushes and pops that one step executes."""
    plan = ArraySchedule.of(tile, dtype, config)
    loads = plan.matrices * plan.slots * plan.parts * plan.pieces
    vectors = plan.rows * plan.blocks  # each is pushed once for all columns, and popped from each
    return loads + vectors * (1 + plan.slots)
