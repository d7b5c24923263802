"""Rules of a control function: scalar loops, transfers, waits and calls. Part of verify-kernel."""

from __future__ import annotations

from math import prod

from mlir import ir
from mlir.dialects import func

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.dialect import BUFFER_ALIGNMENT_BYTES
from pytorchsim.mlir.passes.index_range import constant_of
from pytorchsim.mlir.passes.transfer_footprint import footprint_bytes, index_tile_bytes
from pytorchsim.mlir.passes.verify_symbols import SymbolTable
from pytorchsim.mlir.passes.walk import operations_of, problem_at
from pytorchsim.target.descriptor import MAX_INDEX_TILES, SET_INDEX_TILE, TAGS

__all__ = ["control_problems"]

_ALLOWED = frozenset(
    [
        "npu.transfer",
        "npu.wait",
        "npu.buffer_ref",
        "memref.view",
        "memref.cast",
        "func.call",
        "func.return",
        "scf.for",
        "scf.if",
        "scf.while",
        "scf.condition",
        "scf.yield",
        "affine.apply",
        "affine.min",
        "affine.max",
    ]
)
_ALLOWED_DIALECTS = ("arith.", "index.")


def control_problems(function: func.FuncOp, table: SymbolTable, config: NpuConfig) -> list[str]:
    """What is wrong with the control function, with locations."""
    problems = []
    kind = function.type
    if [str(value) for value in kind.inputs] != ["index", "index"] or kind.results:
        problems.append(problem_at(function.operation, "a control function is (core: index, cores: index) -> ()"))
    for operation in operations_of(function):
        problems += [problem_at(operation, text) for text in _problems(operation, table, config)]
    return problems


def _problems(operation: ir.Operation, table: SymbolTable, config: NpuConfig) -> list[str]:
    name = operation.name
    if name not in _ALLOWED and not name.startswith(_ALLOWED_DIALECTS):
        return ["not allowed in a control function (scalar loops, transfers, waits and calls of tile functions)"]
    if any(isinstance(value.type, ir.VectorType) for value in (*operation.operands, *operation.results)):
        return ["a control function has no vectors"]
    check = _CHECKS.get(name)
    problems = check(operation, table) if check else []
    if name == "npu.transfer" and not problems:
        problems = _reach(operation, table, config.core.lanes)
    return problems


def _transfer(operation: ir.Operation, table: SymbolTable) -> list[str]:
    symbol = ir.FlatSymbolRefAttr(operation.attributes["descriptor"]).value
    if symbol not in table.descriptors:
        return [f"there is no npu.descriptor {symbol!r}"]
    descriptor = table.descriptors[symbol]
    problems = _tag(operation.operands[1]) + _pointer(operation.operands[0])
    indices = operation.attributes["set_indices"]
    if not isinstance(indices, ir.DenseI64ArrayAttr):
        return [*problems, f"set_indices is array<i64: ...>, not {indices}"]
    named = list(indices)
    allowed = {*range(len(descriptor.axes)), *(SET_INDEX_TILE + tile for tile in range(len(descriptor.index_tiles)))}
    if len(named) != len(operation.operands) - 2:
        problems.append(f"set_indices names {len(named)} values, there are {len(operation.operands) - 2}")
    if len(set(named)) != len(named):
        problems.append(f"set_indices {named} sets a value twice")
    if unknown := sorted(set(named) - allowed):
        last = SET_INDEX_TILE + MAX_INDEX_TILES - 1
        problems.append(
            f"set_indices {unknown}: the descriptor has axes 0..{len(descriptor.axes) - 1} and"
            f" {len(descriptor.index_tiles)} index tiles ({SET_INDEX_TILE}..{last})"
        )
    return problems


def _reach(operation: ir.Operation, table: SymbolTable, lanes: int) -> list[str]:
    """Does the transfer stay inside the memory it is given, its index tiles inside their buffers?"""
    symbol = ir.FlatSymbolRefAttr(operation.attributes["descriptor"]).value
    descriptor, buffers = table.descriptors[symbol], table.descriptor_buffers[symbol]
    kind = ir.MemRefType(operation.operands[0].type)
    size = prod(kind.shape) * kind.element_type.width // 8
    first, end = footprint_bytes(descriptor, lanes)
    problems = []
    if first < 0 or end > size:
        problems.append(f"{symbol!r} touches bytes {first}..{end - 1} of memory of {size} bytes per lane")
    for number, buffer in enumerate(buffers.index_tiles):
        if buffer is None:
            continue
        if buffer not in table.buffer_bytes:
            continue  # said of the descriptor
        end = descriptor.index_tiles[number].spad_address + index_tile_bytes(descriptor, number, lanes)
        if end > table.buffer_bytes[buffer]:
            whole = table.buffer_bytes[buffer]
            problems.append(f"index tile {number} of {symbol!r} ends at byte {end} of {buffer!r}, which has {whole}")
    return problems


def _wait(operation: ir.Operation, table: SymbolTable) -> list[str]:
    del table
    return _tag(operation.operands[0])


def _tag(value: ir.Value) -> list[str]:
    tag = constant_of(value)
    return [] if tag is None or 0 <= tag < TAGS else [f"tag {tag} is not in 0..{TAGS - 1}"]


def _pointer(value: ir.Value) -> list[str]:
    kind = ir.MemRefType(value.type)
    identity = ir.AffineMap.get_identity(kind.rank)
    if kind.has_static_shape and kind.affine_map == identity:
        return []
    return [f"the scratchpad memory of a transfer is static and contiguous, not {kind}"]


def _buffer_ref(operation: ir.Operation, table: SymbolTable) -> list[str]:
    symbol = ir.FlatSymbolRefAttr(operation.attributes["buffer"]).value
    if symbol not in table.buffer_bytes:
        return [f"there is no npu.buffer {symbol!r}"]
    expected = f"memref<{table.buffer_bytes[symbol]}xi8>"
    actual = str(operation.results[0].type)
    return [] if actual == expected else [f"the bytes of {symbol!r} are {expected}, not {actual}"]


def _view(operation: ir.Operation, table: SymbolTable) -> list[str]:
    del table
    memory, shift = ir.MemRefType(operation.operands[0].type), constant_of(operation.operands[1])
    view = ir.MemRefType(operation.results[0].type)
    if len(operation.operands) > 2 or not view.has_static_shape:
        return ["a view of a buffer has a static shape"]
    if shift is None:
        return []
    size = prod(view.shape) * view.element_type.width // 8
    if shift % BUFFER_ALIGNMENT_BYTES:
        return [f"byte shift {shift} is no multiple of {BUFFER_ALIGNMENT_BYTES}, which tile functions assume"]
    if shift < 0 or (memory.has_static_shape and shift + size > prod(memory.shape)):
        return [f"bytes {shift}..{shift + size - 1} are not in the buffer of {prod(memory.shape)}"]
    return []


def _call(operation: ir.Operation, table: SymbolTable) -> list[str]:
    symbol = ir.FlatSymbolRefAttr(operation.attributes["callee"]).value
    if symbol not in table.tiles:
        return [f"{symbol!r} is not a tile function of this kernel"]
    pointers = [value for value in operation.operands if isinstance(value.type, ir.MemRefType)]
    for number, pointer in enumerate(pointers):
        if any(_overlap(pointer, other) for other in pointers[:number]):
            return ["the same memory is passed twice; tile functions assume that their pointers do not alias"]
    return []


def _overlap(left: ir.Value, right: ir.Value) -> bool:
    """Whether two pointers are sure to share bytes. Shifts that only the run knows are taken to differ."""
    if left == right:
        return True
    (symbol, shift, size), (other_symbol, other_shift, other_size) = _place(left), _place(right)
    if symbol is None or symbol != other_symbol or shift is None or other_shift is None:
        return False
    start, other_start = constant_of(shift), constant_of(other_shift)
    if start is None or other_start is None:
        return bool(shift == other_shift)
    return start < other_start + other_size and other_start < start + size


def _place(pointer: ir.Value) -> tuple[str | None, ir.Value | None, int]:
    """(buffer, byte shift, bytes) of a view of a buffer; (None, None, 0) of anything else."""
    view = pointer.owner
    if isinstance(view, ir.Block) or view.name != "memref.view":
        return (None, None, 0)
    reference = view.operands[0].owner
    if isinstance(reference, ir.Block) or reference.name != "npu.buffer_ref":
        return (None, None, 0)
    kind = ir.MemRefType(pointer.type)
    size = prod(kind.shape) * kind.element_type.width // 8 if kind.has_static_shape else 0
    return (ir.FlatSymbolRefAttr(reference.attributes["buffer"]).value, view.operands[1], size)


_CHECKS = {
    "npu.transfer": _transfer,
    "npu.wait": _wait,
    "npu.buffer_ref": _buffer_ref,
    "memref.view": _view,
    "func.call": _call,
}
