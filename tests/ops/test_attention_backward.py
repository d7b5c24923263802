"""Are gradients of attention eager's where the kernel's tiles end, and as exact as eager's where scores are large?"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import pytorchsim

attend = functional.scaled_dot_product_attention


def gradients(
    tensors: list[torch.Tensor], backend: str, config: Any = "tpuv3", *, wanted: int = 3, **options: Any
) -> list[torch.Tensor]:
    """Of the `wanted` first tensors; those behind are constant. The result's gradient is the same for every backend."""
    torch._dynamo.reset()
    operands = [t.detach().clone().requires_grad_(number < wanted) for number, t in enumerate(tensors)]
    function: Any = attend
    if backend == "pytorchsim":
        settings = {"config": config, "strict": True}
        function = torch.compile(attend, backend=backend, fullgraph=True, options=settings)
    result = function(*operands, **options)
    torch.manual_seed(1)
    result.backward(torch.randn(result.shape).to(result.dtype))
    if backend == "pytorchsim":
        assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0
    return [operand.grad for operand in operands if operand.grad is not None]


def compare(tensors: list[torch.Tensor], config: str, *, close: float = 1e-4, **options: Any) -> None:
    expected, actual = (gradients(tensors, backend, config, **options) for backend in ("eager", "pytorchsim"))
    for name, ours, eagers in zip(("query", "key", "value"), actual, expected, strict=True):
        torch.testing.assert_close(
            ours, eagers, rtol=close, atol=close, equal_nan=True, msg=lambda text, n=name: f"of the {n}: {text}"
        )


def operands(queries: int, keys: int, size: int, value_size: int, dtype: torch.dtype = torch.float32) -> list[Any]:
    return [torch.randn(2, 3, *s).to(dtype) for s in ((queries, size), (keys, size), (keys, value_size))]


def as_exact_as_eager(tensors: list[torch.Tensor], **options: Any) -> None:
    """The largest error, by float64, is at most twice eager's."""
    exact = gradients([t.double() if t.is_floating_point() else t for t in tensors], "eager", **options)
    eager, actual = (gradients(tensors, backend, **options) for backend in ("eager", "pytorchsim"))
    for ours, eagers, reference in zip(actual, eager, exact, strict=True):
        assert (ours - reference).abs().max() <= 2 * (eagers - reference).abs().max() + 1e-5


@pytest.mark.parametrize(
    ("queries", "keys", "size", "value_size", "causal"),
    [
        (1, 300, 16, 16, False),
        (5, 7, 9, 11, False),
        (130, 257, 64, 32, True),
        (129, 1, 33, 65, False),
        (17, 300, 160, 40, True),
        (140, 30, 40, 300, False),
    ],
)
def test_shapes(queries: int, keys: int, size: int, value_size: int, causal: bool) -> None:
    """Lengths that no tile divides, elements of several blocks of the contraction, keys behind the last query."""
    compare(operands(queries, keys, size, value_size), "tpuv3", is_causal=causal)


@pytest.mark.parametrize(
    ("config", "kind"), [("mobile", "none"), ("mobile", "causal"), ("mobile", "bool"), ("tiny", "float")]
)
def test_several_tiles(config: str, kind: str) -> None:
    """Of queries and of keys; masks without a gradient of their own."""
    tensors = [t[:1, :2] for t in operands(200, 150, 16, 24)]
    if kind in ("bool", "float"):
        mask = torch.rand(200, 150) > 0.4
        mask[77] = False
        tensors.append(mask if kind == "bool" else torch.randn(200, 150).masked_fill(~mask, -torch.inf))
    compare(tensors, config, is_causal=kind == "causal")


@pytest.mark.parametrize(("kind", "dtype"), [("causal", torch.float32), ("bool", torch.float16)], ids=str)
def test_queries_whose_gradient_does_not_fit_the_scratchpad(kind: str, dtype: torch.dtype) -> None:
    """They are cut into parts, whose gradients of keys and values are added up."""
    tensors = [t[:1, :1] for t in operands(2100, 40, 16, 16, dtype=dtype)]
    if kind == "bool":
        tensors.append(torch.rand(2100, 40) > 0.4)
    compare(tensors, "mobile", close=1e-4 if dtype == torch.float32 else 1e-2, is_causal=kind == "causal")
    kernels = pytorchsim.report().to_dict()["kernels"]
    assert sum("queries" in kernel["tile"] for kernel in kernels) > 1


@pytest.mark.parametrize(("dtype", "kind"), [(torch.float16, "float"), (torch.bfloat16, "causal")], ids=str)
def test_half_precision(dtype: torch.dtype, kind: str) -> None:
    tensors = operands(33, 70, 24, 136, dtype=dtype)
    if kind == "float":
        tensors.append(torch.randn(33, 70).to(dtype))
    as_exact_as_eager(tensors, is_causal=kind == "causal")


@pytest.mark.parametrize(
    ("rows", "size", "kind"),
    [
        (1, 16, "none"),
        (5, 24, "none"),
        (7, 16, "float"),
        (7, 24, "causal"),
        (8, 24, "float"),
        (20, 24, "none"),
        (5, 24, "float with a gradient"),
    ],
)
def test_large_scores(rows: int, size: int, kind: str) -> None:
    """A weight is exp(score - statistics): scores of the backward must be the forward's to the last bit, else digits go
    as scores grow. `size` 16 has a scale that is a power of two."""
    q, k, v = operands(rows, 33, size, size)
    assert (q[0, 0] @ k[0, 0].T * 256).abs().max() > 1000
    tensors = [q * 16, k * 16, v, *([torch.randn(rows, 33)] if kind.startswith("float") else [])]
    as_exact_as_eager(tensors, is_causal=kind == "causal", wanted=4 if kind == "float with a gradient" else 3)


def test_hidden_keys_that_are_not_finite() -> None:
    """As in the forward, a mask is added: NaN shows."""
    q, k, v = operands(20, 33, 8, 8)
    k[..., 5, :] = float("nan")
    mask = torch.ones(20, 33, dtype=torch.bool)
    mask[:, 5] = False
    compare([q, k, v, mask], "tpuv3")


@pytest.mark.parametrize("wanted", [(1,), (2,), (1, 2)], ids=str)
def test_query_without_a_gradient(wanted: tuple[int, ...]) -> None:
    """The kernel's own result, which nobody reads then, still has memory."""
    found = []
    for backend in ("eager", "pytorchsim"):
        torch._dynamo.reset()
        torch.manual_seed(2)
        tensors = [t.requires_grad_(number in wanted) for number, t in enumerate(operands(5, 6, 8, 8))]
        function: Any = attend
        if backend == "pytorchsim":
            settings = {"config": "tiny", "strict": True}
            function = torch.compile(attend, backend=backend, fullgraph=True, options=settings)
        result = function(*tensors)
        found.append(torch.autograd.grad(result, [tensors[number] for number in wanted], torch.ones_like(result)))
    torch.testing.assert_close(found[1], found[0])


def test_several_cores_give_the_same_bits() -> None:
    """A core has whole heads."""
    tensors = operands(150, 140, 16, 16)
    one, three = (gradients(tensors, "pytorchsim", config, is_causal=True) for config in ({"cores": 1}, {"cores": 3}))
    assert all(torch.equal(a, b) for a, b in zip(one, three, strict=True))
