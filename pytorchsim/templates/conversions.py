"""`to_dtype` and `to_dtype_bitcast`: every pair of types that lanes compute in.

In: a vector and its type. Out: MLIR at the insertion point. Integers wrap. Floats round to nearest even; floats become
integers by truncation, and what no integer of 32 (or 64) bits can hold, NaN included, becomes the least one before it
is cut to the target's width: what eager does on x86.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from pytorchsim.target.dtypes import BOOL, I32, I64, U64, Dtype, Kind
from pytorchsim.templates.vector_values import Operands, element_type, splat, vector_type

__all__ = ["bitcast", "convert", "to_dtype"]


def to_dtype(o: Operands) -> ir.Value:
    """The emitter of `to_dtype`."""
    return convert(o.values[0], o.dtypes[0], o.operation.dtype, o.elements)


def bitcast(o: Operands) -> ir.Value:
    """The same bits read as another type of the same width."""
    kind = vector_type(o.operation.dtype, o.elements)
    return o.values[0] if kind == o.values[0].type else arith.bitcast(kind, o.values[0])


def convert(value: ir.Value, source: Dtype, target: Dtype, elements: int) -> ir.Value:
    """`value` of type `source` in type `target`."""
    if source == target:
        return value
    if target is BOOL:
        zero = splat(0, source, elements)
        if source.kind is Kind.FLOAT:
            return arith.cmpf(arith.CmpFPredicate.UNE, value, zero)
        return arith.cmpi(arith.CmpIPredicate.ne, value, zero)
    kind = vector_type(target, elements)
    if source.kind is Kind.BOOL:
        return arith.select(value, splat(1, target, elements), splat(0, target, elements))
    if source.kind is not Kind.FLOAT and target.kind is not Kind.FLOAT:
        return _resize(value, source, target, elements)
    if source.kind is not Kind.FLOAT:
        return arith.sitofp(kind, value) if source.kind is Kind.SIGNED else arith.uitofp(kind, value)
    if target.kind is not Kind.FLOAT:
        return _truncate(value, source, target, elements)
    return arith.extf(kind, value) if target.bits > source.bits else arith.truncf(kind, value)


def _resize(value: ir.Value, source: Dtype, target: Dtype, elements: int) -> ir.Value:
    kind = vector_type(target, elements)
    if target.bits == source.bits:
        return value
    if target.bits < source.bits:
        return arith.trunci(kind, value)
    return arith.extsi(kind, value) if source.kind is Kind.SIGNED else arith.extui(kind, value)


def _truncate(value: ir.Value, source: Dtype, target: Dtype, elements: int) -> ir.Value:
    """Float to integer through a signed integer of 32 or 64 bits. LLVM leaves what does not fit undefined, hence the
    selection."""
    through = I32 if target.bits < I32.bits or target == I32 else I64
    whole = _to_signed(value, source, through, elements)
    if target == U64:
        half = splat(2.0**63, source, elements)
        upper = arith.cmpf(arith.CmpFPredicate.OGE, value, half)
        rest = _to_signed(arith.subf(value, half), source, I64, elements)
        whole = arith.select(upper, arith.xori(rest, splat(1 << 63, I64, elements)), whole)
    return _resize(whole, through, target, elements)


def _to_signed(value: ir.Value, source: Dtype, target: Dtype, elements: int) -> ir.Value:
    limit = 2.0 ** (target.bits - 1)
    above = arith.cmpf(arith.CmpFPredicate.OGE, value, splat(-limit, source, elements))
    below = arith.cmpf(arith.CmpFPredicate.OLT, value, splat(limit, source, elements))
    whole = arith.fptosi(ir.VectorType.get([elements], element_type(target)), value)
    return arith.select(arith.andi(above, below), whole, splat(-(1 << (target.bits - 1)), target, elements))
