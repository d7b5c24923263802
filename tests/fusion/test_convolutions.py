"""What joins a convolution's kernel, and what does not?"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

X, W = torch.Tensor, torch.Tensor


@pytest.fixture
def operands() -> tuple[torch.Tensor, ...]:
    return torch.randn(2, 8, 10, 9), torch.randn(16, 8, 3, 3) / 8, torch.randn(16)


def test_bias_and_relu(fuse: Any, operands: tuple[torch.Tensor, ...]) -> None:
    outcome = fuse(lambda x, w, b: functional.conv2d(x, w, b, padding=1).relu(), *operands)
    assert outcome.kernels == 1


def test_scalars_join_the_convolution(fuse: Any, operands: tuple[torch.Tensor, ...]) -> None:
    x, w, _ = operands
    assert fuse(lambda x, w: functional.conv2d(x, w) * 0.5 + 2, x, w).kernels == 1


@pytest.mark.parametrize("config", ["tpuv3", "mobile"])
def test_residual(fuse: Any, operands: tuple[torch.Tensor, ...], config: str) -> None:
    residual = torch.randn(2, 16, 10, 9)
    function = lambda x, w, b, r: (functional.conv2d(x, w, b, padding=1) + r).relu()  # noqa: E731
    assert fuse(function, *operands, residual, config=config).kernels == 1
    last = residual.to(memory_format=torch.channels_last)
    assert fuse(function, *operands, last, config=config).kernels == 1


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("groups", [1, 2, 8])
def test_batch_norm_and_relu(fuse: Any, groups: int, layout: torch.memory_format) -> None:
    """Mean, variance, scale and shift of each channel are folded into the epilogue, whatever order the result's memory
    is walked in."""
    x, w = torch.randn(2, 8, 7, 7).to(memory_format=layout), torch.randn(16, 8 // groups, 3, 3) / 8
    mean, variance, scale, shift = torch.randn(16), torch.rand(16) + 0.5, torch.randn(16), torch.randn(16)

    def function(*tensors: torch.Tensor) -> torch.Tensor:
        x, w, mean, variance, scale, shift = tensors
        y = functional.conv2d(x, w, None, padding=1, groups=groups)
        return functional.batch_norm(y, mean, variance, scale, shift).relu()

    assert fuse(function, x, w, mean, variance, scale, shift).kernels == 1


def test_values_that_others_use_are_stored(fuse: Any, operands: tuple[torch.Tensor, ...]) -> None:
    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = functional.conv2d(x, w, b)
        return y, y.sigmoid()

    assert fuse(function, *operands).kernels == 1


def test_half_precision(fuse: Any, operands: tuple[torch.Tensor, ...]) -> None:
    halves = [operand.half() for operand in operands]
    function = lambda x, w, b: functional.conv2d(x, w, b, 2, 1).relu()  # noqa: E731
    assert fuse(function, *halves, tolerance=1e-2).kernels == 1


def test_transposed(fuse: Any) -> None:
    """Without phases, or where they fill the image exactly, a transposed convolution takes its epilogue."""
    x, w, b = torch.randn(1, 8, 6, 6), torch.randn(8, 4, 3, 3) / 8, torch.randn(4)
    assert fuse(lambda x, w, b: functional.conv_transpose2d(x, w, b, padding=1).relu(), x, w, b).kernels == 1
    w = torch.randn(8, 4, 2, 2) / 8
    assert fuse(lambda x, w, b: functional.conv_transpose2d(x, w, b, 2).relu(), x, w, b).kernels == 1


def test_phases_beyond_the_image_take_no_epilogue(fuse: Any) -> None:
    x, w, b = torch.randn(1, 8, 6, 6), torch.randn(8, 4, 4, 4) / 8, torch.randn(4)
    outcome = fuse(lambda x, w, b: functional.conv_transpose2d(x, w, b, 2, 1).relu(), x, w, b)
    assert outcome.kernels == 2
    assert "tiles reach beyond the result" in outcome.reasons


def test_parts_take_no_epilogue(fuse: Any) -> None:
    """Phases of one and of two taps in both dimensions: four kernels."""
    x, w, b = torch.randn(1, 8, 6, 6), torch.randn(8, 4, 3, 3) / 8, torch.randn(4)
    outcome = fuse(lambda x, w, b: functional.conv_transpose2d(x, w, b, 2, 1).relu(), x, w, b)
    assert outcome.kernels == 5
    assert "computed in 4 parts" in outcome.reasons


def test_nodes_in_front_do_not_join(fuse: Any, operands: tuple[torch.Tensor, ...]) -> None:
    x, w, _ = operands
    outcome = fuse(lambda x, w: functional.conv2d(x.exp(), w, padding=1), x, w)
    assert outcome.kernels == 2
    assert "as often as windows meet" in outcome.reasons


def test_reductions_do_not_join(fuse: Any, operands: tuple[torch.Tensor, ...]) -> None:
    x, w, _ = operands
    outcome = fuse(lambda x, w: functional.conv2d(x, w).amax((2, 3)), x, w)
    assert outcome.kernels == 2
    assert "absorbs no reduction" in outcome.reasons


def test_a_chain_of_convolutions(fuse: Any) -> None:
    """Two convolutions with batch norm, residual and ReLU are two kernels."""
    x = torch.randn(1, 8, 9, 9)
    weights = [torch.randn(8, 8, 3, 3) / 8 for _ in range(2)]
    statistics = [torch.rand(8) + 0.5 for _ in range(8)]

    def function(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor, *s: torch.Tensor) -> torch.Tensor:
        y = functional.batch_norm(functional.conv2d(x, v, None, padding=1), s[0], s[1], s[2], s[3]).relu()
        y = functional.batch_norm(functional.conv2d(y, w, None, padding=1), s[4], s[5], s[6], s[7])
        return (y + x).relu()

    assert fuse(function, x, *weights, *statistics).kernels == 2
