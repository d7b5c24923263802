"""Where a kernel comes from in the user's model: operator names and source lines, for reports and errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch._inductor.scheduler import BaseSchedulerNode

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
    """The origins of all FX nodes that `nodes` were lowered from."""
    fx_nodes: dict[torch.fx.Node, None] = {}
    for node in nodes:
        for origin in getattr(node.node, "origins", ()):
            if origin.op == "call_function":
                fx_nodes[origin] = None
    order = {fx: number for fx in fx_nodes for number, seen in enumerate(fx.graph.nodes) if seen is fx}
    operators: dict[str, None] = {}
    lines: dict[str, None] = {}
    for fx in sorted(fx_nodes, key=order.__getitem__):
        operators[_operator_name(fx)] = None
        line = _source_line(fx)
        if line:
            lines[line] = None
    return Origins(tuple(operators), tuple(lines))


def _operator_name(fx: torch.fx.Node) -> str:
    target = fx.meta.get("original_aten") or fx.target
    packet = getattr(target, "_overloadpacket", target)
    return str(getattr(packet, "__name__", packet))


def _source_line(fx: torch.fx.Node) -> str:
    """`file.py:12`; the file's name only, so that output does not depend on folders."""
    place = source_line(fx.meta.get("stack_trace"))
    return f"{place.file.rpartition('/')[2]}:{place.line}" if place.file else ""
