"""One function per `npu` op, at the current insertion point of a function of a `KernelBuilder`.

In: MLIR values, buffers, symbols of descriptors. Out: operations of the `npu` dialect, and the few of others that
kernels are full of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir
from mlir.dialects import arith, func, memref

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.kernel_builder import Buffer, TileFunction
from pytorchsim.target.descriptor import SET_INDEX_TILE
from pytorchsim.target.dtypes import Dtype

__all__ = [
    "buffer_ref",
    "call_tile",
    "element_type",
    "exchange",
    "index_constant",
    "keep",
    "lane_id",
    "largest",
    "longest_vector",
    "pop",
    "push_inputs",
    "push_weights",
    "splat",
    "tile_view",
    "transfer",
    "wait",
]


# ---- Control functions ---------------------------------------------------------------------------------------------


def index_constant(value: int) -> ir.Value:
    """`value` as an `index` constant."""
    return arith.constant(ir.IndexType.get(), value)


def buffer_ref(buffer: Buffer) -> ir.Value:
    """The bytes of `buffer`, all copies: `memref<bytes x i8>`."""
    result = ir.MemRefType.get([buffer.bytes], ir.IntegerType.get_signless(8))
    operation = ir.Operation.create(
        "npu.buffer_ref", results=[result], attributes={"buffer": ir.FlatSymbolRefAttr.get(buffer.symbol)}
    )
    return operation.results[0]


def tile_view(memory: ir.Value, byte_shift: ir.Value, count: int, element: ir.Type) -> ir.Value:
    """`count` elements behind `byte_shift` (an `index`, a multiple of the alignment) of `buffer_ref`'s result."""
    return memref.view(ir.MemRefType.get([count], element), memory, byte_shift, [])


def transfer(
    descriptor: str,
    pointer: ir.Value,
    tag: int | ir.Value,
    origins: Mapping[int, ir.Value] | None = None,
    *,
    index_shifts: Mapping[int, ir.Value] | None = None,
) -> None:
    """Start the transfer `descriptor` (symbol) between DRAM and the scratchpad memory `pointer`.

    `origins`: `index` by axis number, absent ones 0. `index_shifts`: bytes (`index`) added to the address of index
    tile 0, 1.
    """
    values = {**(origins or {}), **{SET_INDEX_TILE + tile: shift for tile, shift in (index_shifts or {}).items()}}
    ordered = sorted(values.items())
    ir.Operation.create(
        "npu.transfer",
        operands=[pointer, _index(tag), *(value for _, value in ordered)],
        attributes={
            "descriptor": ir.FlatSymbolRefAttr.get(descriptor),
            "set_indices": ir.DenseI64ArrayAttr.get([index for index, _ in ordered]),
        },
    )


def wait(tag: int | ir.Value) -> None:
    """Wait for every transfer of `tag`."""
    ir.Operation.create("npu.wait", operands=[_index(tag)])


def call_tile(tile: TileFunction, arguments: Sequence[ir.Value]) -> None:
    """Call a tile function. Pointer arguments are `tile_view`s of different memory."""
    func.CallOp([], ir.FlatSymbolRefAttr.get(tile.symbol), list(arguments))


# ---- Tile functions ------------------------------------------------------------------------------------------------


def element_type(dtype: Dtype) -> ir.Type:
    """The MLIR type of an element of `dtype` in memory."""
    return ir.Type.parse(dtype.mlir)


def longest_vector(config: NpuConfig, element_bits: int, lmul: int = 8) -> int:
    """Elements of the longest vector at register group size `lmul`."""
    return config.core.vlen_bits * lmul // element_bits


def lane_id(count: int, bits: int = 32) -> ir.Value:
    """`vector<count x i{bits}>`: the lane's number in every element."""
    result = ir.VectorType.get([count], ir.IntegerType.get_signless(bits))
    return ir.Operation.create("npu.lane_id", results=[result]).results[0]


def exchange(vector: ir.Value, step: int) -> ir.Value:
    """The vector of lane `l XOR 2**step` in lane l."""
    return _unary("npu.exchange", vector, "step", step)


def splat(vector: ir.Value, element: int, elements: int = 0) -> ir.Value:
    """Element number `element` of `vector` in every element, inside each lane; `elements` of them, by default as many
    as the vector has. Of a shuffle that does the same, LLVM would make a scalar load (`verify-kernel` refuses it)."""
    kind = ir.VectorType(vector.type)
    result = ir.VectorType.get([elements or kind.shape[0]], kind.element_type)
    operation = ir.Operation.create(
        "npu.splat", results=[result], operands=[vector], attributes={"element": _i64(element)}
    )
    return operation.results[0]


def largest(vector: ir.Value) -> ir.Value:
    """The largest element of a vector of float32, inside each lane, as element 0 of a vector of two; the other one is
    undefined. NaNs count for nothing. One reduction, where shuffles would take a dozen instructions."""
    result = ir.VectorType.get([2], ir.VectorType(vector.type).element_type)
    return ir.Operation.create("npu.largest", results=[result], operands=[vector]).results[0]


def keep(vectors: Sequence[ir.Value]) -> None:
    """No instruction: the registers of `vectors` are not used for anything else before this place. A push reads its
    register for as many cycles as it has rows, and whoever writes that register next waits."""
    groups: dict[str, list[ir.Value]] = {}
    for value in vectors:
        groups.setdefault(str(value.type), []).append(value)
    for group in groups.values():  # IRDL wants operands of one type
        ir.Operation.create("npu.keep", operands=group)


def push_weights(vector: ir.Value, *, array: int, dtype: Dtype, first: bool) -> None:
    """Each lane appends `vector` to the shadow weights of `array`; `first` clears them before."""
    ir.Operation.create(
        "npu.push_weights",
        operands=[vector],
        attributes={"array": _i64(array), "first": ir.BoolAttr.get(first), "dtype": ir.StringAttr.get(dtype.name)},
    )


def push_inputs(vector: ir.Value, *, arrays: Sequence[int], dtype: Dtype) -> None:
    """Push input vector i = element i of every lane, for each i, into every array of `arrays`."""
    mask = sum(1 << array for array in set(arrays))
    ir.Operation.create(
        "npu.push_inputs", operands=[vector], attributes={"arrays": _i64(mask), "dtype": ir.StringAttr.get(dtype.name)}
    )


def pop(count: int, *, array: int, dtype: Dtype) -> ir.Value:
    """The oldest `count` results of `array`, as a vector of `dtype`."""
    result = ir.VectorType.get([count], element_type(dtype))
    attributes: dict[str, ir.Attribute] = {"array": _i64(array), "dtype": ir.StringAttr.get(dtype.name)}
    return ir.Operation.create("npu.pop", results=[result], attributes=attributes).results[0]


def _unary(name: str, vector: ir.Value, attribute: str, value: int) -> ir.Value:
    operation = ir.Operation.create(name, results=[vector.type], operands=[vector], attributes={attribute: _i64(value)})
    return operation.results[0]


def _index(value: int | ir.Value) -> ir.Value:
    return index_constant(value) if isinstance(value, int) else value


def _i64(value: int) -> ir.IntegerAttr:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
