"""One step of a matrix product on the vector lanes: Y[m, n] += X[m, k] @ W[k, n], as a tile function.

For few rows and for types that the arrays do not multiply. In: a `GemmTile` and buffers as pointers: X as [m][k], the
same in every lane, W as [slot][k] and Y as [slot][rows], a column per lane. Out: a tile function in a `KernelBuilder`.
A vector holds neighbours along k: one load of weights serves several rows, each with a partial sum of its own, which is
folded inside the lane at the end.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math, scf, vector

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import Dtype, Kind
from pytorchsim.templates.fold import fold_vector
from pytorchsim.templates.gemm_tile import ROWS_AT_ONCE, GemmTile
from pytorchsim.templates.reductions import Partial
from pytorchsim.templates.vector_values import from_memory, splat, vector_type

__all__ = ["LANE_STEP_LMUL", "lane_step", "load_operand", "multiply_add"]

LANE_STEP_LMUL = 2
"""Registers per vector of sums: eight rows' sums, weights and inputs stay in registers."""


def lane_step(
    kernel: KernelBuilder, name: str, tile: GemmTile, dtypes: tuple[Dtype, Dtype], y_rows: int, *, accumulate: bool
) -> TileFunction:
    """`name(x, w, y)`: y += x @ w, or y = x @ w without `accumulate`. `dtypes`: of operands and sums. `y_rows`: the
    pitch of Y."""
    operand, result = (builders.element_type(dtype) for dtype in dtypes)
    y = (tile.n_slots - 1) * y_rows + tile.m
    tiles = [(tile.m * tile.k, operand), (tile.n_slots * tile.k, operand), (y, result)]
    with kernel.tile_function(name, tiles) as function:
        step = _Step(tile, dtypes, y_rows, function.arguments)
        slots = scf.ForOp(*map(_index, (0, tile.n_slots, 1)))
        with ir.InsertionPoint(slots.body):
            groups = scf.ForOp(*map(_index, (0, tile.m, step.rows)))
            with ir.InsertionPoint(groups.body):
                step.group(slots.induction_variable, groups.induction_variable, accumulate=accumulate)
                scf.YieldOp([])
            scf.YieldOp([])
    return function


class _Step:
    """Emits a group of rows of one column per lane."""

    def __init__(
        self, tile: GemmTile, dtypes: tuple[Dtype, Dtype], y_rows: int, pointers: tuple[ir.Value, ...]
    ) -> None:
        self._tile, self._y_rows = tile, y_rows
        self._dtype, self._sum = dtypes
        self._x, self._w, self._y = pointers
        self.rows = min(ROWS_AT_ONCE, tile.m)

    def group(self, slot: ir.Value, row: ir.Value, *, accumulate: bool) -> None:
        """Rows `row` and following: dot products along k, folded, put side by side and added to Y."""
        tile = self._tile
        zero = splat(0, self._sum, tile.vector)
        walk = scf.ForOp(*map(_index, (0, tile.k, tile.vector)), [zero] * self.rows)
        with ir.InsertionPoint(walk.body):
            at = walk.induction_variable
            weights = self._load(self._w, arith.addi(arith.muli(slot, _index(tile.k)), at))
            sums = []
            for number, partial in enumerate(walk.inner_iter_args):
                place = arith.muli(arith.addi(row, _index(number)), _index(tile.k))
                inputs = self._load(self._x, arith.addi(place, at))
                sums.append(multiply_add(inputs, weights, partial, self._sum))
            scf.YieldOp(sums)
        address = arith.addi(arith.muli(slot, _index(self._y_rows)), row)
        kind = vector_type(self._sum, self.rows)
        total = vector.load(kind, self._y, [address]) if accumulate else splat(0, self._sum, self.rows)
        row_sums = [self._folded(partial) for partial in walk.results]
        side_by_side = row_sums[0]
        for number, row_sum in enumerate(row_sums[1:], 1):
            side_by_side = arith.select(_element(number, self.rows), row_sum, side_by_side)
        vector.store(self._add(total, side_by_side) if accumulate else side_by_side, self._y, [address])

    def _folded(self, partial: ir.Value) -> ir.Value:
        """The sum over a vector, in each of `rows` elements."""

        def combine(a: Partial, b: Partial) -> Partial:
            return (self._add(a[0], b[0]),)

        (folded,) = fold_vector((partial,), self._tile.vector, combine)
        return vector.shuffle(folded, folded, list(range(self.rows)))

    def _load(self, memory: ir.Value, address: ir.Value) -> ir.Value:
        return load_operand(memory, address, (self._dtype, self._sum), self._tile.vector)

    def _add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.addf(a, b) if self._sum.kind is Kind.FLOAT else arith.addi(a, b)


def load_operand(memory: ir.Value, address: ir.Value, dtypes: tuple[Dtype, Dtype], elements: int) -> ir.Value:
    """A vector of operands in the type of the sums; `dtypes` of both."""
    dtype, sums = dtypes
    kind = ir.VectorType.get([elements], builders.element_type(dtype))
    value = from_memory(vector.load(kind, memory, [address]), dtype, elements)
    target = vector_type(sums, elements)
    if value.type == target:
        return value
    if sums.kind is Kind.FLOAT:
        return arith.extf(target, value)
    unsigned = dtype.kind in (Kind.UNSIGNED, Kind.BOOL)
    return arith.extui(target, value) if unsigned else arith.extsi(target, value)


def multiply_add(x: ir.Value, w: ir.Value, total: ir.Value, sums: Dtype) -> ir.Value:
    """total + x * w, floats with one rounding."""
    if sums.kind is Kind.FLOAT:
        return math.fma(x, w, total)
    return arith.addi(arith.muli(x, w), total)


def _element(number: int, elements: int) -> ir.Value:
    """A mask of one element."""
    kind = ir.VectorType.get([elements], ir.IntegerType.get_signless(1))
    bits = [ir.BoolAttr.get(position == number) for position in range(elements)]
    return arith.constant(kind, ir.DenseElementsAttr.get(bits, type=kind))


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
