"""What a template is: it builds one kernel for one operation and decides alone what may be fused into it.

`try_fuse_epilogue` and `try_fuse_prologue` are pure: Inductor's scheduler asks speculatively, many times. A change to
a node that the fusion needs is a zero-argument thunk in `FusionPlan.remap`; `MLIRScheduling.fuse` asks again and
applies it when the fusion really happens. Every refusal logs its reason to `why_no_fuse` (DEBUG).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from torch._inductor import ir
from torch._inductor.scheduler import BaseSchedulerNode

from pytorchsim.config.model import NpuConfig
from pytorchsim.templates.loop_program import LoopProgram

__all__ = ["BuiltKernel", "FusionPlan", "MLIRTemplate", "TemplateBuffer", "why_no_fuse"]

why_no_fuse = logging.getLogger("pytorchsim.why_no_fuse")


@dataclass(frozen=True)
class FusionPlan:
    """A fusion that the template can express. `remap` changes nodes so that it fits; it runs once, at commit."""

    remap: Callable[[], None] | None = None


@dataclass(frozen=True)
class BuiltKernel:
    """What was built: the module, the tile as a flat record, and why other tiles were not taken."""

    mlir: str
    tile: dict[str, int]
    reasons: tuple[str, ...]


class MLIRTemplate(ABC):
    """One operation that has a kernel form of its own."""

    REDUCTION_EPILOGUE_ALIASING: ClassVar[tuple[str, ...] | None] = None
    """The coordinates of the result that a reduction behind it addresses, the reduced one last. None: it cannot
    absorb one."""

    @abstractmethod
    def try_fuse_epilogue(
        self, template_node: BaseSchedulerNode, existing_epilogues: Sequence[BaseSchedulerNode], node: BaseSchedulerNode
    ) -> FusionPlan | None:
        """Whether `node` can run on the result's tiles, behind `existing_epilogues`."""

    def try_fuse_prologue(self, template_node: BaseSchedulerNode, node: BaseSchedulerNode) -> FusionPlan | None:
        """Whether `node` can run on an operand's tiles before they are used."""
        why_no_fuse.debug(
            "%s into %s: %s takes no prologue", node.get_name(), template_node.get_name(), type(self).__name__
        )
        return None

    @abstractmethod
    def tail(
        self, template: TemplateBuffer, epilogues: Sequence[BaseSchedulerNode], removed: frozenset[str]
    ) -> LoopProgram | None:
        """What runs on a finished tile of the result: the epilogues over the template's frame; None where nothing
        does."""

    @abstractmethod
    def build(
        self,
        name: str,
        template: TemplateBuffer,
        tail: LoopProgram | None,
        slots: Mapping[str, int],
        origins: tuple[str, ...],
        config: NpuConfig,
    ) -> BuiltKernel:
        """The kernel. `slots`: argument number by buffer name. SpadOverflowError where no tile fits."""


class TemplateBuffer(ir.TemplateBuffer):
    """One output, computed by `template` from `inputs`; the kernel is written by our scheduling, not by Inductor's
    renderers."""

    @property
    def operands(self) -> tuple[ir.IRNode, ...]:
        """The inputs, each one node."""
        return tuple(operand for operand in self.inputs if isinstance(operand, ir.IRNode))

    def __init__(self, layout: ir.Layout, inputs: Sequence[ir.IRNode], template: MLIRTemplate) -> None:
        self.npu_template = template
        super().__init__(layout, inputs, make_kernel_render=None)
