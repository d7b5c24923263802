"""Attention: scaled products of queries and keys, softmax and the weighted sum of values in one kernel; scores never go
to DRAM.

In: buffers by strides. Out: one kernel. Layout in the lanes: queries lie over them, so a query's scores, their maximum
and their sum stay in one lane, and its weights are a column of an array as they are (docs/attention.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.templates.attention_control import AttentionControl
from pytorchsim.templates.attention_places import place_buffers, place_tensors
from pytorchsim.templates.attention_problem import AttentionProblem, attention_problem
from pytorchsim.templates.attention_search import TileSearch
from pytorchsim.templates.attention_tile import AttentionTile, search_attention
from pytorchsim.templates.base import TemplateBuffer
from pytorchsim.templates.unfused_template import UnfusedTemplate

__all__ = ["AttentionTemplate", "Operands", "attention_refusal", "problem_of_tensors"]


@dataclass(frozen=True)
class Operands:
    """What the template's inputs are, in order: query, key, value, then those that exist; and the numbers."""

    mask: bool
    statistics: bool
    causal: bool
    scale: float

    @property
    def names(self) -> tuple[str, ...]:
        """By input."""
        optional = (("mask", self.mask), ("statistics", self.statistics))
        return ("query", "key", "value", *(name for name, there in optional if there))


def attention_refusal(problem: AttentionProblem, config: NpuConfig) -> str:
    """Why no kernel computes it; empty where one does."""
    found = search_attention(problem, config)
    return "" if found.chosen else f"no tile fits: {'; '.join(found.reasons)}"


def problem_of_tensors(  # noqa: PLR0913  the tensors of attention
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    result: torch.Tensor,
    statistics: torch.Tensor | None,
    *,
    causal: bool,
    scale: float,
) -> AttentionProblem:
    """Of tensors, real or fake."""
    tensors = {"query": query, "key": key, "value": value, "result": result, "mask": mask, "statistics": statistics}
    placed = place_tensors({name: tensor for name, tensor in tensors.items() if tensor is not None})
    return attention_problem(placed.batch, placed.sizes, placed.places, causal, scale)


class AttentionTemplate(UnfusedTemplate[AttentionProblem, AttentionTile]):
    """`config`: the machine; `operands`: what the buffer's inputs are."""

    RESULT = "result"
    STORED = ("result", "statistics")
    NO_EPILOGUE = "attention takes no epilogue: its sums are finished tile of queries by tile"

    def __init__(self, config: NpuConfig, operands: Operands) -> None:
        super().__init__(config, operands.names)
        self._operands = operands

    def problem(self, template: TemplateBuffer) -> AttentionProblem:
        """Sizes and strides, read from the frozen layouts."""
        placed = place_buffers(self.buffers(template))
        return attention_problem(placed.batch, placed.sizes, placed.places, self._operands.causal, self._operands.scale)

    def search(self, problem: AttentionProblem) -> TileSearch[AttentionTile]:
        """The steps on this machine."""
        return search_attention(problem, self._config)

    def write(
        self, kernel: KernelBuilder, problem: AttentionProblem, tile: AttentionTile, slots: Mapping[str, int]
    ) -> None:
        """The kernel's functions."""
        AttentionControl(kernel, problem, tile, slots).build()
