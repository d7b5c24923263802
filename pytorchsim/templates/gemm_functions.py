"""The tile functions of the GEMM template: one step on the arrays, and the elementwise tail of a finished tile.

In: a `GemmTile` and buffers as pointers: X as [k_block][m], W as [array][k], the result as [array][m], per lane. Out:
tile functions in a `KernelBuilder`. Weights of the next k block are pushed after a block's rows, so that they load
into the shadow set while those rows drain.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import F32, Dtype
from pytorchsim.templates.block import Block, StoreBuffer
from pytorchsim.templates.gemm_tile import GemmTile
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.tile_search import vector_registers

__all__ = ["step_function", "tail_function"]


def step_function(kernel: KernelBuilder, name: str, tile: GemmTile, dtype: Dtype, *, accumulate: bool) -> TileFunction:
    """`name(x, w, y)`: y += x @ w over the step's k blocks, or y = x @ w without `accumulate`."""
    element, result = builders.element_type(dtype), builders.element_type(F32)
    tiles = [(tile.x_elements(), element), (tile.w_elements(), element), (tile.y_elements(), result)]
    with kernel.tile_function(name, tiles) as function:
        step = _Step(tile, dtype, function.arguments, kernel.config)
        blocks = tile.m // tile.block_rows
        loop = scf.ForOp(*map(builders.index_constant, (0, blocks, 1)))
        with ir.InsertionPoint(loop.body):
            step.row_block(arith.muli(loop.induction_variable, _index(tile.block_rows)), accumulate=accumulate)
            scf.YieldOp([])
    return function


class _Step:
    """Emits the pushes and pops of one block of rows."""

    def __init__(self, tile: GemmTile, dtype: Dtype, pointers: tuple[ir.Value, ...], config: NpuConfig) -> None:
        self._tile, self._dtype, self._config = tile, dtype, config
        self._x, self._w, self._y = pointers

    def row_block(self, row: ir.Value, *, accumulate: bool) -> None:
        """All k blocks for the rows from `row` on; the first one overwrites the result unless `accumulate`."""
        blocks = self._tile.k_blocks
        self._weights(_index(0))
        if not accumulate:
            self._k_block(_index(0), row, accumulate=False, more=blocks > 1)
        first = 0 if accumulate else 1
        loop = scf.ForOp(*map(builders.index_constant, (first, max(first, blocks - 1), 1)))
        with ir.InsertionPoint(loop.body):
            self._k_block(loop.induction_variable, row, accumulate=True, more=True)
            scf.YieldOp([])
        if blocks > first:
            self._k_block(_index(blocks - 1), row, accumulate=True, more=False)

    def _k_block(self, k_block: ir.Value, row: ir.Value, *, accumulate: bool, more: bool) -> None:
        tile = self._tile
        base = arith.addi(arith.muli(k_block, _index(tile.m)), row)
        for at in self._vectors():
            rows = self._load(self._x, self._dtype, arith.addi(base, at))
            builders.push_inputs(rows, arrays=range(tile.arrays), dtype=self._dtype)
        if more:
            self._weights(arith.addi(k_block, _index(1)))
        for at in self._vectors():
            for array in range(tile.arrays):
                address = arith.addi(arith.addi(row, at), _index(array * tile.m))
                value = builders.pop(tile.vector_elements, array=array, dtype=F32)
                if accumulate:
                    value = arith.addf(self._load(self._y, F32, address), value)
                vector.store(value, self._y, [address])

    def _weights(self, k_block: ir.Value) -> None:
        """`lanes` rows of W into the shadow weights of every array."""
        tile = self._tile
        elements = min(tile.lanes, builders.longest_vector(self._config, self._dtype.bits))
        for array in range(tile.arrays):
            base = arith.addi(arith.muli(k_block, _index(tile.lanes)), _index(array * tile.k))
            for start in range(0, tile.lanes, elements):
                kind = ir.VectorType.get([elements], builders.element_type(self._dtype))
                weights = vector.load(kind, self._w, [arith.addi(base, _index(start))])
                builders.push_weights(weights, array=array, dtype=self._dtype, first=start == 0)

    def _vectors(self) -> list[ir.Value]:
        return [_index(start) for start in range(0, self._tile.block_rows, self._tile.vector_elements)]

    def _load(self, memory: ir.Value, dtype: Dtype, address: ir.Value) -> ir.Value:
        kind = ir.VectorType.get([self._tile.vector_elements], builders.element_type(dtype))
        return vector.load(kind, memory, [address])


def tail_function(
    kernel: KernelBuilder, name: str, tile: GemmTile, program: LoopProgram, keys: list[Access | StoreBuffer]
) -> TileFunction:
    """`name(buffers of keys...)`: the program on every element of a tile of the result; all buffers lie as the result
    does."""
    elements = tile.y_elements()
    step = min(
        vector_registers(program, plan_stages(program))[0] * kernel.config.core.vlen_bits // 32, tile.vector_elements
    )
    flat = Tile((elements * tile.lanes,), 0, 0, elements, rows_inner=True, vector_elements=step)
    dtypes = [program.stores[key.number].access.dtype if isinstance(key, StoreBuffer) else key.dtype for key in keys]
    with kernel.tile_function(name, [(elements, builders.element_type(dtype)) for dtype in dtypes]) as function:
        block = Block(program, flat, dict(zip(keys, function.arguments, strict=True)), {})
        loop = scf.ForOp(*map(builders.index_constant, (0, flat.blocks, 1)))
        with ir.InsertionPoint(loop.body):
            address = block.row_address(loop.induction_variable)
            values: dict[int, ir.Value] = {}
            block.compute(range(len(program.operations)), address, values)
            block.store(range(len(program.stores)), address, values)
            scf.YieldOp([])
    return function


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
