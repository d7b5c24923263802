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
    "attention",
    "attention_backward",
    "attention_backward_definition",
    "attention_definition",
    "scores_of",
]

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def scores_of(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, causal: bool, scale: float
) -> torch.Tensor:
    """[..., Lq, Lk]: scale * Q K^T, masked: a float mask is added, a bool mask as 0 where it is true and minus infinity
    elsewhere (so what is not a number stays so, as in eager), `causal` keeps keys up to the query's own number."""
    scores = query @ key.transpose(-2, -1) * scale
    if mask is not None:
        if mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=scores.dtype).masked_fill(~mask, -torch.inf)
        scores = scores + mask
    if causal:
        rows, columns = (torch.arange(size, device=query.device) for size in scores.shape[-2:])
        scores = scores.masked_fill(columns > rows.unsqueeze(-1), -torch.inf)
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
    scores = scores_of(query.float(), key.float(), mask, causal, scale)
    highest = scores.amax(-1, keepdim=True)
    highest = highest.masked_fill(highest == -torch.inf, 0.0)
    weights = torch.exp(scores - highest)
    total = weights.sum(-1, keepdim=True)
    total = total.masked_fill(total == 0.0, 1.0)
    result = (weights / total @ value.float()).to(query.dtype)
    if like_query:
        result = torch.empty_like(query).copy_(result)
    return result, (highest + total.log()).squeeze(-1)


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
    """With weights P and dP = dO V^T: dS = P * (dP - sum(dO * O)), dQ = scale dS K, dK = scale dS^T Q, dV = P^T dO (Dao
    et al., FlashAttention, 2022, B.2). In float32."""
    wide_gradient, wide_query, wide_key, wide_value = (t.float() for t in (gradient, query, key, value))
    scores = scores_of(wide_query, wide_key, mask, causal, scale)
    weights = torch.exp(scores - statistics.unsqueeze(-1))
    of_value = weights.transpose(-2, -1) @ wide_gradient
    inner = (wide_gradient * result.float()).sum(-1, keepdim=True)
    of_scores = weights * (wide_gradient @ wide_value.transpose(-2, -1) - inner)
    of_query = of_scores @ wide_key * scale
    of_key = of_scores.transpose(-2, -1) @ wide_query * scale
    of_bias = of_scores.to(mask.dtype) if of_mask and mask is not None else query.new_empty(0)
    dtype = query.dtype
    return tuple(t.contiguous() for t in (of_query.to(dtype), of_key.to(dtype), of_value.to(dtype), of_bias))  # type: ignore[return-value]


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
    computed again from the scores and `statistics`."""
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
ATTENTION_BACKWARD = torch.ops.pytorchsim.attention_backward.default
