"""Timing mode computes no results: what a graph allocates is NaN or zero in every run, what it was given stays."""

from __future__ import annotations

import torch


def _step(x: torch.Tensor, state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    state.add_(1)
    return torch.softmax(x, 1), (x > 0).to(torch.int64)


def test_results_are_nan_or_zeros_and_inputs_stay() -> None:
    x, state = torch.randn(37, 19), torch.full((8,), 3.0)
    compiled = torch.compile(_step, backend="pytorchsim", options={"config": "tiny", "mode": "timing"})
    for _ in range(3):
        junk = [torch.full((37, 19), 7.0) for _ in range(16)]  # freed memory that an allocator likes to reuse
        del junk
        soft, positive = compiled(x, state)
        assert soft.shape == (37, 19)
        assert soft.isnan().all()
        assert torch.equal(positive, torch.zeros(37, 19, dtype=torch.int64))
        assert torch.equal(state, torch.full((8,), 3.0))
