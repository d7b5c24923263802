"""Lowerings of `convolution` and `convolution_backward`: template buffers, biases as epilogues and sums.

In: Inductor's IR of the operands, in any memory format. Out: IR with one template buffer per convolution or gradient.
Importing this module registers them, for our graphs only. Types that no kernel computes with are left to the stock
lowering, which the host-op policy then sees.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch._inductor import ir
from torch._inductor.lowering import lowerings
from torch._inductor.virtualized import V

from pytorchsim.config.session import current_session
from pytorchsim.frontend.lowerings import lowers

if TYPE_CHECKING:
    from pytorchsim.templates.convolution_problem import Direction

__all__: list[str] = []

aten = torch.ops.aten


@dataclass(frozen=True)
class _Shapes:
    """Of a convolution's tensors, whichever of them is the result; `windows`: stride, padding, dilation."""

    image: list[int]
    weight: list[int]
    output: list[int]
    groups: int
    windows: tuple[tuple[int, ...], ...]


@lowers(aten.convolution.default)
def _convolution(  # noqa: PLR0913  ATen's signature
    x: ir.TensorBox,
    weight: ir.TensorBox,
    bias: ir.TensorBox | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    """The sum with the bias is realised, so that it becomes the convolution's epilogue instead of part of each of its
    users; not behind phases, which may refuse it: it is part of what joins or follows. A transposed convolution is the
    gradient of another one's input."""
    del output_padding  # it is in the size of the result
    if not _computable(x, weight):
        return None
    result = V.graph.current_node.meta["val"]
    shape, strides = [int(size) for size in result.shape], [int(step) for step in result.stride()]
    image, output = (shape, _sizes(x)) if transposed else (_sizes(x), shape)
    direction: Direction = "input" if transposed else "forward"
    windows = _windows(stride, padding, dilation, len(shape) - 2)
    convolved = _Shapes(image, _sizes(weight), output, groups, windows)
    total = _template(direction, convolved, (x, weight), (shape, strides))
    if bias is None:
        return total
    per_channel = lowerings[aten.view](bias, [-1, *(1 for _ in shape[2:])])
    total = lowerings[aten.add.Tensor](total, per_channel)
    if not transposed or set(windows[0]) == {1}:
        total.realize()
    return total


@lowers(aten.convolution_backward.default)
def _convolution_backward(  # noqa: PLR0913  ATen's signature
    gradient: ir.TensorBox,
    x: ir.TensorBox,
    weight: ir.TensorBox,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Gradients of input, weights and bias, each where `output_mask` wants it."""
    del bias_sizes, output_padding
    if not _computable(gradient, x, weight):
        return None
    image, output = (gradient, x) if transposed else (x, gradient)
    windows = _windows(stride, padding, dilation, len(_sizes(x)) - 2)
    convolved = _Shapes(_sizes(image), _sizes(weight), _sizes(output), groups, windows)
    wanted = [
        ([], []) if value is None else ([int(size) for size in value.shape], [int(step) for step in value.stride()])
        for value in V.graph.current_node.meta["val"]
    ]
    results: list[ir.TensorBox | None] = [None, None, None]
    if output_mask[0]:
        results[0] = _template("forward" if transposed else "input", convolved, (gradient, weight), wanted[0])
    if output_mask[1]:
        results[1] = _template("weight", convolved, (image, output), wanted[1])
    if output_mask[2]:
        results[2] = lowerings[aten.sum.dim_IntList](gradient, [0, *range(2, len(_sizes(x)))])
    return results


def _computable(*tensors: ir.TensorBox) -> bool:
    # Only here: a process that finds everything in caches needs no MLIR.
    from pytorchsim.templates.gemm import PRODUCT_DTYPES

    dtypes = {tensor.get_dtype() for tensor in tensors}
    return len(dtypes) == 1 and dtypes <= set(PRODUCT_DTYPES)


def _sizes(tensor: ir.TensorBox) -> list[int]:
    return [int(size) for size in tensor.get_size()]


def _windows(
    stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], rank: int
) -> tuple[tuple[int, ...], ...]:
    """Each with a value per spatial dimension; one value is for all of them."""
    each = []
    for values in (stride, padding, dilation):
        numbers = tuple(int(value) for value in values)
        each.append(numbers * rank if len(numbers) == 1 else numbers)
    return tuple(each)


def _template(
    direction: Direction,
    convolved: _Shapes,
    operands: tuple[ir.TensorBox, ir.TensorBox],
    result: tuple[Sequence[int], Sequence[int]],
) -> ir.TensorBox:
    """One direction of a convolution; `result`: its shape and strides."""
    from pytorchsim.templates.base import TemplateBuffer
    from pytorchsim.templates.convolution import ConvolutionTemplate
    from pytorchsim.templates.convolution_problem import Convolution

    shape, strides = result
    dtype, device = operands[0].get_dtype(), operands[0].get_device()
    image, weight, output = convolved.image, convolved.weight, convolved.output
    if 0 in (*image, *weight, *output):
        zeros: ir.TensorBox = lowerings[aten.full](shape, 0, dtype=dtype, device=device)  # empty, or sums of nothing
        return zeros
    stride, padding, dilation = convolved.windows
    convolution = Convolution(
        batch=image[0],
        groups=convolved.groups,
        in_channels=weight[1],
        out_channels=weight[0] // convolved.groups,
        inputs=tuple(image[2:]),
        outputs=tuple(output[2:]),
        kernel=tuple(weight[2:]),
        stride=stride,
        padding=padding,
        dilation=dilation,
    )
    realized = [ir.ExternKernel.realize_input(operand) for operand in operands]
    session = current_session()
    template = ConvolutionTemplate(session.config, session.tiles, direction, convolution)
    layout = ir.FixedLayout(operands[0].get_device_or_error(), dtype, list(shape), list(strides))
    return ir.TensorBox.create(TemplateBuffer(layout, realized, template))
