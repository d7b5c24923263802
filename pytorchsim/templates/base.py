"""What a template is: it builds one kernel for one operation and decides alone what may be fused into it.

`try_fuse_epilogue` and `try_fuse_prologue` are pure: Inductor's scheduler asks speculatively, many times. A change to
a node that the fusion needs is a zero-argument thunk in `FusionPlan.remap`; `MLIRScheduling.fuse` asks again and
applies it when the fusion really happens. Every refusal goes through `decline`: it logs its reason to `why_no_fuse`
(DEBUG), and whoever listens (`declined`) keeps it.
"""

from __future__ import annotations

import copy
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from torch._inductor import ir
from torch._inductor.scheduler import BaseSchedulerNode
from torch.utils._ordered_set import OrderedSet

from pytorchsim.config.model import NpuConfig

if TYPE_CHECKING:
    from typing import Self  # Python 3.10 has none

__all__ = [
    "BuiltKernel",
    "FusedNodes",
    "FusionPlan",
    "MLIRTemplate",
    "Recorded",
    "Refusal",
    "TemplateBuffer",
    "decline",
    "declined",
    "why_no_fuse",
]

why_no_fuse = logging.getLogger("pytorchsim.why_no_fuse")


@dataclass(frozen=True)
class Refusal:
    """`node` does not join the kernel of `template` (names), and why."""

    template: str
    node: str
    reason: str


_LISTENER: ContextVar[Callable[[Refusal], None] | None] = ContextVar("pytorchsim_refusals", default=None)


def decline(template_node: BaseSchedulerNode, node: BaseSchedulerNode, reason: str) -> None:
    """Log a refusal and tell it to the listener, if there is one."""
    refusal = Refusal(template_node.get_name(), node.get_name(), reason)
    why_no_fuse.debug("%s does not join %s: %s", refusal.node, refusal.template, refusal.reason)
    listener = _LISTENER.get()
    if listener is not None:
        listener(refusal)


@contextmanager
def declined(listener: Callable[[Refusal], None]) -> Iterator[None]:
    """Send refusals of this thread to `listener` while inside."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@dataclass(frozen=True)
class FusionPlan:
    """A fusion that the template can express. `remap` changes nodes so that it fits; it runs once, at commit."""

    remap: Callable[[], None] | None = None


@dataclass(frozen=True)
class FusedNodes:
    """What is fused with a template so far, in order of execution."""

    prologues: tuple[BaseSchedulerNode, ...] = ()
    epilogues: tuple[BaseSchedulerNode, ...] = ()


@dataclass(frozen=True)
class Recorded:
    """Fused nodes as programs (the template's own type), and the buffers that the kernel then loads and stores."""

    programs: Any
    loads: tuple[str, ...]
    stores: tuple[str, ...]


@dataclass(frozen=True)
class BuiltKernel:
    """What was built: the module, the tile as a flat record, why tiles were refused, how many fit, what this one is
    estimated to take, and why it was taken of those that fit (`choice`)."""

    mlir: str
    tile: dict[str, int]
    reasons: tuple[str, ...]
    fitting: int = 1
    estimate: str = ""
    choice: tuple[str, ...] = ()

    @property
    def all_reasons(self) -> tuple[str, ...]:
        """Why the kernel is as it is, for the report."""
        return (*self.choice, *self.reasons)


class MLIRTemplate(ABC):
    """One operation that has a kernel form of its own, on the machine `_config`."""

    _config: NpuConfig
    _rank: int = 0
    """Which of the tiles that fit is built, the best one first."""

    REDUCTION_EPILOGUE_ALIASING: ClassVar[tuple[str, ...] | None] = None
    """The coordinates of the result that a reduction behind it addresses, the reduced one last. None: it cannot
    absorb one."""

    @abstractmethod
    def try_fuse_epilogue(
        self,
        template_node: BaseSchedulerNode,
        existing_epilogues: Sequence[BaseSchedulerNode],
        node: BaseSchedulerNode,
        *,
        prologues: Sequence[BaseSchedulerNode] = (),
    ) -> FusionPlan | None:
        """Whether `node` can run on the result's tiles, behind `existing_epilogues`."""

    def try_fuse_prologue(
        self,
        template_node: BaseSchedulerNode,
        existing_prologues: Sequence[BaseSchedulerNode],
        node: BaseSchedulerNode,
        *,
        epilogues: Sequence[BaseSchedulerNode] = (),
    ) -> FusionPlan | None:
        """Whether `node` can run on an operand's tiles, before `existing_prologues`."""
        del existing_prologues, epilogues
        decline(template_node, node, f"{type(self).__name__} takes no prologue")
        return None

    @abstractmethod
    def record(self, template: TemplateBuffer, fused: FusedNodes, removed: frozenset[str]) -> Recorded:
        """The fused nodes over the template's frame; stores to `removed` buffers are left out."""

    def parts(self, template: TemplateBuffer) -> Sequence[MLIRTemplate]:
        """What computes the result, one kernel after another, each a part of it."""
        del template
        return (self,)

    def tile_key(self, template: TemplateBuffer) -> str:
        """What a user who prescribes tiles calls this operation (`config/tiles.py`); empty: none can be prescribed."""
        del template
        return ""

    def on(self, config: NpuConfig, rank: int = 0) -> Self:
        """The same template for another machine, or another of the tiles that fit, if there are so many."""
        other = copy.copy(self)
        other._config, other._rank = config, rank
        return other

    @abstractmethod
    def build(
        self,
        name: str,
        template: TemplateBuffer,
        recorded: Recorded,
        slots: Mapping[str, int],
        origins: tuple[str, ...],
    ) -> BuiltKernel:
        """The kernel. `slots`: argument number by buffer name. SpadOverflowError where no tile fits."""


class TemplateBuffer(ir.TemplateBuffer):
    """One output, computed by `template` from `inputs`; the kernel is written by our scheduling, not by Inductor's
    renderers. Prologues may be fused into every input. `written`: inputs that are outputs besides."""

    def __init__(
        self,
        layout: ir.Layout,
        inputs: Sequence[ir.IRNode],
        template: MLIRTemplate,
        *,
        written: Sequence[ir.IRNode] = (),
    ) -> None:
        self.npu_template = template
        super().__init__(layout, inputs, make_kernel_render=None, mutated_inputs=written or None)
        self.allow_prologue_fusion = True
        self.allowed_prologue_inps = OrderedSet(operand.get_name() for operand in self.operands)

    def get_outputs(self) -> list[ir.Buffer]:
        """The result, and a node for each input that is written."""
        return [self, *self.mutation_outputs]

    @property
    def operands(self) -> tuple[ir.IRNode, ...]:
        """The inputs, each one node."""
        return tuple(operand for operand in self.inputs if isinstance(operand, ir.IRNode))
