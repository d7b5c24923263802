"""Exponents, powers and logarithms of other bases.

In: terms. Out: terms, within a few units in the last place; special values as eager. float32, and float64 where no
logarithm or exponential is needed (frexp, ldexp).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pytorchsim.templates.terms import Term, where

__all__ = ["POWERS"]

_LN2, _LOG2_E = math.log(2.0), 1.0 / math.log(2.0)
_LOG10_E_HIGH = 0.4342944920063019
_LOG10_E_LOW = 1.0 / math.log(10.0) - _LOG10_E_HIGH
_LARGEST_POWER = 200
"""2 to more than this overflows float32, to less than minus this underflows to 0."""


@dataclass(frozen=True)
class _Layout:
    """Where a float type has its exponent: `integers` hold its bits."""

    integers: torch.dtype
    fraction: int
    bias: int

    @property
    def exponent_mask(self) -> int:
        return (2 * self.bias + 1) << self.fraction


_LAYOUTS = {torch.float32: _Layout(torch.int32, 23, 127), torch.float64: _Layout(torch.int64, 52, 1023)}


def _power_of_two(exponent: Term, floats: torch.dtype) -> Term:
    """2**exponent, for exponents (of the type that holds the bits) of normal numbers."""
    layout = _LAYOUTS[floats]
    return ((exponent + layout.bias) << layout.fraction).bits(floats)


def _split(x: Term) -> tuple[Term, Term]:
    """Mantissa in [0.5, 1) with x's sign, and exponent as an integer of x's width. Neither means anything for 0,
    infinities and NaN."""
    layout = _LAYOUTS[x.dtype]
    scale_bits = layout.fraction + 1
    small = abs(x) < 2.0 ** (1 - layout.bias)
    bits = where(small, x * 2.0**scale_bits, x).bits(layout.integers)
    field = (bits & layout.exponent_mask) >> layout.fraction
    exponent = field - (layout.bias - 1) - where(small, field.like(scale_bits), 0)
    mantissa = ((bits & ~layout.exponent_mask) | ((layout.bias - 1) << layout.fraction)).bits(x.dtype)
    return mantissa, exponent


def _frexp(x: Term) -> tuple[Term, Term]:
    mantissa, exponent = _split(x)
    plain = (abs(x) < math.inf) & x.differs(0.0)
    return where(plain, mantissa, x), where(plain, exponent, 0).to(torch.int32)


def _ldexp(x: Term, n: Term) -> Term:
    """x 2**n, rounded once: two steps of at most the largest power, downwards less the digits that a subnormal
    intermediate would lose, then the rest."""
    layout = _LAYOUTS[x.dtype]
    top, down = layout.bias, layout.bias - 1 - (layout.fraction + 1)
    limit = 3 * layout.bias
    n = n.to(torch.int64 if n.dtype.itemsize == 8 or n.dtype == torch.uint32 else torch.int32)
    n = n.apply("maximum", -limit).apply("minimum", limit).to(layout.integers)
    for _ in range(2):
        above, below = n > top, n < 1 - layout.bias
        x = x * where(above, x.like(2.0**top), where(below, x.like(2.0**-down), 1.0))
        n = n - where(above, n.like(top), where(below, n.like(-down), 0))
    n = n.apply("maximum", 1 - layout.bias).apply("minimum", top)
    return x * _power_of_two(n, x.dtype)


def _scaled(x: Term, n: Term) -> Term:
    """x 2**n for x near 1 and |n| up to 200, rounded once: half of n first, which is exact."""
    half = n >> 1
    return x * _power_of_two(half, torch.float32) * _power_of_two(n - half, torch.float32)


def _clamped(x: Term, limit: float) -> Term:
    return x.apply("maximum", -limit).apply("minimum", limit)


def _exp2(x: Term) -> Term:
    """The whole part goes to the exponent, so that exp sees at most ln(2)/2."""
    x = _clamped(x, _LARGEST_POWER)
    whole = x.apply("round")
    return _scaled(((x - whole) * _LN2).apply("exp"), whole.to(torch.int32))


def _balanced(x: Term) -> tuple[Term, Term]:
    """Mantissa of a positive x in [sqrt(0.5), sqrt(2)) and exponent."""
    mantissa, exponent = _split(x)
    low = mantissa < math.sqrt(0.5)
    return where(low, mantissa + mantissa, mantissa), exponent - where(low, exponent.like(1), 0)


def _log2(x: Term) -> Term:
    """Exact for powers of two: their mantissa's logarithm is 0."""
    mantissa, exponent = _balanced(x)
    result = mantissa.apply("log").fma(_LOG2_E, exponent.to(torch.float32))
    return where((x > 0.0) & (x < math.inf), result, x.apply("log"))


def _log10(x: Term) -> Term:
    natural = x.apply("log")
    return where(abs(natural) < math.inf, natural.fma(_LOG10_E_HIGH, natural * _LOG10_E_LOW), natural)


def _pow(x: Term, y: Term) -> Term:
    """exp(y log |x|), the product in float64: its error would be multiplied by up to 88. Signs and special values as
    IEEE 754 has them."""
    magnitude = abs(x)
    product = y.to(torch.float64) * _log_in_double(magnitude)
    product = _clamped(product, _LARGEST_POWER * _LN2)
    whole = (product * _LOG2_E).apply("round")
    rest = whole.fma(-_LN2, product).to(torch.float32)
    power = _scaled(rest.apply("exp"), whole.to(torch.float32).to(torch.int32))

    half = y * 0.5
    is_whole = y.apply("floor").equals(y)
    is_odd = is_whole & half.apply("floor").differs(half)
    power = where(is_odd & x.apply("signbit"), -power, power)
    power = where((x < 0.0) & (x > -math.inf) & (y.apply("floor").differs(y)), power.like(math.nan), power)
    is_one = y.equals(0.0) | x.equals(1.0) | (x.equals(-1.0) & abs(y).equals(math.inf))
    return where(is_one, power.like(1.0), power)


def _log_in_double(magnitude: Term) -> Term:
    """log of non-negative float32 to 12 digits, in float64: 2 atanh((m - 1) / (m + 1)) + e log(2)."""
    mantissa, exponent = _balanced(magnitude)
    m = mantissa.to(torch.float64)
    s = (m - 1.0) / (m + 1.0)
    series = (s * s).polynomial(tuple(2.0 / (2 * k + 1) for k in reversed(range(7))))
    logarithm = exponent.to(torch.float64).fma(_LN2, s * series)
    logarithm = where(magnitude.equals(0.0), logarithm.like(-math.inf), logarithm)
    return where(magnitude < math.inf, logarithm, magnitude.to(torch.float64))


POWERS: dict[str, Callable[..., Any]] = {
    "frexp": _frexp,
    "ldexp": _ldexp,
    "exp2": _exp2,
    "log2": _log2,
    "log10": _log10,
    "pow": _pow,
}
"""By Inductor's name."""
