"""What joins a convolution's kernel, and what does not?"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

from pytorchsim.templates.framed_template import FramedTemplate


@pytest.fixture
def whatever_it_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes join phases even where kernels of their own are faster."""
    monkeypatch.setattr(FramedTemplate, "_check_gain", lambda *_: None)


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


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "kernels"),
    [
        (3, 1, 1, 1),  # no phases
        (2, 2, 0, 1),  # phases that fill the image exactly
        (4, 2, 1, 1),  # tiles of phases that reach beyond it
        (3, 2, 1, 4),  # phases of one and of two taps in both dimensions: a part for each combination
        (1, 2, 0, 3),  # positions that no tap reaches: what joins works on zeros there
    ],
)
@pytest.mark.parametrize("config", ["tpuv3", "mobile"])
@pytest.mark.usefixtures("whatever_it_takes")
def test_phases(fuse: Any, config: str, kernel: int, stride: int, padding: int, kernels: int) -> None:
    """Each part of a transposed convolution runs what joins it on its own positions: bias, residual, a scale by row and
    one by column, ReLU."""
    x, w, b = torch.randn(2, 8, 6, 5), torch.randn(8, 4, kernel, kernel) / 8, torch.randn(4)

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        residual, rows, columns = others
        y = functional.conv_transpose2d(x, w, b, stride, padding)
        return (y * rows * columns + residual).relu()

    height, width = functional.conv_transpose2d(x, w, b, stride, padding).shape[2:]
    residual = torch.randn(2, 4, height, width).to(memory_format=torch.channels_last)
    others = residual, torch.randn(height, 1), torch.randn(width)
    assert fuse(function, x, w, b, *others, config=config).kernels == kernels


@pytest.mark.parametrize("options", [{"stride": 2, "dilation": 2, "padding": 1}, {"stride": 4, "dilation": 3}], ids=str)
@pytest.mark.usefixtures("whatever_it_takes")
def test_phases_of_dilated_windows(fuse: Any, options: dict[str, int]) -> None:
    """Where stride and dilation have something in common, positions have two kinds of phases."""
    x, w, b = torch.randn(1, 4, 5, 6), torch.randn(4, 6, 3, 3) / 6, torch.randn(6)
    function = lambda x, w, b, r: (functional.conv_transpose2d(x, w, b, **options) * r).relu()  # noqa: E731
    residual = torch.randn_like(functional.conv_transpose2d(x, w, b, **options))
    outcome = fuse(function, x, w, b, residual)
    assert not outcome.refusals
    assert all("relu" in "".join(origins) for origins in outcome.origins)


@pytest.mark.parametrize("dimensions", [1, 3])
@pytest.mark.usefixtures("whatever_it_takes")
def test_phases_in_other_dimensions(fuse: Any, dimensions: int) -> None:
    convolve = {1: functional.conv_transpose1d, 3: functional.conv_transpose3d}[dimensions]
    extents, taps = (5, 4, 6)[:dimensions], (3,) * dimensions
    x, w, b = torch.randn(2, 4, *extents), torch.randn(4, 3, *taps) / 4, torch.randn(3)
    residual = torch.randn_like(convolve(x, w, b, 2, 1))
    outcome = fuse(lambda x, w, b, r: (convolve(x, w, b, 2, 1) + r).relu(), x, w, b, residual)
    assert outcome.kernels == 2**dimensions


@pytest.mark.usefixtures("whatever_it_takes")
def test_phases_keep_what_is_no_number(fuse: Any) -> None:
    """In the image, in what joins, and behind it; a value that others use is stored by all parts."""
    x, w, b = torch.randn(1, 4, 5, 5), torch.randn(4, 4, 3, 3), torch.randn(4)
    x[0, 1, 2, 2], x[0, 2, 4, 0] = float("inf"), float("nan")
    residual = torch.randn(1, 4, 9, 9)
    residual[0, 0, 0, :3] = torch.tensor([float("nan"), float("inf"), float("-inf")])
    residual[0, 3, 8, 8] = float("-inf")

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = functional.conv_transpose2d(x, w, b, 2, 1)
        return y, (y + r).relu(), (y + r).sigmoid()

    assert fuse(function, x, w, b, residual).kernels == 4


@pytest.mark.usefixtures("whatever_it_takes")
def test_a_strided_gradient_takes_what_follows(fuse: Any) -> None:
    """The gradient of a ReLU behind the gradient of a convolution's input."""
    gradient, x, w = torch.randn(2, 6, 4, 4), torch.randn(2, 4, 8, 8), torch.randn(6, 4, 3, 3)

    def function(gradient: torch.Tensor, x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        mask = [True, False, False]
        of_input = torch.ops.aten.convolution_backward(
            gradient, x, w, None, [2, 2], [1, 1], [1, 1], False, [0, 0], 1, mask
        )[0]
        return torch.where(x > 0, of_input, 0)

    assert fuse(function, gradient, x, w).kernels == 4


@pytest.mark.usefixtures("whatever_it_takes")
def test_half_precision_phases(fuse: Any) -> None:
    """Sums are rounded by each part when it stores them."""
    x, w, b = (tensor.half() for tensor in (torch.randn(1, 8, 6, 6), torch.randn(8, 4, 3, 3) / 8, torch.randn(4)))
    function = lambda x, w, b: functional.conv_transpose2d(x, w, b, 2, 1).relu()  # noqa: E731
    assert fuse(function, x, w, b, tolerance=1e-2).kernels == 4


def test_what_lies_elsewhere_for_each_phase_does_not_join(fuse: Any) -> None:
    """Position 2 q + 1 of an image of twice the extent is q by halves, which no index of a frame says."""
    x, w, r = torch.randn(1, 8, 6, 6), torch.randn(8, 4, 3, 3) / 8, torch.randn(1, 4, 6, 6)
    outcome = fuse(
        lambda x, w, r: functional.conv_transpose2d(x, w, None, 2, 1, 1) + functional.interpolate(r, scale_factor=2),
        x, w, r,
    )  # fmt: skip
    assert outcome.kernels == 5
    assert outcome.reasons


@pytest.mark.usefixtures("whatever_it_takes")
def test_two_loads_of_one_buffer(fuse: Any) -> None:
    """Side by side: transfers of their own in a template's kernel, which has no windows of its own."""
    shifted = lambda y, r: y + r[..., 1:] * r[..., :-1]  # noqa: E731
    x, w = torch.randn(1, 8, 6, 6), torch.randn(4, 8, 3, 3) / 8
    assert fuse(lambda x, w, r: shifted(functional.conv2d(x, w), r), x, w, torch.randn(1, 4, 4, 5)).kernels == 1
    a, b, r = torch.randn(64, 40), torch.randn(40, 64) / 8, torch.randn(64, 65)
    assert fuse(lambda a, b, r: shifted(a @ b, r), a, b, r).kernels == 1
    v = torch.randn(8, 4, 3, 3) / 8
    outcome = fuse(
        lambda x, v, r: shifted(functional.conv_transpose2d(x, v, None, 2), r), x, v, torch.randn(1, 4, 13, 14)
    )
    assert outcome.kernels == 4


@pytest.mark.parametrize(
    ("layout", "residuals", "joins"),
    [(torch.contiguous_format, 0, True), (torch.contiguous_format, 2, False), (torch.channels_last, 2, True)],
)
def test_what_is_faster_by_itself_does_not_join_phases(
    fuse: Any, layout: torch.memory_format, residuals: int, joins: bool
) -> None:
    """A phase takes every other element of a row, out of bursts that another phase loads again; whole channels where
    they come last. What is computed in registers alone always gains."""
    x, w, b = torch.randn(1, 16, 20, 20).to(memory_format=layout), torch.randn(16, 128, 3, 3) / 16, torch.randn(128)
    others = [torch.randn_like(functional.conv_transpose2d(x, w, b, 2, 1, 1)) for _ in range(residuals)]

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        y = functional.conv_transpose2d(x, w, b, 2, 1, 1)
        for other in others:
            y = y + other
        return y.relu()

    outcome = fuse(function, x, w, b, *others)
    assert outcome.kernels == (4 if joins else 5)
    assert joins or "would finish phases in" in outcome.reasons


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
