"""The tile function of a prologue: an operand's block computed from the blocks of what it is made of.

In: a program over the operand's frame with one store, the block, buffers as pointers. Out: a tile function. Products
beyond K must not count, whatever the program makes of the zeros loaded there (1 / 0, exp(0)): they are set to zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import I32
from pytorchsim.templates.block import Block as TileBlock
from pytorchsim.templates.block import BufferKey, StoreBuffer
from pytorchsim.templates.gemm_tile import Block, fused_tile
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.vector_values import to_memory, vector_type

__all__ = ["KAxis", "OperandFunction", "operand_function"]


KAxis = Literal["", "lane", "walked"]
"""Which axis of an operand's frame is k; empty where no tile ends beyond K."""


@dataclass(frozen=True)
class OperandFunction:
    """A tile function and the buffers of its pointer arguments. Where `masks`, the number of products left follows as
    a scalar."""

    function: TileFunction
    buffers: tuple[Access | StoreBuffer, ...]
    masks: bool


def operand_function(
    kernel: KernelBuilder, name: str, program: LoopProgram, block: Block, *, masks: KAxis
) -> OperandFunction:
    """`name(loads..., operand, [left])`. `masks`: the axis of the frame that is k, where its last tile is not full."""
    tile = fused_tile(program, block, kernel.config)
    keys: list[Access | StoreBuffer] = [*program.loads, StoreBuffer(0)]
    pointers = []
    for key in keys:
        access = program.stores[0].access if isinstance(key, StoreBuffer) else key
        whole = isinstance(key, StoreBuffer) or not program.is_row_level(access)
        elements = tile.elements(row_level=not whole)
        pointers.append((elements, builders.element_type(access.dtype)))
    scalars = [ir.IndexType.get()] if masks else []
    with kernel.tile_function(name, pointers, scalars) as function:
        pointer_of: dict[BufferKey, ir.Value] = dict(zip(keys, function.arguments, strict=False))
        values = TileBlock(program, tile, pointer_of, {})
        left = function.arguments[-1] if masks else None
        slots = scf.ForOp(*map(builders.index_constant, (0, tile.blocks, 1)))
        with ir.InsertionPoint(slots.body):
            _slot(values, program, slots.induction_variable, masks, left)
            scf.YieldOp([])
    return OperandFunction(function, tuple(keys), bool(masks))


def _slot(block: TileBlock, program: LoopProgram, slot: ir.Value, masks: str, left: ir.Value | None) -> None:
    (stage,) = plan_stages(program)
    tile = block.tile
    block.values = {}
    block.compute(stage.row_operations, block.row_address(slot), block.values)
    steps = scf.ForOp(*map(builders.index_constant, (0, tile.walk_count, 1)))
    with ir.InsertionPoint(steps.body):
        address = block.walk_address(slot, steps.induction_variable)
        values = dict(block.values)
        block.compute(stage.walk_operations, address, values)
        stored = program.stores[0]
        value = to_memory(values[stored.value], stored.access.dtype, tile.vector_elements)
        if left is not None:
            number = (
                _lane_number(tile, slot, _lanes(tile))
                if masks == "lane"
                else _walked_number(tile, steps.induction_variable)
            )
            exists = arith.cmpi(arith.CmpIPredicate.ult, number, _spread(left, tile.vector_elements))
            zero = arith.constant(value.type, _zero(ir.VectorType(value.type)))
            value = arith.select(exists, value, zero)
        vector.store(value, block.pointers[StoreBuffer(0)], [address])
        scf.YieldOp([])


def _lanes(tile: Tile) -> int:
    """Lanes over which the block's lane axis is spread."""
    return tile.sizes[1] // tile.lane_run


def _lane_number(tile: Tile, slot: ir.Value, lanes: int) -> ir.Value:
    """Where the slot's element of each lane stands along the lane axis."""
    first = _spread(arith.muli(slot, builders.index_constant(lanes)), tile.vector_elements)
    return arith.addi(first, builders.lane_id(tile.vector_elements))


def _walked_number(tile: Tile, step: ir.Value) -> ir.Value:
    """Where the vector's elements stand along the walked axis."""
    elements = tile.vector_elements
    kind = vector_type(I32, elements)
    numbers = [ir.IntegerAttr.get(kind.element_type, number) for number in range(elements)]
    steps = arith.constant(kind, ir.DenseElementsAttr.get(numbers, type=kind))
    return arith.addi(_spread(arith.muli(step, builders.index_constant(elements)), elements), steps)


def _spread(value: ir.Value, elements: int) -> ir.Value:
    narrow = arith.index_cast(ir.IntegerType.get_signless(32), value)
    return vector.broadcast(vector_type(I32, elements), narrow)


def _zero(kind: ir.VectorType) -> ir.Attribute:
    element = kind.element_type
    is_float = not isinstance(element, ir.IntegerType)
    scalar = ir.FloatAttr.get(element, 0.0) if is_float else ir.IntegerAttr.get(element, 0)
    return ir.DenseElementsAttr.get_splat(kind, scalar)
