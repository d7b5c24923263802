"""Integer and bool arithmetic in a lane.

In: vectors of one integer type (bool: one bit). Out: MLIR at the insertion point. Results wrap as in eager. Division
by zero, an error in eager, gives the dividend as the quotient and 0 as the remainder; so does the one division that
overflows, the least integer by -1.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith

from pytorchsim.target.dtypes import Kind
from pytorchsim.templates.vector_values import Emitter, Operands, splat

__all__ = [
    "absolute",
    "by_signedness",
    "floor_divide",
    "left_shift",
    "modulo",
    "negative",
    "right_shift",
    "sign",
    "truncated_divide",
]


def by_signedness(
    signed: Callable[[ir.Value, ir.Value], ir.Value], unsigned: Callable[[ir.Value, ir.Value], ir.Value]
) -> Emitter:
    """The emitter of a binary operation that reads the sign; bool counts as unsigned."""

    def emit(o: Operands) -> ir.Value:
        build = signed if o.dtypes[0].kind is Kind.SIGNED else unsigned
        return build(o.values[0], o.values[1])

    return emit


def negative(o: Operands) -> ir.Value:
    """Which values are below zero, as bits."""
    if o.dtypes[0].kind is not Kind.SIGNED:
        return arith.cmpi(arith.CmpIPredicate.ult, o.values[0], o.constant(0))
    return arith.cmpi(arith.CmpIPredicate.slt, o.values[0], o.constant(0))


def absolute(o: Operands) -> ir.Value:
    """The absolute value; of the least integer, itself."""
    if o.dtypes[0].kind is not Kind.SIGNED:
        return o.values[0]
    return arith.select(negative(o), arith.subi(o.constant(0), o.values[0]), o.values[0])


def sign(o: Operands) -> ir.Value:
    """-1, 0 or 1."""
    positive = arith.select(
        arith.cmpi(arith.CmpIPredicate.ne, o.values[0], o.constant(0)), o.constant(1), o.constant(0)
    )
    return arith.select(negative(o), o.constant(-1), positive)


def truncated_divide(o: Operands) -> ir.Value:
    """The quotient, rounded towards zero."""
    dividend, divisor = o.values[0], _safe_divisor(o)
    return arith.divsi(dividend, divisor) if o.dtypes[0].kind is Kind.SIGNED else arith.divui(dividend, divisor)


def modulo(o: Operands) -> ir.Value:
    """The remainder of the truncated quotient: it has the dividend's sign."""
    dividend, divisor = o.values[0], _safe_divisor(o)
    return arith.remsi(dividend, divisor) if o.dtypes[0].kind is Kind.SIGNED else arith.remui(dividend, divisor)


def floor_divide(o: Operands) -> ir.Value:
    """The quotient, rounded down."""
    quotient = truncated_divide(o)
    if o.dtypes[0].kind is not Kind.SIGNED:
        return quotient
    rest = arith.subi(o.values[0], arith.muli(quotient, _safe_divisor(o)))
    signs_differ = arith.cmpi(arith.CmpIPredicate.slt, arith.xori(rest, o.values[1]), o.constant(0))
    inexact = arith.cmpi(arith.CmpIPredicate.ne, rest, o.constant(0))
    return arith.select(arith.andi(inexact, signs_differ), arith.subi(quotient, o.constant(1)), quotient)


def left_shift(o: Operands) -> ir.Value:
    """Shifts by a negative count or the width and more give 0."""
    inside, count = _shift_count(o)
    return arith.select(inside, arith.shli(o.values[0], count), o.constant(0))


def right_shift(o: Operands) -> ir.Value:
    """Arithmetic for signed types. Shifts by a negative count or the width and more leave only the sign."""
    inside, count = _shift_count(o)
    if o.dtypes[0].kind is not Kind.SIGNED:
        return arith.select(inside, arith.shrui(o.values[0], count), o.constant(0))
    return arith.shrsi(o.values[0], arith.select(inside, o.values[1], o.constant(o.dtypes[0].bits - 1)))


def _shift_count(o: Operands) -> tuple[ir.Value, ir.Value]:
    """Which counts are below the width (LLVM leaves others undefined), and counts that all are."""
    inside = arith.cmpi(arith.CmpIPredicate.ult, o.values[1], o.constant(o.dtypes[0].bits))
    return inside, arith.andi(o.values[1], o.constant(o.dtypes[0].bits - 1))


def _safe_divisor(o: Operands) -> ir.Value:
    """The divisor with 1 where LLVM leaves the division undefined: it would take it as a promise."""
    unsafe = arith.cmpi(arith.CmpIPredicate.eq, o.values[1], o.constant(0))
    if o.dtypes[0].kind is Kind.SIGNED:
        least = splat(-(1 << (o.dtypes[0].bits - 1)), o.dtypes[0], o.elements)
        overflows = arith.andi(
            arith.cmpi(arith.CmpIPredicate.eq, o.values[1], o.constant(-1)),
            arith.cmpi(arith.CmpIPredicate.eq, o.values[0], least),
        )
        unsafe = arith.ori(unsafe, overflows)
    return arith.select(unsafe, o.constant(1), o.values[1])
