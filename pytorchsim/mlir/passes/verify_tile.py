"""Rules of a tile function: vector computation on the scratchpad that stays inside the lanes. Part of verify-kernel."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import func

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.passes.index_range import range_of
from pytorchsim.mlir.passes.walk import operations_of, problem_at
from pytorchsim.target import dtypes

__all__ = ["tile_problems"]

_VECTOR = [
    "load",
    "store",
    "maskedload",
    "maskedstore",
    "gather",
    "scatter",
    "broadcast",
    "shuffle",
    "step",
    "create_mask",
    "constant_mask",
    "fma",
    "bitcast",
    "interleave",
    "deinterleave",
    "extract_strided_slice",
    "insert_strided_slice",
]

_ALLOWED = frozenset(
    [
        "npu.lane_id",
        "npu.exchange",
        "npu.splat",
        "npu.largest",
        "npu.keep",
        "npu.push_weights",
        "npu.push_inputs",
        "npu.pop",
        "scf.for",
        "scf.if",
        "scf.while",
        "scf.condition",
        "scf.yield",
        "func.return",
        "affine.apply",
        "affine.min",
        "affine.max",
        "memref.cast",
        "ub.poison",
    ]
) | {f"vector.{name}" for name in _VECTOR}
_ALLOWED_DIALECTS = ("arith.", "index.", "math.")  # lower-special-functions judges math

_REASONS = {
    "npu.transfer": "a tile function has no DMA; it belongs to the control function",
    "npu.wait": "a wait and an access of a tile never share a function: LLVM moves memory accesses across it",
    "memref.load": "a scalar load would see one lane only; use vector.load (and npu.splat for one element)",
    "memref.store": "a scalar store has no lane; use vector.store",
    "arith.remf": "it becomes a call of fmod; compute a - b * trunc(a / b)",
    "func.call": "a tile function calls nothing",
    "vector.reduction": "it gives a scalar; fold with shuffles in the lane, npu.exchange over the lanes",
    "vector.extract": "it gives a scalar; use npu.splat",
}
_LARGEST_LMUL = 8


def tile_problems(function: func.FuncOp, config: NpuConfig) -> list[str]:
    """What is wrong with the tile function, with locations."""
    problems = [problem_at(function.operation, text) for text in _signature_problems(function)]
    for operation in operations_of(function):
        problems += [problem_at(operation, text) for text in _problems(operation, config)]
    return problems


def _signature_problems(function: func.FuncOp) -> list[str]:
    problems = []
    if function.type.results:
        problems.append("a tile function returns nothing")
    scalars = False
    for kind in function.type.inputs:
        if isinstance(kind, ir.MemRefType):
            contiguous = kind.has_static_shape and kind.affine_map == ir.AffineMap.get_identity(kind.rank)
            if kind.rank != 1 or not contiguous:
                problems.append(f"a tile argument is memref<N x T>, not {kind}")
            if str(kind.element_type) == "i1":
                problems.append("bools lie in memory as i8; memory of i1 would be packed bits")
            if scalars:
                problems.append("memory arguments come before scalar ones")
        elif isinstance(kind, ir.VectorType):
            problems.append(f"a tile function has memory and scalar arguments, not {kind}")
        else:
            scalars = True
    return problems


def _problems(operation: ir.Operation, config: NpuConfig) -> list[str]:
    name = operation.name
    if name in _REASONS:
        return [_REASONS[name]]
    if name not in _ALLOWED and not name.startswith(_ALLOWED_DIALECTS):
        return ["not allowed in a tile function"]
    problems = _vector_problems(operation, config)
    check = _CHECKS.get(name)
    return problems + check(operation, config) if check else problems


def _vector_problems(operation: ir.Operation, config: NpuConfig) -> list[str]:
    problems = []
    for kind in dict.fromkeys(value.type for value in (*operation.operands, *operation.results)):
        if isinstance(kind, ir.VectorType):
            problems += _shape_problems(kind, config)
    takes = any(isinstance(value.type, ir.VectorType) for value in operation.operands)
    gives = [value.type for value in operation.results if not isinstance(value.type, ir.VectorType)]
    if takes and gives and not operation.name.startswith("scf."):
        problems.append(f"takes a vector and gives {gives[0]}: a lane's value would become a scalar")
    return problems


def _shape_problems(kind: ir.VectorType, config: NpuConfig) -> list[str]:
    if kind.rank != 1 or kind.scalable:
        return [f"{kind}: vectors have one dimension and a fixed length"]
    count, element = kind.shape[0], kind.element_type
    if count < 2 or count & (count - 1):
        return [f"{kind}: a vector's length is a power of two from 2 (LLVM makes scalars of shorter ones)"]
    # A mask is one register; its length is bounded by that of bytes at the largest group.
    bits = 64 if isinstance(element, ir.IndexType) else max(8, element.width)
    if count * bits > _LARGEST_LMUL * config.core.vlen_bits:
        longest = _LARGEST_LMUL * config.core.vlen_bits // bits
        return [f"{kind}: longer than a group of {_LARGEST_LMUL} registers, at most {longest} elements"]
    return []


def _shuffle(operation: ir.Operation, config: NpuConfig) -> list[str]:
    del config
    mask = list(ir.DenseI64ArrayAttr(operation.attributes["mask"]))
    if operation.operands[0] == operation.operands[1]:
        count = ir.VectorType(operation.operands[0].type).shape[0]
        mask = [element % count for element in mask]
    return ["use npu.splat: a shuffle that repeats one element becomes a scalar load"] if len(set(mask)) == 1 else []


def _exchange(operation: ir.Operation, config: NpuConfig) -> list[str]:
    step, lanes = _int(operation, "step"), config.core.lanes
    return [] if step >= 0 and 1 << step < lanes else [f"step {step}: 2^step is below the number of lanes, {lanes}"]


def _splat(operation: ir.Operation, config: NpuConfig) -> list[str]:
    del config
    kind = ir.VectorType(operation.operands[0].type)
    element, count = _int(operation, "element"), kind.shape[0]
    if not 0 <= element < count:
        return [f"element {element} is not in 0..{count - 1}"]
    result = ir.VectorType(operation.results[0].type)
    if result.element_type != kind.element_type or result.shape[0] < count:
        return [f"{result} is not {kind}, nor a longer vector of its elements"]
    return [f"not on {kind}"] if kind.element_type.width == 1 else []


def _largest(operation: ir.Operation, config: NpuConfig) -> list[str]:
    del config
    kind, result = operation.operands[0].type, operation.results[0].type
    pair = ir.VectorType.get([2], ir.F32Type.get())
    fits = ir.VectorType(kind).element_type == pair.element_type and result == pair
    return [] if fits else [f"takes a vector of f32 and gives {pair}, not {kind} and {result}"]


def _lane_id(operation: ir.Operation, config: NpuConfig) -> list[str]:
    element = ir.VectorType(operation.results[0].type).element_type
    bits = (config.core.lanes - 1).bit_length()
    fits = isinstance(element, ir.IntegerType) and element.width >= max(8, bits)
    return [] if fits else [f"elements are integers that hold {config.core.lanes} lanes, not {element}"]


def _array(operation: ir.Operation, config: NpuConfig) -> list[str]:
    count = config.array.count
    if "arrays" in operation.attributes:
        mask = _int(operation, "arrays")
        problems = [] if 0 < mask < 1 << count else [f"arrays {mask:#x} is a mask of {count} arrays"]
    else:
        array = _int(operation, "array")
        problems = [] if 0 <= array < count else [f"array {array} is not in 0..{count - 1}"]
    name = str(ir.StringAttr(operation.attributes["dtype"]).value)
    try:
        dtype = dtypes.by_name(name)
    except KeyError as error:
        return [*problems, str(error.args[0])]
    values = [*operation.operands, *operation.results]
    element = str(ir.VectorType(values[0].type).element_type)
    return problems if element == dtype.mlir else [*problems, f"{name} has elements {dtype.mlir}, not {element}"]


def _int(operation: ir.Operation, name: str) -> int:
    attribute = operation.attributes[name]
    return int(attribute.value)


def _access(operation: ir.Operation, config: NpuConfig) -> list[str]:
    """Is a plain load or store inside its tile, where the range of its index is known?"""
    del config
    store = operation.name == "vector.store"
    memory, index = operation.operands[1 if store else 0], operation.operands[2 if store else 1]
    kind = ir.MemRefType(memory.type)
    count = ir.VectorType(operation.operands[0].type if store else operation.results[0].type).shape[0]
    span = range_of(index)
    if span is None or not kind.has_static_shape or (span.low >= 0 and span.high + count <= kind.shape[0]):
        return []
    return [f"elements {span.low}..{span.high + count - 1} of {kind}"]


_CHECKS: dict[str, Callable[[ir.Operation, NpuConfig], list[str]]] = {
    "vector.shuffle": _shuffle,
    "vector.load": _access,
    "vector.store": _access,
    "npu.exchange": _exchange,
    "npu.splat": _splat,
    "npu.largest": _largest,
    "npu.lane_id": _lane_id,
    "npu.push_weights": _array,
    "npu.push_inputs": _array,
    "npu.pop": _array,
}
