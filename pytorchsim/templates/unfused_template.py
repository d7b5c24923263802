"""Templates that nothing joins: a kernel over named buffers, from one search for a tile.

In: a template's buffer by its inputs' names. Out: one kernel. A subclass says what its problem is, how a tile of it is
found, and what writes the kernel.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Generic, TypeVar

from torch._inductor import ir as inductor_ir
from torch._inductor.scheduler import BaseSchedulerNode

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.kernel_builder import KernelBuilder
from pytorchsim.templates.attention_search import Tile, TileSearch
from pytorchsim.templates.base import (
    BuiltKernel,
    FusedNodes,
    FusionPlan,
    MLIRTemplate,
    Recorded,
    TemplateBuffer,
    decline,
)

__all__ = ["UnfusedTemplate"]

Problem = TypeVar("Problem")


class UnfusedTemplate(MLIRTemplate, Generic[Problem, Tile]):
    """`config`: the machine; `names`: what the buffer's inputs are, in order."""

    RESULT: ClassVar[str]
    """What the buffer itself is."""

    STORED: ClassVar[tuple[str, ...]]
    """What the kernel writes, where it is there; everything else is read."""

    NO_EPILOGUE: ClassVar[str]
    """Why nothing joins."""

    def __init__(self, config: NpuConfig, names: tuple[str, ...]) -> None:
        self._config, self._names = config, names

    @abstractmethod
    def problem(self, template: TemplateBuffer) -> Problem:
        """Sizes and strides, read from the frozen layouts."""

    @abstractmethod
    def search(self, problem: Problem) -> TileSearch[Tile]:
        """The tiles on this machine."""

    @abstractmethod
    def write(self, kernel: KernelBuilder, problem: Problem, tile: Tile, slots: Mapping[str, int]) -> None:
        """The kernel's functions. `slots`: argument number by name."""

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
        decline(template_node, node, self.NO_EPILOGUE)
        return None

    def record(self, template: TemplateBuffer, fused: FusedNodes, removed: frozenset[str]) -> Recorded:
        """The operands."""
        del fused, removed
        names = {name: buffer.get_name() for name, buffer in self.buffers(template).items()}
        loads = dict.fromkeys(buffer for name, buffer in names.items() if name not in self.STORED)
        return Recorded(None, tuple(loads), tuple(names[name] for name in self.STORED if name in names))

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
        found = self.search(problem)
        taken = found.taken(self._rank, name, origins)
        tile = taken.tile
        numbers = {operand: slots[buffer.get_name()] for operand, buffer in self.buffers(template).items()}
        with KernelBuilder(name, self._config, origins=origins, tile_shape=tile.describe()) as kernel:
            self.write(kernel, problem, tile, numbers)
            return found.built(taken, kernel.text())

    def buffers(self, template: TemplateBuffer) -> dict[str, inductor_ir.IRNode]:
        """By what they are."""
        return {self.RESULT: template, **dict(zip(self._names, template.operands, strict=True))}
