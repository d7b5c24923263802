"""Do convolutions give eager's values, whatever the window, groups, dimensions and memory format?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

Check = Callable[..., torch.Tensor]

SHAPES = [
    # images, channels in and out, extent, kernel, stride, padding
    (8, 3, 32, 32, 1, 1, 0), (1, 3, 64, 32, 7, 2, 3), (2, 3, 64, 16, 7, 1, 3), (4, 3, 64, 32, 7, 1, 3),
    (2, 128, 256, 13, 5, 1, 2), (1, 128, 256, 14, 3, 2, 1), (1, 128, 256, 7, 3, 2, 1), (1, 128, 256, 2, 1, 1, 0),
    (1, 128, 256, 14, 1, 2, 0), (1, 8, 16, 1, 1, 1, 0),
]  # fmt: skip
LARGE = [(2, 128, 512, 14, 7, 1, 3), (1, 3, 768, 224, 16, 16, 0), (2, 3, 768, 224, 32, 32, 0)]

DIMENSIONS = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}
TRANSPOSED = {1: functional.conv_transpose1d, 2: functional.conv_transpose2d, 3: functional.conv_transpose3d}


def weights(*shape: int) -> torch.Tensor:
    """Scaled so that sums have the size of their summands."""
    return torch.randn(shape) / torch.randn(shape)[0].numel() ** 0.5


def on(configs: tuple[str, ...], config: str) -> None:
    if config not in configs:
        pytest.skip("too long on a machine of this size")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(check: Check, config: str, shape: tuple[int, ...]) -> None:
    n, inputs, outputs, extent, kernel, stride, padding = shape
    macs = n * inputs * outputs * (extent * kernel // stride) ** 2
    on(("tpuv3",) if macs > 100_000_000 else ("tpuv3", "mobile") if macs > 2_000_000 else (config,), config)
    x, w, b = torch.randn(n, inputs, extent, extent), weights(outputs, inputs, kernel, kernel), torch.randn(outputs)
    check(lambda x, w, b: functional.conv2d(x, w, b, stride, padding), x, w, b)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [*LARGE, *SHAPES], ids=str)
def test_shapes_on_every_machine(check: Check, config: str, shape: tuple[int, ...]) -> None:
    on(("tpuv3", "mobile"), config)
    n, inputs, outputs, extent, kernel, stride, padding = shape
    x, w = torch.randn(n, inputs, extent, extent), weights(outputs, inputs, kernel, kernel)
    check(lambda x, w: functional.conv2d(x, w, None, stride, padding), x, w)


def test_patches_of_a_batch(check: Check, config: str) -> None:
    """The tile of a whole kernel does not fit; smaller ones do."""
    on(("tpuv3",), config)
    x, w, b = torch.randn(2, 3, 224, 224), weights(768, 3, 32, 32), torch.randn(768)
    check(lambda x, w, b: functional.conv2d(x, w, b, 32), x, w, b)


@pytest.mark.parametrize(
    ("shape", "kernel", "options"),
    [
        ((2, 6, 9), 3, {"padding": 1}),
        ((1, 4, 30), 5, {"stride": 3, "padding": 2, "dilation": 2}),
        ((2, 4, 5, 6, 7), 3, {"padding": 1}),
        ((1, 3, 4, 9, 6), (1, 3, 2), {"stride": (1, 2, 1), "padding": (0, 1, 0)}),
        ((2, 5, 12, 9), (3, 2), {"padding": (1, 0), "dilation": (2, 3)}),
        ((1, 5, 11, 7), (2, 3), {"stride": (3, 1), "padding": (0, 2)}),
    ],
)
def test_dimensions_and_windows(
    check: Check, shape: tuple[int, ...], kernel: int | tuple[int, ...], options: dict[str, Any]
) -> None:
    rank = len(shape) - 2
    taps = (kernel,) * rank if isinstance(kernel, int) else kernel
    x, w, b = torch.randn(shape), weights(7, shape[1], *taps), torch.randn(7)
    check(lambda x, w, b: DIMENSIONS[rank](x, w, b, **options), x, w, b)


@pytest.mark.parametrize(
    ("shape", "kernel", "options"),
    [
        ((2, 6, 9), 3, {"padding": 1}),
        ((1, 4, 7), 5, {"stride": 3, "padding": 2, "dilation": 2, "output_padding": 2}),
        ((2, 4, 8, 7), 3, {"stride": 2, "padding": 1, "output_padding": 1}),
        ((1, 4, 5, 6), 2, {"stride": 2}),
        ((1, 4, 5, 6), 3, {"stride": 2, "dilation": 2, "padding": 1}),
        ((1, 4, 5, 6), (3, 4), {"stride": (4, 6), "dilation": (3, 4), "output_padding": (2, 5)}),
        ((1, 2, 3, 4, 3), 2, {"stride": 2, "padding": 1}),
        # Few channels: the tile reaches beyond the taps, in phases that no tap belongs to.
        ((1, 1, 2), 3, {"stride": 3, "padding": 3, "dilation": 3}),
        ((3, 1, 1), 4, {"stride": 4, "padding": 3, "dilation": 2}),
    ],
)
def test_transposed(
    check: Check, shape: tuple[int, ...], kernel: int | tuple[int, ...], options: dict[str, Any]
) -> None:
    """Strides and dilations with and without a common divisor; positions that no input reaches."""
    rank = len(shape) - 2
    taps = (kernel,) * rank if isinstance(kernel, int) else kernel
    x, w, b = torch.randn(shape), weights(shape[1], 6, *taps), torch.randn(6)
    check(lambda x, w, b: TRANSPOSED[rank](x, w, b, **options), x, w, b)


@pytest.mark.parametrize(
    ("shape", "out", "kernel", "groups", "options"),
    [
        ((2, 16, 10, 10), 16, 3, 16, {"padding": 1}),
        ((1, 40, 9, 9), 40, 3, 40, {"stride": 2, "padding": 1}),
        ((1, 12, 8, 8), 24, 3, 12, {"padding": 1}),
        ((1, 12, 8, 8), 18, 3, 3, {"padding": 1, "bias": True}),
        ((2, 64, 6, 6), 32, 1, 2, {}),
        ((1, 8, 20), 8, 4, 8, {"padding": 2, "dilation": 2}),
        ((1, 4, 5, 6, 4), 4, 2, 2, {}),
    ],
)
def test_groups(
    check: Check, shape: tuple[int, ...], out: int, kernel: int, groups: int, options: dict[str, Any]
) -> None:
    rank = len(shape) - 2
    bias = [torch.randn(out)] if options.pop("bias", False) else []
    x, w = torch.randn(shape), weights(out, shape[1] // groups, *(kernel,) * rank)
    check(lambda x, w, *b: DIMENSIONS[rank](x, w, *b, groups=groups, **options), x, w, *bias)


def test_transposed_groups(check: Check) -> None:
    x, w = torch.randn(2, 12, 5, 5), weights(12, 2, 3, 3)
    check(lambda x, w: functional.conv_transpose2d(x, w, None, 2, 1, 1, groups=6), x, w)


def test_depthwise_with_stride(check: Check, config: str) -> None:
    on(("tpuv3", "mobile"), config)
    x, w = torch.randn(1, 240, 40, 40), weights(240, 1, 3, 3)
    check(lambda x, w: functional.conv2d(x, w, None, 2, 1, groups=240), x, w)


@pytest.mark.parametrize("inputs", [torch.contiguous_format, torch.channels_last], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("taps", [torch.contiguous_format, torch.channels_last], ids=["oihw", "ohwi"])
def test_memory_formats(check: Check, inputs: torch.memory_format, taps: torch.memory_format) -> None:
    x = torch.randn(2, 8, 10, 12).to(memory_format=inputs)
    w = weights(20, 8, 3, 3).to(memory_format=taps)
    check(lambda x, w: functional.conv2d(x, w, None, 2, 1), x, w)
    check(lambda x, w: functional.conv2d(x, w, None, padding=1, groups=2), x, w[:, :4].contiguous(memory_format=taps))


def test_volumes_with_channels_last(check: Check) -> None:
    x = torch.randn(1, 6, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    check(lambda x, w: functional.conv3d(x, w, None, padding=1), x, weights(5, 6, 3, 3, 3))


def test_views(check: Check) -> None:
    """Operands that are views: an offset, gaps, an order of axes of their own, broadcast."""
    x, w = torch.randn(2, 9, 12, 14), weights(16, 4, 3, 3)
    check(lambda x, w: functional.conv2d(x[:, 2:6, 1:, ::2], w, None, padding=1), x, w)
    check(lambda x, w: functional.conv2d(x[:, :4].transpose(2, 3), w.flip(2)), x, w)
    check(lambda x, w: functional.conv2d(x.view(2, 12, 9, 14)[:, 4:8], w), x, w)
    check(lambda x, w: functional.conv2d(x[:, :1].expand(-1, 4, -1, -1), w), x, w)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        (torch.float16, 1e-2), (torch.bfloat16, 2e-2), (torch.float64, 1e-9), (torch.int8, 0), (torch.uint8, 0),
        (torch.int16, 0), (torch.int32, 0), (torch.int64, 0),
    ],
    ids=str,
)  # fmt: skip
def test_types(check_each: Callable[..., Any], dtype: torch.dtype, tolerance: float) -> None:
    if dtype.is_floating_point:
        x, w, b = torch.randn(2, 4, 7, 8).to(dtype), weights(6, 4, 3, 3).to(dtype), torch.randn(6).to(dtype)
    else:
        x, w, b = (torch.randint(0, 5, shape).to(dtype) for shape in ((2, 4, 7, 8), (6, 4, 3, 3), (6,)))
    check_each(
        lambda x, w, b: (functional.conv2d(x, w, b, padding=1), functional.conv2d(x, w[:, :2], groups=2)),
        x,
        w,
        b,
        tolerance=tolerance,
    )


@pytest.mark.parametrize("shape", [(0, 3, 8, 8), (2, 0, 8, 8)], ids=str)
def test_empty(config: str, shape: tuple[int, ...]) -> None:
    import pytorchsim

    torch._dynamo.reset()
    options = {"config": config, "strict": True}
    compiled = torch.compile(functional.conv2d, backend="pytorchsim", fullgraph=True, options=options)
    x, w = torch.randn(shape), torch.randn(4, shape[1], 3, 3)
    torch.testing.assert_close(compiled(x, w), functional.conv2d(x, w))
    assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0


def test_zero_times_infinity_of_the_padding(check: Check) -> None:
    """Weights of taps that lie in the padding do not count, finite or not; what counts gives eager's NaN and inf."""
    x, w = torch.randn(1, 2, 5, 5), weights(3, 2, 3, 3)
    x[0, 0, 0, 0] = float("inf")
    check(lambda x, w: functional.conv2d(x, w, None, padding=1), x, w)


@pytest.mark.parametrize(
    ("shape", "kernel", "options"),
    [
        ((1, 2, 5, 5), 3, {"stride": 2}),
        ((2, 9, 5, 5), (4, 2), {"stride": (3, 2), "dilation": (2, 4), "padding": 1}),
        ((1, 3, 3, 3, 4), 3, {"stride": 2, "padding": 1}),
    ],
)
@pytest.mark.parametrize("value", [float("inf"), float("nan")], ids=str)
def test_taps_that_are_not_there_are_not_multiplied(
    shape: tuple[int, ...], kernel: int | tuple[int, ...], options: dict[str, Any], value: float, check: Check
) -> None:
    """Phases of a stride have different numbers of taps, some of them none."""
    rank = len(shape) - 2
    taps = (kernel,) * rank if isinstance(kernel, int) else kernel
    x, w = torch.randn(shape), weights(shape[1], 3, *taps)
    x[(0, 0, *(1 for _ in range(rank)))] = value
    result = check(lambda x, w: TRANSPOSED[rank](x, w, None, **options), x, w)
    assert result.isfinite().any()
    assert not result.isfinite().all()
