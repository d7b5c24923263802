"""Attention and its gradients in plain operations: what the operations of `attention_operator` mean.

In: tensors of one dtype whose batch axes are equal (broadcast by `expand`). Out: results computed in float32. These
functions are the operations outside of a graph of ours, and what a graph gets where no kernel computes one.
"""

from __future__ import annotations

import torch

__all__ = [
    "Gradients",
    "attention_backward_definition",
    "attention_definition",
    "attention_gradients_definition",
    "scores_of",
]

Gradients = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]
"""Of query, key, value and mask."""


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
    """Gradients of query, key, value and, if `of_mask`, of a float mask (else an empty tensor). `result` and
    `statistics` are what the forward returned.

    The weights are those of its own scores, not exp(score - statistics): other products have other roundings, and a
    step of a large score is more than the last digits of its weight.
    """
    del statistics
    delta = (gradient.float() * result.float()).sum(-1)
    weights, _ = _weights(scores_of(query.float(), key.float(), mask, causal, scale))
    *gradients, of_scores = _gradients(gradient, query, key, value, weights, delta, scale)
    of_query, of_key, of_value = (t.to(query.dtype) for t in gradients)
    of_bias = of_scores.to(mask.dtype) if of_mask and mask is not None else query.new_empty(0)
    return of_query, of_key, of_value, of_bias


def attention_gradients_definition(  # noqa: PLR0913  the operation's arguments
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
