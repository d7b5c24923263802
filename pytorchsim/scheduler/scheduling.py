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
from pytorchsim.templates.base import FusedNodes, FusionPlan, Refusal, TemplateBuffer, decline, declined, why_no_fuse

__all__ = ["MLIRScheduling"]

Space = tuple[tuple[sympy.Expr, ...], ...]


class MLIRScheduling(BaseScheduling):
    """Scheduling for the NPU; `config` is the machine of the session that compiles."""

    def __init__(self, scheduler: Any, config: NpuConfig) -> None:
        super().__init__(scheduler)
        self._config = config
        self._refusals: dict[tuple[str, str], Refusal] = {}

    def get_backend_features(self, device: torch.device) -> OrderedSet[BackendFeature]:
        """No split reductions: a kernel reduces as far as it has to. Scans of what Inductor itself has no function
        for."""
        return OrderedSet([BackendFeature.REDUCE_TO_SINGLE_ELEMENT, BackendFeature.SCAN])

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

    def can_fuse_multi_outputs_template(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Asked about every node beside a template (`node1`), before Inductor's own rules for templates, which refuse
        reductions behind one, prologues that read more than they write, and epilogues that walk the result in another
        order (a result in channels-last layout). The template decides, by what its frames can address; here are the
        checks that Inductor would have made besides."""
        if node2.is_template() or len(node2.get_nodes()) != 1:
            return False
        if _makes_operand(node2, node1):
            return self._plan(node2, node1) is not None
        reads = {dep.name for dep in node2.read_writes.reads}
        if not reads & node1.get_buffer_names():
            return False
        if node2.has_aliasing_or_mutation() or not _directly_behind(node1, node2):
            return False
        return self._plan(node1, node2) is not None

    def get_fusion_pair_priority(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> int:
        """Templates take their epilogues before elementwise nodes fuse among themselves."""
        return 0 if node1.is_template() or node2.is_template() else 1

    def fuse(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusedSchedulerNode:
        """Commit a fusion: a template's plan is made again, since nodes have changed meanwhile, and applied."""
        if node1.is_template() and _makes_operand(node2, node1):
            node1, node2 = node2, node1
        if node1.is_template() or node2.is_template():
            plan = self._plan(node1, node2)
            if plan is None:
                raise AssertionError(f"{node1.get_name()} and {node2.get_name()} were fusible and no longer are")
            if plan.remap is not None:
                plan.remap()
        return super().fuse(node1, node2)

    def _plan(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> FusionPlan | None:
        """The template's plan for taking one more node: `node2` behind it, or `node1` in front of it."""
        carrier, joining = (node1, node2) if node1.is_template() else (node2, node1)
        with declined(self._keep):
            if node1.is_template() and node2.is_template():
                decline(carrier, joining, "both are templates")
                return None
            if len(joining.get_nodes()) != 1:
                decline(carrier, joining, "several nodes would join at once")
                return None
            buffer = carrier.get_template_node()
            if not isinstance(buffer, TemplateBuffer):
                return None
            before, template, behind = carrier.get_prologue_template_epilogue(list(carrier.get_nodes()))
            if carrier is node1:
                return buffer.npu_template.try_fuse_epilogue(template, behind, joining, prologues=before)
            return buffer.npu_template.try_fuse_prologue(template, before, joining, epilogues=behind)

    def _keep(self, refusal: Refusal) -> None:
        self._refusals[refusal.template, refusal.node] = refusal

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
        if not isinstance(template_node, SchedulerNode):
            raise AssertionError(f"{template_node.get_name()} is a template without a node of its own")
        fused = FusedNodes(tuple(prologue_nodes), tuple(epilogue_nodes))
        members = {node.get_name() for node in (*prologue_nodes, *epilogue_nodes)}
        name = template_node.get_name()
        refusals = [r for r in self._refusals.values() if r.template == name and r.node not in members]
        emit_template_kernel(template_node, fused, refusals, self._config)
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


def _makes_operand(node: BaseSchedulerNode, template: BaseSchedulerNode) -> bool:
    """Whether `node` is elementwise and all it makes is an operand that nobody but the template uses."""
    if node.is_template() or node.is_reduction() or node.has_aliasing_or_mutation():
        return False
    before, carrier, _ = template.get_prologue_template_epilogue(list(template.get_nodes()))
    buffers = node.get_outputs()
    if not isinstance(node, SchedulerNode) or len(buffers) != 1:
        return False
    users = [user.node for user in buffers[0].users]
    return len(users) == 1 and (users[0] is carrier or users[0] in before)


def _directly_behind(template: BaseSchedulerNode, node: BaseSchedulerNode) -> bool:
    """Whether nothing has to run between the two: whatever else `node` reads does not depend on the template."""
    if node.get_operation_names() & template.ancestors:
        return False
    scheduler, made = template.scheduler, template.get_operation_names()
    for dep in node.unmet_dependencies:
        name = scheduler.mutation_renames.get(dep.name, dep.name)
        if name in template.get_buffer_names():
            continue
        producer = scheduler.name_to_fused_node[scheduler.name_to_buf[name].defining_op_name()]
        if made & producer.ancestors:
            return False
    return True


def _share_axes(node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
    """Whether the indices of both fit into one kernel."""
    groups = [[m for m in node.get_nodes() if isinstance(m, SchedulerNode)] for node in (node1, node2)]
    reason = fusion_refusal(groups[0], groups[1])
    if reason:
        why_no_fuse.debug("%s and %s: %s", node1.get_name(), node2.get_name(), reason)
    return not reason
