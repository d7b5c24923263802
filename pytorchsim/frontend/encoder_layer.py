"""The fast path of `nn.TransformerEncoderLayer` and `nn.MultiheadAttention`, in operations that have kernels.

In: the arguments of `torch._transformer_encoder_layer_fwd` and `torch._native_multi_head_attention`, which those
modules call for inference. Out: their results. Assumes what the modules check: query, key and value are one tensor of
[B, L, E], nothing needs a gradient. Masks are what the host kernels make of them: anything that is not zero masks, and
a query without keys is NaN.
"""

from __future__ import annotations

import math

import torch
from torch.nn import functional

from pytorchsim.frontend.attention_operator import attention

__all__ = ["encoder_layer", "self_attention"]

_SOURCE_MASK, _PADDING_MASK = 0, 1
"""Kinds of masks: [L, L]; [B, L]. Others are [B, H, L, L]."""


def encoder_layer(  # noqa: PLR0913  torch's arguments
    src: torch.Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: torch.Tensor,
    norm_bias_1: torch.Tensor,
    norm_weight_2: torch.Tensor,
    norm_bias_2: torch.Tensor,
    ffn_weight_1: torch.Tensor,
    ffn_bias_1: torch.Tensor,
    ffn_weight_2: torch.Tensor,
    ffn_bias_2: torch.Tensor,
    mask: torch.Tensor | None = None,
    mask_type: int | None = None,
) -> torch.Tensor:
    """As `torch._transformer_encoder_layer_fwd`."""
    activation = functional.gelu if use_gelu else functional.relu

    def attend(x: torch.Tensor) -> torch.Tensor:
        weights = (qkv_weight, qkv_bias, proj_weight, proj_bias)
        attended, _ = self_attention(x, x, x, embed_dim, num_heads, *weights, mask, False, mask_type=mask_type)
        return attended

    def feed_forward(x: torch.Tensor) -> torch.Tensor:
        return functional.linear(activation(functional.linear(x, ffn_weight_1, ffn_bias_1)), ffn_weight_2, ffn_bias_2)

    def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    def add(x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """In place in eager: under autocast the sum has the narrow type of `x`."""
        return (x + residual).to(x.dtype)

    if norm_first:
        x = add(attend(norm(src, norm_weight_1, norm_bias_1)), src)
        return add(feed_forward(norm(x, norm_weight_2, norm_bias_2)), x)
    x = norm(add(attend(src), src), norm_weight_1, norm_bias_1)
    return norm(add(feed_forward(x), x), norm_weight_2, norm_bias_2)


def self_attention(  # noqa: PLR0913  torch's arguments
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: torch.Tensor,
    qkv_bias: torch.Tensor,
    proj_weight: torch.Tensor,
    proj_bias: torch.Tensor,
    mask: torch.Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As `torch._native_multi_head_attention`: the projected result, and the weights if they are needed."""
    del key, value
    batch, length, _ = query.shape
    size = embed_dim // num_head
    packed = functional.linear(query, qkv_weight, qkv_bias).unflatten(-1, (3, num_head, size))
    heads = [part.transpose(1, 2) for part in packed.unbind(2)]
    keep = None
    if mask is not None:
        keep = mask.to(torch.bool).logical_not()
        if mask_type == _SOURCE_MASK:
            keep = keep[None, None]
        elif mask_type == _PADDING_MASK:
            keep = keep[:, None, None]
        keep = keep.expand(batch, num_head, length, length)
    weights = None
    if need_weights:
        scores = heads[0] @ heads[1].transpose(-2, -1) / math.sqrt(size)
        weights = (scores if keep is None else scores.masked_fill(~keep, -torch.inf)).softmax(-1)
        attended = weights @ heads[2]
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        attended, _ = attention(heads[0], heads[1], heads[2], keep, False, 1 / math.sqrt(size), True)
        if keep is not None:
            attended = attended.masked_fill(~keep.any(-1, keepdim=True), torch.nan)
    return functional.linear(
        attended.transpose(1, 2).reshape(batch, length, embed_dim), proj_weight, proj_bias
    ), weights
