"""One step of a batch of small products, a batch per lane: Y[m, n] += X[m, k] @ W[k, n] in every lane, as a tile
function.

For grouped convolutions, whose products are too small to fill an array. In: a `GemmTile` and buffers as pointers: X as
[k][m], W as [n][k] with every element repeated along a vector, Y as [n][rows]. Out: a tile function in a
`KernelBuilder`. A vector holds neighbours along m; several vectors share a load of weights and keep the multipliers
busy while sums wait for one another.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.gemm_tile import GemmTile
from pytorchsim.templates.lane_step import load_operand, multiply_add
from pytorchsim.templates.vector_values import splat, vector_type

__all__ = ["batch_step", "batch_vector", "products_at_once"]

_LMUL = 2
"""Registers per vector: four sums, their inputs and the weights stay in registers."""

_UNROLLED = (9, 7, 5, 4, 3, 2, 1)
"""Windows have odd sides."""


def batch_vector(accumulator: Dtype, config: NpuConfig) -> int:
    """Rows of a vector at most."""
    return builders.longest_vector(config, accumulator.bits, _LMUL)


def products_at_once(tile: GemmTile) -> int:
    """Products of a round of the loop along k."""
    return next(count for count in _UNROLLED if tile.k % count == 0)


def batch_step(
    kernel: KernelBuilder, name: str, tile: GemmTile, dtypes: tuple[Dtype, Dtype], y_rows: int, *, accumulate: bool
) -> TileFunction:
    """`name(x, w, y)`: y += x @ w in each lane, or y = x @ w without `accumulate`. `dtypes`: of operands and sums.
    `y_rows`: the pitch of Y."""
    operand, result = (builders.element_type(dtype) for dtype in dtypes)
    y = (tile.n_slots - 1) * y_rows + tile.m
    tiles = [(tile.k * tile.m, operand), (tile.n_slots * tile.k * tile.vector, operand), (y, result)]
    with kernel.tile_function(name, tiles) as function:
        step = _Step(tile, dtypes, y_rows, function.arguments)
        columns = scf.ForOp(*map(_index, (0, tile.n_slots, 1)))
        with ir.InsertionPoint(columns.body):
            groups = scf.ForOp(*map(_index, (0, tile.m, tile.vector * tile.vectors_at_once)))
            with ir.InsertionPoint(groups.body):
                step.group(columns.induction_variable, groups.induction_variable, accumulate=accumulate)
                scf.YieldOp([])
            scf.YieldOp([])
    return function


class _Step:
    """Emits a few vectors of rows of one column."""

    def __init__(
        self, tile: GemmTile, dtypes: tuple[Dtype, Dtype], y_rows: int, pointers: tuple[ir.Value, ...]
    ) -> None:
        self._tile, self._y_rows = tile, y_rows
        self._dtype, self._sum = dtypes
        self._x, self._w, self._y = pointers

    def group(self, column: ir.Value, row: ir.Value, *, accumulate: bool) -> None:
        """Sums over k of rows `row` and following."""
        tile = self._tile
        shifts = [_index(number * tile.vector) for number in range(tile.vectors_at_once)]
        address = arith.addi(arith.muli(column, _index(self._y_rows)), row)
        places = [arith.addi(address, shift) for shift in shifts]
        kind = vector_type(self._sum, tile.vector)
        sums = [
            vector.load(kind, self._y, [place]) if accumulate else splat(0, self._sum, tile.vector) for place in places
        ]
        unrolled = products_at_once(tile)
        walk = scf.ForOp(*map(_index, (0, tile.k, unrolled)), sums)
        with ir.InsertionPoint(walk.body):
            partial = list(walk.inner_iter_args)
            for product in range(unrolled):
                at = arith.addi(walk.induction_variable, _index(product))
                number = arith.addi(arith.muli(column, _index(tile.k)), at)
                weights = self._load(self._w, arith.muli(number, _index(tile.vector)))
                first = arith.addi(arith.muli(at, _index(tile.m)), row)
                inputs = [self._load(self._x, arith.addi(first, shift)) for shift in shifts]
                partial = [multiply_add(x, weights, total, self._sum) for x, total in zip(inputs, partial, strict=True)]
            scf.YieldOp(partial)
        for place, total in zip(places, walk.results, strict=True):
            vector.store(total, self._y, [place])

    def _load(self, memory: ir.Value, address: ir.Value) -> ir.Value:
        return load_operand(memory, address, (self._dtype, self._sum), self._tile.vector)


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
