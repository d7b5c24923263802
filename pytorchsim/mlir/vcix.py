"""The one place that builds VCIX intrinsic calls: a wrong operand count or type aborts inside LLVM.

In: values in the current insertion point. Out: `llvm.call_intrinsic` ops. Encodings: `target/isa.py`.
The `.se` forms keep their order among themselves and nothing else; memory accesses move across them.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

from pytorchsim.target import isa

__all__ = [
    "SPECIAL_FUNCTIONS",
    "dma_set",
    "dma_start",
    "dma_wait",
    "exchange",
    "keep",
    "lane_id",
    "largest",
    "pop",
    "push_inputs",
    "push_weights",
    "special_function",
    "splat",
]


SPECIAL_FUNCTIONS = {
    f"math.{name}": isa.by_name(f"sfu.{name}") for name in ("atan", "cos", "erf", "exp", "log", "sin", "tanh")
}
"""MLIR op -> instruction of the SFU. f32 only: at SEW 16 the hardware could not tell f16 from bf16."""

_DYNAMIC_ROUNDING = 7
"""The rounding mode operand that reads `frm`."""

_FIRST_BIT = 16  # of array.push_weights' rd
# sf.vc.x ignores vtype, but LLVM wants one: always the same, so that one vsetvli serves a whole run of them.
_SEW_BITS, _LOG2_LMUL, _VL = 32, 0, 1


def dma_start(tag: int, descriptor: ir.Value) -> None:
    """Start the transfer whose descriptor lies at `descriptor` (i64)."""
    _scalar_form("dma.start", tag, descriptor)


def dma_wait(tag: ir.Value) -> None:
    """Wait for every transfer of `tag` (i64)."""
    _scalar_form("dma.wait", 0, tag)


def dma_set(index: int, value: ir.Value) -> None:
    """Set value `index` (axis origin, address or tag: target/descriptor.py) of the next start to `value` (i64)."""
    _scalar_form("dma.set", index, value)


def special_function(function: isa.CustomInstruction, vector: ir.Value) -> ir.Value:
    """The SFU on every element of `vector` (f32). Pure: LLVM may share and hoist it."""
    return _vector_form(function.op, dict(function.fixed)["rs1"], vector)


def exchange(vector: ir.Value, step: int) -> ir.Value:
    """The vector of lane `l XOR 2**step`. Pure within a lane-uniform program, so no `.se`."""
    return _vector_form(isa.by_name("xlu.exchange").op, 1 + step, vector)


def lane_id(result: ir.Type) -> ir.Value:
    """The lane's number in every element of `result` (a vector of integers)."""
    operands = [_constant(value) for value in (isa.by_name("lane.id").op, 0, 0, _length(result))]
    return _call("llvm.riscv.sf.vc.v.i", operands, result).results[0]


def push_weights(vector: ir.Value, array: int, first: bool, code: int) -> None:
    """Append `vector` to the shadow weights of `array`; `code` is the element type's number."""
    _push("array.push_weights", array | (_FIRST_BIT if first else 0), vector, code)


def push_inputs(vector: ir.Value, arrays: int, code: int) -> None:
    """Push `vector` to every array of the bit mask `arrays`; `code` is the element type's number."""
    _push("array.push_inputs", arrays, vector, code)


def keep(vectors: Sequence[ir.Value]) -> None:
    """No instruction: an empty use that LLVM may not move among the pushes and pops, so that it gives the vectors'
    registers to nobody else before. (Empty inline assembly would make LLVM set the vector configuration anew.)"""
    for vector in vectors:
        _call("llvm.fake.use", [vector], None)


def pop(result: ir.Type, array: int, code: int) -> ir.Value:
    """The oldest results of `array`, as many as `result` has elements; `code` is the element type's number."""
    operands = [_constant(value) for value in (isa.by_name("array.pop").op, array, code, _length(result))]
    return _call("llvm.riscv.sf.vc.v.i.se", operands, result).results[0]


def splat(vector: ir.Value, element: int, result: ir.Type, vlen_bits: int) -> ir.Value:
    """Element `element` in every element of `result`, which is no shorter: `vrgather.vx` on a scalable register group.

    A shuffle or extract + broadcast becomes a scalar load when its input is a load, and a scalar sees one lane only.
    """
    source, target = ir.VectorType(vector.type), ir.VectorType(result)
    count, bits = target.shape[0], source.element_type.width
    # Elements move as integers: one form for every type (there is no bf16 gather without further extensions).
    kind = ir.IntegerType.get_signless(bits)
    short, integers = (ir.VectorType.get(vector_type.shape, kind) for vector_type in (source, target))
    moved = vector if source == short else _llvm("llvm.bitcast", [vector], short)
    group = _group(integers, vlen_bits)
    operands = [_poison(group), _as_group(moved, group), _constant(element), _constant(count)]
    gathered = _call("llvm.riscv.vrgather.vx", operands, group).results[0]
    spread = _of_group(gathered, integers)
    return spread if target == integers else _llvm("llvm.bitcast", [spread], target)


def largest(vector: ir.Value, result: ir.Type, vlen_bits: int) -> ir.Value:
    """`vfredmax` of the vector's elements (f32), which leaves its result in element 0 of one register."""
    kind = ir.VectorType(vector.type)
    group = _group(kind, vlen_bits)
    one = ir.Type.parse(f"vector<[{64 // kind.element_type.width}]x{kind.element_type}>")
    elements = _as_group(vector, group)
    # Element 0 of the other operand takes part: the vector's own.
    fits = kind.shape[0] * kind.element_type.width <= vlen_bits
    first = _as_group(vector, one) if fits else _llvm("llvm.intr.vector.extract", [elements], one, _at_zero())
    operands = [_poison(one), elements, first, _constant(kind.shape[0])]
    return _of_group(_call("llvm.riscv.vfredmax", operands, one).results[0], result)


def divide(dividend: ir.Value, divisor: ir.Value, vlen_bits: int) -> ir.Value:
    """`vfdiv` of two vectors of floats, rounded as the core is set to."""
    group = _group(dividend.type, vlen_bits)
    operands = [_poison(group), _as_group(dividend, group), _as_group(divisor, group)]
    operands += [_constant(_DYNAMIC_ROUNDING), _constant(_length(dividend.type))]
    return _of_group(_call("llvm.riscv.vfdiv", operands, group).results[0], dividend.type)


def _group(vector: ir.Type, vlen_bits: int) -> ir.Type:
    """The scalable type of the register group that holds `vector`."""
    kind = ir.VectorType(vector)
    return ir.Type.parse(f"vector<[{max(1, kind.shape[0] * 64 // vlen_bits)}]x{kind.element_type}>")


def _as_group(vector: ir.Value, group: ir.Type) -> ir.Value:
    return _llvm("llvm.intr.vector.insert", [_poison(group), vector], group, _at_zero())


def _of_group(register: ir.Value, vector: ir.Type) -> ir.Value:
    return _llvm("llvm.intr.vector.extract", [register], vector, _at_zero())


def _at_zero() -> dict[str, ir.Attribute]:
    return {"pos": ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)}


def _poison(kind: ir.Type) -> ir.Value:
    return _llvm("llvm.mlir.poison", [], kind)


def _scalar_form(name: str, rd: int, rs1: ir.Value) -> None:
    immediates = [_constant(value) for value in (isa.by_name(name).op, 0, rd)]
    _call("llvm.riscv.sf.vc.x.se", [*immediates, rs1, *(_constant(v) for v in (_SEW_BITS, _LOG2_LMUL, _VL))], None)


def _vector_form(opcode: int, immediate: int, vector: ir.Value) -> ir.Value:
    operands = [_constant(opcode), vector, _constant(immediate), _constant(_length(vector.type))]
    return _call("llvm.riscv.sf.vc.v.iv", operands, vector.type).results[0]


def _push(name: str, rd: int, vector: ir.Value, code: int) -> None:
    opcode, length = isa.by_name(name).op, _length(vector.type)
    operands = [_constant(opcode), _constant(rd), vector, _constant(code), _constant(length)]
    _call("llvm.riscv.sf.vc.iv.se", operands, None)


def _call(intrinsic: str, operands: Sequence[ir.Value], result: ir.Type | None) -> ir.Operation:
    return ir.Operation.create(
        "llvm.call_intrinsic",
        results=[] if result is None else [result],
        operands=list(operands),
        attributes={
            "intrin": ir.StringAttr.get(intrinsic),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([len(operands), 0]),
            "op_bundle_sizes": ir.DenseI32ArrayAttr.get([]),
        },
    )


def _llvm(
    name: str, operands: Sequence[ir.Value], result: ir.Type, attributes: dict[str, ir.Attribute] | None = None
) -> ir.Value:
    operation = ir.Operation.create(name, results=[result], operands=list(operands), attributes=attributes or {})
    return operation.results[0]


def _constant(value: int) -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(64), value)


def _length(vector: ir.Type) -> int:
    return int(ir.VectorType(vector).shape[0])
