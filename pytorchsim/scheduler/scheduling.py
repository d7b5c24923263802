"""`MLIRScheduling`: Inductor asks it what may share a kernel and hands it groups of nodes to turn into kernels.

It knows graph facts only (iteration spaces, who reads whom); what a kernel can express is the templates' business.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sympy
import torch
from torch._inductor.codegen.common import BackendFeature, Kernel
from torch._inductor.ops_handler import NoopHandler
from torch._inductor.scheduler import BaseSchedulerNode, BaseScheduling, FusedSchedulerNode, SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import UnsupportedError
from pytorchsim.scheduler.origins import Origins, origins_of
from pytorchsim.scheduler.recorder import LoopRecorder
from pytorchsim.templates.loop_kernel import LoopKernel, build_loop_kernel
from pytorchsim.templates.loop_program import LoopProgram, merge_axes

__all__ = ["MLIRScheduling"]

_NAME_PLACEHOLDER = "KERNEL_NAME"

Space = tuple[tuple[sympy.Expr, ...], ...]


class _NpuKernel(Kernel[Any]):
    """Inductor's view of a kernel: its arguments and which of its buffers nobody else needs."""

    overrides = NoopHandler  # the recorder takes its place before any body runs


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
        """Nodes over one space of rows; the generic dependency check has passed."""
        return self._share_rows(node1, node2)

    def can_fuse_horizontal(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """As vertical: independent nodes over one space of rows share their loads."""
        return self._share_rows(node1, node2)

    def _share_rows(self, node1: BaseSchedulerNode, node2: BaseSchedulerNode) -> bool:
        """Whether one kernel can walk both: the same rows and reduced axes, or one of them elementwise over the rows
        or over every point."""
        if node1.is_template() or node2.is_template():
            return False
        (rows1, reduced1), (rows2, reduced2) = node1.group[1], node2.group[1]
        if (rows1, reduced1) == (rows2, reduced2):
            return True
        if reduced1 and not reduced2:
            return rows2 in (rows1, rows1 + reduced1)
        if reduced2 and not reduced1:
            return rows1 in (rows2, rows2 + reduced2)
        return False

    def codegen_node(self, node: FusedSchedulerNode | SchedulerNode) -> None:
        """One kernel for one group of nodes."""
        nodes = [member for member in node.get_nodes() if isinstance(member, SchedulerNode)]
        origins = origins_of(nodes)
        kernel = _NpuKernel()
        try:
            recorder = self._record(kernel, nodes)
            program = merge_axes(recorder.program(frozenset(kernel.removed_buffers)))
            if program.stores and 0 not in program.sizes:
                self._emit(kernel, program, nodes, origins)
        except UnsupportedError as error:
            raise _located(error, origins, nodes) from error
        V.graph.removed_buffers |= kernel.removed_buffers
        V.graph.inplaced_to_remove |= kernel.inplaced_to_remove
        self.free_buffers_in_scheduler()

    def _record(self, kernel: _NpuKernel, nodes: Sequence[SchedulerNode]) -> LoopRecorder:
        rows, reduced = max((node.group[1] for node in nodes), key=lambda space: len(space[1]))
        variables = [
            sympy.Symbol(f"i{axis}", integer=True, nonnegative=True) for axis in range(len(rows) + len(reduced))
        ]
        recorder = LoopRecorder(variables, [int(size) for size in (*rows, *reduced)], len(reduced))
        with kernel, V.set_ops_handler(recorder):
            for member in nodes:
                kernel.store_buffer_names.update(member.get_buffer_names())
                own_rows, own_reduced = member.group[1]
                if own_reduced:
                    member.run(variables[: len(rows)], variables[len(rows) :])
                else:
                    member.run(variables[: len(own_rows)], [])
        return recorder

    def _emit(self, kernel: _NpuKernel, program: LoopProgram, nodes: Sequence[SchedulerNode], origins: Origins) -> None:
        arguments = {access.buffer: kernel.args.input(access.buffer) for access in program.loads}
        arguments |= {f"{store.access.buffer}": kernel.args.output(store.access.buffer) for store in program.stores}
        definitions, call_args, _, arg_types = kernel.args.python_argdefs()
        slots = {definition.name: number for number, definition in enumerate(definitions)}
        built = build_loop_kernel(
            _NAME_PLACEHOLDER,
            program,
            {buffer: slots[argument] for buffer, argument in arguments.items()},
            origins.operators,
            self._config,
        )
        wrapper: Any = V.graph.wrapper_code  # ours: frontend/wrapper.py
        stored = {arguments[store.access.buffer] for store in program.stores}
        name = wrapper.define_npu_kernel(
            origins.hint,
            built.mlir,
            _metadata(built, program, origins, [definition.name in stored for definition in definitions]),
        )
        with V.set_kernel_handler(kernel):
            wrapper.generate_kernel_call(
                name, call_args, triton=False, arg_types=arg_types, device=nodes[0].get_device()
            )

    def codegen_sync(self) -> None:
        """Nothing to wait for: a launch returns when it is done."""

    def flush(self) -> None:
        """Nothing is held back: every kernel is emitted at once."""


def _metadata(built: LoopKernel, program: LoopProgram, origins: Origins, stored: Sequence[bool]) -> dict[str, Any]:
    """What the report says about the kernel. JSON types only."""
    return {
        "origins": list(origins.operators),
        "source_lines": list(origins.source_lines),
        "shape": list(program.sizes),
        "tile": built.tile.describe(),
        "slots": ["store" if is_stored else "load" for is_stored in stored],
        "reasons": list(built.reasons),
    }


def _located(error: UnsupportedError, origins: Origins, nodes: Sequence[SchedulerNode]) -> UnsupportedError:
    """The same refusal with the place in the model and the shape."""
    shapes = ", ".join(str(tuple(output.node.get_size())) for node in nodes for output in node.get_outputs())
    return type(error)(f"{error}; in {origins}, output shapes {shapes}")
