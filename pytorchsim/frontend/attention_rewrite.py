"""`AttentionRewrite`: attention of a model becomes an operation of ours before AOTAutograd sees it.

In: calls of torch functions while AOTAutograd traces a graph. Out: the same values and gradients from
`pytorchsim::attention`, or from plain operations where no kernel of ours computes it (float64, dropout). Eager would
otherwise choose a fused host kernel, whose backward takes what only that kernel's forward gives. Dynamo leaves
`multi_head_attention_forward` and the encoder layer's fast path in its graphs as single calls, so rewriting nodes of
the graph would miss what they call; a mode sees it. The mode holds for the trace only and for this thread.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn import functional
from torch.overrides import BaseTorchFunctionMode

from pytorchsim.frontend.attention_definition import scores_of
from pytorchsim.frontend.attention_operator import attention
from pytorchsim.frontend.encoder_layer import encoder_layer, self_attention

__all__ = ["KERNEL_DTYPES", "AttentionRewrite", "scaled_dot_product_attention"]

KERNEL_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
"""What the attention kernel computes with."""


class AttentionRewrite(BaseTorchFunctionMode):
    """While active, calls of attention functions go to ours."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """The function of ours where there is one. Others are called by torch: a warning of theirs is not ours."""
        if func in _REWRITTEN:
            return _REWRITTEN[func](*args, **(kwargs or {}))
        return super().__torch_function__(func, types, args, kwargs or {})  # type: ignore[no-untyped-call]


def scaled_dot_product_attention(  # noqa: PLR0913  torch's arguments
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """As `torch.nn.functional.scaled_dot_product_attention`, which has checked the arguments when Dynamo traced it."""
    query, key, value = (_autocast(tensor) for tensor in (query, key, value))
    attn_mask = None if attn_mask is None else _autocast(attn_mask)
    heads = query.shape[-3] if enable_gqa and query.dim() > 2 else 1
    groups = key.shape[-3] if enable_gqa and query.dim() > 2 else 1
    if enable_gqa and query.dim() > 2 and value.shape[-3] != groups:
        key, value = (t.repeat_interleave(heads // t.shape[-3], -3) for t in (key, value))
        groups = heads
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    mask = attn_mask
    grouped = heads != groups
    fused = not dropout_p and _eager_fuses(query, key, value, mask, grouped=grouped)
    token = grouped and query.shape[-2] == 1 and not is_causal
    if grouped:
        query, mask = _grouped(query, groups), None if mask is None else _grouped(mask, groups)
        if token:  # the queries that share keys are the rows
            query, mask = query.squeeze(-2), None if mask is None else mask.squeeze(-2)
        else:
            key, value = key.unsqueeze(-3), value.unsqueeze(-3)
    batches = [t.shape[:-2] for t in (query, key, value, *([] if mask is None else [mask]))]
    batch = torch.broadcast_shapes(*batches)
    query, key, value = (t.expand(*batch, *t.shape[-2:]) for t in (query, key, value))
    if mask is not None:
        mask = mask.expand(*batch, query.shape[-2], key.shape[-2])
    if query.dtype in KERNEL_DTYPES and not dropout_p and 0 not in (*query.shape, *key.shape, value.shape[-1]):
        result: torch.Tensor = attention(query, key, value, mask, is_causal, factor, fused)[0]
    else:
        result = _written_out(query, key, value, mask, dropout_p, causal=is_causal, scale=factor)
        if fused:
            result = torch.empty_like(query).copy_(result)
    if token:
        return result.flatten(-3, -2).unsqueeze(-2)
    return result.flatten(-4, -3) if grouped else result


def _autocast(tensor: torch.Tensor) -> torch.Tensor:
    """As `torch.autocast` makes an operand of attention, which is on its list of operations in the narrow type."""
    eligible = tensor.is_floating_point() and tensor.dtype != torch.float64
    if not eligible or not torch.is_autocast_enabled(tensor.device.type):
        return tensor
    return tensor.to(torch.get_autocast_dtype(tensor.device.type))


def _grouped(heads_last: torch.Tensor, groups: int) -> torch.Tensor:
    """[..., heads, rows, columns] as [..., groups, heads of a group, rows, columns]; what has one head or no such axis
    broadcasts."""
    if heads_last.dim() < 3 or heads_last.shape[-3] == 1:
        return heads_last.unsqueeze(-3)
    grouped: torch.Tensor = heads_last.unflatten(-3, (groups, heads_last.shape[-3] // groups))
    return grouped


def _eager_fuses(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, *, grouped: bool
) -> bool:
    """Whether eager's fused kernel computes it; its results have the query's order of axes in memory."""
    if query.dim() != 4 or 0 in (*query.shape, *key.shape, *value.shape):
        return False
    same = query.shape[-1] == key.shape[-1] == value.shape[-1] and query.shape[0] == key.shape[0] == value.shape[0]
    heads = grouped or query.shape[1] == key.shape[1] == value.shape[1]
    contiguous = all(t.stride(-1) == 1 for t in (query, key, value))
    return same and heads and contiguous and not (mask is not None and mask.requires_grad)


def _written_out(  # noqa: PLR0913  torch's arguments
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    dropout_p: float,
    *,
    causal: bool,
    scale: float,
) -> torch.Tensor:
    """The definition. Narrow floats are computed as float32 and rounded once, as in the kernel."""
    dtype = query.dtype
    if dtype in KERNEL_DTYPES:
        query, key, value = query.float(), key.float(), value.float()
    scores = scores_of(query, key, mask, causal, scale)
    if mask is None and not causal:
        weights = scores.softmax(-1)
    else:  # a query without keys gets zero, and no gradient that is not a number
        nothing = (scores == -torch.inf).all(-1, keepdim=True)
        weights = scores.masked_fill(nothing, 0.0).softmax(-1).masked_fill(nothing, 0.0)
    if dropout_p:
        weights = functional.dropout(weights, dropout_p)
    return (weights @ value).to(dtype)


def _with_globals(function: Any, **names: Any) -> types.FunctionType:
    """`function` with other values for some of the global names that it uses; the original stays as it is."""
    scope = {**function.__globals__, **names}
    copy = types.FunctionType(function.__code__, scope, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


_REWRITTEN: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: scaled_dot_product_attention,
    functional.multi_head_attention_forward: _with_globals(
        functional.multi_head_attention_forward,
        scaled_dot_product_attention=scaled_dot_product_attention,
        has_torch_function=lambda _: False,
    ),
    torch._transformer_encoder_layer_fwd: encoder_layer,
    torch._native_multi_head_attention: self_attention,
}
