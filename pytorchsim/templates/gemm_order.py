"""The order of a matrix product's steps: which tiles step s of result tile t works on, and where they begin.

Steps are numbered result tile by result tile, k innermost. In: a problem and its tile. Out: values at the insertion
point of the control function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from pytorchsim.mlir.builders import index_constant
from pytorchsim.templates.control_flow import add, divide, equal, less, multiply, parity, select
from pytorchsim.templates.gemm_problem import GemmProblem, Operand, Part
from pytorchsim.templates.gemm_tile import GemmTile

__all__ = ["GemmOrder", "Step"]


@dataclass(frozen=True)
class Step:
    """Where a step is. `number`: of the core's steps; then tile numbers along batch, m, n and k; `inner`: of the inner
    tile loop; `output`: of the result tile; `unit`: of the result that is finished as a whole. `fresh`: the result tile
    needs another stationary operand; `first`, `last`: of the result tile's steps."""

    number: ir.Value
    batch: ir.Value
    m: ir.Value
    n: ir.Value
    k: ir.Value
    inner: ir.Value
    output: ir.Value
    unit: ir.Value
    fresh: ir.Value
    first: ir.Value
    last: ir.Value


class GemmOrder:
    """The steps of `tile` over `problem`."""

    def __init__(self, problem: GemmProblem, tile: GemmTile) -> None:
        self._problem, self._tile = problem, tile
        self._counts = tile.counts(problem)

    @property
    def units(self) -> int:
        """Results that are finished and stored as a whole: tiles, or whole columns where the tail folds them."""
        counts_m, counts_n, _ = self._counts
        return self._tile.batches(self._problem) * counts_m * counts_n // self.tiles_per_unit

    @property
    def tiles_per_unit(self) -> int:
        """Result tiles of a unit."""
        return self._counts[0] if self._tile.column else 1

    @property
    def _inner_count(self) -> int:
        return self._counts[1] if self._tile.outer == "x" else self._counts[0]

    def steps(self, first: ir.Value, end: ir.Value) -> ir.Value:
        """How many steps result tiles `first` to `end` take: those that fetch the stationary operand are not deep."""
        depth = self._counts[2]
        outputs = arith.subi(end, first)
        if self._tile.deep == 1:
            return multiply(outputs, depth)
        inner = index_constant(self._inner_count)
        starts = arith.subi(arith.ceildivui(end, inner), arith.ceildivui(first, inner))
        within = arith.cmpi(arith.CmpIPredicate.ne, arith.remui(first, inner), index_constant(0))
        within = arith.andi(within, less(first, end))
        fresh = select(within, add(starts, 1), starts)
        deep = multiply(arith.subi(outputs, fresh), depth // self._tile.deep)
        return add(multiply(fresh, depth), deep)

    def step(self, number: ir.Value, output: ir.Value, depth: ir.Value, first_output: ir.Value) -> Step:
        """Step `depth` of result tile `output`; this core began with `first_output`."""
        counts_m, counts_n, counts_k = self._counts
        outer_x, deep = self._tile.outer == "x", self._tile.deep
        outer, inner = divide(output, self._inner_count)
        unit = outer if self._tile.column else output
        fresh = arith.ori(equal(inner, 0), equal(output, first_output))
        last: ir.Value = index_constant(counts_k - 1)
        k = depth
        if deep > 1:
            k = select(fresh, depth, multiply(depth, deep))
            last = select(fresh, last, index_constant(counts_k // deep - 1))
        is_last = equal(depth, last)
        batch, outer = divide(outer, counts_m if outer_x else counts_n)
        m, n = (outer, inner) if outer_x else (inner, outer)
        return Step(number, batch, m, n, k, inner, output, unit, fresh, equal(depth, 0), is_last)

    def held_copy(self, step: Step) -> ir.Value:
        """Which copy of its buffer the stationary operand is in."""
        if self._tile.lead:
            return arith.subi(step.k, index_constant(1))
        if self._counts[2] > 1:
            return step.k
        inner_count = self._counts[1] if self._tile.stationary == "x" else self._counts[0]
        return parity(divide(step.output, inner_count)[0])

    # ---- Origins of tiles, by axis of a part's frame, where they do not all begin at 0 ------------------------------

    def operand_origins(self, operand: Operand, step: Step) -> dict[int, ir.Value]:
        """Of an operand's tile."""
        return self._origins(operand, step, self._tile)

    def lead_origins(self, operand: Operand, step: Step) -> dict[int, ir.Value]:
        """Of the first k tile, whose number is 0."""
        return self._origins(operand, step, self._tile.leading(self._problem))

    def result_origins(self, step: Step) -> dict[int, ir.Value]:
        """Of what is stored at the end of a unit."""
        return self._origins("y", replace(step, m=index_constant(0)) if self._tile.column else step, self._tile)

    def _origins(self, part: Part, step: Step, tile: GemmTile) -> dict[int, ir.Value]:
        numbers = {"b": step.batch, "m": step.m, "n": step.n, "k": step.k}
        origins: dict[int, ir.Value] = {}
        first = 0
        for role in self._problem.roles(part):
            counts, sizes = tile.axis_counts(role, self._problem), tile.sizes(role, self._problem)
            left = numbers[role]
            for axis in reversed(range(len(counts))):
                if counts[axis] == 1:
                    continue
                number = left
                if any(count > 1 for count in counts[:axis]):
                    left, number = divide(left, counts[axis])
                size = sizes[axis]
                origin = number if size == 1 else multiply(number, size)
                if role == "k" and tile.lead:  # the first one is smaller
                    origin = arith.subi(origin, index_constant(size - tile.lead))
                origins[first + axis] = origin
            first += len(counts)
        return origins
