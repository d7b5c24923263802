"""lower-npu-ops: everything of the `npu` dialect becomes memref, llvm globals and VCIX intrinsics.

Takes: the module of modules that split-functions leaves. Leaves: no `npu` op; `npu` attributes only on functions.
A transfer passes everything that varies in registers, never through memory: LLVM keeps VCIX instructions in order among
themselves, but moves memory accesses across them.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, llvm, memref

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import vcix
from pytorchsim.mlir.descriptor_attributes import descriptor_of
from pytorchsim.mlir.passes.index_range import constant_of
from pytorchsim.mlir.passes.walk import operations_of
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import DESCRIPTOR_BYTES, MAX_INDEX_TILES, RECORDS, SET_SPAD_ADDRESS, SET_TAG, Record

__all__ = ["lower_npu_ops"]


def _field_offset_bytes(record: Record, name: str) -> int:
    names = [field[0] for field in record.fields]
    return Record("prefix", record.fields[: names.index(name)]).size_bytes


_OFFSET_FIELD_BYTES = _field_offset_bytes(RECORDS[0], "offset")


def lower_npu_ops(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    for operation in operations_of(module, prefix="npu."):
        with ir.InsertionPoint(operation), operation.location:
            replacement = _LOWERINGS[operation.name](operation, config)
        if replacement is not None:
            operation.results[0].replace_all_uses_with(replacement)
        operation.erase()


def _buffer(operation: ir.Operation, config: NpuConfig) -> None:
    """An external symbol: no initialiser (an undefined one would be folded away)."""
    del config
    kind = ir.Type.parse(f"!llvm.array<{_int(operation, 'bytes')} x i8>")
    external = ir.Attribute.parse("#llvm.linkage<external>")
    llvm.GlobalOp(kind, _string(operation, "sym_name"), external, alignment=_int(operation, "alignment"), addr_space=0)


def _buffer_ref(operation: ir.Operation, config: NpuConfig) -> ir.Value:
    """A memref of the symbol's address. As the struct that memrefs lower to: a memref.global could not be named by
    descriptors, which are llvm globals."""
    del config
    kind = ir.MemRefType(operation.results[0].type)
    struct = ir.Type.parse("!llvm.struct<(ptr, ptr, i64, array<1 x i64>, array<1 x i64>)>")
    address = llvm.mlir_addressof(ir.Type.parse("!llvm.ptr"), operation.attributes["buffer"])
    zero, one, size = (arith.constant(ir.IntegerType.get_signless(64), value) for value in (0, 1, kind.shape[0]))
    value = llvm.PoisonOp(struct).result
    for position, part in (([0], address), ([1], address), ([2], zero), ([3, 0], size), ([4, 0], one)):
        value = llvm.insertvalue(value, part, position)
    cast = ir.Operation.create("builtin.unrealized_conversion_cast", results=[kind], operands=[value])
    return cast.results[0]


def _descriptor(operation: ir.Operation, config: NpuConfig) -> None:
    """A constant of the encoded bytes; an address in a buffer is a relocation in its place."""
    del config
    descriptor, buffers = descriptor_of({name: operation.attributes[name] for name in operation.attributes})
    addresses: dict[int, tuple[str, int]] = {}  # byte offset of an 8-byte field -> (symbol, bytes behind it)
    if buffers.local is not None:
        addresses[_OFFSET_FIELD_BYTES] = (buffers.local, descriptor.offset)
    for number, buffer in enumerate(buffers.index_tiles):
        if buffer is not None:
            start = DESCRIPTOR_BYTES - (MAX_INDEX_TILES - number) * RECORDS[-1].size_bytes
            addresses[start] = (buffer, descriptor.index_tiles[number].spad_address)
    data, done = descriptor.encode(), 0
    pieces: list[bytes | tuple[str, int]] = []
    for start, address in sorted(addresses.items()):
        pieces += [data[done:start], address]
        done = start + 8
    pieces.append(data[done:])
    _constant_global(_string(operation, "sym_name"), [piece for piece in pieces if piece])


def _constant_global(symbol: str, pieces: list[bytes | tuple[str, int]]) -> None:
    kinds = [f"array<{len(piece)} x i8>" if isinstance(piece, bytes) else "i64" for piece in pieces]
    kind = ir.Type.parse(f"!llvm.struct<packed ({', '.join(kinds)})>")
    constant = llvm.GlobalOp(
        kind, symbol, ir.Attribute.parse("#llvm.linkage<internal>"), constant=True, alignment=8, addr_space=0
    )
    i64, pointer = ir.IntegerType.get_signless(64), ir.Type.parse("!llvm.ptr")
    with ir.InsertionPoint(constant.initializer.blocks.append()):
        value = llvm.mlir_undef(kind)
        for position, piece in enumerate(pieces):
            if isinstance(piece, bytes):
                array = ir.Type.parse(f"!llvm.{kinds[position]}")
                part = llvm.ConstantOp(array, ir.StringAttr.get(piece)).result
            else:
                base = llvm.mlir_addressof(pointer, piece[0])
                shifted = llvm.getelementptr(pointer, base, [], [piece[1]], ir.IntegerType.get_signless(8), None)
                part = llvm.ptrtoint(i64, shifted)
            value = llvm.insertvalue(value, part, [position])
        llvm.return_(arg=value)


def _transfer(operation: ir.Operation, config: NpuConfig) -> None:
    del config
    pointer, tag, *values = operation.operands
    for index, value in zip(ir.DenseI64ArrayAttr(operation.attributes["set_indices"]), values, strict=True):
        if constant_of(value) != 0:  # an unset value is 0
            vcix.dma_set(index, _i64(value))
    vcix.dma_set(SET_SPAD_ADDRESS, _i64(memref.extract_aligned_pointer_as_index(pointer)))
    fixed = constant_of(tag)
    if fixed is None:
        vcix.dma_set(SET_TAG, _i64(tag))
    address = llvm.mlir_addressof(ir.Type.parse("!llvm.ptr"), operation.attributes["descriptor"])
    vcix.dma_start(fixed or 0, llvm.ptrtoint(ir.IntegerType.get_signless(64), address))


def _wait(operation: ir.Operation, config: NpuConfig) -> None:
    del config
    vcix.dma_wait(_i64(operation.operands[0]))


def _lane_id(operation: ir.Operation, config: NpuConfig) -> ir.Value:
    del config
    return vcix.lane_id(operation.results[0].type)


def _exchange(operation: ir.Operation, config: NpuConfig) -> ir.Value:
    del config
    return vcix.exchange(operation.operands[0], _int(operation, "step"))


def _splat(operation: ir.Operation, config: NpuConfig) -> ir.Value:
    element, result = _int(operation, "element"), operation.results[0].type
    return vcix.splat(operation.operands[0], element, result, config.core.vlen_bits)


def _largest(operation: ir.Operation, config: NpuConfig) -> ir.Value:
    return vcix.largest(operation.operands[0], operation.results[0].type, config.core.vlen_bits)


def _keep(operation: ir.Operation, config: NpuConfig) -> None:
    del config
    vcix.keep(list(operation.operands))


def _push_weights(operation: ir.Operation, config: NpuConfig) -> None:
    del config
    vcix.push_weights(operation.operands[0], _int(operation, "array"), bool(_int(operation, "first")), _code(operation))


def _push_inputs(operation: ir.Operation, config: NpuConfig) -> None:
    del config
    vcix.push_inputs(operation.operands[0], _int(operation, "arrays"), _code(operation))


def _pop(operation: ir.Operation, config: NpuConfig) -> ir.Value:
    del config
    return vcix.pop(operation.results[0].type, _int(operation, "array"), _code(operation))


_LOWERINGS: dict[str, Callable[[ir.Operation, NpuConfig], ir.Value | None]] = {
    "npu.buffer": _buffer,
    "npu.buffer_ref": _buffer_ref,
    "npu.descriptor": _descriptor,
    "npu.transfer": _transfer,
    "npu.wait": _wait,
    "npu.lane_id": _lane_id,
    "npu.exchange": _exchange,
    "npu.splat": _splat,
    "npu.largest": _largest,
    "npu.keep": _keep,
    "npu.push_weights": _push_weights,
    "npu.push_inputs": _push_inputs,
    "npu.pop": _pop,
}


def _i64(value: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IntegerType.get_signless(64), value)


def _int(operation: ir.Operation, name: str) -> int:
    attribute = operation.attributes[name]
    return int(attribute.value)


def _string(operation: ir.Operation, name: str) -> str:
    return str(ir.StringAttr(operation.attributes[name]).value)


def _code(operation: ir.Operation) -> int:
    return dtypes.by_name(_string(operation, "dtype")).code
