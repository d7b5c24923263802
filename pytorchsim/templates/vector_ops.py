"""How each operation of a loop program becomes MLIR on one vector per lane.

`EMITTERS` is the complete table of what the generic kernel computes; `unsupported_ops.py` names the rest of
Inductor's operations. Values are `vector<NxT>`; bool is `vector<Nxi1>`. NaN, infinities and signed zeros behave as in
eager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math

from pytorchsim.target.dtypes import BOOL, F32, Dtype, Kind
from pytorchsim.templates.loop_program import Operation

__all__ = ["EMITTERS", "from_memory", "splat", "to_memory", "vector_type"]

Emitter = Callable[["Operands"], ir.Value]


@dataclass(frozen=True)
class Operands:
    """What an emitter gets: the operation, its operands' values and types, and the vector length in elements."""

    operation: Operation
    values: tuple[ir.Value, ...]
    dtypes: tuple[Dtype, ...]
    elements: int

    def constant(self, value: float) -> ir.Value:
        """A vector of `value` in the type of the first operand."""
        return splat(value, self.dtypes[0], self.elements)


def element_type(dtype: Dtype) -> ir.Type:
    """The MLIR type a lane computes in: bool is one bit."""
    return ir.IntegerType.get_signless(1) if dtype.kind is Kind.BOOL else ir.Type.parse(dtype.mlir)


def vector_type(dtype: Dtype, elements: int) -> ir.VectorType:
    """`elements` values of `dtype` in registers."""
    return ir.VectorType.get([elements], element_type(dtype))


def splat(value: float | bool, dtype: Dtype, elements: int) -> ir.Value:
    """A constant vector."""
    element = element_type(dtype)
    if dtype.kind is Kind.FLOAT:
        attribute: ir.Attribute = ir.FloatAttr.get(element, float(value))
    else:
        attribute = ir.IntegerAttr.get(element, int(value))
    kind = vector_type(dtype, elements)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, attribute))


def from_memory(value: ir.Value, memory: Dtype, elements: int) -> ir.Value:
    """A loaded vector in the type it is computed in: a bool byte becomes one bit, any non-zero byte is true."""
    if memory.kind is Kind.BOOL:
        byte = ir.VectorType.get([elements], ir.IntegerType.get_signless(8))
        zero = arith.constant(byte, ir.DenseElementsAttr.get_splat(byte, ir.IntegerAttr.get(byte.element_type, 0)))
        return arith.cmpi(arith.CmpIPredicate.ne, value, zero)
    return value


def to_memory(value: ir.Value, memory: Dtype, elements: int) -> ir.Value:
    """A computed vector in the type it is stored in."""
    if memory.kind is Kind.BOOL:
        return arith.extui(ir.VectorType.get([elements], ir.IntegerType.get_signless(8)), value)
    return value


def _constant(o: Operands) -> ir.Value:
    if o.operation.constant is None:
        raise ValueError("a constant operation carries its value")
    return splat(o.operation.constant, o.operation.dtype, o.elements)


def _unary(build: Callable[[ir.Value], ir.Value]) -> Emitter:
    return lambda o: build(o.values[0])


def _binary(build: Callable[[ir.Value, ir.Value], ir.Value]) -> Emitter:
    return lambda o: build(o.values[0], o.values[1])


def _compare(ordered: arith.CmpFPredicate, integer: arith.CmpIPredicate) -> Emitter:
    def emit(o: Operands) -> ir.Value:
        if o.dtypes[0].kind is Kind.FLOAT:
            return arith.cmpf(ordered, o.values[0], o.values[1])
        return arith.cmpi(integer, o.values[0], o.values[1])

    return emit


def _sigmoid(o: Operands) -> ir.Value:
    one = o.constant(1.0)
    return arith.divf(one, arith.addf(one, math.exp(arith.negf(o.values[0]))))


def _sign(o: Operands) -> ir.Value:
    """-1, 0, 1; eager gives 0 for NaN."""
    zero = o.constant(0.0)
    above = arith.select(arith.cmpf(arith.CmpFPredicate.OGT, o.values[0], zero), o.constant(1.0), zero)
    return arith.select(arith.cmpf(arith.CmpFPredicate.OLT, o.values[0], zero), o.constant(-1.0), above)


def _not(o: Operands) -> ir.Value:
    return arith.xori(o.values[0], splat(True, BOOL, o.elements))


def _to_dtype(o: Operands) -> ir.Value:
    source, target = o.dtypes[0], o.operation.dtype
    if source == target:
        return o.values[0]
    if source == BOOL and target == F32:
        return arith.select(o.values[0], splat(1.0, F32, o.elements), splat(0.0, F32, o.elements))
    return arith.cmpf(arith.CmpFPredicate.UNE, o.values[0], o.constant(0.0))


EMITTERS: dict[str, Emitter] = {
    "constant": _constant,
    "identity": _unary(lambda a: a),
    "to_dtype": _to_dtype,
    "add": _binary(arith.addf),
    "sub": _binary(arith.subf),
    "mul": _binary(arith.mulf),
    "truediv": _binary(arith.divf),
    "div_rn": _binary(arith.divf),
    "mul_rn": _binary(arith.mulf),
    "fma": lambda o: math.fma(*o.values),
    "neg": _unary(arith.negf),
    "abs": _unary(math.absf),
    "square": _unary(lambda a: arith.mulf(a, a)),
    "reciprocal": lambda o: arith.divf(o.constant(1.0), o.values[0]),
    "sqrt": _unary(math.sqrt),
    "rsqrt": lambda o: arith.divf(o.constant(1.0), math.sqrt(o.values[0])),
    "maximum": _binary(arith.maximumf),
    "minimum": _binary(arith.minimumf),
    "relu": lambda o: arith.maximumf(o.values[0], o.constant(0.0)),
    "sign": _sign,
    "copysign": _binary(math.copysign),
    "floor": _unary(math.floor),
    "ceil": _unary(math.ceil),
    "trunc": _unary(math.trunc),
    "round": _unary(math.roundeven),
    "exp": _unary(math.exp),
    "log": _unary(math.log),
    "sin": _unary(math.sin),
    "cos": _unary(math.cos),
    "tanh": _unary(math.tanh),
    "erf": _unary(math.erf),
    "atan": _unary(math.atan),
    "sigmoid": _sigmoid,
    "eq": _compare(arith.CmpFPredicate.OEQ, arith.CmpIPredicate.eq),
    "ne": _compare(arith.CmpFPredicate.UNE, arith.CmpIPredicate.ne),
    "lt": _compare(arith.CmpFPredicate.OLT, arith.CmpIPredicate.ult),
    "le": _compare(arith.CmpFPredicate.OLE, arith.CmpIPredicate.ule),
    "gt": _compare(arith.CmpFPredicate.OGT, arith.CmpIPredicate.ugt),
    "ge": _compare(arith.CmpFPredicate.OGE, arith.CmpIPredicate.uge),
    "isnan": lambda o: arith.cmpf(arith.CmpFPredicate.UNO, o.values[0], o.values[0]),
    "isinf": lambda o: arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(o.values[0]), o.constant(float("inf"))),
    "where": lambda o: arith.select(*o.values),
    "logical_not": _not,
    "logical_and": _binary(arith.andi),
    "logical_or": _binary(arith.ori),
    "logical_xor": _binary(arith.xori),
    "bitwise_not": _not,
    "bitwise_and": _binary(arith.andi),
    "bitwise_or": _binary(arith.ori),
    "bitwise_xor": _binary(arith.xori),
    "and_": _binary(arith.andi),
    "or_": _binary(arith.ori),
    "xor": _binary(arith.xori),
}
"""Every operation the generic kernel computes. Floats are f32; logic is bool."""
