"""What each reduction starts from and how two partial results combine.

A partial result is a tuple of vectors: one for most reductions, (value, position) for argmax and argmin. Combining is
associative up to rounding and never depends on which side is which, so partial results may be folded across
registers, vectors and lanes in any fixed tree. Integers wrap; their identities are the type's own extremes, and
maxima and minima read the sign.

While a walk folds value after value a reduction may keep its partial result in another form that takes fewer
instructions per step (`Walk`): floating-point extremes leave NaN aside in a mask, positions that only grow need no
comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from pytorchsim.target.dtypes import I32, Dtype, Kind
from pytorchsim.templates.vector_values import splat

__all__ = ["REDUCTIONS", "Partial", "Reduction", "Walk"]

Partial = tuple[ir.Value, ...]
_Fold = Callable[[ir.Value, ir.Value], ir.Value]


_Combine = Callable[[Dtype, Partial, Partial], Partial]


@dataclass(frozen=True)
class Walk:
    """A walk's form of partial results. `open` and `close` convert from and to it; `absorb` folds the value (and its
    position) of a later step into one; `join` folds two; `masks`: parts that are bits beside the partial result's."""

    absorb: _Combine
    join: _Combine
    open: Callable[[Dtype, Partial], Partial] = lambda _dtype, partial: partial
    close: Callable[[Dtype, Partial], Partial] = lambda _dtype, partial: partial
    masks: int = 0


@dataclass(frozen=True)
class Reduction:
    """`identity(dtype)`: constants a partial result starts from; `combine` folds two; `with_position`: the second
    part is where the value stood; `walking(dtype)`: the form inside a walk."""

    identity: Callable[[Dtype], tuple[float | bool, ...]]
    combine: _Combine
    with_position: bool = False
    walking: Callable[[Dtype], Walk | None] = lambda _dtype: None

    def walk(self, dtype: Dtype, *, in_order: bool = True) -> Walk:
        """How a walk folds values of `dtype`; `in_order`: the positions of each element of the vector grow."""
        special = self.walking(dtype) if in_order or not self.with_position else None
        return special or Walk(self.combine, self.combine)

    def parts(self, dtype: Dtype) -> tuple[Dtype, ...]:
        """Types of a partial result's vectors for values of `dtype`."""
        return (dtype, I32) if self.with_position else (dtype,)

    def start(self, dtype: Dtype, elements: int) -> Partial:
        """The identity as vectors."""
        parts = self.parts(dtype)
        return tuple(splat(value, part, elements) for value, part in zip(self.identity(dtype), parts, strict=True))


def _fold(real: _Fold, signed: _Fold, unsigned: _Fold, logic: _Fold) -> Callable[[Dtype, Partial, Partial], Partial]:
    by_kind = {Kind.FLOAT: real, Kind.SIGNED: signed, Kind.UNSIGNED: unsigned, Kind.BOOL: logic}
    return lambda dtype, a, b: (by_kind[dtype.kind](a[0], b[0]),)


def _bitwise(fold: _Fold) -> Callable[[Dtype, Partial, Partial], Partial]:
    return lambda _dtype, a, b: (fold(a[0], b[0]),)


def _least(dtype: Dtype) -> float:
    """No value of the type is smaller."""
    if dtype.kind is Kind.FLOAT:
        return float("-inf")
    return -(1 << (dtype.bits - 1)) if dtype.kind is Kind.SIGNED else 0


def _greatest(dtype: Dtype) -> float:
    """No value of the type is larger."""
    if dtype.kind is Kind.FLOAT:
        return float("inf")
    if dtype.kind is Kind.BOOL:
        return 1
    return (1 << (dtype.bits - (dtype.kind is Kind.SIGNED))) - 1


def _extreme(fold: _Fold) -> Callable[[Dtype], Walk | None]:
    """`fold` ignores NaN: the mask says where one was met, and it wins in the end."""

    def is_nan(value: ir.Value) -> ir.Value:
        return arith.cmpf(arith.CmpFPredicate.UNO, value, value)

    def absorb(_dtype: Dtype, a: Partial, b: Partial) -> Partial:
        met = is_nan(b[0])  # first: the other operation runs until the mask is there
        return fold(a[0], b[0]), arith.ori(a[1], met)

    def close(dtype: Dtype, partial: Partial) -> Partial:
        value, nan = partial
        return (arith.select(nan, splat(float("nan"), dtype, ir.VectorType(value.type).shape[0]), value),)

    walk = Walk(
        absorb=absorb,
        join=lambda _dtype, a, b: (fold(a[0], b[0]), arith.ori(a[1], b[1])),
        open=lambda _dtype, partial: (partial[0], is_nan(partial[0])),
        close=close,
        masks=1,
    )
    return lambda dtype: walk if dtype.kind is Kind.FLOAT else None


def _arg(
    real: arith.CmpFPredicate, signed: arith.CmpIPredicate, unsigned: arith.CmpIPredicate
) -> Callable[[Dtype, Partial, Partial], Partial]:
    """NaN beats all, then the better value, then the smaller position: as eager."""

    def combine(dtype: Dtype, a: Partial, b: Partial) -> Partial:
        (value_a, at_a), (value_b, at_b) = a, b
        if dtype.kind is Kind.FLOAT:
            nan_a = arith.cmpf(arith.CmpFPredicate.UNO, value_a, value_a)
            nan_b = arith.cmpf(arith.CmpFPredicate.UNO, value_b, value_b)
            not_nan_a = arith.cmpf(arith.CmpFPredicate.ORD, value_a, value_a)
            tied = arith.ori(arith.andi(nan_a, nan_b), arith.cmpf(arith.CmpFPredicate.OEQ, value_a, value_b))
            wins = arith.ori(arith.andi(not_nan_a, nan_b), arith.cmpf(real, value_b, value_a))
        else:
            tied = arith.cmpi(arith.CmpIPredicate.eq, value_a, value_b)
            wins = arith.cmpi(signed if dtype.kind is Kind.SIGNED else unsigned, value_b, value_a)
        earlier = arith.andi(tied, arith.cmpi(arith.CmpIPredicate.slt, at_b, at_a))
        take_b = arith.ori(earlier, wins)
        return arith.select(take_b, value_b, value_a), arith.select(take_b, at_b, at_a)

    return combine


def _later(
    unordered: arith.CmpFPredicate, signed: arith.CmpIPredicate, unsigned: arith.CmpIPredicate, combine: _Combine
) -> Callable[[Dtype], Walk | None]:
    """Of equal values the one met first stays: no positions are compared. `unordered` also holds for NaN."""

    def absorb(dtype: Dtype, a: Partial, b: Partial) -> Partial:
        (value_a, at_a), (value_b, at_b) = a, b
        if dtype.kind is Kind.FLOAT:
            number = arith.cmpf(arith.CmpFPredicate.ORD, value_a, value_a)
            take_b = arith.andi(number, arith.cmpf(unordered, value_b, value_a))
        else:
            take_b = arith.cmpi(signed if dtype.kind is Kind.SIGNED else unsigned, value_b, value_a)
        return arith.select(take_b, value_b, value_a), arith.select(take_b, at_b, at_a)

    return lambda _dtype: Walk(absorb, combine)


_argmax = _arg(arith.CmpFPredicate.OGT, arith.CmpIPredicate.sgt, arith.CmpIPredicate.ugt)
_argmin = _arg(arith.CmpFPredicate.OLT, arith.CmpIPredicate.slt, arith.CmpIPredicate.ult)


REDUCTIONS: dict[str, Reduction] = {
    "sum": Reduction(lambda _: (0,), _fold(arith.addf, arith.addi, arith.addi, arith.ori)),
    "prod": Reduction(lambda _: (1,), _fold(arith.mulf, arith.muli, arith.muli, arith.andi)),
    "max": Reduction(
        lambda dtype: (_least(dtype),),
        _fold(arith.maximumf, arith.maxsi, arith.maxui, arith.ori),
        walking=_extreme(arith.maxnumf),
    ),
    "min": Reduction(
        lambda dtype: (_greatest(dtype),),
        _fold(arith.minimumf, arith.minsi, arith.minui, arith.andi),
        walking=_extreme(arith.minnumf),
    ),
    "any": Reduction(lambda _: (False,), _bitwise(arith.ori)),
    "xor_sum": Reduction(lambda _: (0,), _bitwise(arith.xori)),
    # Where every value is the identity's, the first position is the answer.
    "argmax": Reduction(
        lambda dtype: (_least(dtype), 0),
        _argmax,
        with_position=True,
        walking=_later(arith.CmpFPredicate.UGT, arith.CmpIPredicate.sgt, arith.CmpIPredicate.ugt, _argmax),
    ),
    "argmin": Reduction(
        lambda dtype: (_greatest(dtype), 0),
        _argmin,
        with_position=True,
        walking=_later(arith.CmpFPredicate.ULT, arith.CmpIPredicate.slt, arith.CmpIPredicate.ult, _argmin),
    ),
}
"""By Inductor's name."""
