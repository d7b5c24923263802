"""Are elementwise float operations as accurate as eager's, and do poles, NaN, infinities and zeros come out alike?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

CheckEach = Callable[..., tuple[torch.Tensor, ...]]
Function = Callable[..., torch.Tensor]

pytestmark = pytest.mark.parametrize("config", ["tpuv3", "tiny"], indirect=True)

NAN, INF = float("nan"), float("inf")
SPECIAL = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 1e-45, -1e-45, 1e-38, -1e-38, 3.4e38, -3.4e38]
SPECIAL += [0.5, -0.5, 1.5, 2.5, -2.5, 2.0, 3.0, -3.0, 1e-8, -1e-8, 8.0, 1000.0, 1e10, -1e10]


def sample(low: float, high: float, count: int = 400) -> torch.Tensor:
    """Values over all magnitudes, those between `low` and `high` evenly, and the special ones."""
    generator = torch.Generator().manual_seed(0)
    even = low + (high - low) * torch.rand(count, generator=generator)
    scales = 10.0 ** (torch.rand(count // 4, generator=generator) * 20 - 15)
    wide = torch.randn(count // 4, generator=generator) * scales
    return torch.cat([even, wide, torch.tensor(SPECIAL)])


def error_in_ulps(ours: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest distance from the float64 result, in units of float32's last place there. Not finite: must agree."""
    rounded = exact.float()
    assert torch.equal(ours.isnan(), rounded.isnan())
    finite = rounded.isfinite() & exact.isfinite()
    assert torch.equal(ours[~finite & ~rounded.isnan()], rounded[~finite & ~rounded.isnan()])
    ours, exact = ours[finite].double(), exact[finite]
    if not exact.numel():
        return 0.0
    exponent = torch.frexp(exact.abs())[1].clamp(min=-125)
    return float(((ours - exact).abs() / torch.ldexp(torch.ones_like(exact), exponent - 24)).max())


def check_functions(
    check_each: CheckEach, functions: dict[str, Function], *x: torch.Tensor, limit: float = 4.0
) -> None:
    """Within `limit` ulps of the exact result (eager's float64: in float32 eager's vector code gives up on some finite
    ones), and equal to eager at zeros, their signs included."""

    def run(*x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(function(*x) for function in functions.values())

    exact = run(*[value.double() for value in x])
    actual = check_each(run, *x, expected=tuple(value.float() for value in exact), tolerance=1e-4)
    eager = run(*x)
    for name, ours, eagers, truth in zip(functions, actual, eager, exact, strict=True):
        zero = (eagers == 0) & (ours == 0)
        assert torch.equal(torch.signbit(ours[zero]), torch.signbit(eagers[zero])), f"{name}: signs of zeros"
        error = error_in_ulps(ours, truth)
        assert error <= limit, f"{name}: {error:.1f} ulps"


UNARY: dict[str, tuple[float, float, list[str]]] = {
    "around zero": (-2.0, 2.0, ["expm1", "sinh", "asinh", "erfc"]),
    "unit interval": (-1.0, 1.0, ["asin", "acos", "atanh", "erfinv"]),
    "far": (-12.0, 12.0, ["tan", "cosh", "exp2", "erf"]),
    "above": (0.0, 30.0, ["log1p", "acosh", "log2", "log10"]),
    "others": (-90.0, 90.0, ["tanh", "atan", "sinh", "expm1"]),
}


@pytest.mark.parametrize("group", UNARY)
def test_unary(check_each: CheckEach, group: str) -> None:
    low, high, names = UNARY[group]
    check_functions(check_each, {name: getattr(torch, name) for name in names}, sample(low, high))


def test_sigmoids_and_roots(check_each: CheckEach) -> None:
    functions: dict[str, Function] = {
        "sigmoid": torch.sigmoid,
        "silu": torch.nn.functional.silu,
        "rsqrt": torch.rsqrt,
        "reciprocal": torch.reciprocal,
        "square": torch.square,
    }
    x = sample(-20.0, 20.0)
    check_functions(check_each, functions, x[x.isnan() | (x.abs() < 3e38)], limit=5.0)


def test_erfc_keeps_its_digits_in_the_tail(check_each: CheckEach) -> None:
    x = torch.linspace(0.3, 9.0, 700)
    check_functions(check_each, {"erfc": torch.erfc, "erfcx": torch.special.erfcx}, x, limit=6.0)
    check_functions(check_each, {"erfcx": torch.special.erfcx}, -x, limit=6.0)


def test_small_arguments_do_not_cancel(check_each: CheckEach) -> None:
    x = torch.cat([10.0 ** -torch.linspace(0, 37, 300), -(10.0 ** -torch.linspace(0.01, 37, 300))])
    names = ["expm1", "log1p", "sinh", "asinh", "atanh", "erfinv"]
    check_functions(check_each, {name: getattr(torch, name) for name in names}, x)


def test_lgamma(check_each: CheckEach) -> None:
    x = torch.cat(
        [torch.linspace(1e-3, 12, 900), 10.0 ** torch.linspace(-37, 35, 100), torch.tensor([1.0, 2.0, INF, NAN])]
    )
    check_functions(check_each, {"lgamma": torch.lgamma}, x, limit=8.0)
    # Below 0 the zeros lie where large terms cancel: absolute accuracy, as eager's.
    negative = torch.cat(
        [torch.linspace(-30.9, -0.05, 500), -torch.arange(0.0, 9.0), torch.tensor([-INF, -1e10, -1e-35])]
    )
    check_each(lambda x: (torch.lgamma(x),), negative, tolerance=1e-5)


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    values = torch.tensor(SPECIAL)
    left, right = torch.meshgrid(values, values, indexing="ij")
    generator = torch.Generator().manual_seed(1)
    a = torch.randn(500, generator=generator) * 10.0 ** torch.randint(-6, 6, (500,), generator=generator)
    b = torch.randn(500, generator=generator) * 10.0 ** torch.randint(-6, 6, (500,), generator=generator)
    return torch.cat([left.flatten(), a]), torch.cat([right.flatten(), b])


def exact_fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """By the C library; eager's vector code gives NaN for quotients from about 1e38 on."""
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.fmod(a.numpy(), b.numpy()))


def test_remainders_are_exact(check_each: CheckEach) -> None:
    a, b = pairs()
    rest = exact_fmod(a, b)
    remainder = torch.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)
    check_each(lambda a, b: (torch.fmod(a, b), torch.remainder(a, b)), a, b, expected=(rest, remainder))
    check_each(lambda a: (torch.fmod(a, 0.1), torch.remainder(a, -3.0), a % 2.5), a[a.abs() < 1e9])
    large, small = torch.tensor([3.4e38, 1e30, -3e38]), torch.tensor([1e-45, 7e-44, 1.3e-38])
    check_each(lambda a, b: (torch.fmod(a, b),), large, small, expected=(exact_fmod(large, small),))


def test_bits_and_neighbours_are_exact(check_each: CheckEach) -> None:
    a, b = pairs()
    check_each(lambda a, b: (torch.copysign(a, b), torch.nextafter(a, b), torch.signbit(a)), a, b)
    check_each(lambda a: (*torch.frexp(a), torch.signbit(a), torch.sgn(a)), a)
    n = torch.tensor(
        [-300, -150, -140, -126, -24, -1, 0, 1, 24, 127, 128, 150, 280, 2**31 - 1, -(2**31)], dtype=torch.int32
    )
    x = torch.cat([torch.tensor(SPECIAL), a[-30:]])
    x, n = x.repeat_interleave(len(n)), n.repeat(len(x))
    expected = (torch.from_numpy(np.ldexp(x.numpy(), n.numpy())),)
    check_each(lambda x, n: (torch.ldexp(x, n),), x, n, expected=expected)


def test_doubles_need_no_special_function_here(check_each: CheckEach) -> None:
    a, b = (value.double() for value in pairs())
    check_each(lambda a, b: (torch.nextafter(a, b), torch.copysign(a, b), torch.signbit(a), *torch.frexp(a)), a, b)
    check_each(lambda a, b: (torch.hypot(a, b),), a, b, tolerance=1e-14)


def test_hypot_and_atan2(check_each: CheckEach) -> None:
    a, b = pairs()
    check_functions(check_each, {"hypot": torch.hypot, "atan2": torch.atan2}, a, b)


def test_pow(check_each: CheckEach) -> None:
    a, b = pairs()
    check_functions(check_each, {"pow": torch.pow}, a, b)
    base, exponent = torch.meshgrid(torch.linspace(0.01, 40, 60), torch.linspace(-20, 20, 41), indexing="ij")
    check_functions(check_each, {"pow": torch.pow}, base.contiguous(), exponent.contiguous())
    x = sample(0.0, 10.0)
    powers: dict[str, Function] = {
        "2.5": lambda x: x**2.5,
        "-1.75": lambda x: x**-1.75,
        "of 3": lambda x: 3.0 ** x.clamp(-60, 60),
        "of 2": lambda x: 2.0**x,
        "0.5": lambda x: x**0.5,
    }
    check_functions(check_each, powers, x)


def test_logarithms_of_powers_are_whole(check_each: CheckEach) -> None:
    x = torch.ldexp(torch.ones(250), torch.arange(-126, 124))
    check_each(lambda x: (torch.log2(x), torch.exp2(torch.log2(x))), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision(check_each: CheckEach, dtype: torch.dtype) -> None:
    x = torch.rand(300).to(dtype) * 0.9
    names = ["expm1", "log1p", "tan", "asin", "atanh", "erfinv", "lgamma", "exp2", "log2", "sigmoid"]
    check_each(lambda x: tuple(getattr(torch, name)(x) for name in names), x, tolerance=1e-2)
    check_each(lambda x: (torch.fmod(x, 0.25), torch.pow(x, 1.5), torch.atan2(x, 1 - x)), x, tolerance=1e-2)


def test_activations(check_each: CheckEach) -> None:
    f = torch.nn.functional
    x = torch.cat([torch.randn(300) * 4, torch.tensor([0.0, -0.0, INF, -INF, NAN])])

    def smooth(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gelus = (f.gelu(x), f.gelu(x, approximate="tanh"))
        return (*gelus, f.silu(x), f.mish(x), f.softplus(x), f.elu(x), f.selu(x), f.logsigmoid(x), f.tanhshrink(x))

    exact = tuple(value.float() for value in smooth(x.double()))
    check_each(smooth, x, expected=exact, tolerance=1e-5)
    check_each(lambda x: (f.hardswish(x), f.hardsigmoid(x), f.leaky_relu(x), f.relu6(x)), x, tolerance=1e-6)


def test_integers_become_floats(check_each: CheckEach) -> None:
    x = torch.arange(-20, 60, dtype=torch.int64)
    check_each(
        lambda x: (torch.exp(x * 0.5), torch.sqrt(x), torch.sigmoid(x), torch.atan2(x, x + 1)), x, tolerance=1e-5
    )
