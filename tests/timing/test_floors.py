"""Do generic kernels run close to what the machine allows? Floors by bytes and by the fewest vector instructions.

tpuv3: 512 B/cycle of DRAM; per lane and cycle one vector instruction on 8 f32, one special function, one quotient.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

import pytorchsim

pytestmark = pytest.mark.usefixtures("memory")

SQUARE = 2048 * 2048
DRAM_BYTES_PER_CYCLE = 512
PER_LANE = SQUARE // 128
"""Elements per lane: 32,768; 4,096 vector instructions of 8 f32."""


def cycles_of(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> tuple[int, torch.Tensor]:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="pytorchsim", options={"config": "tpuv3", "strict": True})
    result = compiled(*inputs)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    return kernel["cycles"], result


def check(
    function: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], dram: int, vector: int, **tolerance: Any
) -> None:
    cycles, result = cycles_of(function, *inputs)
    torch.testing.assert_close(result, function(*inputs), **tolerance)
    floor = max(dram, vector)
    assert floor <= cycles <= 1.3 * floor


def test_add() -> None:
    # Three tensors of 16 MiB: 98,304 cycles. One addition: 4,096 vector instructions.
    check(torch.add, (torch.randn(2048, 2048), torch.randn(2048, 2048)), 3 * SQUARE * 4 // 512, PER_LANE // 8)


def test_exp() -> None:
    # Two tensors: 65,536 cycles. One special function per element: 32,768.
    check(torch.exp, (torch.randn(2048, 2048),), 2 * SQUARE * 4 // 512, PER_LANE)


def test_softmax() -> None:
    # Two tensors: 65,536 cycles. Vector instructions per 8 elements: maximum and its NaN (2), difference and sum (2):
    # 16,384. The special function unit runs for 32,768 and then, when the sum is known, the divider for 32,768:
    # 65,536 in sequence within a row.
    check(lambda x: torch.softmax(x, -1), (torch.randn(2048, 2048),), 2 * SQUARE * 4 // 512, 2 * PER_LANE)


def test_layer_norm() -> None:
    # Two tensors of 2048 x 768: 24,576 cycles. Per 8 of a lane's 12,288 elements: sum (1), difference, square, sum (3),
    # difference, product (2): 6 x 1,536 = 9,216.
    elements = 2048 * 768
    dram, vector = 2 * elements * 4 // DRAM_BYTES_PER_CYCLE, 6 * elements // 128 // 8
    check(lambda x: functional.layer_norm(x, (768,)), (torch.randn(2048, 768),), dram, vector)


def test_layer_norm_of_many_short_rows() -> None:
    # 4096 x 256: two tensors, 16,384 cycles. 6 vector instructions per 8 of a lane's 8,192 elements: 6,144.
    elements, scale, shift = 4096 * 256, torch.randn(256), torch.randn(256)
    dram, vector = 2 * elements * 4 // DRAM_BYTES_PER_CYCLE, 6 * elements // 128 // 8
    check(lambda x: functional.layer_norm(x, (256,), scale, shift), (torch.randn(4096, 256),), dram, vector)


@pytest.mark.parametrize(
    "function", [functional.silu, functional.gelu, torch.tanh], ids=lambda function: function.__name__
)
def test_chains_of_slow_units_overlap(function: Callable[..., torch.Tensor]) -> None:
    # 512 x 2048: two tensors of 4 MiB, 16,384 cycles. The special function unit and (silu) the divider take 8,192
    # each; one after the other they would take longer than the bytes.
    elements = 512 * 2048
    check(function, (torch.randn(512, 2048),), 2 * elements * 4 // 512, elements // 128, rtol=1e-5, atol=1e-5)


def test_log_softmax() -> None:
    # 512 x 2048: 16,384 cycles of bytes. Maximum and its NaN (2), difference and sum (2), two differences (2), and one
    # special function: 8,192.
    elements = 512 * 2048
    check(lambda x: torch.log_softmax(x, -1), (torch.randn(512, 2048),), 2 * elements * 4 // 512, elements // 128)


def test_argmax() -> None:
    # 1024 x 2048 in, an index per row out: 16,384 cycles of bytes and more. Per 8 elements: two comparisons, two merges
    # and the position (5): 10,240, and a mask operation.
    rows, length = 1024, 2048
    check(lambda x: x.argmax(-1), (torch.randn(rows, length),), rows * length * 4 // 512, 5 * rows * length // 128 // 8)
