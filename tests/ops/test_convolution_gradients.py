"""Are gradients of convolutions those of eager, and those of the function (`gradcheck`)?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.nn import functional

import pytorchsim

Convolve = Callable[..., torch.Tensor]

CASES: list[tuple[Convolve, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    (functional.conv2d, (2, 6, 9, 10), (8, 6, 3, 3), {"padding": 1}),
    (functional.conv2d, (2, 3, 16, 16), (16, 3, 7, 7), {"stride": 2, "padding": 3}),
    (functional.conv2d, (1, 8, 7, 7), (12, 8, 1, 1), {"stride": 2}),
    (functional.conv2d, (1, 6, 9, 8), (6, 1, 3, 3), {"padding": 1, "stride": 2, "groups": 6}),
    (functional.conv2d, (2, 8, 6, 6), (12, 4, 3, 3), {"padding": 1, "groups": 2}),
    (functional.conv1d, (2, 4, 20), (6, 4, 3), {"stride": 3, "dilation": 2, "padding": 1}),
    (functional.conv3d, (1, 4, 6, 5, 7), (4, 2, 3, 3, 3), {"padding": 1, "stride": 2, "dilation": 2, "groups": 2}),
    (functional.conv3d, (1, 3, 7, 6, 5), (4, 3, 2, 3, 2), {"padding": 1, "stride": (4, 2, 6), "dilation": (2, 2, 3)}),
    (functional.conv_transpose2d, (2, 6, 5, 5), (6, 4, 3, 3), {"stride": 2, "padding": 1, "output_padding": 1}),
]


def compiled(function: Convolve, config: Any = "tpuv3") -> Convolve:
    torch._dynamo.reset()
    return torch.compile(function, backend="pytorchsim", fullgraph=True, options={"config": config, "strict": True})


def gradients(function: Convolve, tensors: list[torch.Tensor], seed: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.autograd.grad(function(*tensors), tensors, seed)


def check(function: Convolve, tensors: list[torch.Tensor], config: Any, tolerance: float = 1e-4) -> None:
    """All gradients, with their strides, against eager's in twice the precision."""
    exact = [tensor.detach().double().requires_grad_() for tensor in tensors]
    result = function(*tensors)
    seed = torch.randn_like(result)
    wanted = gradients(function, exact, seed.double())
    eagers = gradients(function, tensors, seed)
    ours = gradients(compiled(function, config), tensors, seed)
    for ours_, eagers_, exact_ in zip(ours, eagers, wanted, strict=True):
        size = max(1.0, exact_.abs().max().item())
        torch.testing.assert_close(ours_, exact_.to(ours_.dtype), rtol=tolerance, atol=tolerance * size)
        assert ours_.stride() == eagers_.stride()
    assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0


@pytest.mark.parametrize("config", ["tpuv3", "mobile"])
@pytest.mark.parametrize("case", CASES, ids=[f"{c[0].__name__}-{n}" for n, c in enumerate(CASES)])
def test_gradients(case: tuple[Convolve, tuple[int, ...], tuple[int, ...], dict[str, Any]], config: str) -> None:
    convolve, image, taps, options = case
    channels = taps[1] * options.get("groups", 1) if "transpose" in convolve.__name__ else taps[0]
    tensors = [torch.randn(image), torch.randn(taps) / taps[1], torch.randn(channels)]
    check(lambda x, w, b: convolve(x, w, b, **options), [t.requires_grad_() for t in tensors], config)


def test_channels_last() -> None:
    x = torch.randn(2, 6, 8, 7).to(memory_format=torch.channels_last).requires_grad_()
    w = torch.randn(5, 6, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    check(lambda x, w: functional.conv2d(x, w, None, 2, 1), [x, w], "tpuv3")


def test_an_infinity_reaches_only_what_its_taps_do() -> None:
    x, w = torch.randn(1, 2, 9, 8, requires_grad=True), torch.randn(3, 2, 3, 3)
    result = functional.conv2d(x, w, None, 2, 1)
    seed = torch.randn_like(result)
    seed[0, 1, 2, 2] = float("inf")
    (expected,) = torch.autograd.grad(result, x, seed)
    (actual,) = torch.autograd.grad(compiled(functional.conv2d)(x, w, None, 2, 1), x, seed)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4, equal_nan=True)
    assert expected.isfinite().any()


@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2)], ids=str)
def test_only_what_is_wanted(wanted: tuple[int, ...]) -> None:
    tensors = [torch.randn(2, 3, 6, 6), torch.randn(4, 3, 3, 3), torch.randn(4)]
    for number in wanted:
        tensors[number].requires_grad_()
    function = functional.conv2d
    result = function(*tensors)
    chosen = [tensors[number] for number in wanted]
    seed = torch.randn_like(result)
    expected = torch.autograd.grad(result, chosen, seed)
    actual = torch.autograd.grad(compiled(function)(*tensors), chosen, seed)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float16, 1e-2), (torch.bfloat16, 1e-2), (torch.float64, 1e-9)], ids=str
)
def test_types(dtype: torch.dtype, tolerance: float) -> None:
    tensors = [torch.randn(2, 4, 7, 8).to(dtype), (torch.randn(6, 4, 3, 3) / 6).to(dtype), torch.randn(6).to(dtype)]
    check(lambda x, w, b: functional.conv2d(x, w, b, 2, 1), [t.requires_grad_() for t in tensors], "tpuv3", tolerance)


@pytest.mark.parametrize("options", [{"stride": 2, "padding": 1}, {"groups": 2, "dilation": 2}], ids=str)
def test_gradcheck(options: dict[str, Any]) -> None:
    """Against differences of the compiled function itself."""
    groups = options.get("groups", 1)
    x = torch.randn(1, 2, 5, 6, dtype=torch.float64, requires_grad=True)
    w = torch.randn(2, 2 // groups, 2, 3, dtype=torch.float64, requires_grad=True)
    b = torch.randn(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(compiled(lambda x, w, b: functional.conv2d(x, w, b, **options)), (x, w, b))


def test_training_steps() -> None:
    """Weights after three steps of SGD on a stack of convolutions equal eager's."""

    def trained(backend: str) -> list[torch.Tensor]:
        torch.manual_seed(3)
        torch._dynamo.reset()
        model = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3, stride=2, groups=2),
            torch.nn.ReLU(), torch.nn.ConvTranspose2d(8, 3, 3, stride=2),
        )  # fmt: skip
        forward = torch.compile(model, backend=backend, **({"options": {"strict": True}} if backend != "eager" else {}))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        x = torch.randn(2, 3, 9, 9)
        for _ in range(3):
            optimizer.zero_grad()
            (forward(x) - x).square().mean().backward()
            optimizer.step()
        return [parameter.detach() for parameter in model.parameters()]

    torch.testing.assert_close(trained("pytorchsim"), trained("eager"), rtol=1e-4, atol=1e-5)


@st.composite
def convolutions(draw: st.DrawFn) -> dict[str, Any]:
    """Parameters of any legal convolution of small extents."""
    rank = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    extent = st.integers(1, 9 if rank < 3 else 5)
    kernel, stride, dilation, padding = ([draw(st.integers(low, high)) for _ in range(rank)]
                                         for low, high in ((1, 3), (1, 3), (1, 3), (0, 2)))  # fmt: skip
    inputs = [max(draw(extent), dilation[d] * (kernel[d] - 1) + 1 - 2 * padding[d], 1) for d in range(rank)]
    return {
        "image": (draw(st.integers(1, 3)), groups * draw(st.integers(1, 4)), *inputs),
        "out": groups * draw(st.integers(1, 5)),
        "kernel": tuple(kernel),
        "options": {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups},
        "transposed": draw(st.booleans()),
        "channels_last": draw(st.booleans()),
        "config": draw(st.sampled_from(["tpuv3", "mobile", "tiny"])),
    }


def run_case(case: dict[str, Any]) -> None:
    rank, groups = len(case["kernel"]), case["options"]["groups"]
    image, out = case["image"], case["out"]
    kind = f"conv_transpose{rank}d" if case["transposed"] else f"conv{rank}d"
    convolve = getattr(functional, kind)
    first, second = (image[1], out // groups) if case["transposed"] else (out, image[1] // groups)
    x, w = torch.randn(image), torch.randn(first, second, *case["kernel"])
    if case["channels_last"] and rank == 2:
        x = x.to(memory_format=torch.channels_last)
    function = lambda x, w: convolve(x, w, None, **case["options"])  # noqa: E731  one expression, compiled and not
    try:
        if not function(x, w).numel():
            return  # torch's own shape function refuses it
    except RuntimeError:
        return  # eager refuses it, too
    torch.testing.assert_close(compiled(function, case["config"])(x, w), function(x, w), rtol=1e-4, atol=1e-4)
    check(function, [x.requires_grad_(), w.requires_grad_()], case["config"])


@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(convolutions())
def test_any_convolution(case: dict[str, Any]) -> None:
    run_case(case)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(convolutions())
def test_many_convolutions(case: dict[str, Any]) -> None:
    run_case(case)
