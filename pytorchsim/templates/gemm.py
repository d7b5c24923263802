"""GEMM and batched GEMM on the systolic arrays, with what runs on each finished tile of the result.

In: two operands by strides, an elementwise tail. Out: one kernel. Layout in the lanes: X[m, k] along k, W[k, n] and
the result along n, so both operands are loaded as they are used, whatever their strides. K tails load as zero in both
operands; M and N tails are computed and not stored.

A step (`gemm_tile.py`) pushes the rows of X through the arrays block by block while the next weights load into the
shadow set, and adds what it pops to the result's tile. Steps are pipelined: the next step's operands load while this
one computes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from torch._inductor import ir as inductor_ir
from torch._inductor.scheduler import BaseSchedulerNode, SchedulerNode

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import SpadOverflowError, UnsupportedError
from pytorchsim.mlir.builders import KernelBuilder
from pytorchsim.target import dtypes
from pytorchsim.templates.base import BuiltKernel, FusionPlan, MLIRTemplate, TemplateBuffer, why_no_fuse
from pytorchsim.templates.frame import Frame, record_epilogues
from pytorchsim.templates.gemm_control import GemmControl
from pytorchsim.templates.gemm_tile import GemmProblem, search_gemm
from pytorchsim.templates.loop_program import AffineIndex, LoopProgram
from pytorchsim.templates.recorder import LoopRecorder

__all__ = ["GemmTemplate"]


class GemmTemplate(MLIRTemplate):
    """`mm` (operands of rank 2) and `bmm` (rank 3)."""

    REDUCTION_EPILOGUE_ALIASING: ClassVar[tuple[str, ...] | None] = None

    def try_fuse_epilogue(
        self, template_node: BaseSchedulerNode, existing_epilogues: Sequence[BaseSchedulerNode], node: BaseSchedulerNode
    ) -> FusionPlan | None:
        """Elementwise nodes whose loops are the result's axes, merged or in another order."""
        template = template_node.get_template_node()
        if not isinstance(template, TemplateBuffer):
            return None
        try:
            self._record(template, [*existing_epilogues, node])
        except UnsupportedError as reason:
            why_no_fuse.debug("%s behind %s: %s", node.get_name(), template_node.get_name(), reason)
            return None
        return FusionPlan()

    def tail(
        self, template: TemplateBuffer, epilogues: Sequence[BaseSchedulerNode], removed: frozenset[str]
    ) -> LoopProgram | None:
        """The epilogues over (batch, m, n)."""
        return self._record(template, epilogues).program(removed) if epilogues else None

    def build(
        self,
        name: str,
        template: TemplateBuffer,
        tail: LoopProgram | None,
        slots: Mapping[str, int],
        origins: tuple[str, ...],
        config: NpuConfig,
    ) -> BuiltKernel:
        """The kernel; `slots` lacks the result's buffer where only the tail uses it."""
        problem = self.problem(template)
        found = search_gemm(problem, tail, config)
        if found.tile is None:
            raise SpadOverflowError(
                kernel=name,
                origins=origins,
                tile=found.smallest.describe(),
                used_bytes=sum(found.shares.values()),
                budget_bytes=config.core.scratchpad_bytes_per_lane,
                shares=found.shares,
                smallest=found.smallest.describe(),
            )
        x, w = (operand.get_name() for operand in template.operands)
        with KernelBuilder(name, config, origins=origins, tile_shape=found.tile.describe()) as kernel:
            control = GemmControl(kernel, problem, found.tile, tail, template.get_name())
            control.build({"x": slots[x], "w": slots[w]}, slots)
            return BuiltKernel(kernel.text(), found.tile.describe(), found.reasons)

    def problem(self, template: TemplateBuffer) -> GemmProblem:
        """Sizes and strides, read from the frozen layouts of the buffers."""
        x, w = template.operands
        *batch, m, k = (int(size) for size in x.get_size())
        n = int(w.get_size()[-1])
        if template.get_dtype() != x.get_dtype() or str(x.get_dtype()) != "torch.float32":
            raise UnsupportedError(f"matrix product of {x.get_dtype()}; supported: torch.float32")
        return GemmProblem(batch[0] if batch else 1, m, n, k, _index(x), _index(w), _index(template), dtypes.F32)

    def _record(self, template: TemplateBuffer, epilogues: Sequence[BaseSchedulerNode]) -> LoopRecorder:
        problem = self.problem(template)
        frame = Frame(template.get_name(), problem.frame, problem.y.strides)
        return record_epilogues([node for node in epilogues if isinstance(node, SchedulerNode)], frame)


def _index(buffer: inductor_ir.IRNode) -> AffineIndex:
    """Strides over three axes, the batch first (0 where there is none)."""
    layout = buffer.get_layout()
    strides = [int(stride) for stride in layout.stride]
    return AffineIndex(tuple([0] * (3 - len(strides)) + strides), int(layout.offset))
