"""One group of scheduler nodes becomes one kernel: record, build by the template's or the generic form, define and
call in the wrapper.

In: scheduler nodes. Out: effects on Inductor's graph: a kernel definition, its call, allocated and removed buffers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch._inductor import ir
from torch._inductor.codegen.common import Kernel
from torch._inductor.ops_handler import NoopHandler
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.virtualized import V

from pytorchsim.config.model import NpuConfig
from pytorchsim.config.session import current_session
from pytorchsim.errors import SpadOverflowError, UnsupportedError
from pytorchsim.runtime.measurement import Argument
from pytorchsim.runtime.prescribed_tiles import PRESCRIBED_TILES
from pytorchsim.scheduler.kernel_name import KERNEL_NAME
from pytorchsim.scheduler.origins import Origins, origins_of
from pytorchsim.scheduler.recording import record_loops
from pytorchsim.scheduler.tuning import RankedBuild, fastest
from pytorchsim.templates.base import BuiltKernel, FusedNodes, MLIRTemplate, Recorded, Refusal, TemplateBuffer
from pytorchsim.templates.long_rows import LongRows, Part, plan_long_rows
from pytorchsim.templates.loop_kernel import build_loop_kernel
from pytorchsim.templates.loop_program import LoopProgram
from pytorchsim.templates.merge_axes import merge_axes
from pytorchsim.templates.recorder import LoopRecorder
from pytorchsim.templates.tile_search import WantedTile

__all__ = ["NOT_FUSED", "emit_loop_kernel", "emit_template_kernel"]

NOT_FUSED = "not_fused"
"""Section of a graph's facts: what did not join a template's kernel, and why."""


class _NpuKernel(Kernel[Any]):
    """Inductor's view of a kernel: its arguments and which of its buffers nobody else needs."""

    overrides = NoopHandler  # the recorder takes its place before any body runs


@dataclass
class _Arguments:
    """The kernel's arguments by buffer name."""

    kernel: _NpuKernel
    names: dict[str, str] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)

    def load(self, buffer: str) -> None:
        self.names[buffer] = self.kernel.args.input(buffer)

    def store(self, buffer: str) -> None:
        self.names[buffer] = self.kernel.args.output(buffer)
        self.stored.add(self.names[buffer])

    def slots(self) -> dict[str, int]:
        """Argument number by buffer name."""
        definitions = self.kernel.args.python_argdefs()[0]
        numbers = {definition.name: number for number, definition in enumerate(definitions)}
        return {buffer: numbers[name] for buffer, name in self.names.items()}

    def stored_slots(self) -> list[tuple[str, int]]:
        """Argument number of each buffer that is stored."""
        return [(buffer, slot) for buffer, slot in self.slots().items() if self.names[buffer] in self.stored]

    def measured(self) -> list[Argument]:
        """What a measurement needs to know of each argument."""
        sizes = []
        for buffer in self.kernel.args.python_argdefs()[1]:
            layout: Any = V.graph.get_buffer(str(buffer)).get_layout()
            item = int(layout.dtype.itemsize)
            sizes.append(Argument(int(layout.storage_size()) * item, int(layout.offset) * item, item))
        return sizes

    def directions(self) -> list[str]:
        """`store` or `load` for each argument."""
        definitions = self.kernel.args.python_argdefs()[0]
        return ["store" if definition.name in self.stored else "load" for definition in definitions]


def emit_loop_kernel(nodes: Sequence[SchedulerNode], config: NpuConfig) -> None:
    """The generic kernel of nodes that share their rows."""
    origins = origins_of(nodes)
    kernel = _NpuKernel()
    try:
        program = merge_axes(_record(kernel, nodes).program(frozenset(kernel.removed_buffers)))
        if program.stores and 0 not in program.sizes:
            plan = plan_long_rows(program, config)
            if plan is None:
                _emit_program(kernel, Part(program), config, origins, nodes[0].get_device())
            else:
                _emit_long_rows(plan, config, origins, nodes[0].get_device())
    except UnsupportedError as error:
        raise _located(error, origins, nodes) from error
    _settle(kernel)


def emit_template_kernel(
    template_node: SchedulerNode, fused: FusedNodes, refusals: Sequence[Refusal], config: NpuConfig
) -> None:
    """The kernels of a template with what is fused into it; `refusals` are kept with the graph."""
    nodes = [node for node in (*fused.prologues, template_node, *fused.epilogues) if isinstance(node, SchedulerNode)]
    origins = origins_of(nodes)
    buffer = template_node.node
    if not isinstance(buffer, TemplateBuffer):
        raise UnsupportedError(f"template {type(buffer).__name__} is not one of ours; in {origins}")
    kernel = _NpuKernel()
    if buffer.get_name() in V.graph.removed_buffers:  # nobody reads it, but the kernel writes others and stores it, too
        V.graph.removed_buffers.discard(buffer.get_name())
        kernel.must_keep_buffers.add(buffer.get_name())
    try:
        with kernel:  # on leaving, buffers that nobody else reads are removed
            for node in nodes:
                kernel.store_buffer_names.update(node.get_buffer_names())
                node.mark_run()
        for part in buffer.npu_template.parts(buffer):
            recorded = part.record(buffer, fused, frozenset(kernel.removed_buffers))
            arguments = _template_arguments(kernel, recorded)
            build = _template_build(part, buffer, recorded, arguments.slots(), origins)
            shape = tuple(int(size) for size in buffer.get_size())
            name = _define_and_call(arguments, build, config, shape, origins, template_node.get_device())
            _note_product(name, part.tile_key(buffer))
        _verify(name, arguments)
    except UnsupportedError as error:
        raise _located(error, origins, nodes) from error
    _settle(kernel)
    wrapper: Any = V.graph.wrapper_code
    for refusal in refusals:
        entry = {"kernel": name, "node": refusal.node, "operators": _operators(refusal.node), "reason": refusal.reason}
        wrapper.record_fact(NOT_FUSED, entry)


def _operators(node: str) -> str:
    """What a scheduler node, or several that are fused (`op2_op3`), stand for in the model."""
    known = V.graph.scheduler.name_to_node
    return " ".join(origins_of([known[name] for name in node.split("_") if name in known]).operators)


def _note_product(kernel: str, key: str) -> None:
    """Where tiles are prescribed: which products there are to prescribe them for, and whether they were."""
    entries = dict(current_session().tiles.entries)
    if entries and key:
        wrapper: Any = V.graph.wrapper_code
        sizes = " ".join(f"{name} {size}" for name, size in entries.get(key, ()))
        wrapper.record_fact(PRESCRIBED_TILES, {"product": key, "kernel": kernel, "tile": sizes or "not prescribed"})


def _template_arguments(kernel: _NpuKernel, recorded: Recorded) -> _Arguments:
    arguments = _Arguments(kernel)
    for name in recorded.loads:
        arguments.load(name)
    for name in recorded.stores:
        arguments.store(name)
    return arguments


def _template_build(
    part: MLIRTemplate, buffer: TemplateBuffer, recorded: Recorded, slots: Mapping[str, int], origins: Origins
) -> RankedBuild:
    def build(machine: NpuConfig, rank: int = 0) -> BuiltKernel:
        return part.on(machine, rank).build(KERNEL_NAME, buffer, recorded, slots, origins.operators)

    return build


def _emit_program(
    kernel: _NpuKernel,
    part: Part,
    config: NpuConfig,
    origins: Origins,
    device: torch.device | None,
    reasons: tuple[str, ...] = (),
) -> None:
    """The kernel of one program, and its call."""
    program = part.program
    arguments = _program_arguments(kernel, program)
    slots = arguments.slots()

    def build(machine: NpuConfig, rank: int = 0) -> BuiltKernel:
        built = build_loop_kernel(
            KERNEL_NAME, program, slots, origins.operators, machine, wanted=WantedTile(part.row_tiles, rank)
        )
        return replace(built, reasons=(*reasons, *built.reasons))

    _verify(_define_and_call(arguments, build, config, program.sizes, origins, device), arguments)


def _emit_long_rows(plan: LongRows, config: NpuConfig, origins: Origins, device: torch.device | None) -> None:
    """The kernels of a plan, with workspaces that live as long as they run."""
    wrapper: Any = V.graph.wrapper_code
    names, buffers = {}, []
    for workspace in plan.workspaces:
        dtype = getattr(torch, workspace.dtype.name)
        buffer = ir.Buffer(
            name=None, layout=ir.FixedLayout(device or torch.device("cpu"), dtype, [workspace.elements], [1])
        )
        names[workspace.name] = V.graph.register_buffer(buffer, set_name=True)
        wrapper.codegen_allocation(buffer)
        buffers.append(buffer)
    for part in plan.parts:
        named = replace(part, program=part.program.rename_buffers(names))
        _emit_program(_NpuKernel(), named, config, origins, device, (plan.reason,))
    for buffer in buffers:
        wrapper.codegen_free(buffer)


def _record(kernel: _NpuKernel, nodes: Sequence[SchedulerNode]) -> LoopRecorder:
    recorder = record_loops(nodes)
    V.graph.removed_buffers -= recorder.asserting  # nobody reads them, but their stores are what asserts
    with kernel:  # on leaving, buffers that nobody else reads are removed
        for node in nodes:
            kernel.store_buffer_names.update(node.get_buffer_names())
            node.mark_run()
    kernel.removed_buffers -= recorder.asserting
    return recorder


def _program_arguments(kernel: _NpuKernel, program: LoopProgram) -> _Arguments:
    arguments = _Arguments(kernel)
    for access in program.loads:
        arguments.load(access.buffer)
    for store in program.stores:
        arguments.store(store.access.buffer)
    return arguments


def _define_and_call(
    arguments: _Arguments,
    build: RankedBuild,
    config: NpuConfig,
    shape: tuple[int, ...],
    origins: Origins,
    device: torch.device | None,
) -> str:
    wrapper: Any = V.graph.wrapper_code  # ours: frontend/wrapper.py
    measured_tiles = current_session().tiles.measured
    try:
        if measured_tiles > 1:
            build = fastest(build, KERNEL_NAME, arguments.measured(), config, measured_tiles)
        built = build(config)
    except SpadOverflowError as error:  # of tile search: there is no kernel yet, so it has no name of its own
        facts = {**error.__dict__, "kernel": origins.hint}
        raise SpadOverflowError(**facts) from error
    metadata = {
        "origins": list(origins.operators),
        "source_lines": list(origins.source_lines),
        "shape": list(shape),
        "tile": built.tile,
        "slots": arguments.directions(),
        "reasons": list(built.all_reasons),
    }
    name = wrapper.define_npu_kernel(origins.hint, built.mlir, metadata, build)
    _, call_arguments, _, types = arguments.kernel.args.python_argdefs()
    with V.set_kernel_handler(arguments.kernel):
        wrapper.generate_kernel_call(name, call_arguments, triton=False, arg_types=types, device=device)
    return str(name)


def _verify(name: str, arguments: _Arguments) -> None:
    """What the last launch, of `name`, has completed is compared, where the session asks for it."""
    wrapper: Any = V.graph.wrapper_code
    call_arguments = arguments.kernel.args.python_argdefs()[1]
    wrapper.verify_launch(name, {buffer: str(call_arguments[slot]) for buffer, slot in arguments.stored_slots()})


def _settle(kernel: _NpuKernel) -> None:
    """What the kernel made unnecessary is not allocated; what nobody needs any more is freed by the caller."""
    V.graph.removed_buffers |= kernel.removed_buffers
    V.graph.inplaced_to_remove |= kernel.inplaced_to_remove


def _located(error: UnsupportedError, origins: Origins, nodes: Sequence[SchedulerNode]) -> UnsupportedError:
    """The same refusal with the place in the model and the shape."""
    shapes = ", ".join(str(tuple(output.node.get_size())) for node in nodes for output in node.get_outputs())
    return type(error)(f"{origins}: {error}; output shapes {shapes}")
