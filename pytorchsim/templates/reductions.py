"""What each reduction starts from and how two partial results combine.

A partial result is a tuple of vectors: one for most reductions, (value, position) for argmax and argmin. Combining is
associative up to rounding and never depends on which side is which, so partial results may be folded across
registers, vectors and lanes in any fixed tree.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from pytorchsim.target.dtypes import I32, Dtype, Kind
from pytorchsim.templates.vector_ops import splat

__all__ = ["REDUCTIONS", "Partial", "Reduction"]

Partial = tuple[ir.Value, ...]


@dataclass(frozen=True)
class Reduction:
    """`identity(dtype)`: constants a partial result starts from; `combine` folds two; `with_position`: the second
    part is where the value stood."""

    identity: Callable[[Dtype], tuple[float | bool, ...]]
    combine: Callable[[Dtype, Partial, Partial], Partial]
    with_position: bool = False

    def parts(self, dtype: Dtype) -> tuple[Dtype, ...]:
        """Types of a partial result's vectors for values of `dtype`."""
        return (dtype, I32) if self.with_position else (dtype,)

    def start(self, dtype: Dtype, elements: int) -> Partial:
        """The identity as vectors."""
        parts = self.parts(dtype)
        return tuple(splat(value, part, elements) for value, part in zip(self.identity(dtype), parts, strict=True))


def _single(build: Callable[[ir.Value, ir.Value], ir.Value]) -> Callable[[Dtype, Partial, Partial], Partial]:
    return lambda _dtype, a, b: (build(a[0], b[0]),)


def _extreme(sign: int) -> Callable[[Dtype], float]:
    """The least (sign -1) or greatest (sign +1) value of a type."""

    def value(dtype: Dtype) -> float:
        if dtype.kind is Kind.FLOAT:
            return sign * float("inf")
        if dtype.kind is Kind.BOOL:
            return sign > 0
        top = (1 << (dtype.bits - (dtype.kind is Kind.SIGNED))) - 1
        bottom = -top - 1 if dtype.kind is Kind.SIGNED else 0
        return top if sign > 0 else bottom

    return value


_FARTHEST = (1 << 31) - 1
"""The position of no element: any real one comes first."""


def _arg(better: arith.CmpFPredicate) -> Callable[[Dtype, Partial, Partial], Partial]:
    """NaN beats all, then the better value, then the smaller position: as eager."""

    def combine(dtype: Dtype, a: Partial, b: Partial) -> Partial:
        if dtype.kind is not Kind.FLOAT:
            raise NotImplementedError(f"argmax and argmin of {dtype.name}")
        (value_a, at_a), (value_b, at_b) = a, b
        nan_a = arith.cmpf(arith.CmpFPredicate.UNO, value_a, value_a)
        nan_b = arith.cmpf(arith.CmpFPredicate.UNO, value_b, value_b)
        tied = arith.ori(arith.andi(nan_a, nan_b), arith.cmpf(arith.CmpFPredicate.OEQ, value_a, value_b))
        earlier = arith.andi(tied, arith.cmpi(arith.CmpIPredicate.slt, at_b, at_a))
        not_nan_a = arith.cmpf(arith.CmpFPredicate.ORD, value_a, value_a)
        wins = arith.ori(arith.andi(not_nan_a, nan_b), arith.cmpf(better, value_b, value_a))
        take_b = arith.ori(earlier, wins)
        return arith.select(take_b, value_b, value_a), arith.select(take_b, at_b, at_a)

    return combine


REDUCTIONS: dict[str, Reduction] = {
    "sum": Reduction(lambda _: (0.0,), _single(arith.addf)),
    "prod": Reduction(lambda _: (1.0,), _single(arith.mulf)),
    "max": Reduction(lambda dtype: (_extreme(-1)(dtype),), _single(arith.maximumf)),
    "min": Reduction(lambda dtype: (_extreme(+1)(dtype),), _single(arith.minimumf)),
    "any": Reduction(lambda _: (False,), _single(arith.ori)),
    "argmax": Reduction(
        lambda dtype: (_extreme(-1)(dtype), _FARTHEST), _arg(arith.CmpFPredicate.OGT), with_position=True
    ),
    "argmin": Reduction(
        lambda dtype: (_extreme(+1)(dtype), _FARTHEST), _arg(arith.CmpFPredicate.OLT), with_position=True
    ),
}
"""By Inductor's name."""
