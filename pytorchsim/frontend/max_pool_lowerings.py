"""Lowerings of maximum pools: values, indices and gradients, over 2 or 3 axes.

In: Inductor's IR of the operands. Out: IR. Importing this module registers them, for our graphs only.

Ties and NaNs are eager's: the first of equal maxima counts, and the last NaN. Padding is never chosen.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.virtualized import ops

from pytorchsim.frontend.lowerings import lowers
from pytorchsim.frontend.pooling_loops import (
    UNROLLED,
    Index,
    PoolShape,
    adaptive_windows,
    flat_index,
    fold,
    gradient,
    holds,
    index_value,
    lowest_value,
    pointwise,
    tap_position,
    where_inside,
    window_of,
)
from pytorchsim.frontend.pooling_windows import Windows

__all__: list[str] = []

aten = torch.ops.aten


@lowers(aten.max_pool2d_with_indices.default)
def _max_pool2d(
    x: ir.TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> tuple[ir.TensorBox, ir.TensorBox]:
    return _maximum(x, PoolShape(2, kernel, stride, padding, dilation, ceil).windows(x))


@lowers(aten.max_pool3d_with_indices.default)
def _max_pool3d(
    x: ir.TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil: bool = False
) -> tuple[ir.TensorBox, ir.TensorBox]:
    return _maximum(x, PoolShape(3, kernel, stride, padding, dilation, ceil).windows(x))


@lowers(aten.adaptive_max_pool2d.default, aten.adaptive_max_pool3d.default)
def _adaptive_max_pool(x: ir.TensorBox, size: Sequence[int]) -> tuple[ir.TensorBox, ir.TensorBox]:
    return _maximum(x, adaptive_windows(x, size))


def _maximum(x: ir.TensorBox, axes: Sequence[Windows]) -> tuple[ir.TensorBox, ir.TensorBox]:
    """Values, and positions in the flattened pooled axes."""
    x.realize_hint()
    ranges = [*x.get_size()[: -len(axes)], *(axis.windows for axis in axes)]
    fold = _scanned_maximum if math.prod(axis.taps for axis in axes) <= UNROLLED else _reduced_maximum
    values, positions = fold(x, axes, ranges)
    return values, positions


def _scanned_maximum(x: ir.TensorBox, axes: Sequence[Windows], ranges: Index) -> tuple[ir.TensorBox, ir.TensorBox]:
    """One tap after another, as eager does: a larger element takes the place of the maximum, and so does a NaN."""
    dtype, wide = x.get_dtype(), _index_type(axes)
    load = _tap_loader(x, axes)

    def scan(index: Index) -> tuple[Any, Any]:
        maximum = ops.constant(lowest_value(dtype), dtype)
        place = _first_position(axes, index[-len(axes) :], wide)
        for taps in itertools.product(*(range(axis.taps) for axis in axes)):
            element, at = load(index, taps), _flat_position(axes, index, taps, wide)
            larger = ops.gt(element, maximum)
            if dtype.is_floating_point:
                larger = ops.logical_or(larger, ops.isnan(element))
            maximum, place = ops.where(larger, element, maximum), ops.where(larger, at, place)
        return maximum, place

    # Recorded first, so that both are scanned together and few values live at once.
    positions = pointwise(x, torch.int64, lambda index: ops.to_dtype(scan(index)[1], torch.int64), ranges)
    positions.realize()
    return pointwise(x, dtype, lambda index: scan(index)[0], ranges), positions


def _reduced_maximum(x: ir.TensorBox, axes: Sequence[Windows], ranges: Index) -> tuple[ir.TensorBox, ir.TensorBox]:
    """The maximum, then the smallest key: that of a maximum is its position, that of a NaN -1 - position."""
    dtype, wide = x.get_dtype(), _index_type(axes)
    taps = [axis.taps for axis in axes]
    load = _tap_loader(x, axes)
    values = fold("max", x, dtype, load, ranges, taps)
    load_maximum = values.make_loader()

    def key(index: Index, taps: Index) -> Any:
        _, _, present = tap_position(axes, index, taps)
        at, element = _flat_position(axes, index, taps, wide), load(index, taps)
        found = ops.eq(element, load_maximum(index))
        for limit in present:
            found = ops.and_(found, holds(*limit))
        result = ops.where(found, at, ops.constant(torch.iinfo(wide).max, wide))
        if dtype.is_floating_point:
            result = ops.where(ops.isnan(element), ops.sub(ops.constant(-1, wide), at), result)
        return result

    load_key = fold("min", x, wide, key, ranges, taps).make_loader()

    def position(index: Index) -> Any:
        key = load_key(index)
        of_nan = ops.sub(ops.constant(-1, wide), key)
        return ops.to_dtype(ops.where(ops.lt(key, ops.constant(0, wide)), of_nan, key), torch.int64)

    return values, pointwise(x, torch.int64, position, ranges)


def _index_type(axes: Sequence[Windows]) -> torch.dtype:
    """What positions are computed in: half as long as what they are stored as, where they fit."""
    return torch.int32 if math.prod(axis.extent for axis in axes) < 2**31 else torch.int64


def _tap_loader(x: ir.TensorBox, axes: Sequence[Windows]) -> Callable[[Index, Index], Any]:
    load, lowest = x.make_loader(), lowest_value(x.get_dtype())

    def load_tap(index: Index, taps: Index) -> Any:
        prefix, positions, present = tap_position(axes, index, taps)
        return where_inside(present, lambda: load([*prefix, *positions]), lowest)

    return load_tap


def _flat_position(axes: Sequence[Windows], index: Index, taps: Index, dtype: torch.dtype) -> Any:
    _, positions, _ = tap_position(axes, index, taps)
    return ops.index_expr(flat_index(positions, [axis.extent for axis in axes]), dtype)


def _first_position(axes: Sequence[Windows], windows: Index, dtype: torch.dtype) -> Any:
    """The position of the first tap inside of the input: what eager gives where nothing is larger than the lowest."""
    total = ops.constant(0, dtype)
    for axis, window in zip(axes, windows, strict=True):
        extent = ops.constant(axis.extent, dtype)
        total = ops.add(ops.mul(total, extent), index_value(axis.first(window), dtype))
    return total


@lowers(aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)
def _max_pool_backward(  # noqa: PLR0913  the operation's own signature
    grad: ir.TensorBox,
    x: ir.TensorBox,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil: bool,
    indices: ir.TensorBox,
) -> ir.TensorBox:
    shape = PoolShape(len(kernel), kernel, stride, padding, dilation, ceil)
    return _maximum_backward(grad, x, indices, shape.windows(x))


@lowers(aten.adaptive_max_pool2d_backward.default)
def _adaptive_max_pool2d_backward(grad: ir.TensorBox, x: ir.TensorBox, indices: ir.TensorBox) -> ir.TensorBox:
    return _maximum_backward(grad, x, indices, adaptive_windows(x, grad.get_size()[-2:]))


@lowers(aten.adaptive_max_pool3d_backward.default)
def _adaptive_max_pool3d_backward(grad: ir.TensorBox, x: ir.TensorBox, indices: ir.TensorBox) -> ir.TensorBox:
    return _maximum_backward(grad, x, indices, adaptive_windows(x, grad.get_size()[-3:]))


def _maximum_backward(
    grad: ir.TensorBox, x: ir.TensorBox, indices: ir.TensorBox, axes: Sequence[Windows]
) -> ir.TensorBox:
    """Each element takes from the windows that it lies in and whose index is its own."""
    grad.realize_hint()
    indices.realize_hint()
    load_grad, load_index = grad.make_loader(), indices.make_loader()
    extents = [axis.extent for axis in axes]

    def part(index: Index, numbers: Index) -> Any:
        prefix, windows, present = window_of(axes, index, numbers)
        own = ops.index_expr(flat_index(index[len(prefix) :], extents), torch.int64)
        chosen = where_inside(present, lambda: load_index([*prefix, *windows]), -1)
        given = where_inside(present, lambda: load_grad([*prefix, *windows]), 0.0)
        return ops.where(ops.eq(chosen, own), given, ops.constant(0.0, grad.get_dtype()))

    return gradient(grad, x, axes, part)
