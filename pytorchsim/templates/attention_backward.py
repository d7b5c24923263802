"""The backward of attention: gradients of queries, keys and values in one kernel, which computes the weights again from
scores and statistics; nothing of the size of the scores goes to DRAM.

In: buffers by strides. Out: one kernel. Keys lie over the lanes (docs/attention.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import torch

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.templates.attention_backward_control import BackwardControl
from pytorchsim.templates.attention_backward_problem import BackwardProblem, backward_problem
from pytorchsim.templates.attention_backward_tile import BackwardTile, search_backward
from pytorchsim.templates.attention_places import Placed, place_buffers, place_tensors
from pytorchsim.templates.attention_search import TileSearch
from pytorchsim.templates.base import TemplateBuffer
from pytorchsim.templates.unfused_template import UnfusedTemplate

__all__ = ["AttentionBackwardTemplate", "BackwardOperands", "most_queries", "problem_of_backward"]

_MOST_PARTS = 16
"""Parts of the queries, each of which is a kernel to compile."""


@dataclass(frozen=True)
class BackwardOperands:
    """What the template's inputs are, in order, and the numbers. `first`: number of the first query, where `causal`."""

    mask: bool
    causal: bool
    scale: float
    first: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """By input; the last two are written."""
        mask = ("mask",) if self.mask else ()
        return ("gradient", "query", "key", "value", *mask, "statistics", "delta", "of_key", "of_value")


def most_queries(problem: BackwardProblem, config: NpuConfig) -> int:
    """How many queries of a head one kernel takes: all, or half of them as often as it takes until their gradient stays
    in the scratchpad; 0 where that makes too many kernels."""
    lanes, queries = config.core.lanes, problem.queries
    while search_backward(replace(problem, queries=queries), config).chosen is None:
        if queries <= lanes or _MOST_PARTS * queries <= problem.queries:
            return 0
        queries = -(-queries // 2 // lanes) * lanes
    return queries


def problem_of_backward(tensors: Mapping[str, torch.Tensor], operands: BackwardOperands) -> BackwardProblem:
    """Of tensors, real or fake, by the names of places."""
    return _problem(place_tensors(tensors), operands)


def _problem(placed: Placed, operands: BackwardOperands) -> BackwardProblem:
    return backward_problem(placed.batch, placed.sizes, placed.places, operands.causal, operands.scale, operands.first)


class AttentionBackwardTemplate(UnfusedTemplate[BackwardProblem, BackwardTile]):
    """`config`: the machine; `operands`: what the buffer's inputs are. The buffer itself is the gradient of queries."""

    RESULT = "of_query"
    STORED = ("of_query", "of_key", "of_value")
    NO_EPILOGUE = "attention's backward takes no epilogue: its sums grow over several steps"

    def __init__(self, config: NpuConfig, operands: BackwardOperands) -> None:
        super().__init__(config, operands.names)
        self._operands = operands

    def problem(self, template: TemplateBuffer) -> BackwardProblem:
        """Sizes and strides, read from the frozen layouts."""
        return _problem(place_buffers(self.buffers(template)), self._operands)

    def search(self, problem: BackwardProblem) -> TileSearch[BackwardTile]:
        """The steps on this machine."""
        return search_backward(problem, self._config)

    def write(
        self, kernel: KernelBuilder, problem: BackwardProblem, tile: BackwardTile, slots: Mapping[str, int]
    ) -> None:
        """The kernel's functions."""
        BackwardControl(kernel, problem, tile, slots).build()
