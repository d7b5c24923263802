"""The special functions against mpmath: the error in units of the last place, printed and bounded.

Evaluated in float64 and rounded once, a result is off by half a unit and a little; it is the correctly rounded one
except where the exact value lies within the float64 error of the middle between two floats.
"""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

from pytorchsim.simulator.native import _native
from pytorchsim.target.isa import SfuFunction

EXACT = {
    SfuFunction.ERF: mpmath.erf,
    SfuFunction.TANH: mpmath.tanh,
    SfuFunction.SIN: mpmath.sin,
    SfuFunction.COS: mpmath.cos,
    SfuFunction.LOG: mpmath.log,
    SfuFunction.ATAN: mpmath.atan,
    SfuFunction.EXP: mpmath.exp,
}


def arguments(function: SfuFunction) -> np.ndarray:
    """Ordinary numbers, all magnitudes, and the places where the evaluation changes its way."""
    rng = np.random.default_rng(int(function))
    ordinary = rng.standard_normal(600).astype(np.float32) * 4
    magnitudes = np.exp(rng.uniform(-90, 88, 600)).astype(np.float32) * rng.choice([-1, 1], 600).astype(np.float32)
    edges = np.array([0.3466, 0.4142, 1, 4.25, 0.785398, 1.5707964, 3.1415927, 20, 87.3, 103.9, 1048576], np.float32)
    near = np.concatenate([edges, -edges, np.nextafter(edges, np.float32(0)), np.nextafter(edges, np.float32(1e9))])
    tiny = np.array([1e-45, 1e-40, 1.1754942e-38, 1e-20], np.float32)
    values = np.concatenate([ordinary, magnitudes, near, tiny, -tiny]).astype(np.float32)
    return np.abs(values) if function is SfuFunction.LOG else values


@pytest.mark.parametrize("function", list(SfuFunction), ids=lambda f: f.name.lower())
def test_error_in_ulp(function: SfuFunction) -> None:
    values = arguments(function)
    results = np.empty_like(values)
    _native.special_function(int(function), values, results)
    mpmath.mp.prec = 200
    worst = 0.0
    for value, result in zip(values, results, strict=True):
        exact = EXACT[function](mpmath.mpf(float(value)))
        if abs(exact) > 3.4028235e38:
            assert np.isinf(result)
            continue
        ulp = max(float(np.spacing(np.float32(abs(float(exact))))), 2.0**-149)
        worst = max(worst, abs(float((mpmath.mpf(float(result)) - exact) / ulp)))
    print(f"\n{function.name.lower()}: {worst:.7f} ulp")
    assert worst <= 0.5 + 1e-4


LIMITS = {
    SfuFunction.ERF: [(np.inf, 1), (-np.inf, -1), (0.0, 0.0), (-0.0, -0.0), (6.0, 1)],
    SfuFunction.TANH: [(np.inf, 1), (-np.inf, -1), (-0.0, -0.0), (30.0, 1)],
    SfuFunction.SIN: [(np.inf, np.nan), (-np.inf, np.nan), (-0.0, -0.0)],
    SfuFunction.COS: [(np.inf, np.nan), (0.0, 1)],
    SfuFunction.LOG: [(np.inf, np.inf), (0.0, -np.inf), (-0.0, -np.inf), (-1.0, np.nan), (1.0, 0.0), (-np.inf, np.nan)],
    SfuFunction.ATAN: [(np.inf, np.pi / 2), (-np.inf, -np.pi / 2), (-0.0, -0.0)],
    SfuFunction.EXP: [(np.inf, np.inf), (-np.inf, 0.0), (0.0, 1), (89.0, np.inf), (-104.0, 0.0)],
}


@pytest.mark.parametrize("function", list(SfuFunction), ids=lambda f: f.name.lower())
def test_infinities_zeros_and_nan(function: SfuFunction) -> None:
    cases = [*LIMITS[function], (np.nan, np.nan)]
    values, expected = np.array(cases, np.float32).T.copy()
    expected.view(np.uint32)[np.isnan(expected)] = 0x7FC00000
    results = np.empty_like(values)
    _native.special_function(int(function), values, results)
    assert results.view(np.uint32).tolist() == expected.view(np.uint32).tolist()
