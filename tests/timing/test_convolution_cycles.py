"""Cycles of convolutions: bounds from multiplications and bytes, and what windows fetch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import pytorchsim

pytestmark = pytest.mark.usefixtures("memory")

STAGES = [(56, 64), (28, 128), (14, 256), (7, 512)]
"""Extent and channels of the 3 x 3 convolutions of ResNet's four stages."""


def convolution(image: tuple[int, ...], taps: tuple[int, ...], config: str = "tpuv3", **options: Any) -> dict[str, Any]:
    """The report's row of the kernel. Nothing is computed in timing mode."""
    torch._dynamo.reset()
    x, w = torch.zeros(image), torch.zeros(taps)
    compiled = torch.compile(
        lambda x, w: functional.conv2d(x, w, None, **options),
        backend="pytorchsim",
        options={"config": config, "strict": True, "mode": "timing"},
    )
    compiled(x, w)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    return dict(kernel)


def floor_cycles(batch: int, extent: int, channels: int) -> float:
    """What neither array nor DRAM of `tpuv3` can beat. Two arrays of 128 x 128 do 32,768 multiplications per cycle
    where products (9 taps x channels) and columns fill them; the DRAM moves input, weights and output once at 512
    bytes per cycle."""

    def filled(size: int) -> float:
        return size / (-(-size // 128) * 128)

    positions, products = batch * extent**2, 9 * channels
    arrays = positions * products * channels / (32_768 * filled(products) * filled(channels))
    dram = 4 * (2 * positions * channels + products * channels) / 512
    return max(arrays, dram)


@pytest.mark.parametrize(("extent", "channels"), STAGES, ids=str)
def test_stages_of_64_images(extent: int, channels: int) -> None:
    # Floors are the arrays': 501,760, then 225,792 three times. Beyond them: 96 cycles per change of weights and 383
    # per step (docs/matrix_products.md), rows in whole vectors. 56 x 56: 128 steps of 1568 rows in 5 matrices: one in
    # both arrays with half of the rows (25 vectors of 32), two in each: 128 x (800 + 2 x (96 + 1568) + 383) = 577,408.
    # 14 x 14: 24 steps of 1568 rows in 6 x 2 matrices, two columns of arrays: 24 x (6 x 1568 + 5 x 96 + 383) = 246,504.
    cycles = convolution((64, channels, extent, extent), (channels, channels, 3, 3), padding=1)["cycles"]
    floor = floor_cycles(64, extent, channels)
    assert floor <= cycles <= 1.3 * floor


@pytest.mark.parametrize(
    ("extent", "channels", "ratio", "banked"),
    [(56, 64, 1.5, 1.5), (28, 128, 2.0, 2.05), (14, 256, 1.57, 1.65), (7, 512, 1.1, 1.25)],
    ids=str,
)
def test_stages_of_one_image(memory: str, extent: int, channels: int, ratio: float, banked: float) -> None:
    # Floors: arrays 7,840 and 3,528; DRAM 5,392 and 18,824. One image leaves little to overlap. 28 x 28: 29 channels
    # load (439 cycles and a round trip of 124) before anything is multiplied; then 3 matrices, of which the arrays
    # share one by rows (13 vectors of 32) and two as they are (25 vectors): 416 + 96 + 800 + 383 = 1,695; the other
    # channels in 7 matrices: 416 + 3 x (96 + 800) + 383 = 3,487; the result is stored at the end (784 and 124): 6,653,
    # 1.89 times the floor. What is above 1.6 no tile avoids (docs/convolution.md). 14 x 14: 43 channels load, 840 and
    # 124; then 4, 5, 5 and 5 matrices of 224 rows, 48 per change, since two have place in the queue: 19 x 224 + 15 x 48
    # + 4 x 383 = 6,508; 392 and 124: 7,988, 1.48 times.
    cycles = convolution((1, channels, extent, extent), (channels, channels, 3, 3), padding=1)["cycles"]
    floor = floor_cycles(1, extent, channels)
    # With banks: 7 x 7 reads its weights in blocks, so that a row of DRAM is opened for less than four bursts
    # (docs/memory.md).
    assert floor <= cycles <= (banked if memory == "banked" else ratio) * floor


def test_windows_are_fetched_once() -> None:
    # 30 x 30 positions of 16 channels and 3 x 3 x 16 x 32 weights are loaded, 28 x 28 x 32 results stored, in one step:
    # 57,600 + 18,432 + 100,352 bytes. Every window of 9 taps reads its bytes again, none of them from DRAM.
    kernel = convolution((1, 16, 30, 30), (32, 16, 3, 3))
    assert kernel["tile"]["m"] >= 28 * 28
    assert kernel["burst_bytes"] == 57_600 + 18_432 + 100_352


def test_depthwise_stays_off_the_arrays() -> None:
    # 7 x 7 depthwise over 96 channels, padding 3. The lanes do 49 x 56 x 56 products, 8 per cycle: 19,208 cycles. A tap
    # of 64 positions is 4 products of 2 beats (8 cycles); beside them 5 loads, addresses and, every 7 taps, the loop.
    # Two rows of 56 positions are 112 of 128.
    kernel = convolution((1, 96, 56, 56), (96, 1, 7, 7), padding=3, groups=96)
    assert kernel["instructions"].get("array", 0) == 0
    assert 19_208 <= kernel["cycles"] <= 2 * 19_208


def test_few_channels_fill_the_array_with_their_window() -> None:
    # The first layer of ResNet on 4 images: 3 channels x 49 taps are 147 products, 2 matrices of rows where one channel
    # after another would take 49 x 1 matrices. Floor: 4 x 112 x 112 rows x 2 matrices / 2 arrays = 50,176.
    kernel = convolution((4, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3)
    assert kernel["tile"]["k"] == 256
    assert 50_176 <= kernel["cycles"] <= 1.5 * 50_176


def test_a_gradient_multiplies_the_taps_there_are() -> None:
    # 1 x 1 with stride 2, 64 to 128 channels, 8 images of 56 x 56: one position of four has a tap. 8 x 64 x 56 x 56
    # floats are stored, 8 x 128 x 28 x 28 loaded: 9,633,792 bytes, 18,816 cycles. The product is 8 x 784 rows by one
    # matrix, 784 cycles for an array of each half; three quarters of the result are zeros that two kernels store.
    gradient, x, w = torch.empty(8, 128, 28, 28), torch.empty(8, 64, 56, 56), torch.empty(128, 64, 1, 1)

    def of_input(gradient: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        mask = [True, False, False]
        return torch.ops.aten.convolution_backward(
            gradient, x, w, None, [2, 2], [0, 0], [1, 1], False, [0, 0], 1, mask
        )[0]

    torch._dynamo.reset()
    options = {"config": "tpuv3", "mode": "timing", "strict": True}
    torch.compile(of_input, backend="pytorchsim", options=options)(gradient, x, w)
    report = pytorchsim.report().to_dict()
    assert len(report["kernels"]) == 3
    assert 18_816 <= report["totals"]["cycles"] <= 1.75 * 18_816
