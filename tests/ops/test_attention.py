"""Is attention eager's, forward and backward, whatever the masks, shapes, strides and types?"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch.nn import functional

import pytorchsim

attend = functional.scaled_dot_product_attention

MASKS = ("none", "causal", "bool", "bool per head", "padding", "float", "float per head", "float and causal")


def tolerance(dtype: torch.dtype) -> float:
    return 1e-4 if dtype == torch.float32 else 1e-2


def compile_for(function: Callable[..., Any], config: str) -> Callable[..., Any]:
    torch._dynamo.reset()
    return torch.compile(function, backend="pytorchsim", fullgraph=True, options={"config": config, "strict": True})


def masked(
    kind: str, queries: int, keys: int, *, heads: int = 3, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor | None, bool]:
    """A mask of a kind, and whether attention is causal besides. A bool mask has a query without keys."""
    if kind in ("none", "causal"):
        return None, kind == "causal"
    if kind == "padding":
        lengths = torch.tensor([keys, keys // 2 + 1]).reshape(2, 1, 1, 1)
        return torch.arange(keys).expand(2, 1, 1, keys) < lengths, False
    shape = (heads, queries, keys) if kind.endswith("head") else (queries, keys)
    if kind.startswith("float"):
        return torch.randn(shape, dtype=dtype), kind.endswith("causal")
    mask = torch.rand(shape) > 0.4
    mask[..., queries // 2, :] = False
    return mask, False


def compare(
    function: Callable[..., torch.Tensor],
    *tensors: torch.Tensor,
    config: str,
    backward: bool = True,
    strides: bool = True,
) -> None:
    """Result (with its strides) and, where wanted, the gradients of all floating-point tensors are eager's."""
    sides = [[t.detach().clone().requires_grad_(backward and t.is_floating_point()) for t in tensors] for _ in range(2)]
    expected, actual = function(*sides[0]), compile_for(function, config)(*sides[1])
    close = tolerance(expected.dtype)
    assert actual.dtype == expected.dtype
    assert not strides or actual.stride() == expected.stride()
    torch.testing.assert_close(actual, expected, rtol=close, atol=close)
    assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0
    if backward:
        gradient = torch.randn_like(expected)
        expected.backward(gradient)
        actual.backward(gradient)
        for number, (eagers, ours) in enumerate(zip(*sides, strict=True)):
            if eagers.grad is not None:
                torch.testing.assert_close(
                    ours.grad, eagers.grad, rtol=close, atol=close, msg=lambda text, n=number: f"gradient {n}: {text}"
                )


def operands(
    queries: int, keys: int, size: int, value_size: int | None = None, *, dtype: torch.dtype = torch.float32
) -> list[torch.Tensor]:
    shapes = ((queries, size), (keys, size), (keys, value_size or size))
    return [torch.randn(2, 3, *shape).to(dtype) for shape in shapes]


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("config", ["tpuv3", "mobile"])
def test_masks_forward_and_backward(config: str, kind: str) -> None:
    """Float masks get a gradient as well."""
    mask, causal = masked(kind, 37, 45)
    if mask is None:
        compare(lambda q, k, v: attend(q, k, v, is_causal=causal), *operands(37, 45, 16), config=config)
    elif causal:  # eager takes both only where no gradient of the mask is wanted
        compare(lambda q, k, v: attend(q, k, v, mask, is_causal=True), *operands(37, 45, 16), config=config)
    else:
        compare(attend, *operands(37, 45, 16), mask, config=config)


@pytest.mark.parametrize("value", [float("-inf"), torch.finfo(torch.float32).min])
def test_queries_without_keys(config: str, value: float) -> None:
    """Eager gives zero where everything is masked by minus infinity, the mean where all scores are equally low."""
    mask = torch.zeros(20, 33)
    mask[3], mask[7, 5:] = value, value
    compare(lambda q, k, v: attend(q, k, v, mask), *operands(20, 33, 8), config=config)


@pytest.mark.parametrize(
    ("queries", "keys", "size", "value_size"),
    [(1, 300, 16, 16), (5, 7, 9, 11), (130, 257, 64, 32), (129, 1, 33, 65), (260, 140, 128, 128), (17, 300, 160, 40)],
)
def test_sizes_with_and_without_tails(config: str, queries: int, keys: int, size: int, value_size: int) -> None:
    compare(attend, *operands(queries, keys, size, value_size), config=config, backward=False)


@pytest.mark.parametrize("shape", [(20, 16), (3, 20, 16), (2, 2, 2, 20, 16)], ids=str)
@pytest.mark.parametrize("config", ["tpuv3"])
def test_ranks(config: str, shape: tuple[int, ...]) -> None:
    compare(attend, *(torch.randn(shape) for _ in range(3)), config=config)


@pytest.mark.parametrize("config", ["tpuv3"])
def test_broadcast_batches(config: str) -> None:
    q, k, v = torch.randn(2, 3, 20, 16), torch.randn(3, 30, 16), torch.randn(2, 1, 30, 16)
    compare(attend, q, k, v, config=config)
    compare(attend, q, k, v, torch.randn(2, 1, 1, 30), config=config)


@pytest.mark.parametrize("scale", [0.3, -1.0, 0.0])
@pytest.mark.parametrize("config", ["tpuv3"])
def test_scale(config: str, scale: float) -> None:
    compare(lambda q, k, v: attend(q, k, v, scale=scale), *operands(20, 33, 16), config=config)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", [16, 24])
def test_scores_whose_rounding_exceeds_an_exponential(config: str, size: int, causal: bool) -> None:
    """A rounding step of a score of 1e12 is more than exponents hold: the highest, less itself, must still be 0."""
    q, k, v = operands(20, 33, size)
    compare(lambda *t: attend(*t, is_causal=causal), q * 1e6, k * 1e6, v, config=config, backward=False)


@pytest.mark.parametrize(
    ("config", "heads", "kind"),
    [
        *product(("tpuv3", "mobile"), ((4, 1), (6, 3)), ("causal", "bool", "float per head")),
        ("tpuv3", (16, 1), "float per head"),
        ("tpuv3", (16, 2), "causal"),
    ],
)
def test_grouped_queries(config: str, heads: tuple[int, int], kind: str) -> None:
    q, k, v = (torch.randn(2, count, length, 16) for count, length in ((heads[0], 19), (heads[1], 30), (heads[1], 30)))
    mask, causal = masked(kind, 19, 30, heads=heads[0])
    compare(lambda q, k, v: attend(q, k, v, mask, is_causal=causal, enable_gqa=True), q, k, v, config=config)


@pytest.mark.parametrize("config", ["tpuv3"])
def test_grouped_queries_of_one_token(config: str) -> None:
    """The queries that share keys are rows of one attention, with any mask."""
    q, k, v = torch.randn(2, 8, 1, 16), torch.randn(2, 2, 300, 16), torch.randn(2, 2, 300, 16)
    for shape in ((1, 300), (8, 1, 300), (2, 1, 1, 300)):
        mask = torch.rand(shape) > 0.3
        compare(lambda q, k, v, m: attend(q, k, v, m, enable_gqa=True), q, k, v, mask, config=config)
    compare(lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True), q, k, v, config=config)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("config", ["tpuv3"])
def test_half_precision(config: str, dtype: torch.dtype, kind: str) -> None:
    mask, causal = masked(kind, 33, 70, dtype=dtype)
    compare(lambda q, k, v: attend(q, k, v, mask, is_causal=causal), *operands(33, 70, 24, dtype=dtype), config=config)


@pytest.mark.parametrize("config", ["tpuv3"])
def test_half_precision_with_a_wide_mask(config: str) -> None:
    mask = torch.randn(33, 70)
    tensors = operands(33, 70, 24, dtype=torch.float16)
    compare(lambda q, k, v: attend(q, k, v, mask), *tensors, config=config, backward=False)


@pytest.mark.parametrize("config", ["tpuv3"])
def test_double_precision_is_refused(config: str) -> None:
    """No unit of the machine computes exponentials of float64."""
    with pytest.raises(pytorchsim.UnsupportedError, match="float64"):
        compile_for(attend, config)(*operands(20, 33, 16, dtype=torch.float64))


@pytest.mark.parametrize("config", ["tpuv3"])
def test_projected_heads(config: str) -> None:
    """Heads cut out of one tensor, merged again behind: strides are the transfers' business."""

    def block(x: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (4, 8)).transpose(1, 2) for part in x.chunk(3, -1))
        return attend(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    compare(block, torch.randn(2, 50, 96), config=config)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", ["query", "key", "value"])
@pytest.mark.parametrize("kind", ["none", "causal", "bool", "float"])
@pytest.mark.parametrize("config", ["tpuv3"])
def test_what_is_not_finite(config: str, kind: str, place: str, bad: float) -> None:
    """A key that a mask tensor hides is added to minus infinity, so NaN shows in every query; one that `causal` hides
    from a query does not exist for it. Hidden values have weight 0, so NaN shows again."""
    q, k, v = (t[:1, :1].contiguous() for t in operands(20, 33, 8))
    # Positive, so that scores of infinite keys have one sign: where some are infinite of either sign eager's kernel
    # gives zero or NaN by the order of its blocks.
    q, k = q.abs(), k.abs()
    {"query": q, "key": k, "value": v}[place][..., 5, :] = bad
    mask = None
    if kind in ("bool", "float"):
        mask = torch.ones(20, 33, dtype=torch.bool)
        mask[:, 5], mask[7] = False, False
        mask = torch.zeros(20, 33).masked_fill(~mask, -torch.inf) if kind == "float" else mask
    expected = attend(q, k, v, mask, is_causal=kind == "causal")
    actual = compile_for(attend, config)(q, k, v, mask, is_causal=kind == "causal")
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("masks", ["none", "padding", "both"])
@pytest.mark.parametrize("config", ["tpuv3"])
@pytest.mark.parametrize("weights", [False, True])
def test_multihead_attention(config: str, weights: bool, masks: str) -> None:
    module = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    padding = torch.tensor([[False] * 9, [False] * 6 + [True] * 3]) if masks != "none" else None
    source = torch.randn(9, 9) if masks == "both" else None
    if padding is not None and source is not None:
        padding = torch.zeros(2, 9).masked_fill(padding, float("-inf"))

    def forward(x: torch.Tensor) -> torch.Tensor:
        result, _ = module(x, x, x, padding, need_weights=weights, attn_mask=source)
        return result

    compare(forward, torch.randn(2, 9, 16), config=config, strides=False)
    compare(
        lambda q, kv: module(q, kv, kv, need_weights=weights)[0],
        torch.randn(2, 5, 16),
        torch.randn(2, 7, 16),
        config=config,
        strides=False,
    )


@pytest.mark.parametrize(("norm_first", "mask"), [(False, "none"), (True, "causal"), (False, "padding")])
@pytest.mark.parametrize("config", ["tpuv3"])
def test_encoder_layer(config: str, norm_first: bool, mask: str) -> None:
    """Trained, and by the fast path of inference."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
    source = torch.ones(9, 9, dtype=torch.bool).triu(1) if mask == "causal" else None
    padding = torch.tensor([[False] * 9, [False] * 6 + [True] * 3]) if mask == "padding" else None

    def forward(x: torch.Tensor) -> torch.Tensor:
        return layer(x, src_mask=source, src_key_padding_mask=padding)

    x = torch.randn(2, 9, 16)
    compare(forward, x, config=config, strides=False)
    layer.eval()
    with torch.no_grad():
        compare(forward, x, config=config, backward=False, strides=False)


@pytest.mark.parametrize("config", ["tpuv3"])
def test_encoder_layer_parameters(config: str) -> None:
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    x = torch.randn(2, 9, 16)
    layer(x).square().sum().backward()
    expected = {name: parameter.grad.clone() for name, parameter in layer.named_parameters()}
    layer.zero_grad()
    compile_for(layer, config)(x).square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, expected[name], rtol=1e-4, atol=1e-4, msg=name)


def test_scores_are_not_saved_for_the_backward() -> None:
    """Saved for the backward: operands, result and one number per query, not Lq x Lk weights."""
    q, k, v = (torch.randn(1, 2, 200, 8, requires_grad=True) for _ in range(3))
    saved: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.numel()) or t, lambda t: t):
        compile_for(lambda q, k, v: attend(q, k, v) * 2, "tpuv3")(q, k, v)
    assert saved
    assert max(saved) < 200 * 200


def test_dropout_is_a_host_op_until_random_numbers_are_built() -> None:
    with pytest.raises(pytorchsim.PyTorchSimError):
        compile_for(lambda q, k, v: attend(q, k, v, dropout_p=0.5), "tpuv3")(*operands(20, 33, 8))


@pytest.mark.slow
@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("length", [128, 256, 512, 1024])
@pytest.mark.parametrize(("batch", "heads"), [(1, 4), (4, 6), (8, 8), (16, 12)])
@pytest.mark.parametrize("causal", [False, True])
def test_every_combination_of_sizes(batch: int, heads: int, length: int, size: int, causal: bool) -> None:
    q, k, v = (torch.randn(batch, heads, length, size) for _ in range(3))
    compare(lambda q, k, v: attend(q, k, v, is_causal=causal), q, k, v, config="tpuv3", backward=False)


@pytest.mark.parametrize(
    ("heads", "length", "size", "causal"),
    [(4, 128, 32, False), (4, 256, 64, True), (6, 128, 128, False), (1, 512, 64, True), (1, 1024, 32, False)],
)
def test_tenth_of_the_sweep(heads: int, length: int, size: int, causal: bool) -> None:
    q, k, v = (torch.randn(1, heads, length, size) for _ in range(3))
    compare(lambda q, k, v: attend(q, k, v, is_causal=causal), q, k, v, config="tpuv3", backward=False)


def test_long_cache_in_half_precision() -> None:
    """One token against 10,240 keys, and a few."""
    for queries in (1, 5):
        q, k, v = (torch.randn(1, 2, length, 64).half() for length in (queries, 10_240, 10_240))
        compare(attend, q, k, v, config="tpuv3", backward=False)


@pytest.mark.parametrize("kind", ["none", "float", "encoder layer"])
def test_autocast(kind: str) -> None:
    """Attention is on autocast's list; the encoder layer's fast path adds in place, in the narrow type."""
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()

    def function(*tensors: torch.Tensor) -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            return layer(tensors[0]) if kind == "encoder layer" else attend(*tensors)

    tensors = [torch.randn(3, 7, 16)] if kind == "encoder layer" else [torch.randn(1, 2, n, 8) for n in (5, 6, 6)]
    tensors += [torch.randn(5, 6)] if kind == "float" else []
    with torch.no_grad():
        expected, actual = function(*tensors), compile_for(function, "tiny")(*tensors)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)
