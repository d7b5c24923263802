"""erfc, erfcx, erfinv and lgamma of float32.

In: terms. Out: a term within a few units in the last place of the exact value. Poles, NaN, infinities as eager.
The polynomials interpolate the functions named beside them at Chebyshev nodes (so they are close to the best of their
degree); their relative errors are below 1e-8.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from pytorchsim.templates.terms import Term, where

__all__ = ["ERROR_FUNCTIONS"]

# (1 + 2x) exp(x^2) erfc(x) for x from 0.5 to infinity, in t = (x - 2) / (x + 2).
_SCALED_ERFC = (
    2.773813822e-04,
    -3.362925502e-04,
    -1.522902898e-03,
    1.233554301e-03,
    8.742711619e-03,
    -8.028145037e-03,
    -5.422221601e-02,
    1.640508566e-01,
    -1.660303379e-01,
    -9.276381765e-02,
    1.276978382e00,
)

# erfinv(x) / x with w = -log(1 - x^2): for w up to 5 in w - 2.5, for w from 5 to 16 in sqrt(w) - 3.
_ERFINV_NEAR = (
    -8.93192597e-09,
    2.33359672e-08,
    4.681313481e-07,
    -3.463985268e-06,
    -4.972419689e-06,
    2.183493862e-04,
    -1.252726392e-03,
    -4.177392875e-03,
    2.466402791e-01,
    1.50140936e00,
)
_ERFINV_FAR = (
    1.257069437e-04,
    -3.176867067e-04,
    -7.077364811e-05,
    1.494601902e-03,
    -3.590552126e-03,
    5.683604928e-03,
    -7.638592142e-03,
    9.445645088e-03,
    1.001675035e00,
    2.832976796e00,
)

# lgamma(2 + y) / y for |y| up to 0.5.
_LGAMMA_NEAR_2 = (
    2.415459538e-05,
    -5.278721858e-05,
    9.839697643e-05,
    -2.20869826e-04,
    5.09809158e-04,
    -1.193054705e-03,
    2.890502082e-03,
    -7.385533261e-03,
    2.058080861e-02,
    -6.735230144e-02,
    3.224670334e-01,
    4.227843351e-01,
)
_STIRLING = (-1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12)


def _scaled_erfc(x: Term) -> Term:
    """exp(x^2) erfc(x) for x from 0.5 on."""
    t = 1.0 - 4.0 / (x + 2.0)
    return t.polynomial(_SCALED_ERFC) / (x + x + 1.0)


def _exp_of_square(x: Term, sign: float) -> Term:
    """exp(sign x^2): the square's rounding error, up to 4e-6, comes back as a factor. An overflowing square has
    none."""
    square = x * x
    error = x.fma(x, -square)
    result = (square * sign).apply("exp")
    return where(abs(x) < 16.0, result.fma(error * sign, result), result)


def _erfc(x: Term) -> Term:
    """1 - erf(x) while that does not cancel."""
    magnitude = abs(x)
    tail = _scaled_erfc(magnitude) * _exp_of_square(magnitude, -1.0)
    return where(magnitude < 0.5, 1.0 - x.apply("erf"), where(x < 0.0, 2.0 - tail, tail))


def _erfcx(x: Term) -> Term:
    """exp(x^2) erfc(x)."""
    magnitude = abs(x)
    grown = _exp_of_square(x, 1.0)
    tail = _scaled_erfc(magnitude)
    return where(magnitude < 0.5, grown * (1.0 - x.apply("erf")), where(x < 0.0, grown + grown - tail, tail))


def _erfinv(x: Term) -> Term:
    """Infinite at -1 and 1, NaN beyond."""
    w = -(-x).fma(x, 1.0).apply("log")
    near, far = w - 2.5, w.apply("sqrt") - 3.0
    factor = where(w < 5.0, near.polynomial(_ERFINV_NEAR), far.polynomial(_ERFINV_FAR))
    return where(abs(x).equals(1.0), x * math.inf, x * factor)


def _lgamma(x: Term) -> Term:
    """log |gamma(x)|.

    Up to 2.5 by recurrences from the interval around 2, where lgamma is a polynomial times (x - 2) and so keeps its
    digits at the zeros 1 and 2; from 3.5 on by Stirling's series; below 0 by reflection.
    """
    a = abs(x)
    below_half, below_three_halves = a < 0.5, a < 1.5
    upper = where(a < 2.5, a, a - 1.0) - 2.0
    y = where(below_half, a, where(below_three_halves, a - 1.0, upper))
    above = where(a < 2.5, a.like(1.0), 1.0 / (a - 1.0))
    product = where(below_half, a * (a + 1.0), where(below_three_halves, a, above))
    near = y * y.polynomial(_LGAMMA_NEAR_2) - product.apply("log")
    inverse = 1.0 / a
    series = inverse * (inverse * inverse).polynomial(_STIRLING)
    far = (a.apply("log") - 1.0) * (a - 0.5) + (0.5 * math.log(2 * math.pi) - 0.5) + series
    positive = where(a < 3.5, near, far)
    sine = abs(((a - a.apply("round")) * math.pi).apply("sin"))
    reflected = math.log(math.pi) - (a * sine).apply("log") - positive
    reflected = where(sine.equals(0.0), a.like(math.inf), reflected)
    # So close to 0 that the sine's argument would be subnormal, both sides agree.
    return where((x < 0.0) & (a > 1e-30), where(a.equals(math.inf), a, reflected), positive)


ERROR_FUNCTIONS: dict[str, Callable[..., Term]] = {
    "erfc": _erfc,
    "erfcx": _erfcx,
    "erfinv": _erfinv,
    "lgamma": _lgamma,
}
"""By Inductor's name."""
