"""`MLIRScheduling`: Inductor asks it what may share a kernel and hands it groups of nodes to turn into kernels.

It knows graph facts only: iteration spaces, which node carries a template, in which direction a new node would join
it. What a template's kernel can express is the template's business; it is asked through `MLIRTemplate`, and no kind
of template is named here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.scheduler import BaseSchedulerNode, BaseScheduling, FusedSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from pytorchsim.config.model import NpuConfig
from pytorchsim.scheduler.emission import emit_loop_kernel, emit_template_kernel
from pytorchsim.scheduler.recording import fusion_refusal
from pytorchsim.templates.base import FusionPlan, TemplateBuffer, why_no_fuse

__all__ = ["MLIRScheduling"]

Space = tuple[tuple[sympy.Expr, ...], ...]


class MLIRScheduling(BaseScheduling):
    """Scheduling for the NPU; `config` is the machine of the session that compiles."""

    def __init__(self, scheduler: Any, config: NpuConfig) -> None:
        super().__init__(scheduler)
        self._config = config

    def get_backend_features(self, device: torch.device) -> OrderedSet[BackendFeature]:
        """No split reductions: a kernel reduces as far as it has to."""
        return OrderedSet([BackendFeature.REDUCE_TO_SINGLE_ELEMENT])

    def group_fn(self, sizes: Sequence[Sequence[sympy.Expr]]) -> Space:
        """The iteration space as it is."""
        return tuple(tuple(V.graph.sizevars.simplify(size) for size in part) for part in sizes)

    def can_fuse_vertical(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """`node2` reads `node1`; the generic dependency check has passed."""
        if node1.is_template() or node2.is_template():
            return self._plan(node1, node2) is not None
        return _share_rows(node1, node2) and _share_axes(node1, node2)

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Independent nodes over one space of rows share their loads; a template shares with nobody."""
        if node1.is_template() or node2.is_template():
            return False
        return _share_rows(node1, node2) and _share_axes(node1, node2)

    def get_fusion_pair_priority(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> int:
        """Templates take their epilogues before elementwise nodes fuse among themselves."""
        return 0 if node1.is_template() or node2.is_template() else 1

    def fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusedSchedulerNode:
        """Commit a fusion: a template's plan is made again, since nodes have changed meanwhile, and applied."""
        if node1.is_template() or node2.is_template():
            plan = self._plan(node1, node2)
            if plan is None:
                raise AssertionError(f"{node1.get_name()} and {node2.get_name()} were fusible and no longer are")
            if plan.remap is not None:
                plan.remap()
        return super().fuse(node1, node2)

    def _plan(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusionPlan | None:
        """The template's plan for taking one more node: behind it, or in front of it."""
        if node1.is_template() and node2.is_template():
            why_no_fuse.debug("%s and %s: both are templates", node1.get_name(), node2.get_name())
            return None
        carrier, joining = (node1, node2) if node1.is_template() else (node2, node1)
        if len(joining.get_nodes()) != 1:
            why_no_fuse.debug("%s: several nodes join %s at once", joining.get_name(), carrier.get_name())
            return None
        buffer = carrier.get_template_node()
        if not isinstance(buffer, TemplateBuffer):
            return None
        members = list(carrier.get_nodes())
        at = next(position for position, member in enumerate(members) if member.node is buffer)
        if carrier is node1:
            return buffer.npu_template.try_fuse_epilogue(members[at], members[at + 1 :], joining)
        return buffer.npu_template.try_fuse_prologue(members[at], joining)

    def codegen_node(self, node: FusedSchedulerNode | SchedulerNode) -> None:
        """One kernel for one group of nodes."""
        emit_loop_kernel([member for member in node.get_nodes() if isinstance(member, SchedulerNode)], self._config)
        self.free_buffers_in_scheduler()

    def codegen_template(
        self,
        template_node: BaseSchedulerNode,
        epilogue_nodes: Sequence[BaseSchedulerNode],
        prologue_nodes: Sequence[BaseSchedulerNode],
    ) -> None:
        """One kernel for a template and what is fused into it."""
        if prologue_nodes or not isinstance(template_node, SchedulerNode):
            raise AssertionError(f"{template_node.get_name()} was given prologues that no template accepted")
        epilogues = [node for node in epilogue_nodes if isinstance(node, SchedulerNode)]
        emit_template_kernel(template_node, epilogues, self._config)
        self.free_buffers_in_scheduler()

    def codegen_sync(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""

    def flush(self) -> None:
        """Nothing is held back: every kernel is emitted at once."""


def _share_rows(node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
    """Whether one kernel can walk both: the same rows and reduced axes, or one of them elementwise over the rows or
    every point."""
    (rows1, reduced1), (rows2, reduced2) = node1.group[1], node2.group[1]
    if (rows1, reduced1) == (rows2, reduced2):
        return True
    if reduced1 and not reduced2:
        return bool(rows2 in (rows1, rows1 + reduced1))
    if reduced2 and not reduced1:
        return bool(rows1 in (rows2, rows2 + reduced2))
    return False


def _share_axes(node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
    """Whether the indices of both fit into one kernel."""
    groups = [[m for m in node.get_nodes() if isinstance(m, SchedulerNode)] for node in (node1, node2)]
    reason = fusion_refusal(groups[0], groups[1])
    if reason:
        why_no_fuse.debug("%s and %s: %s", node1.get_name(), node2.get_name(), reason)
    return not reason
