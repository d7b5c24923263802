"""`pytorchsim::attention`: attention as one operation with a gradient, so that neither Inductor nor AOTAutograd takes
it apart, and the scores of a training step are computed again in the backward instead of being saved.

In: tensors of one dtype whose batch axes are equal (broadcast by `expand`). Out: the result and, per query, the
logarithm of the sum of its exponentials, from which the backward gets the weights back. Importing this module
registers the operations; `attention_lowerings` makes kernels of them. Called outside of a graph of ours they compute
the definition.
"""

from __future__ import annotations

from typing import Any

import torch

__all__ = [
    "ATTENTION",
    "ATTENTION_BACKWARD",
    "ATTENTION_GRADIENTS",
    "attention",
    "attention_backward",
    "attention_backward_by_kernel",
    "attention_backward_definition",
    "attention_definition",
    "scores_of",
]

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def scores_of(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, causal: bool, scale: float, first: int = 0
) -> torch.Tensor:
    """[..., Lq, Lk]: scale * Q K^T, masked: a float mask is added, a bool mask as 0 where it is true and minus infinity
    elsewhere (so what is not a number stays so, as in eager), `causal` keeps keys up to the query's own number,
    which is `first` for the first one."""
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -torch.inf)
        scores = scores + mask
    if causal:
        rows, columns = (torch.arange(size, device=query.device) for size in scores.shape[-2:])
        scores = scores.masked_fill(columns > rows.unsqueeze(-1) + first, -torch.inf)
    return scores


def attention_definition(  # noqa: PLR0913  the operation's arguments
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    like_query: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`attention` in plain operations, in float32."""
    weights, statistics = _weights(scores_of(query.float(), key.float(), mask, causal, scale))
    result = (weights @ value.float()).to(query.dtype)
    if like_query:
        result = torch.empty_like(query).copy_(result)
    return result, statistics


def _weights(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Softmax, 0 where a query has no keys, and log(sum(exp(scores)))."""
    highest = scores.amax(-1, keepdim=True)
    highest = highest.masked_fill(highest == -torch.inf, 0.0)
    exponentials = torch.exp(scores - highest)
    total = exponentials.sum(-1, keepdim=True)
    total = total.masked_fill(total == 0.0, 1.0)
    return exponentials / total, (highest + total.log()).squeeze(-1)


@torch.library.custom_op("pytorchsim::attention", mutates_args=())
def attention(  # noqa: PLR0913  the operation's arguments
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    like_query: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """softmax(scores) V of [..., Lq, Dk], [..., Lk, Dk], [..., Lk, Dv]; zero for a query all of whose keys are masked.

    Args:
        query: [..., Lq, Dk]
        key: [..., Lk, Dk]
        value: [..., Lk, Dv]
        mask: [..., Lq, Lk], bool (true: attend) or float (added to the scores)
        causal: query i attends to keys 0 to i only
        scale: factor of Q K^T
        like_query: the result has the query's order of axes in memory, as eager's fused kernel leaves it

    Returns:
        the result, of the operands' dtype, and [..., Lq] in float32: log(sum(exp(scores))), 0 for masked queries
    """
    return attention_definition(query, key, value, mask, causal, scale, like_query)


@attention.register_fake
def _(  # noqa: PLR0913  the operation's arguments
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    causal: bool,
    scale: float,
    like_query: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    del key, mask, causal, scale
    return _empty_result(query, value, like_query), query.new_empty(query.shape[:-1], dtype=torch.float32)


def _empty_result(query: torch.Tensor, value: torch.Tensor, like_query: bool) -> torch.Tensor:
    return torch.empty_like(query) if like_query else query.new_empty([*query.shape[:-1], value.shape[-1]])


def attention_backward_definition(  # noqa: PLR0913  the operation's arguments
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    result: torch.Tensor,
    statistics: torch.Tensor,
    causal: bool,
    scale: float,
    of_mask: bool,
) -> Gradients:
    """`attention_backward` in plain operations. The weights are those of its own scores, not exp(score - statistics):
    other products have other roundings, and a step of a large score is more than the last digits of its weight."""
    del statistics
    delta = (gradient.float() * result.float()).sum(-1)
    weights, _ = _weights(scores_of(query.float(), key.float(), mask, causal, scale))
    *gradients, of_scores = _gradients(gradient, query, key, value, weights, delta, scale)
    of_query, of_key, of_value = (t.to(query.dtype) for t in gradients)
    of_bias = of_scores.to(mask.dtype) if of_mask and mask is not None else query.new_empty(0)
    return of_query, of_key, of_value, of_bias


def _gradients(  # noqa: PLR0913  the operation's arguments
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    weights: torch.Tensor,
    delta: torch.Tensor,
    scale: float,
) -> Gradients:
    """With weights P and dP = dO V^T: dS = P * (dP - delta), dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO, and dS
    (Dao et al., FlashAttention, 2022, B.2). In float32."""
    wide_gradient, wide_query, wide_key, wide_value = (t.float() for t in (gradient, query, key, value))
    of_value = weights.transpose(-2, -1) @ wide_gradient
    of_scores = weights * (wide_gradient @ wide_value.transpose(-2, -1) - delta.unsqueeze(-1))
    of_query = of_scores @ wide_key * scale
    of_key = of_scores.transpose(-2, -1) @ wide_query * scale
    return of_query.contiguous(), of_key.contiguous(), of_value.contiguous(), of_scores.contiguous()


@torch.library.custom_op("pytorchsim::attention_backward", mutates_args=())
def attention_backward(  # noqa: PLR0913  the operation's arguments
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    result: torch.Tensor,
    statistics: torch.Tensor,
    causal: bool,
    scale: float,
    of_mask: bool,
) -> Gradients:
    """Gradients of query, key, value and, if `of_mask`, of a float mask (else an empty tensor): the weights are
    computed again from the scores."""
    return attention_backward_definition(gradient, query, key, value, mask, result, statistics, causal, scale, of_mask)


@attention_backward.register_fake
def _(  # noqa: PLR0913  the operation's arguments
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    result: torch.Tensor,
    statistics: torch.Tensor,
    causal: bool,
    scale: float,
    of_mask: bool,
) -> Gradients:
    del gradient, result, statistics, causal, scale
    of_query, of_key, of_value = (tensor.new_empty(tensor.shape) for tensor in (query, key, value))
    masked = mask is not None and of_mask
    return of_query, of_key, of_value, mask.new_empty(mask.shape) if masked and mask is not None else query.new_empty(0)


def attention_backward_by_kernel(  # noqa: PLR0913  the operation's arguments
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    result: torch.Tensor,
    statistics: torch.Tensor,
    causal: bool,
    scale: float,
    of_mask: bool,
    *,
    most: int,
) -> Gradients:
    """`attention_backward` without the gradient of a mask, by the operation that a kernel computes, for at most `most`
    queries at a time: what they give keys and values is added up in float32."""
    del of_mask
    delta = (gradient.float() * result.float()).sum(-1)
    found: list[list[torch.Tensor]] = [[], [], []]
    queries = query.shape[-2]
    wide = most < queries
    for first in range(0, queries, most):
        rows = slice(first, min(first + most, queries))
        row_mask = None if mask is None else mask[..., rows, :]
        operands = (gradient[..., rows, :], query[..., rows, :], key, value, row_mask)
        numbers = (statistics[..., rows], delta[..., rows], causal, scale, first, wide)
        for parts, part in zip(found, attention_gradients(*operands, *numbers), strict=True):
            parts.append(part)
    of_query, of_key, of_value = found
    if not wide:
        return of_query[0], of_key[0], of_value[0], query.new_empty(0)
    key_sum, value_sum = (sum(parts[1:], parts[0]).to(query.dtype) for parts in (of_key, of_value))
    return torch.cat(of_query, -2), key_sum, value_sum, query.new_empty(0)


@torch.library.custom_op("pytorchsim::attention_gradients", mutates_args=())
def attention_gradients(  # noqa: PLR0913  the operation's arguments
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    statistics: torch.Tensor,
    delta: torch.Tensor,
    causal: bool,
    scale: float,
    first: int,
    wide: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Gradients of query, key and value. `delta`: [..., Lq] in float32, sum(gradient * result); `first`: the number of
    the first query, where `causal`; `wide`: those of key and value are float32."""
    scores = scores_of(query.float(), key.float(), mask, causal, scale, first)
    weights = torch.exp(scores - statistics.unsqueeze(-1))
    *gradients, _ = _gradients(gradient, query, key, value, weights, delta, scale)
    dtypes = (query.dtype, *[torch.float32 if wide else query.dtype] * 2)
    of_query, of_key, of_value = (t.to(dtype) for t, dtype in zip(gradients, dtypes, strict=True))
    return of_query, of_key, of_value


@attention_gradients.register_fake
def _(  # noqa: PLR0913  the operation's arguments
    gradient: torch.Tensor,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    statistics: torch.Tensor,
    delta: torch.Tensor,
    causal: bool,
    scale: float,
    first: int,
    wide: bool,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    del gradient, mask, statistics, delta, causal, scale, first
    dtype = torch.float32 if wide else query.dtype
    of_key, of_value = (tensor.new_empty(tensor.shape, dtype=dtype) for tensor in (key, value))
    return query.new_empty(query.shape), of_key, of_value


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, key, value, mask, ctx.causal, ctx.scale, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(query, key, value, mask, *output)


def _backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor | None) -> tuple[Any, ...]:
    mask = ctx.saved_tensors[3]
    of_mask = mask is not None and ctx.needs_input_grad[3]
    *gradients, of_bias = attention_backward(gradient, *ctx.saved_tensors, ctx.causal, ctx.scale, of_mask)
    return (*gradients, of_bias if of_mask else None, None, None, None)


attention.register_autograd(_backward, setup_context=_save)

ATTENTION = torch.ops.pytorchsim.attention.default
ATTENTION_GRADIENTS = torch.ops.pytorchsim.attention_gradients.default
ATTENTION_BACKWARD = torch.ops.pytorchsim.attention_backward.default
