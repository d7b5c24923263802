"""Elementary functions of float32 from what the special function unit computes (exp, log, sin, cos, tanh, atan).

In: terms. Out: a term within a few units in the last place of the exact value; NaN, infinities, poles and signed
zeros as eager. Assumes that the unit's results are correctly rounded. Each function says where it would otherwise
cancel and what it does instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pytorchsim.templates.terms import Term, where

__all__ = ["ELEMENTARY_FUNCTIONS", "log1p"]

_LN2 = math.log(2.0)
_LARGE = 2.0**12
"""From here on, terms of order 1/x^2 are below half a unit in the last place."""


def _expm1(x: Term) -> Term:
    """exp(x) - 1; near 0, where that cancels, 2 t / (1 - t) with t = tanh(x / 2)."""
    half = (x * 0.5).apply("tanh")
    return where(abs(x) < 1.0, (half + half) / (1.0 - half), x.apply("exp") - 1.0)


def log1p(x: Term) -> Term:
    """log(1 + x). What rounding 1 + x to u changes is undone by the factor x / (u - 1) (Kahan)."""
    u = x + 1.0
    corrected = u.apply("log") * (x / (u - 1.0))
    return where(u.equals(1.0) | u.equals(math.inf), x, corrected)


def _tan(x: Term) -> Term:
    return x.apply("sin") / x.apply("cos")


def _asin(x: Term) -> Term:
    """atan(x / sqrt(1 - x^2)), the root of a product that does not cancel; NaN outside [-1, 1]."""
    return (x / ((1.0 - x) * (x + 1.0)).apply("sqrt")).apply("atan")


def _acos(x: Term) -> Term:
    """2 atan(sqrt((1 - x) / (1 + x))): exact to the last places near 1 too."""
    return ((1.0 - x) / (x + 1.0)).apply("sqrt").apply("atan") * 2.0


def _sinh(x: Term) -> Term:
    """Near 0 from t = tanh(x / 2); else from exp(|x| / 2), which overflows later than exp(|x|)."""
    magnitude = abs(x)
    half = (magnitude * 0.5).apply("tanh")
    near = (half + half) / (1.0 - half * half)
    root = (magnitude * 0.5).apply("exp")
    far = root * 0.5 * root - 0.5 / root / root
    return where(magnitude < 1.0, near, far).apply("copysign", x)


def _cosh(x: Term) -> Term:
    root = (abs(x) * 0.5).apply("exp")
    return root * 0.5 * root + 0.5 / root / root


def _asinh(x: Term) -> Term:
    a = abs(x)
    near = log1p(a + a * a / ((a * a + 1.0).apply("sqrt") + 1.0))
    return where(a < _LARGE, near, a.apply("log") + _LN2).apply("copysign", x)


def _acosh(x: Term) -> Term:
    """NaN below 1: sqrt(x - 1) is."""
    above = x - 1.0
    near = log1p(above + above.apply("sqrt") * (x + 1.0).apply("sqrt"))
    return where(x < _LARGE, near, x.apply("log") + _LN2)


def _atanh(x: Term) -> Term:
    a = abs(x)
    return (log1p((a + a) / (1.0 - a)) * 0.5).apply("copysign", x)


_PI_HIGH = 3.1415927410125732
_PI_LOW = math.pi - _PI_HIGH


def _atan2(y: Term, x: Term) -> Term:
    """The angle of (x, y). Equal magnitudes, among them 0/0 and infinity/infinity, stand for their limit."""
    up, along = abs(y), abs(x)
    diagonal = where(along.equals(0.0), up.like(0.0), math.pi / 4)
    angle = where(up.equals(along), diagonal, (up / along).apply("atan"))
    angle = where(x.apply("signbit"), _PI_HIGH - angle + _PI_LOW, angle)
    return angle.apply("copysign", y)


ELEMENTARY_FUNCTIONS: dict[str, Callable[..., Term]] = {
    "expm1": _expm1,
    "log1p": log1p,
    "tan": _tan,
    "asin": _asin,
    "acos": _acos,
    "sinh": _sinh,
    "cosh": _cosh,
    "asinh": _asinh,
    "acosh": _acosh,
    "atanh": _atanh,
    "atan2": _atan2,
}
"""By Inductor's name."""
