"""Where a kernel comes from in the user's model: operator names and source lines, for reports and errors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V

from pytorchsim.scheduler.source_lines import source_line

__all__ = ["Origins", "origins_of"]

_HINT_CHARACTERS = 60


@dataclass(frozen=True)
class Origins:
    """Operators in graph order, without repeats, and the user's source lines that they come from."""

    operators: tuple[str, ...]
    source_lines: tuple[str, ...]

    @property
    def hint(self) -> str:
        """A short name for a kernel of these operators: an identifier without `__`, which separates tile functions."""
        words = re.sub(r"[^A-Za-z0-9]+", "_", "_".join(self.operators)).strip("_")
        return "_".join(["npu", words[:_HINT_CHARACTERS].strip("_")]) if words else "npu"

    def __str__(self) -> str:
        """`relu, add (model.py:7)`."""
        where = f" ({', '.join(self.source_lines)})" if self.source_lines else ""
        return f"{', '.join(self.operators) or 'unknown'}{where}"


def origins_of(nodes: Sequence[BaseSchedulerNode]) -> Origins:
    """The FX nodes that `nodes` compute. What they read from buffers other kernels have computed."""
    computed = {origin: None for node in nodes for origin in _computed_by(node)}
    operators: dict[str, None] = {}
    lines: dict[str, None] = {}
    for fx in sorted(computed):
        operators[_operator_name(fx)] = None
        line = _source_line(fx)
        if line:
            lines[line] = None
    return Origins(tuple(operators), tuple(lines))


def _computed_by(node: BaseSchedulerNode) -> Iterable[torch.fx.Node]:
    """From the FX node that a scheduler node stands for up to those whose values it reads.

    Inductor's own `origins` hold everything that was inlined when the node was lowered, also what was realised as a
    buffer afterwards, because others use it, too.
    """
    known = _without_readers(node)
    loaded = _loaded_by(node)
    for dependence in node.read_writes.reads:  # an epilogue has the origins of its template, and so of its operands
        maker = _maker(dependence.name)
        if maker is not None and maker.is_template():
            loaded |= _loaded_by(maker)
    last: torch.fx.Node | None = getattr(node.node, "origin_node", None)
    # A lowering that makes several nodes of one operation names it for one of them, or for none.
    waiting = [last] if last is not None and last in known else _ends(known)
    found = set(waiting)
    while waiting:
        fx = waiting.pop()
        if fx in loaded:  # one of several nodes of an operation
            continue
        inner = [given for given in fx.all_input_nodes if given in known and given not in loaded and given not in found]
        found.update(inner)
        waiting.extend(inner)
    return found


def _calls(node: BaseSchedulerNode) -> set[torch.fx.Node]:
    return {origin for origin in getattr(node.node, "origins", ()) if origin.op == "call_function"}


def _without_readers(node: BaseSchedulerNode) -> set[torch.fx.Node]:
    """The FX nodes of `node`. An operand that Inductor copied while it lowered a template has the template's, too."""
    known = _calls(node)
    if node.is_template() or getattr(node.node, "origin_node", None) is not None:
        return known
    readers = [user.node for output in node.get_outputs() for user in output.users]
    templates = [reader for reader in readers if isinstance(reader, BaseSchedulerNode) and reader.is_template()]
    return known - {end for reader in templates for end in _ends(_calls(reader))} or known


def _loaded_by(node: BaseSchedulerNode) -> set[torch.fx.Node | None]:
    """What the buffers that a node reads stand for."""
    names = [dependence.name for dependence in node.read_writes.reads]
    buffers = [V.graph.name_to_buffer.get(name) for name in names]
    copied = {fx for name in names for fx in _copied_into(name)}
    return {buffer.origin_node for buffer in buffers if buffer is not None} | copied


def _maker(buffer: str) -> BaseSchedulerNode | None:
    scheduled = V.graph.scheduler.name_to_buf.get(buffer)
    return None if scheduled is None else scheduled.defining_op


def _copied_into(buffer: str) -> list[torch.fx.Node]:
    """What a buffer stands for that is such a copy; empty for others."""
    node = _maker(buffer)
    if node is None:
        return []
    known = _without_readers(node)
    return _ends(known) if known != _calls(node) else []


def _ends(nodes: Collection[torch.fx.Node]) -> list[torch.fx.Node]:
    """Those that none of the others uses."""
    used = {given for node in nodes for given in node.all_input_nodes}
    return [node for node in nodes if node not in used]


def _operator_name(fx: torch.fx.Node) -> str:
    target = fx.meta.get("original_aten") or fx.target
    packet = getattr(target, "_overloadpacket", target)
    return str(getattr(packet, "__name__", packet))


def _source_line(fx: torch.fx.Node) -> str:
    """`file.py:12`; the file's name only, so that output does not depend on folders."""
    place = source_line(fx.meta.get("stack_trace"))
    return f"{place.file.rpartition('/')[2]}:{place.line}" if place.file else ""
