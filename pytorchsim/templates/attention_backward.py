"""The backward of attention: gradients of queries, keys and values in one kernel, which computes the weights again from
scores and statistics; nothing of the size of the scores goes to DRAM.

In: buffers by strides. Out: one kernel. Keys lie over the lanes (docs/attention.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch._inductor import ir as inductor_ir
from torch._inductor.scheduler import BaseSchedulerNode

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.builders import KernelBuilder
from pytorchsim.templates.attention import place_of_buffer, place_of_tensor
from pytorchsim.templates.attention_backward_control import BackwardControl
from pytorchsim.templates.attention_backward_problem import BackwardProblem, backward_problem
from pytorchsim.templates.attention_backward_tile import search_backward
from pytorchsim.templates.attention_problem import Place
from pytorchsim.templates.base import (
    BuiltKernel,
    FusedNodes,
    FusionPlan,
    MLIRTemplate,
    Recorded,
    TemplateBuffer,
    decline,
)

__all__ = ["AttentionBackwardTemplate", "BackwardOperands", "most_queries", "problem_of_backward"]

_VECTORS = ("statistics", "delta")

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
    places = {name: place_of_tensor(tensor, vectors=name in _VECTORS) for name, tensor in tensors.items()}
    *batch, queries, size = (int(extent) for extent in tensors["query"].shape)
    keys, value_size = (int(extent) for extent in tensors["value"].shape[-2:])
    return _problem(batch, (queries, keys, size, value_size), places, operands)


def _problem(
    batch: Sequence[int], sizes: tuple[int, int, int, int], places: Mapping[str, Place], operands: BackwardOperands
) -> BackwardProblem:
    return backward_problem(batch, sizes, places, operands.causal, operands.scale, operands.first)


class AttentionBackwardTemplate(MLIRTemplate):
    """`config`: the machine; `operands`: what the buffer's inputs are. The buffer itself is the gradient of queries."""

    def __init__(self, config: NpuConfig, operands: BackwardOperands) -> None:
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
        decline(template_node, node, "attention's backward takes no epilogue: its sums grow over several steps")
        return None

    def record(self, template: TemplateBuffer, fused: FusedNodes, removed: frozenset[str]) -> Recorded:
        """The operands."""
        del fused, removed
        names = self._buffers(template)
        stores = ("of_query", "of_key", "of_value")
        loads = tuple(dict.fromkeys(buffer for name, buffer in names.items() if name not in stores))
        return Recorded(None, loads, tuple(names[name] for name in stores))

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
        found = search_backward(problem, self._config)
        tile = found.tile(self._rank, name, origins)
        numbers = {operand: slots[buffer] for operand, buffer in self._buffers(template).items()}
        with KernelBuilder(name, self._config, origins=origins, tile_shape=tile.describe()) as kernel:
            BackwardControl(kernel, problem, tile, numbers).build()
            return BuiltKernel(kernel.text(), tile.describe(), found.reasons, len(found.ranked))

    def _buffers(self, template: TemplateBuffer) -> dict[str, str]:
        """Names of buffers by what they are."""
        named = zip(self._operands.names, template.operands, strict=True)
        return {"of_query": template.get_name(), **{name: buffer.get_name() for name, buffer in named}}

    def problem(self, template: TemplateBuffer) -> BackwardProblem:
        """Sizes and strides, read from the frozen layouts."""
        named: dict[str, inductor_ir.IRNode] = dict(zip(self._operands.names, template.operands, strict=True))
        *batch, queries, size = (int(extent) for extent in named["query"].get_size())
        keys, value_size = (int(extent) for extent in named["value"].get_size()[-2:])
        named["of_query"] = template
        places = {name: place_of_buffer(buffer, vectors=name in _VECTORS) for name, buffer in named.items()}
        sizes = (queries, keys, size, value_size)
        return _problem(batch, sizes, places, self._operands)
