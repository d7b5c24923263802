"""Exact float operations: remainders, neighbours; and hypot.

In: terms. Out: terms; remainders and neighbours are exact, special values as eager.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.terms import Term, where

__all__ = ["FLOAT_REMAINDERS", "mod"]

_STAGE_BITS = 50
"""Bits of the quotient found per stage: fewer than float64 has."""

_STAGES = 6
"""Quotients of float32 have up to 277 bits."""


def mod(x: Term, y: Term) -> Term:
    """The remainder of the truncated quotient, exact, with x's sign."""
    if not x.dtype.is_floating_point:
        return x.apply("integer_mod", y)
    if x.dtype != torch.float32:
        raise UnsupportedError(
            "fmod or remainder of float64: their quotients have up to 2,098 bits and are only built for float32."
            " Convert the operands to float32"
        )
    divisor = abs(y).to(torch.float64)
    rest = abs(x).to(torch.float64)
    for stage in reversed(range(_STAGES)):
        step = divisor * 2.0 ** (_STAGE_BITS * stage)
        # The quotient may come out one too large; everything else here is exact.
        rest = (-(rest / step).apply("trunc")).fma(step, rest)
        rest = where(rest < 0.0, rest + step, rest)
    result = rest.to(torch.float32)
    return where(abs(y).equals(math.inf) & (abs(x) < math.inf), abs(x), result).apply("copysign", x)


def _python_remainder(x: Term, y: Term) -> Term:
    """The remainder that has the divisor's sign."""
    rest = mod(x, y)
    return where(rest.differs(0) & (rest.apply("signbit") ^ y.apply("signbit")), rest + y, rest)


def _nextafter(x: Term, y: Term) -> Term:
    """The neighbour of x towards y: its bits as an integer, one up or down."""
    integers, least = (torch.int32, 2.0**-149) if x.dtype == torch.float32 else (torch.int64, 2.0**-1074)
    away = (x < y).apply("eq", x > 0.0)
    bits = x.bits(integers)
    moved = (bits + where(away, bits.like(1), -1)).bits(x.dtype)
    moved = where(x.equals(0.0), x.like(least).apply("copysign", y), moved)
    moved = where(x.equals(y), y, moved)
    return where(x.apply("isnan") | y.apply("isnan"), x + y, moved)


def _hypot(x: Term, y: Term) -> Term:
    """sqrt(x^2 + y^2) that neither overflows nor underflows on the way."""
    a, b = abs(x), abs(y)
    longer, shorter = a.apply("maximum", b), a.apply("minimum", b)
    ratio = where(longer.equals(0.0), longer, shorter / longer)
    length = longer * (ratio.fma(ratio, 1.0)).apply("sqrt")
    return where(a.equals(math.inf) | b.equals(math.inf), length.like(math.inf), length)


FLOAT_REMAINDERS: dict[str, Callable[..., Term]] = {
    "mod": mod,
    "fmod": mod,
    "remainder": _python_remainder,
    "nextafter": _nextafter,
    "hypot": _hypot,
}
"""By Inductor's name."""
