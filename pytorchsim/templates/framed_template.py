"""Fusion of templates whose operands and result have frames: every condition is here, once for all of them.

In: scheduler nodes. Out: plans or refusals; programs over the frames. A subclass says what its frames are, how the
programs become its own record, and whether a tile fits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from torch._inductor.loop_body import LoopBody
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.base import FusedNodes, FusionPlan, MLIRTemplate, Recorded, TemplateBuffer, decline
from pytorchsim.templates.frame import Frame, LoopView, internal_buffers

__all__ = ["FramedTemplate"]


@dataclass(frozen=True)
class _Loops:
    """The body under which a node fits the frame; `merged` where that is not the node's own."""

    body: LoopBody
    merged: bool


class FramedTemplate(MLIRTemplate):
    """A template whose result has the frame (batch, lane axis, walked axis)."""

    @abstractmethod
    def result_frame(self, template: TemplateBuffer) -> Frame:
        """The frame of the result."""

    @abstractmethod
    def record_views(
        self,
        template: TemplateBuffer,
        prologues: Sequence[LoopView],
        epilogues: Sequence[LoopView],
        removed: frozenset[str],
    ) -> Recorded:
        """Programs over the frames. UnsupportedError: they cannot be expressed."""

    def parts(self, template: TemplateBuffer) -> Sequence[FramedTemplate]:
        """Each with a frame of its own: what joins runs in all of them, on the points of each."""
        del template
        return (self,)

    @abstractmethod
    def refusal(self, template: TemplateBuffer, recorded: Recorded) -> str:
        """Why no tile fits; empty where one does."""

    @abstractmethod
    def finish_cycles(self, template: TemplateBuffer, recorded: Recorded) -> float:
        """An estimate of what epilogues take, and what they and the result move."""

    def try_fuse_epilogue(
        self,
        template_node: BaseSchedulerNode,
        existing_epilogues: Sequence[BaseSchedulerNode],
        node: BaseSchedulerNode,
        *,
        prologues: Sequence[BaseSchedulerNode] = (),
    ) -> FusionPlan | None:
        """Elementwise nodes over the frame; reductions over its walked axis."""
        template = template_node.get_template_node()
        if not isinstance(template, TemplateBuffer) or not isinstance(node, SchedulerNode):
            return None
        try:
            loops = self._fitting_loops(template, existing_epilogues, node)
            before = _views(existing_epilogues)
            views = [*before, LoopView(node, loops.body)]
            self._check_fit(template_node, template, _views(prologues), views)
            if any(part.result_frame(template).made for part in self.parts(template)):
                self._check_gain(template_node, template, _views(prologues), views)
        except UnsupportedError as reason:
            decline(template_node, node, str(reason))
            return None
        return FusionPlan(partial(_merge_loops, node) if loops.merged else None)

    def try_fuse_prologue(
        self,
        template_node: BaseSchedulerNode,
        existing_prologues: Sequence[BaseSchedulerNode],
        node: BaseSchedulerNode,
        *,
        epilogues: Sequence[BaseSchedulerNode] = (),
    ) -> FusionPlan | None:
        """Elementwise nodes that make an operand."""
        template = template_node.get_template_node()
        if not isinstance(template, TemplateBuffer) or not isinstance(node, SchedulerNode):
            return None
        try:
            self._check_fit(template_node, template, _views([node, *existing_prologues]), _views(epilogues))
        except UnsupportedError as reason:
            decline(template_node, node, str(reason))
            return None
        return FusionPlan()

    def record(self, template: TemplateBuffer, fused: FusedNodes, removed: frozenset[str]) -> Recorded:
        """The fused nodes as programs."""
        return self.record_views(template, _views(fused.prologues), _views(fused.epilogues), removed)

    def _check_fit(
        self,
        template_node: BaseSchedulerNode,
        template: TemplateBuffer,
        prologues: Sequence[LoopView],
        epilogues: Sequence[LoopView],
    ) -> None:
        for part, recorded in self._recorded(template_node, template, prologues, epilogues):
            refusal = part.refusal(template, recorded)
            if refusal:
                raise UnsupportedError(refusal)

    def _check_gain(
        self,
        template_node: BaseSchedulerNode,
        template: TemplateBuffer,
        prologues: Sequence[LoopView],
        epilogues: Sequence[LoopView],
    ) -> None:
        """Phases share bursts, so that what one moves others move again, and a result of few columns leaves lanes idle:
        the last of `epilogues` may be faster by itself, in as many cycles as its bytes take."""

        def cycles(views: Sequence[LoopView]) -> float:
            kernels = self._recorded(template_node, template, prologues, views)
            return sum(part.finish_cycles(template, recorded) for part, recorded in kernels)

        *before, last = epilogues
        joined, apart = cycles(epilogues), cycles(before) + _own_cycles(last.node, self._config)
        if joined >= apart:
            raise UnsupportedError(
                f"{last.get_name()} would finish phases in {joined:.0f} cycles, a kernel of its own in {apart:.0f}"
            )

    def _recorded(
        self,
        template_node: BaseSchedulerNode,
        template: TemplateBuffer,
        prologues: Sequence[LoopView],
        epilogues: Sequence[LoopView],
    ) -> list[tuple[FramedTemplate, Recorded]]:
        """Each part with what it is made of."""
        members = [view.node for view in (*prologues, *epilogues)]
        if isinstance(template_node, SchedulerNode):
            members.append(template_node)
        internal = internal_buffers(members)
        return [(part, part.record_views(template, prologues, epilogues, internal)) for part in self.parts(template)]

    def _fitting_loops(
        self, template: TemplateBuffer, existing: Sequence[BaseSchedulerNode], node: SchedulerNode
    ) -> _Loops:
        """The node's loops, merged where only that makes a reduction address the frame's coordinates."""
        if not node.is_reduction():
            return _Loops(node._body, merged=False)
        names = self.REDUCTION_EPILOGUE_ALIASING
        if names is None:
            raise UnsupportedError(f"{type(self).__name__} absorbs no reduction")
        frame = self.result_frame(template)
        coordinates = sum(size > 1 for size in frame.sizes[len(frame.sizes) - len(names) :])
        loops = _Loops(node._body, merged=False)
        if _loop_count(loops.body) != coordinates:
            loops = _Loops(node._body.merge_loops(), merged=True)
        in_frame = {template.get_name(), *(name for member in existing for name in member.get_buffer_names())}
        for name in sorted(in_frame & {dep.name for dep in node.read_writes.reads}):
            for index in loops.body.get_all_read_expr(name):
                if any(V.graph.sizevars.simplify(index.coeff(variable)) == 1 for variable in loops.body.vars[1]):
                    raise UnsupportedError(
                        f"{node.get_name()} reduces the contiguous axis of {name}, which lies over the lanes"
                    )
        if _loop_count(loops.body) != coordinates:
            raise UnsupportedError(
                f"{node.get_name()} has {_loop_count(loops.body)} loops that do not merge; a reduction here addresses"
                f" {coordinates} ({', '.join(names)})"
            )
        return loops


def _views(nodes: Sequence[BaseSchedulerNode]) -> list[LoopView]:
    return [LoopView.of(node) for node in nodes if isinstance(node, SchedulerNode)]


def _own_cycles(node: SchedulerNode, config: NpuConfig) -> float:
    """An estimate of a kernel of the node alone: all it reads and writes once, behind the first load's and the last
    store's round trips."""
    names = {dep.name for dep in (*node.read_writes.reads, *node.read_writes.writes)}
    moved = sum(int(V.graph.get_numel(name)) * V.graph.get_dtype(name).itemsize for name in names)
    return moved / config.dram_bytes_per_cycle + 2 * (config.dram.latency_cycles + 2 * config.network.latency_cycles)


def _loop_count(body: LoopBody) -> int:
    return sum(size != 1 for part in body.sizes for size in part)


def _merge_loops(node: SchedulerNode) -> None:
    """The effect of a plan: the node's loops are merged for good."""
    node.merge_loops()
    device = node.group[0]
    node.group = (device, node.scheduler.get_backend(device).group_fn(node._sizes))
