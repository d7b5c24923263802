"""How each operation of a loop program becomes MLIR on one vector per lane.

`EMITTERS` is the complete table of what lanes compute directly; `decompositions.py` says what is built from it,
`unsupported_ops.py` names the rest of Inductor's operations. NaN, infinities and signed zeros behave as in eager.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, math

from pytorchsim.target.dtypes import BOOL, I32, I64, Kind
from pytorchsim.templates import integer_ops
from pytorchsim.templates.conversions import bitcast, to_dtype
from pytorchsim.templates.vector_values import NARROW_FLOATS, Emitter, Operands, from_bits, round_to, splat, to_bits

__all__ = ["EMITTERS", "INTERNAL"]


def _unary(build: Callable[[ir.Value], ir.Value]) -> Emitter:
    return lambda o: build(o.values[0])


def _binary(build: Callable[[ir.Value, ir.Value], ir.Value]) -> Emitter:
    return lambda o: build(o.values[0], o.values[1])


def _by_kind(real: Emitter, integer: Emitter, logic: Emitter | None = None) -> Emitter:
    """Dispatch on the first operand's kind; `logic` is for bool, `integer` if not given."""

    def emit(o: Operands) -> ir.Value:
        kind = o.dtypes[0].kind
        if kind is Kind.FLOAT:
            return real(o)
        return (logic or integer)(o) if kind is Kind.BOOL else integer(o)

    return emit


def _whole(real: Emitter) -> Emitter:
    """An operation that leaves integers as they are."""
    return _by_kind(real, lambda o: o.values[0])


def _compare(
    real: arith.CmpFPredicate, signed: arith.CmpIPredicate, unsigned: arith.CmpIPredicate | None = None
) -> Emitter:
    return _by_kind(
        _binary(lambda a, b: arith.cmpf(real, a, b)),
        integer_ops.by_signedness(
            lambda a, b: arith.cmpi(signed, a, b), lambda a, b: arith.cmpi(unsigned or signed, a, b)
        ),
    )


def _constant(o: Operands) -> ir.Value:
    if o.operation.constant is None:
        raise ValueError("a constant operation carries its value")
    return splat(o.operation.constant, o.operation.dtype, o.elements)


def _sign(o: Operands) -> ir.Value:
    """-1, 0, 1; eager gives 0 for NaN."""
    zero = o.constant(0.0)
    above = arith.select(arith.cmpf(arith.CmpFPredicate.OGT, o.values[0], zero), o.constant(1.0), zero)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, o.values[0], zero), o.constant(-1.0), above)


def _extremum(build: Callable[[ir.Value, ir.Value], ir.Value]) -> Emitter:
    """NaN if there is one; of equal values the first, so that -0 stays -0 where it is clamped at 0, as in eager."""

    # Not as one selection by `second < first`: LLVM 22 takes a strict comparison for one that ignores signs of zeros
    # as soon as the operands are widened from float16 or bfloat16 (matchSelectPattern, "FIXME: Include OGT/OLT").
    def emit(o: Operands) -> ir.Value:
        first, second = o.values
        equal = arith.cmpf(arith.CmpFPredicate.OEQ, first, second)
        return arith.select(equal, first, build(first, second))

    return emit


def _signbit(o: Operands) -> ir.Value:
    integer = I64 if o.dtypes[0].bits == I64.bits else I32
    kind = ir.VectorType.get([o.elements], ir.IntegerType.get_signless(integer.bits))
    bits = arith.bitcast(kind, o.values[0])
    return arith.cmpi(arith.CmpIPredicate.slt, bits, splat(0, integer, o.elements))


def _invert(o: Operands) -> ir.Value:
    return arith.xori(o.values[0], o.constant(True if o.dtypes[0] == BOOL else -1))


def _never(o: Operands) -> ir.Value:
    return splat(False, BOOL, o.elements)


_AND, _OR, _XOR = _binary(arith.andi), _binary(arith.ori), _binary(arith.xori)
_LESS = _compare(arith.CmpFPredicate.OLT, arith.CmpIPredicate.slt, arith.CmpIPredicate.ult)
_DIVIDE = _binary(arith.divf)
_MULTIPLY = _by_kind(_binary(arith.mulf), _binary(arith.muli), _AND)

_OF_INDUCTOR: dict[str, Emitter] = {
    "constant": _constant,
    "identity": _unary(lambda a: a),
    "to_dtype": to_dtype,
    "to_dtype_bitcast": bitcast,
    "add": _by_kind(_binary(arith.addf), _binary(arith.addi), _OR),
    "sub": _by_kind(_binary(arith.subf), _binary(arith.subi), _XOR),
    "mul": _MULTIPLY,
    "mul_rn": _MULTIPLY,
    "truediv": _DIVIDE,
    "div_rn": _DIVIDE,
    "int_truediv": _DIVIDE,
    "fma": _by_kind(
        lambda o: math.fma(*o.values), lambda o: arith.addi(arith.muli(o.values[0], o.values[1]), o.values[2])
    ),
    "neg": _by_kind(_unary(arith.negf), lambda o: arith.subi(o.constant(0), o.values[0])),
    "abs": _by_kind(_unary(math.absf), integer_ops.absolute),
    "sqrt": _unary(math.sqrt),
    "maximum": _by_kind(_extremum(arith.maximumf), integer_ops.by_signedness(arith.maxsi, arith.maxui), _OR),
    "minimum": _by_kind(_extremum(arith.minimumf), integer_ops.by_signedness(arith.minsi, arith.minui), _AND),
    "sign": _by_kind(_sign, integer_ops.sign, _unary(lambda a: a)),
    "signbit": _by_kind(_signbit, integer_ops.negative),
    "copysign": _binary(math.copysign),
    "floor": _whole(_unary(math.floor)),
    "ceil": _whole(_unary(math.ceil)),
    "trunc": _whole(_unary(math.trunc)),
    "round": _whole(_unary(math.roundeven)),
    "truncdiv": integer_ops.truncated_divide,
    "floordiv": integer_ops.floor_divide,
    "exp": _unary(math.exp),
    "log": _unary(math.log),
    "sin": _unary(math.sin),
    "cos": _unary(math.cos),
    "tanh": _unary(math.tanh),
    "erf": _unary(math.erf),
    "atan": _unary(math.atan),
    "eq": _compare(arith.CmpFPredicate.OEQ, arith.CmpIPredicate.eq),
    "ne": _compare(arith.CmpFPredicate.UNE, arith.CmpIPredicate.ne),
    "lt": _LESS,
    "le": _compare(arith.CmpFPredicate.OLE, arith.CmpIPredicate.sle, arith.CmpIPredicate.ule),
    "gt": _compare(arith.CmpFPredicate.OGT, arith.CmpIPredicate.sgt, arith.CmpIPredicate.ugt),
    "ge": _compare(arith.CmpFPredicate.OGE, arith.CmpIPredicate.sge, arith.CmpIPredicate.uge),
    "isnan": _by_kind(lambda o: arith.cmpf(arith.CmpFPredicate.UNO, o.values[0], o.values[0]), _never),
    "isinf": _by_kind(
        lambda o: arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(o.values[0]), o.constant(float("inf"))), _never
    ),
    "where": lambda o: arith.select(*o.values),
    "logical_not": _invert,
    "logical_and": _AND,
    "logical_or": _OR,
    "logical_xor": _XOR,
    "bitwise_not": _invert,
    "bitwise_and": _AND,
    "bitwise_or": _OR,
    "bitwise_xor": _XOR,
    "and_": _AND,
    "or_": _OR,
    "xor": _XOR,
    "bitwise_left_shift": integer_ops.left_shift,
    "bitwise_right_shift": integer_ops.right_shift,
    "lshift": integer_ops.left_shift,
    "rshift": integer_ops.right_shift,
}

_INTERNAL: dict[str, Emitter] = {
    "integer_mod": integer_ops.modulo,
    **{f"round_to_{dtype.name}": round_to(dtype) for dtype in NARROW_FLOATS},
    **{f"to_bits_{dtype.name}": to_bits(dtype) for dtype in NARROW_FLOATS},
    **{f"from_bits_{dtype.name}": from_bits(dtype) for dtype in NARROW_FLOATS},
}

EMITTERS: dict[str, Emitter] = _OF_INDUCTOR | _INTERNAL
"""Operations by name: Inductor's, and what the recorder and the decompositions ask for besides. Operands have the
type that the recorder gave them: the result's, but for comparisons, selections and conversions."""

INTERNAL = frozenset(_INTERNAL)
"""The names that are not Inductor's."""
