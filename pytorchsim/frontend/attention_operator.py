"""`pytorchsim::attention`: attention as one operation with a gradient, so that neither Inductor nor AOTAutograd takes
it apart, and the scores of a training step are computed again in the backward instead of being saved.

Importing this module registers the operations, whose functions are those of `attention_definition`;
`attention_lowerings` makes kernels of them. The backward gets the weights back from what the forward returns besides
its result: per query the logarithm of the sum of its exponentials.
"""

from __future__ import annotations

from typing import Any

import torch

from pytorchsim.frontend.attention_definition import (
    Gradients,
    attention_backward_definition,
    attention_definition,
    attention_gradients_definition,
)

__all__ = ["ATTENTION", "ATTENTION_BACKWARD", "ATTENTION_GRADIENTS", "attention", "attention_backward_by_kernel"]

attention = torch.library.custom_op("pytorchsim::attention", attention_definition, mutates_args=())
_attention_backward = torch.library.custom_op(
    "pytorchsim::attention_backward", attention_backward_definition, mutates_args=()
)
_attention_gradients = torch.library.custom_op(
    "pytorchsim::attention_gradients", attention_gradients_definition, mutates_args=()
)

# ---- Shapes of results -----------------------------------------------------------------------------------------------


@attention.register_fake
def _(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any) -> tuple[torch.Tensor, torch.Tensor]:
    del key
    *_, like_query = others
    result = torch.empty_like(query) if like_query else query.new_empty([*query.shape[:-1], value.shape[-1]])
    return result, query.new_empty(query.shape[:-1], dtype=torch.float32)


@_attention_backward.register_fake
def _(gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any) -> Gradients:
    del gradient
    mask, *_, of_mask = others
    of_query, of_key, of_value = (tensor.new_empty(tensor.shape) for tensor in (query, key, value))
    of_bias = query.new_empty(0) if mask is None or not of_mask else mask.new_empty(mask.shape)
    return of_query, of_key, of_value, of_bias


@_attention_gradients.register_fake
def _(
    gradient: torch.Tensor, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *others: Any
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    del gradient
    *_, wide = others
    dtype = torch.float32 if wide else query.dtype
    of_key, of_value = (tensor.new_empty(tensor.shape, dtype=dtype) for tensor in (key, value))
    return query.new_empty(query.shape), of_key, of_value


# ---- Backward --------------------------------------------------------------------------------------------------------


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
        for parts, part in zip(found, _attention_gradients(*operands, *numbers), strict=True):
            parts.append(part)
    of_query, of_key, of_value = found
    if not wide:
        return of_query[0], of_key[0], of_value[0], query.new_empty(0)
    key_sum, value_sum = (sum(parts[1:], parts[0]).to(query.dtype) for parts in (of_key, of_value))
    return torch.cat(of_query, -2), key_sum, value_sum, query.new_empty(0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[torch.Tensor, torch.Tensor]) -> None:
    query, key, value, mask, ctx.causal, ctx.scale, _ = inputs
    ctx.mark_non_differentiable(output[1])
    ctx.save_for_backward(query, key, value, mask, *output)


def _backward(ctx: Any, gradient: torch.Tensor, _: torch.Tensor | None) -> tuple[Any, ...]:
    mask = ctx.saved_tensors[3]
    of_mask = mask is not None and ctx.needs_input_grad[3]
    *gradients, of_bias = _attention_backward(gradient, *ctx.saved_tensors, ctx.causal, ctx.scale, of_mask)
    return (*gradients, of_bias if of_mask else None, None, None, None)


attention.register_autograd(_backward, setup_context=_save)

ATTENTION = torch.ops.pytorchsim.attention.default
ATTENTION_GRADIENTS = torch.ops.pytorchsim.attention_gradients.default
ATTENTION_BACKWARD = torch.ops.pytorchsim.attention_backward.default
