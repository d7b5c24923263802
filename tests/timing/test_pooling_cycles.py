"""Do pools take what their bytes and products take? Each element of the input is fetched once, not once per tap."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import pytorchsim

pytestmark = pytest.mark.usefixtures("memory")

INPUT_BYTES, OUTPUT_BYTES = 64 * 112 * 112 * 4, 64 * 56 * 56 * 4
FLOOR = (INPUT_BYTES + OUTPUT_BYTES) // 512
"""3,211,264 + 802,816 bytes at 512 per cycle: 7,840."""


def pooled(pool: Callable[[torch.Tensor], torch.Tensor]) -> dict[str, Any]:
    """The kernel of a pool over 64 channels of 112 x 112 on `tpuv3`."""
    torch._dynamo.reset()
    options = {"config": "tpuv3", "mode": "timing", "strict": True}
    torch.compile(pool, backend="pytorchsim", options=options)(torch.empty(1, 64, 112, 112))
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    assert kernel["burst_bytes"] >= INPUT_BYTES + OUTPUT_BYTES
    return dict(kernel)


@pytest.mark.parametrize(
    ("pool", "ratio", "banked"),
    [
        # A round trip (124) before and behind; the first load and the last store overlap with nothing.
        (lambda x: functional.avg_pool2d(x, 3, 2, 1), 1.15, 1.25),
        (lambda x: functional.avg_pool2d(x, 2, 2), 1.1, 1.17),
        (lambda x: functional.max_pool2d(x, 2, 2), 1.2, 1.25),
        # Per tap but the first a comparison, a test for NaN, their union and a choice: 32 operations on 200,704
        # elements, 8 per cycle and lane, of whom the 64 channels fill half: 12,544 cycles, 1.6 times what the bytes
        # take; the first load and the last store overlap with nothing.
        (lambda x: functional.max_pool2d(x, 3, 2, 1), 2.0, 2.0),
    ],
    ids=["average 3x3", "average 2x2", "maximum 2x2", "maximum 3x3"],
)
def test_a_window_is_fetched_once(
    memory: str, pool: Callable[[torch.Tensor], torch.Tensor], ratio: float, banked: float
) -> None:
    kernel = pooled(pool)
    # Rows where two tiles meet are fetched by both.
    assert kernel["burst_bytes"] <= 1.1 * (INPUT_BYTES + OUTPUT_BYTES)
    # With banks: loads and stores take turns, each with rows and a turn of the bus (docs/memory.md).
    assert FLOOR <= kernel["cycles"] <= (banked if memory == "banked" else ratio) * FLOOR
