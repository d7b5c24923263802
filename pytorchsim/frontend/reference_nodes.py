"""`reference_node`: the FX node whose value a buffer holds, for `options={"verify": True}`.

In: a buffer's name while Inductor generates code. Out: the node's name, or None: what a lowering computes on the way
has none, nor has what a branch of `torch.cond` computes, nor what a later kernel of the graph writes to again.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.graph import SubgraphLowering
from torch._inductor.virtualized import V

__all__ = ["reference_node"]


def reference_node(name: str) -> str | None:
    """The name of the FX node whose value `name` holds when the kernel that stores it is done."""
    graph: Any = V.graph
    buffer = graph.try_get_buffer(name)
    if buffer is None or isinstance(graph, SubgraphLowering):
        return None
    real_names: dict[str, str] = graph.scheduler.mutation_real_name
    real = real_names.get(name, name)
    versions = [version for version, of in real_names.items() if of == real]
    if versions and name != versions[-1]:
        return None
    node = _copy_into(buffer, real) if name != real else None
    if node is None:
        holder = graph.try_get_buffer(real)
        node = None if holder is None else holder.get_origin_node()
    return node.name if node is not None and node.graph is graph.module.graph else None


def _copy_into(buffer: Any, target: str) -> torch.fx.Node | None:
    """The `copy_` that gives an input of the graph its new value."""
    for origin in buffer.get_origins():
        if origin.target is torch.ops.aten.copy_.default and getattr(origin.args[0], "name", "") == target:
            return origin  # type: ignore[no-any-return]
    return None
