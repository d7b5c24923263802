"""The host-op policy: nothing of a graph runs on the host in silence.

In: the nodes of Inductor's scheduler, before fusion. Out: the same nodes; strict mode raises `HostOpError` for those
that would run on the host, else each becomes a `HostOp` of the wrapper, which announces and reports it (also from a
warm cache). Assumes: work on the host is an `ExternKernel` of Inductor's IR. What lies outside the graph is the
business of `recompile_limit.py` and Dynamo (docs/frontend.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch._guards import TracingContext
from torch._inductor import ir
from torch._inductor.custom_graph_pass import CustomSchedulerPass
from torch._inductor.graph import SubgraphLowering
from torch._inductor.scheduler import BaseSchedulerNode, ExternKernelSchedulerNode
from torch._inductor.virtualized import V

from pytorchsim.config.session import Session
from pytorchsim.errors import HostOpError
from pytorchsim.frontend.source_key import source_key
from pytorchsim.runtime.host_ops import HostOp
from pytorchsim.scheduler.source_lines import source_line

__all__ = ["HostOpPolicy", "host_ops_of", "refuse_or_record"]

# Extern nodes that touch no tensor data on the host: tuple elements of another node, seeds of the random generator,
# assertions on sizes, and calls of a subgraph, whose own scheduler asks the policy again.
_NOT_WORK = (ir.MultiOutput, ir.RandomSeeds, ir.AssertScalar, ir.InvokeSubgraph)


class HostOpPolicy(CustomSchedulerPass):
    """Runs in Inductor's scheduler before fusion, for every graph and subgraph of a session."""

    def __init__(self, session: Session) -> None:
        self.session = session

    def __call__(self, nodes: list[BaseSchedulerNode]) -> list[BaseSchedulerNode]:
        """Refuse (strict) or record every node that would run on the host; returns `nodes` unchanged."""
        members = (member for node in nodes for member in node.get_nodes())
        externs = [member.node for member in members if isinstance(member, ExternKernelSchedulerNode)]
        _apply([*host_ops_of(externs), *_copies_after_the_graph()], self.session)
        return nodes

    def uuid(self) -> str:
        """What the code of a graph depends on besides the graph: Inductor puts it into both of its cache keys."""
        return f"pytorchsim-{source_key()}-{self.session.digest()}"


def refuse_or_record(node: Any, session: Session) -> None:
    """Apply the policy to an IR node that is about to be written into the wrapper; safe to repeat.

    Raises:
        HostOpError: strict, and `node` would run on the host.
    """
    _apply(host_ops_of([node]), session)


def _apply(host_ops: Sequence[HostOp], session: Session) -> None:
    if not host_ops:
        return
    if session.strict:
        listed = "\n  ".join(op.describe() for op in host_ops)
        raise HostOpError(
            f"strict mode: {len(host_ops)} operation(s) would run on the host:\n  {listed}\n"
            "Rewrite the model without them, or leave out options={'strict': True} to run them on the host."
        )
    wrapper: Any = V.graph.wrapper_code  # an `NpuWrapper` or its subgraph's
    for op in host_ops:
        wrapper.record_host_op(op)


def host_ops_of(nodes: Iterable[Any]) -> list[HostOp]:
    """Those IR nodes that are work on the host."""
    return [_host_op_of(node) for node in nodes if not isinstance(node, _NOT_WORK)]


def _copies_after_the_graph() -> list[HostOp]:
    """Inputs that need a gradient and are changed in place: AOTAutograd copies the new values, after our graph."""
    context = TracingContext.try_get()
    metadata: Any = None if context is None else context.fw_metadata
    if metadata is None or V.graph.is_backward or isinstance(V.graph, SubgraphLowering):
        return []
    names = V.graph.graph_input_names
    changed = (index for index in metadata.mutated_inp_runtime_indices if metadata.input_info[index].mutates_data)
    return [_copy_of_input(names[index]) for index in changed if index < len(names)]


def _copy_of_input(name: str) -> HostOp:
    value: Any = V.graph.graph_inputs[name]
    shape = tuple(int(extent) for extent in value.get_size())
    return HostOp("aten.copy_.default", name, f"copy of {name}", shape, _dtype_name(value.get_dtype()), "", 0, "")


def _host_op_of(node: Any) -> HostOp:
    """The facts about an IR node: operation, FX node, shape, dtype, and the model's source line."""
    origin = _origin(node)
    size, dtype = _shape_and_dtype(node, origin)
    traces = [getattr(candidate, "stack_trace", None) for candidate in _origins(node)]
    file, line, code = source_line(next((trace for trace in traces if trace), None))
    return HostOp(
        op=_op_name(node),
        fx_node="" if origin is None else origin.name,
        buffer=node.get_name(),
        shape=size,
        dtype=dtype,
        file=file,
        line=line,
        code=code,
    )


def _origin(node: Any) -> torch.fx.Node | None:
    """The FX node behind an IR node; with several, the one that computes the result (the last)."""
    return next(iter(_origins(node)), None)


def _origins(node: Any) -> list[torch.fx.Node]:
    """The FX nodes behind an IR node, the likeliest first."""
    candidates = [node.origin_node, getattr(node, "fx_node", None), *reversed(list(node.origins))]
    return [candidate for candidate in candidates if isinstance(candidate, torch.fx.Node)]


def _op_name(node: Any) -> str:
    overload = getattr(node, "op_overload", None)
    kernel = getattr(node, "python_kernel_name", None)
    return str(overload or kernel or type(node).__name__)


def _shape_and_dtype(node: Any, origin: torch.fx.Node | None) -> tuple[tuple[int, ...], str]:
    """Of the result; where the node has no single result, of what its FX node stands for; () and "" if unknown."""
    if isinstance(node.layout, ir.Layout):
        return tuple(int(extent) for extent in node.get_size()), _dtype_name(node.get_dtype())
    value = None if origin is None else origin.meta.get("val")
    if isinstance(value, tuple | list):
        value = next((item for item in value if isinstance(item, torch.Tensor)), None)
    if isinstance(value, torch.Tensor):
        return tuple(int(extent) for extent in value.shape), _dtype_name(value.dtype)
    return (), ""


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
