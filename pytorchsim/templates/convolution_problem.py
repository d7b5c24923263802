"""A convolution and its gradients as matrix products whose operands are windows.

In: sizes of a convolution, strides of its tensors. Out: a `GemmProblem`; nothing is copied, padded or flipped. With
o = output position, t = tap, per spatial dimension:

    forward   Y[n, o; oc]      = sum over (ic, t) of X[n, ic, o * stride + t * dilation - padding] * W[oc, ic, t]
    input     dX[n, i; ic]     = sum over (oc, t) of dY[n, oc, o] * W[oc, ic, t], where o reads i by tap t
    weight    dW[ic, t; oc]    = sum over (n, o) of X[n, ic, o * stride + t * dilation - padding] * dY[n, oc, o]

Which outputs read an input element depends on its position modulo the stride. With e = gcd(stride, dilation),
i + padding = dilation * u + stride * q + v and t = u + (stride / e) * s for phases u in [0, stride / e), v in [0, e)
are unique, and o = q - (dilation / e) * s where v = 0, while nothing reads i where v > 0. Phases are batches, q rows, s
products; every index is affine. Phases with different numbers of taps are problems of their own: a tap that is not
there is not multiplied. A transposed convolution is the gradient of the input of one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.convolution_phases import Part as Positions
from pytorchsim.templates.convolution_phases import Phases, Strided, phase_parts
from pytorchsim.templates.gemm_problem import GemmProblem, Part, Role
from pytorchsim.templates.product_axes import ProductAxis, ProductGuard, product_problem

__all__ = ["Convolution", "Direction", "TensorPlace", "convolution_problems"]

Direction = Literal["forward", "input", "weight"]

_Tensor = Literal["image", "weight", "output"]

_PARTS: dict[Direction, dict[_Tensor, Part]] = {
    "forward": {"image": "x", "weight": "w", "output": "y"},
    "input": {"output": "x", "weight": "w", "image": "y"},
    "weight": {"image": "x", "output": "w", "weight": "y"},
}

_CHANNELS: dict[Direction, tuple[Role, Role, Role]] = {
    "forward": ("m", "k", "n"),
    "input": ("m", "n", "k"),
    "weight": ("k", "m", "n"),
}
"""Groups of images, input channels and output channels."""


@dataclass(frozen=True)
class Convolution:
    """Sizes: `batch` images of `inputs` spatial extents become `outputs`; each of `groups` has `in_channels` and
    `out_channels` of its own. `kernel`, `stride`, `padding`, `dilation`: per spatial dimension."""

    batch: int
    groups: int
    in_channels: int
    out_channels: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]


@dataclass(frozen=True)
class TensorPlace:
    """Strides in elements of a tensor, of (image, channel, spatial...) or, for weights, of (output channel, input
    channel of a group, tap...), and where it begins."""

    strides: tuple[int, ...]
    offset: int


@dataclass(frozen=True)
class _Axis:
    """A `ProductAxis` by tensor; `steps`: of the guards of its dimension, by tensor."""

    role: Role
    size: int
    strides: Mapping[_Tensor, int]
    steps: Mapping[_Tensor, int]


@dataclass(frozen=True)
class _Dimension:
    """What one spatial dimension adds: axes, the first position in each tensor (in its own elements along the
    dimension), and the extents within which positions exist."""

    axes: tuple[_Axis, ...]
    first: Mapping[_Tensor, int]
    extents: Mapping[_Tensor, int]


def convolution_problems(
    direction: Direction,
    sizes: Convolution,
    places: tuple[TensorPlace, TensorPlace, TensorPlace],
    dtypes: tuple[Dtype, Dtype],
    config: NpuConfig,
) -> tuple[GemmProblem, ...]:
    """Problems that together are all of the result, each element in one. `places`: of the two operands and the result.
    Forward: input, weights, output. Input: gradient of the output, weights, gradient of the input. Weight: input,
    gradient of the output, gradient of the weights. `dtypes`: of the operands and of the result."""
    parts = _PARTS[direction]
    of_part: dict[Part, TensorPlace] = {"x": places[0], "w": places[1], "y": places[2]}
    at: dict[_Tensor, TensorPlace] = {tensor: of_part[part] for tensor, part in parts.items()}
    rank = range(len(sizes.kernel))
    if direction != "input":
        windows = [_windows(direction, sizes, number) for number in rank]
        return (_problem(_channels(direction, sizes, at), windows, parts, at, dtypes, config),)
    strided = [
        Strided(*each)
        for each in zip(sizes.inputs, sizes.kernel, sizes.stride, sizes.padding, sizes.dilation, strict=True)
    ]
    return tuple(
        _problem(
            _channels(direction, sizes, at) if reached else _empty_channels(sizes, at),
            [_gradient(strided[number], positions[number], sizes.outputs[number], reached=reached) for number in rank],
            parts,
            at,
            dtypes,
            config,
            nothing=not reached,
        )
        for positions in phase_parts(strided)
        for reached in [_is_reached(positions)]
    )


def _is_reached(positions: Positions) -> bool:
    return all(phases is not None and phases.taps for phases in positions)


def _problem(  # noqa: PLR0913  what both operands and the result are made of
    channels: Iterator[tuple[Role, int, dict[_Tensor, int]]],
    dimensions: Sequence[_Dimension],
    parts: Mapping[_Tensor, Part],
    at: Mapping[_Tensor, TensorPlace],
    dtypes: tuple[Dtype, Dtype],
    config: NpuConfig,
    *,
    nothing: bool = False,
) -> GemmProblem:
    """Channels around dimensions. `nothing`: no element of an operand exists."""
    guards: list[ProductGuard] = []
    offsets: dict[Part, int] = {part: at[tensor].offset for tensor, part in parts.items()}
    spatial: list[ProductAxis] = []
    for number, dimension in enumerate(dimensions):
        numbers: dict[_Tensor, int] = {}
        for tensor, extent in dimension.extents.items():
            numbers[tensor] = len(guards)
            stride = at[tensor].strides[2 + number]
            guards.append(ProductGuard(parts[tensor], dimension.first[tensor], extent, stride))
        for tensor, first in dimension.first.items():
            offsets[parts[tensor]] += first * at[tensor].strides[2 + number]
        for axis in dimension.axes:
            moves = {parts[tensor]: step * at[tensor].strides[2 + number] for tensor, step in axis.strides.items()}
            steps = {numbers[tensor]: step for tensor, step in axis.steps.items()}
            spatial.append(ProductAxis(axis.role, axis.size, moves, steps))
    if nothing:
        guards += [ProductGuard("x", 0, 0), ProductGuard("w", 0, 0)]
    *others, group = [
        ProductAxis(role, size, {parts[tensor]: step for tensor, step in strides.items()})
        for role, size, strides in channels
    ]
    return product_problem([*others, *spatial, group], guards, offsets, dtypes, config)


def _channels(
    direction: Direction, sizes: Convolution, at: Mapping[_Tensor, TensorPlace]
) -> Iterator[tuple[Role, int, dict[_Tensor, int]]]:
    """Images, channels, groups: role, size, strides."""
    images, inner, outer = _CHANNELS[direction]
    image, weight, output = at["image"].strides, at["weight"].strides, at["output"].strides
    yield images, sizes.batch, {"image": image[0], "output": output[0]}
    yield inner, sizes.in_channels, {"image": image[1], "weight": weight[1]}
    yield outer, sizes.out_channels, {"output": output[1], "weight": weight[0]}
    inputs, outputs = sizes.in_channels, sizes.out_channels
    yield "b", sizes.groups, {"image": inputs * image[1], "weight": outputs * weight[0], "output": outputs * output[1]}


def _empty_channels(
    sizes: Convolution, at: Mapping[_Tensor, TensorPlace]
) -> Iterator[tuple[Role, int, dict[_Tensor, int]]]:
    """Of a part of the image that no tap reaches: there is nothing to sum, in no group."""
    image = at["image"].strides
    yield "m", sizes.batch, {"image": image[0]}
    yield "n", sizes.groups * sizes.in_channels, {"image": image[1]}


def _windows(direction: Direction, sizes: Convolution, number: int) -> _Dimension:
    """Outputs and taps; the window reads the image."""
    stride, dilation, padding = sizes.stride[number], sizes.dilation[number], sizes.padding[number]
    outputs: Role = "m" if direction == "forward" else "k"
    taps: Role = "k" if direction == "forward" else "m"
    return _Dimension(
        (
            _Axis(outputs, sizes.outputs[number], {"image": stride, "output": 1}, {"image": stride}),
            _Axis(taps, sizes.kernel[number], {"image": dilation, "weight": 1}, {"image": dilation}),
        ),
        {"image": -padding},
        {"image": sizes.inputs[number]},
    )


def _gradient(strided: Strided, phases: Phases | None, outputs: int, *, reached: bool) -> _Dimension:
    """Phases, image positions of a phase and its taps; what is read is the output, where the part is `reached`."""
    if phases is None:
        return _Dimension((_Axis("m", strided.inputs, {"image": 1}, {}),), {"image": 0}, {})
    stride, dilation = strided.stride, strided.dilation
    shift = dilation * phases.first + phases.offset
    rows = _Axis("m", phases.length, {"image": stride}, {"image": stride})
    first: dict[_Tensor, int] = {"image": stride * phases.begin + shift - strided.padding}
    extents: dict[_Tensor, int] = {"image": strided.inputs}
    u: dict[_Tensor, int] = {"image": dilation}
    taps: tuple[_Axis, ...] = ()
    if reached:
        step = dilation // strided.common
        rows = _Axis("m", phases.length, {"image": stride, "output": 1}, {"image": stride, "output": 1})
        first |= {"weight": phases.first, "output": phases.begin}
        extents |= {"output": outputs}
        u |= {"weight": 1}
        taps = (_Axis("k", phases.taps, {"weight": strided.phases, "output": -step}, {"output": -step}),)
    return _Dimension(
        (
            _Axis("b", phases.count, u, {"image": dilation}),
            _Axis("b", phases.offsets, {"image": 1}, {"image": 1}),
            rows,
            *taps,
        ),
        first,
        extents,
    )
