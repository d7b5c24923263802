"""Cycles and traffic of the gradients of attention: bounds from bytes, rows and weights."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

import pytorchsim

pytestmark = pytest.mark.usefixtures("memory")


def test_gradients_of_512_move_nothing_as_large_as_the_scores() -> None:
    # The kernel of delta reads O and its gradient: 2 x 12 x 512 x 64 floats. The other one reads Q, dO, K twice (rows,
    # and columns, over the lanes) and V once, and writes three gradients: 10. Scores would be 12 x 512 x 512 floats, as
    # much as 8 of these tensors, each time.
    torch._dynamo.reset()
    tensors = [torch.randn(1, 12, 512, 64, requires_grad=True) for _ in range(3)]
    compiled = torch.compile(
        functional.scaled_dot_product_attention,
        backend="pytorchsim",
        fullgraph=True,
        options={"config": "tpuv3", "strict": True, "mode": "timing"},
    )
    result = compiled(*tensors)
    result.backward(torch.randn_like(result))
    kernels = pytorchsim.report().to_dict()["kernels"][1:]
    tensor = 12 * 512 * 64 * 4
    assert 12 * tensor <= sum(kernel["burst_bytes"] for kernel in kernels) <= 1.1 * 12 * tensor
    # Per pair of blocks and array 128 inputs for scores or gradients of weights, 64 (half of 128) for the gradient of
    # queries, 128 cycles of weights for those of keys or values.
    floor = 12 * 16 * (128 + 64 + 128)
    assert floor == 61_440
    assert floor <= kernels[-1]["cycles"] <= 1.85 * floor
