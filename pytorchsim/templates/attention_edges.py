"""What happens before the first and after the last step of a unit: state is cleared; sums are divided by their totals.

In: a tile, buffers as pointers. Out: tile functions. State per query: `sums` of weighted values, the `highest` score so
far (the least finite number before any: so differences of minus infinity never arise), and the `total` of the weights,
as a vector whose elements are added at the end.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_vectors import Region, fold_steps, load, regions, store
from pytorchsim.templates.control_flow import add, multiply
from pytorchsim.templates.vector_values import splat

__all__ = ["LEAST", "finish_function", "start_function"]

LEAST = -3.4028234663852886e38
"""The least finite float32."""


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
    """`finish(state, result, [statistics])`: a query without keys gets zero."""
    element = ir.F32Type.get()
    sizes = [(sum(tile.state.values()), element), (tile.state["sums"], builders.element_type(problem.dtype))]
    if problem.statistics is not None:
        sizes.append((tile.rows * tile.vector, element))
    with kernel.tile_function("finish", sizes) as function:
        rows = scf.ForOp(*map(builders.index_constant, (0, tile.rows, 1)))
        with ir.InsertionPoint(rows.body):
            _finish_row(problem, tile, function.arguments, rows.induction_variable)
            scf.YieldOp([])
    return function


def _finish_row(problem: AttentionProblem, tile: AttentionTile, pointers: tuple[ir.Value, ...], row: ir.Value) -> None:
    state = regions(pointers[0], tile.state)
    result, *statistics = (Region(pointer) for pointer in pointers[1:])
    at = multiply(row, tile.vector)
    total = load(state["total"], at, tile.vector)
    for fold in fold_steps(tile.vector, arith.addf):
        total = fold(total)
    zero, one = (splat(value, F32, tile.vector) for value in (0.0, 1.0))
    empty = arith.cmpf(arith.CmpFPredicate.OEQ, total, zero)
    factor = arith.select(empty, zero, arith.divf(one, total))
    if statistics:
        logarithm = arith.addf(load(state["highest"], at, tile.vector), math.log(total))
        store(arith.select(empty, zero, logarithm), statistics[0], at, tile.vector)
    for piece in range(0, tile.value_pitch, tile.vector):
        address = add(multiply(row, tile.value_pitch), piece)
        value = arith.mulf(load(state["sums"], address, tile.vector), factor)
        store(value, result, address, tile.vector, problem.dtype)
