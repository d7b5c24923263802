"""Lowerings of average pools and their gradients, over 2 or 3 axes.

In: Inductor's IR of the operands. Out: IR. Importing this module registers them, for our graphs only.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.virtualized import ops

from pytorchsim.frontend.lowerings import lowers
from pytorchsim.frontend.pooling_loops import (
    Index,
    PoolShape,
    adaptive_windows,
    fold,
    gradient,
    holds,
    index_value,
    pointwise,
    tap_position,
    where_inside,
    window_of,
)
from pytorchsim.frontend.pooling_windows import RegularWindows, Windows

__all__: list[str] = []

aten = torch.ops.aten


@lowers(aten.avg_pool2d.default)
def _avg_pool2d(x: ir.TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, *counted: Any) -> ir.TensorBox:
    return _avg_pool(x, PoolShape(2, kernel, stride, padding), *counted)


@lowers(aten.avg_pool3d.default)
def _avg_pool3d(x: ir.TensorBox, kernel: Any, stride: Any = (), padding: Any = 0, *counted: Any) -> ir.TensorBox:
    return _avg_pool(x, PoolShape(3, kernel, stride, padding), *counted)


def _avg_pool(
    x: ir.TensorBox,
    shape: PoolShape,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> ir.TensorBox:
    axes = replace(shape, ceil=ceil_mode).windows(x)
    return _average(x, axes, _divisor(axes, include_pad=count_include_pad, override=divisor_override))


@lowers(aten._adaptive_avg_pool2d.default, aten._adaptive_avg_pool3d.default)
def _adaptive_avg_pool(x: ir.TensorBox, size: Sequence[int]) -> ir.TensorBox:
    axes = adaptive_windows(x, size)
    return _average(x, axes, _divisor(axes, include_pad=False, override=None))


def _average(x: ir.TensorBox, axes: Sequence[Windows], divisor: Callable[[Index], Any]) -> ir.TensorBox:
    x.realize_hint()
    dtype = x.get_dtype()
    summed = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    ranges = [*x.get_size()[: -len(axes)], *(axis.windows for axis in axes)]
    load = x.make_loader()

    def value(index: Index, taps: Index) -> Any:
        prefix, positions, present = tap_position(axes, index, taps)
        return ops.to_dtype(where_inside(present, lambda: load([*prefix, *positions]), 0), summed)

    load_sum = fold("sum", x, summed, value, ranges, [axis.taps for axis in axes]).make_loader()

    def mean(index: Index) -> Any:
        return ops.to_dtype(_divided(load_sum(index), divisor(index[-len(axes) :]), summed), dtype)

    return pointwise(x, dtype, mean, ranges)


def _divided(value: Any, divisor: Any, dtype: torch.dtype) -> Any:
    """An integer is divided as integers are in C: towards zero."""
    divisor = ops.constant(divisor, dtype) if isinstance(divisor, int) else ops.to_dtype(divisor, dtype)
    return ops.truediv(value, divisor) if dtype.is_floating_point else ops.truncdiv(value, divisor)


def _divisor(axes: Sequence[Windows], *, include_pad: bool, override: int | None) -> Callable[[Index], Any]:
    """What the sum of a window is divided by: a number, or a value where windows differ."""
    if override is not None:
        return lambda _: override

    def count(axis: Windows, window: Any) -> Any:
        bounds = axis.padded_bounds if include_pad and isinstance(axis, RegularWindows) else axis.bounds
        counts = {int(high - low) for low, high in (bounds(sympy.Integer(number)) for number in range(axis.windows))}
        if len(counts) == 1:
            return counts.pop()
        low, high = bounds(window)
        return ops.sub(index_value(high), index_value(low))

    def product(windows: Index) -> Any:
        counts = [count(axis, window) for axis, window in zip(axes, windows, strict=True)]
        fixed = math.prod(number for number in counts if isinstance(number, int))
        varying = [number for number in counts if not isinstance(number, int)]
        if not varying:
            return fixed
        total = functools.reduce(ops.mul, varying)
        return ops.mul(total, ops.constant(fixed, torch.int32)) if fixed != 1 else total

    return product


@lowers(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)
def _avg_pool_backward(  # noqa: PLR0913  the operation's own signature
    grad: ir.TensorBox,
    x: ir.TensorBox,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> ir.TensorBox:
    axes = PoolShape(len(kernel), kernel, stride, padding, ceil=ceil_mode).windows(x)
    return _average_backward(grad, x, axes, _divisor(axes, include_pad=count_include_pad, override=divisor_override))


@lowers(aten._adaptive_avg_pool2d_backward.default)
def _adaptive_avg_pool2d_backward(grad: ir.TensorBox, x: ir.TensorBox) -> ir.TensorBox:
    axes = adaptive_windows(x, grad.get_size()[-2:])
    return _average_backward(grad, x, axes, _divisor(axes, include_pad=False, override=None))


@lowers(aten._adaptive_avg_pool3d_backward.default)
def _adaptive_avg_pool3d_backward(grad: ir.TensorBox, x: ir.TensorBox) -> ir.TensorBox:
    axes = adaptive_windows(x, grad.get_size()[-3:])
    return _average_backward(grad, x, axes, _divisor(axes, include_pad=False, override=None))


def _average_backward(
    grad: ir.TensorBox, x: ir.TensorBox, axes: Sequence[Windows], divisor: Callable[[Index], Any]
) -> ir.TensorBox:
    """Each element takes its share from the windows that it lies in."""
    load = grad.make_loader()
    dtype = torch.float64 if grad.get_dtype() == torch.float64 else torch.float32

    def share(index: Index) -> Any:
        return ops.to_dtype(_divided(load(index), divisor(index[-len(axes) :]), dtype), grad.get_dtype())

    shares = pointwise(grad, grad.get_dtype(), share, grad.get_size())
    shares.realize()
    load_share = shares.make_loader()

    def part(index: Index, numbers: Index) -> Any:
        prefix, windows, present = window_of(axes, index, numbers)
        given = where_inside(present, lambda: load_share([*prefix, *windows]), 0.0)
        for axis, position, number in zip(axes, index[len(prefix) :], numbers, strict=True):
            for expression, low, high in axis.covered(position, number):
                given = ops.where(holds(expression, low, high), given, ops.constant(0.0, grad.get_dtype()))
        return given

    return gradient(grad, x, axes, part)
