"""What lowerings of pools are made of: their windows, loops over taps, and loops over the windows of an element.

In: arguments of a pool and Inductor's IR. Out: IR, and pieces of loop bodies.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sympy
import torch
from torch._inductor import config, ir
from torch._inductor.lowering import clone, lowerings, to_dtype
from torch._inductor.virtualized import ops

from pytorchsim.frontend.pooling_windows import AdaptiveWindows, Range, RegularWindows, Windows

__all__ = [
    "UNROLLED",
    "Index",
    "PoolShape",
    "adaptive_windows",
    "flat_index",
    "fold",
    "gradient",
    "holds",
    "index_value",
    "lowest_value",
    "pointwise",
    "tap_position",
    "where_inside",
    "window_of",
]

aten = torch.ops.aten

UNROLLED = 25
"""Windows of up to so many elements are written out; larger ones are loops. Inductor's own limit for pools."""

Index = Sequence[Any]


def gradient(
    grad: ir.TensorBox, x: ir.TensorBox, axes: Sequence[Windows], part: Callable[[Index, Index], Any]
) -> ir.TensorBox:
    """Of `x`: the sum of `part` over the windows that an element may lie in. Elements past the last whole stride are
    computed and cut off: then quotients by the stride are axes of their own."""
    prefix = list(x.get_size()[: -len(axes)])
    dtype = grad.get_dtype()
    summed = torch.float32 if dtype in (torch.float16, torch.bfloat16) else dtype
    ranges = [*prefix, *(axis.padded_extent for axis in axes)]

    def widened(index: Index, numbers: Index) -> Any:
        return ops.to_dtype(part(index, numbers), summed)

    total: ir.TensorBox = to_dtype(fold("sum", grad, summed, widened, ranges, [axis.covers for axis in axes]), dtype)
    if all(axis.padded_extent == axis.extent for axis in axes):
        return total
    total.realize()
    for number, axis in enumerate(axes):
        total = lowerings[aten.slice.Tensor](total, len(prefix) + number, 0, axis.extent)
    copied: ir.TensorBox = clone(total)
    return copied


def fold(
    kind: Literal["max", "min", "sum"],
    like: ir.TensorBox,
    dtype: torch.dtype,
    function: Callable[[Index, Index], Any],
    ranges: Index,
    taps: Sequence[int],
) -> ir.TensorBox:
    """Reduce `function` over `taps`: written out where they are few."""
    threshold = UNROLLED if math.prod(taps) <= UNROLLED else config.unroll_reductions_threshold
    with config.patch(unroll_reductions_threshold=threshold):
        result = ir.Reduction.create(
            reduction_type=kind,
            input_node=like,
            device=_device(like),
            dst_dtype=dtype,
            src_dtype=dtype,
            inner_fn=function,
            ranges=list(ranges),
            reduction_ranges=list(taps),
        )
    box: Any = result.data
    if isinstance(box.data, ir.Reduction):
        result.realize()
    return result


def pointwise(like: ir.TensorBox, dtype: torch.dtype, function: Callable[[Index], Any], ranges: Index) -> ir.TensorBox:
    """`function` of every index in `ranges`, on the device of `like`."""
    return ir.Pointwise.create(device=_device(like), dtype=dtype, inner_fn=function, ranges=list(ranges))


def _device(x: ir.TensorBox) -> torch.device:
    device = x.get_device()
    assert device is not None
    return device


def tap_position(axes: Sequence[Windows], index: Index, taps: Index) -> tuple[list[Any], list[Any], list[Range]]:
    """Outer indices, the position of a tap, and when it is inside."""
    prefix, windows = list(index[: -len(axes)]), index[-len(axes) :]
    walk = list(zip(axes, windows, taps, strict=True))
    positions = [axis.position(window, tap) for axis, window, tap in walk]
    return prefix, positions, [limit for axis, window, tap in walk for limit in axis.inside(window, tap)]


def window_of(axes: Sequence[Windows], index: Index, numbers: Index) -> tuple[list[Any], list[Any], list[Range]]:
    """Outer indices, a window that an element may lie in, and when it exists."""
    prefix, positions = list(index[: -len(axes)]), index[-len(axes) :]
    walk = list(zip(axes, positions, numbers, strict=True))
    windows = [axis.window(position, number) for axis, position, number in walk]
    return prefix, windows, [limit for axis, position, number in walk for limit in axis.exists(position, number)]


def where_inside(ranges: Sequence[Range], load: Callable[[], Any], other: float | int | bool) -> Any:
    """What `load` gives where all `ranges` hold, else `other`."""
    if not ranges:
        return load()
    return ops.masked(functools.reduce(ops.and_, [holds(*limit) for limit in ranges]), load, other)


def holds(expression: Any, low: int, high: Any) -> Any:
    """Whether low <= expression < high."""
    value = ops.index_expr(expression, torch.int64)
    above = ops.ge(value, ops.index_expr(sympy.Integer(low), torch.int64))
    return ops.and_(above, ops.lt(value, ops.index_expr(sympy.sympify(high), torch.int64)))


def flat_index(positions: Index, extents: Sequence[int]) -> Any:
    """The number of a position in row-major order."""
    total = sympy.Integer(0)
    for position, extent in zip(positions, extents, strict=True):
        total = total * extent + position
    return total


def lowest_value(dtype: torch.dtype) -> float | int | bool:
    """What no element of `dtype` is below."""
    if dtype == torch.bool:
        return False
    return float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def adaptive_windows(x: ir.TensorBox, size: Sequence[Any]) -> list[Windows]:
    """Windows of one size where the extent divides."""
    extents = [int(extent) for extent in x.get_size()[-len(size) :]]
    return [_adaptive_axis(extent, int(windows)) for extent, windows in zip(extents, size, strict=True)]


def _adaptive_axis(extent: int, windows: int) -> Windows:
    if windows and extent % windows == 0:
        return RegularWindows(extent, windows, extent // windows, extent // windows, 0, 1)
    return AdaptiveWindows(extent, windows)


@dataclass(frozen=True)
class PoolShape:
    """What a pool's arguments say of its windows: numbers, or one per axis."""

    rank: int
    kernel: Any
    stride: Any
    padding: Any
    dilation: Any = 1
    ceil: bool = False

    def windows(self, x: ir.TensorBox) -> list[Windows]:
        """The windows of each pooled axis of `x`."""
        kernels, paddings, dilations = (self._listed(value) for value in (self.kernel, self.padding, self.dilation))
        strides = self._listed(self.stride) if self.stride else kernels
        extents = [int(extent) for extent in x.get_size()[-self.rank :]]
        axes: list[Windows] = []
        for extent, size, step, pad, spread in zip(extents, kernels, strides, paddings, dilations, strict=True):
            room = extent + 2 * pad - spread * (size - 1) - 1
            windows = (room + (step - 1 if self.ceil else 0)) // step + 1
            if self.ceil and (windows - 1) * step >= extent + pad:
                windows -= 1  # a window starts in the input or in the padding before it
            axes.append(RegularWindows(extent, windows, size, step, pad, spread))
        return axes

    def _listed(self, value: Any) -> list[int]:
        values = [value] if isinstance(value, int) else list(value)
        return [int(number) for number in (values * self.rank if len(values) == 1 else values)]


def index_value(expression: Any, dtype: torch.dtype = torch.int32) -> Any:
    """The value of an index expression that may be a maximum or minimum of two."""
    if isinstance(expression, (sympy.Max, sympy.Min)):
        combine = ops.maximum if isinstance(expression, sympy.Max) else ops.minimum
        return functools.reduce(combine, [index_value(argument, dtype) for argument in expression.args])
    return ops.index_expr(expression, dtype)
