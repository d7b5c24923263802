"""Convolutions of one to three dimensions and their gradients: matrix products whose operands are windows.

In: a convolution's sizes, the buffers of two operands and of the result in any memory format. Out: one kernel
each, or one for each part of the result.
"""

from __future__ import annotations

from torch._inductor import ir as inductor_ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.config.tiles import TileChoices
from pytorchsim.templates.base import TemplateBuffer
from pytorchsim.templates.convolution_problem import Convolution, Direction, TensorPlace, convolution_problems
from pytorchsim.templates.gemm import ProductTemplate
from pytorchsim.templates.gemm_problem import GemmProblem
from pytorchsim.templates.recorded_types import machine_dtype

__all__ = ["ConvolutionTemplate"]


class ConvolutionTemplate(ProductTemplate):
    """One direction of a convolution; its operands in the order of `convolution_problems`. `part`: which of the
    problems a kernel is for."""

    def __init__(
        self, config: NpuConfig, tiles: TileChoices, direction: Direction, sizes: Convolution, part: int = 0
    ) -> None:
        super().__init__(config, tiles)
        self._direction, self._sizes, self._part = direction, sizes, part

    def parts(self, template: TemplateBuffer) -> tuple[ConvolutionTemplate, ...]:
        """A kernel for each problem."""
        return tuple(
            ConvolutionTemplate(self._config, self._tiles, self._direction, self._sizes, part)
            for part in range(len(self._problems(template)))
        )

    def problem(self, template: TemplateBuffer) -> GemmProblem:
        """Which axes there are depends on the strides."""
        return self._problems(template)[self._part]

    def _problems(self, template: TemplateBuffer) -> tuple[GemmProblem, ...]:
        x, w = template.operands
        dtypes = machine_dtype(x.get_dtype()), machine_dtype(template.get_dtype())
        places = (_place(x), _place(w), _place(template))
        return convolution_problems(self._direction, self._sizes, places, dtypes, self._config)


def _place(buffer: inductor_ir.IRNode) -> TensorPlace:
    layout = buffer.get_layout()
    return TensorPlace(tuple(int(stride) for stride in layout.stride), int(layout.offset))
