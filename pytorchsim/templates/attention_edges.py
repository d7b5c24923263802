"""What happens before the first and after the last step of a unit: state is cleared; sums are divided by their totals.

In: a tile, buffers as pointers. Out: tile functions. State per query: `sums` of weighted values, the `highest` score so
far (the least finite number before any: so differences of minus infinity never arise), and the `total` of the weights,
as a vector whose elements are added at the end.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math, scf, vector

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_vectors import LEAST, Region, load, regions, store
from pytorchsim.templates.control_flow import add, multiply
from pytorchsim.templates.vector_values import splat, vector_type

__all__ = ["finish_function", "start_function"]

_ROWS_AT_ONCE = 4

_PAIR = 2
"""The shortest vector: one element alone would be a scalar, which no lane has."""


def start_function(kernel: KernelBuilder, tile: AttentionTile) -> TileFunction:
    """`start(state)`."""
    with kernel.tile_function("start", [(sum(tile.state.values()), ir.F32Type.get())]) as function:
        parts = regions(function.arguments[0], tile.state)
        for name, count in tile.state.items():
            constant = splat(LEAST if name == "highest" else 0.0, F32, tile.vector)
            loop = scf.ForOp(*map(builders.index_constant, (0, count, tile.vector)))
            with ir.InsertionPoint(loop.body):
                store(constant, parts[name], loop.induction_variable, tile.vector)
                scf.YieldOp([])
    return function


def finish_function(kernel: KernelBuilder, problem: AttentionProblem, tile: AttentionTile) -> TileFunction:
    """`finish(state, result, [statistics])`: a query without keys gets zero. Several rows at once, so that none waits
    for its own results."""
    element = ir.F32Type.get()
    sizes = [(sum(tile.state.values()), element), (tile.state["sums"], builders.element_type(problem.dtype))]
    if problem.statistics is not None:
        sizes.append((tile.rows * tile.vector, element))
    together = max(count for count in range(1, _ROWS_AT_ONCE + 1) if tile.rows % count == 0)
    with kernel.tile_function("finish", sizes) as function:
        rows = scf.ForOp(*map(builders.index_constant, (0, tile.rows, together)))
        with ir.InsertionPoint(rows.body):
            _finish_rows(
                problem, tile, function.arguments, [add(rows.induction_variable, row) for row in range(together)]
            )
            scf.YieldOp([])
    return function


def _finish_rows(
    problem: AttentionProblem, tile: AttentionTile, pointers: tuple[ir.Value, ...], rows: list[ir.Value]
) -> None:
    state = regions(pointers[0], tile.state)
    result, *statistics = (Region(pointer) for pointer in pointers[1:])
    places = [multiply(row, tile.vector) for row in rows]
    totals = [load(state["total"], at, tile.vector) for at in places]
    while (elements := ir.VectorType(totals[0].type).shape[0]) > _PAIR:
        totals = [_folded(total, elements // 2) for total in totals]
    totals = [arith.addf(total, vector.shuffle(total, total, [1, 0])) for total in totals]
    zero, one = (splat(value, F32, _PAIR) for value in (0.0, 1.0))
    empty = [arith.cmpf(arith.CmpFPredicate.OEQ, total, zero) for total in totals]
    quotients = [arith.divf(one, total) for total in totals]
    chosen = [arith.select(none, zero, quotient) for none, quotient in zip(empty, quotients, strict=True)]
    factors = [builders.splat(factor, 0, tile.vector) for factor in chosen]
    if statistics:
        logarithms = [math.log(total) for total in totals]
        for at, none, logarithm in zip(places, empty, logarithms, strict=True):
            value = arith.select(none, zero, arith.addf(load(state["highest"], at, _PAIR), logarithm))
            store(builders.splat(value, 0, tile.vector), statistics[0], at, tile.vector)
    for piece in range(0, tile.value_pitch, tile.vector):
        addresses = [add(multiply(row, tile.value_pitch), piece) for row in rows]
        sums = [load(state["sums"], address, tile.vector) for address in addresses]
        values = [arith.mulf(old, factor) for old, factor in zip(sums, factors, strict=True)]
        for address, value in zip(addresses, values, strict=True):
            store(value, result, address, tile.vector, problem.dtype)


def _folded(total: ir.Value, half: int) -> ir.Value:
    """The second half added to the first."""
    kind = vector_type(F32, half)
    first, second = (vector.extract_strided_slice(kind, total, [start], [half], [1]) for start in (0, half))
    return arith.addf(first, second)
