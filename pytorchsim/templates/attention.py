"""Attention: scaled products of queries and keys, softmax and the weighted sum of values in one kernel; scores never go
to DRAM.

In: buffers by strides. Out: one kernel. Layout in the lanes: queries lie over them, so a query's scores, their maximum
and their sum stay in one lane, and its weights are a column of an array as they are (docs/attention.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch._inductor import ir as inductor_ir
from torch._inductor.scheduler import BaseSchedulerNode

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.builders import KernelBuilder
from pytorchsim.templates.attention_control import AttentionControl
from pytorchsim.templates.attention_problem import AttentionProblem, Place, attention_problem
from pytorchsim.templates.attention_tile import search_attention
from pytorchsim.templates.base import (
    BuiltKernel,
    FusedNodes,
    FusionPlan,
    MLIRTemplate,
    Recorded,
    TemplateBuffer,
    decline,
)
from pytorchsim.templates.recorded_types import machine_dtype

__all__ = [
    "AttentionTemplate",
    "Operands",
    "attention_refusal",
    "place_of_buffer",
    "place_of_tensor",
    "problem_of_tensors",
]


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
    places = {name: place_of_tensor(t, vectors=name == "statistics") for name, t in tensors.items() if t is not None}
    *batch, queries, size = (int(extent) for extent in query.shape)
    keys, value_size = (int(extent) for extent in value.shape[-2:])
    return attention_problem(batch, (queries, keys, size, value_size), places, causal, scale)


class AttentionTemplate(MLIRTemplate):
    """`config`: the machine; `operands`: what the buffer's inputs are."""

    def __init__(self, config: NpuConfig, operands: Operands) -> None:
        self._config, self._operands = config, operands

    def try_fuse_epilogue(
        self,
        template_node: BaseSchedulerNode,
        existing_epilogues: Sequence[BaseSchedulerNode],
        node: BaseSchedulerNode,
        *,
        prologues: Sequence[BaseSchedulerNode] = (),
    ) -> FusionPlan | None:
        """Nothing joins it."""
        del existing_epilogues, prologues
        decline(template_node, node, "attention takes no epilogue: its sums are finished tile of queries by tile")
        return None

    def record(self, template: TemplateBuffer, fused: FusedNodes, removed: frozenset[str]) -> Recorded:
        """The operands."""
        del fused, removed
        names = self._buffers(template)
        loads = tuple(dict.fromkeys(names[name] for name in ("query", "key", "value", "mask") if name in names))
        stores = tuple(names[name] for name in ("result", "statistics") if name in names)
        return Recorded(None, loads, stores)

    def build(
        self,
        name: str,
        template: TemplateBuffer,
        recorded: Recorded,
        slots: Mapping[str, int],
        origins: tuple[str, ...],
    ) -> BuiltKernel:
        """The kernel."""
        del recorded
        problem = self.problem(template)
        found = search_attention(problem, self._config)
        tile = found.tile(self._rank, name, origins)
        numbers = {operand: slots[buffer] for operand, buffer in self._buffers(template).items()}
        with KernelBuilder(name, self._config, origins=origins, tile_shape=tile.describe()) as kernel:
            AttentionControl(kernel, problem, tile, numbers).build()
            return BuiltKernel(kernel.text(), tile.describe(), found.reasons, len(found.ranked))

    def _buffers(self, template: TemplateBuffer) -> dict[str, str]:
        """Names of buffers by what they are."""
        named = zip(self._operands.names, template.operands, strict=True)
        return {"result": template.get_name(), **{name: buffer.get_name() for name, buffer in named}}

    def problem(self, template: TemplateBuffer) -> AttentionProblem:
        """Sizes and strides, read from the frozen layouts."""
        named = dict(zip(self._operands.names, template.operands, strict=True))
        *batch, queries, size = (int(extent) for extent in named["query"].get_size())
        keys, value_size = (int(extent) for extent in named["value"].get_size()[-2:])
        places = {name: place_of_buffer(buffer, vectors=name == "statistics") for name, buffer in named.items()}
        places["result"] = place_of_buffer(template)
        sizes = (queries, keys, size, value_size)
        return attention_problem(batch, sizes, places, self._operands.causal, self._operands.scale)


def place_of_tensor(tensor: torch.Tensor, *, vectors: bool = False) -> Place:
    """Of a tensor, real or fake. `vectors`: it has no columns."""
    return _place(tensor.dtype, tensor.shape, tensor.stride(), 0, vectors=vectors)


def place_of_buffer(buffer: inductor_ir.IRNode, *, vectors: bool = False) -> Place:
    """Of a buffer with a frozen layout. `vectors`: it has no columns."""
    layout = buffer.get_layout()
    return _place(buffer.get_dtype(), layout.size, layout.stride, int(layout.offset), vectors=vectors)


def _place(
    dtype: torch.dtype, sizes: Sequence[object], strides: Sequence[object], offset: int, *, vectors: bool
) -> Place:
    """`vectors`: it has no columns. Axes of one element have stride 0, however the layout calls it."""
    steps = [0 if int(size) == 1 else int(step) for size, step in zip(sizes, strides, strict=True)]  # type: ignore[call-overload]
    *batch, row, column = [*steps, 0] if vectors else steps
    return Place(offset, tuple(batch), row, column, machine_dtype(dtype))
