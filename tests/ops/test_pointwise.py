"""Do elementwise operations give eager's values, whatever the shape, stride, offset or special value?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Check = Callable[..., torch.Tensor]

SHAPES = [(1, 1), (47, 10), (128, 128), (4071, 429)]
SPECIAL = torch.tensor(
    [
        0.0,
        -0.0,
        1.0,
        -1.0,
        float("inf"),
        float("-inf"),
        float("nan"),
        1e-45,
        -1e-45,
        1e-38,
        3.4e38,
        -3.4e38,
        0.5,
        1.5,
        2.5,
    ]
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_add(check: Check, shape: tuple[int, ...]) -> None:
    check(lambda a, b: a + b, torch.randn(shape), torch.randn(shape), exact=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_relu(check: Check, shape: tuple[int, ...]) -> None:
    check(torch.relu, torch.randn(shape), exact=True)


def test_add_then_relu(check: Check) -> None:
    check(lambda a, b: torch.relu(a + b), torch.randn(47, 10), torch.randn(47, 10), exact=True)


@pytest.mark.parametrize(
    "shapes",
    [
        ((47, 10), (10,)),
        ((47, 10), (47, 1)),
        ((47, 10), (1, 1)),
        ((47, 10), ()),
        ((3, 1, 5), (4, 1)),
        ((1, 300), (70, 1)),
    ],
    ids=str,
)
def test_broadcast(check: Check, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    left, right = shapes
    check(lambda a, b: torch.relu(a - b), torch.randn(left), torch.randn(right), exact=True)


def test_scalars(check: Check) -> None:
    check(lambda a: (a * 2.5 + 1 - 3.0) / 7, torch.randn(47, 10))
    check(lambda a: 1.0 - a, torch.randn(47, 10), exact=True)
    check(lambda a: a * -0.0, torch.randn(5), exact=True)


STRIDED: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: torch.randn(10, 47).t(),
    "permuted": lambda: torch.randn(5, 6, 7).permute(2, 0, 1),
    "expanded": lambda: torch.randn(47, 1).expand(47, 10),
    "expanded whole": lambda: torch.randn(()).expand(47, 10),
    "sliced": lambda: torch.randn(47, 21)[:, 1::2],
    "sliced rows": lambda: torch.randn(100, 10)[3::2],
    "offset": lambda: torch.randn(500)[30:],
    "channels last": lambda: torch.randn(2, 3, 8, 9).contiguous(memory_format=torch.channels_last),
    "overlapping": lambda: torch.randn(30).as_strided((10, 5), (2, 1), 3),
    "diagonal": lambda: torch.randn(40, 40).diagonal(),
}


@pytest.mark.parametrize("make", STRIDED.values(), ids=STRIDED.keys())
def test_strided_input(check: Check, make: Callable[[], torch.Tensor]) -> None:
    x = make()
    check(lambda a, b: torch.relu(a + b), x, torch.randn(x.shape), exact=True)


def test_transposed_against_contiguous(check: Check) -> None:
    check(lambda a, b: a.t() + b, torch.randn(130, 70), torch.randn(70, 130), exact=True)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 5), (1,), (2,), (3,), (127,), (129,)], ids=str)
def test_small_and_empty(check: Check, shape: tuple[int, ...]) -> None:
    check(lambda a, b: torch.relu(a + b), torch.randn(shape), torch.randn(shape), exact=True)


def test_special_values(check: Check) -> None:
    left, right = torch.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    for function in (torch.add, torch.sub, torch.mul, torch.div, torch.maximum, torch.minimum):
        check(function, left, right, exact=True)
    for function in (torch.relu, torch.neg, torch.abs, torch.sqrt, torch.floor, torch.ceil, torch.trunc, torch.round):
        check(function, SPECIAL, exact=True)


def test_signed_zeros_keep_their_sign(check: Check) -> None:
    zeros = torch.tensor([0.0, -0.0])
    for function in (torch.neg, torch.sqrt, torch.floor, torch.ceil, torch.trunc, torch.round, torch.abs):
        assert torch.equal(torch.signbit(check(function, zeros)), torch.signbit(function(zeros))), function.__name__


SIGNED_ZEROS = torch.tensor([0.0, -0.0, float("nan"), 1.0, -1.0]).repeat(13)
CLAMPS = {
    "relu": torch.relu,
    "relu6": torch.nn.functional.relu6,
    "hardtanh": torch.nn.functional.hardtanh,
    "hardtanh at 0": lambda x: torch.nn.functional.hardtanh(x, 0.0, 6.0),
    "clamp min": lambda x: x.clamp(min=0.0),
    "clamp max": lambda x: x.clamp(max=0.0),
    "clamp": lambda x: x.clamp(0.0, 1.0),
    "clamp at -0": lambda x: x.clamp(-0.0, 1.0),
    "clamp max -0": lambda x: x.clamp(max=-0.0),
    "leaky relu": torch.nn.functional.leaky_relu,
    "threshold": lambda x: torch.nn.functional.threshold(x, 0.0, 0.0),
    "elu": torch.nn.functional.elu,
    "hardswish": torch.nn.functional.hardswish,
    "hardshrink": torch.nn.functional.hardshrink,
    "fmod": lambda x: torch.fmod(x, 1.0),
    "remainder": lambda x: torch.remainder(x, 1.0),
    "frac": torch.frac,
    "sign": torch.sign,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_signs_of_zeros_survive_clamps(config: str, dtype: torch.dtype) -> None:
    """Eager's clamps and `relu` give the value itself where it equals the bound. Where it depends on the length of the
    tensor which zero eager gives (maximum and amax of zeros of both signs, softshrink), nothing is promised."""
    zeros = SIGNED_ZEROS.to(dtype)
    on_float32_only = () if dtype != torch.float64 else ("elu", "fmod", "remainder")
    functions = {name: function for name, function in CLAMPS.items() if name not in on_float32_only}
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: [function(x) for function in functions.values()],
        backend="pytorchsim",
        fullgraph=True,
        options={"config": config, "strict": True},
    )
    for name, ours in zip(functions, compiled(zeros), strict=True):
        eagers = functions[name](zeros)
        assert torch.equal(ours.isnan(), eagers.isnan()), name
        zero = eagers == 0
        assert torch.equal(ours == 0, zero), name
        assert torch.equal(torch.signbit(ours[zero]), torch.signbit(eagers[zero])), name


def test_extrema_of_equal_zeros(check: Check) -> None:
    zeros = torch.full((3, 70), -0.0)
    for function in (torch.maximum, torch.minimum):
        assert torch.signbit(check(function, zeros, zeros.clone())).all()
    for reduction in (torch.amax, torch.amin):
        assert torch.signbit(check(lambda x, reduction=reduction: reduction(x, 1), zeros)).all()


FUNCTIONS = [torch.exp, torch.log, torch.sin, torch.cos, torch.tanh, torch.erf, torch.atan, torch.sigmoid, torch.rsqrt]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_special_functions(check: Check, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    check(function, torch.cat([torch.randn(470) * 4, SPECIAL]))


def test_comparisons_and_where(check: Check) -> None:
    left, right = torch.meshgrid(SPECIAL, SPECIAL, indexing="ij")
    for function in (torch.eq, torch.ne, torch.lt, torch.le, torch.gt, torch.ge):
        check(function, left, right, exact=True)
    check(lambda a, b: torch.where(a > b, a, b * 2), left, right, exact=True)
    check(lambda a, b: torch.where(torch.isnan(a) | (b < 0), a, -b), left, right, exact=True)


def test_several_outputs(check: Check) -> None:
    check(lambda a, b: torch.stack(((a + b).relu(), a + b)), torch.randn(31, 9), torch.randn(31, 9), exact=True)


def test_in_place_on_an_input(check: Check) -> None:
    x, y = torch.randn(47, 10), torch.randn(47, 10)
    expected = (x + y).relu()

    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a.add_(b).relu_()

    check(function, x, y, exact=True)
    torch.testing.assert_close(x, expected, rtol=0, atol=0)


def test_in_place_on_a_slice_leaves_the_rest(check: Check) -> None:
    base = torch.randn(20, 30)
    kept = base.clone()

    def function(a: torch.Tensor) -> torch.Tensor:
        return a.mul_(2.0)

    check(function, base[:, 3:17:2], exact=True)
    kept[:, 3:17:2] *= 2
    torch.testing.assert_close(base, kept, rtol=0, atol=0)
