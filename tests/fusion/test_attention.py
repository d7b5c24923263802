"""Attention takes nothing along, says why, and leaves its neighbours their own fusions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional


def test_nothing_joins_and_the_reason_is_given(fuse: Callable[..., Any]) -> None:
    def block(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.relu(functional.scaled_dot_product_attention(q, k, v))

    outcome = fuse(block, *(torch.randn(1, 2, 40, 16) for _ in range(3)))
    assert outcome.kernels == 2
    assert "attention takes no epilogue" in outcome.reasons


def test_projections_keep_their_epilogues(fuse: Callable[..., Any]) -> None:
    """Heads are cut out of the projection by strides: no copies before or behind attention."""

    def block(x: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(1, 64, 4, 16).transpose(1, 2) for part in (x @ qkv).chunk(3, -1))
        attended = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(64, 64)
        return torch.addmm(bias, attended, out).relu()

    outcome = fuse(block, torch.randn(1, 64, 64), torch.randn(64, 192), torch.randn(64, 64), torch.randn(64))
    assert outcome.kernels == 3
