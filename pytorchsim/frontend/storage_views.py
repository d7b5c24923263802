"""`rebase_storage_views`: `as_strided` of a view becomes `as_strided` of the tensor that owns the storage.

In: a graph as Inductor gets it. Out: the graph, changed in place. Eager's `as_strided` means the storage, whatever view
it is called on; Inductor computes a view of a value that is not stored yet without what lies around it, and takes that
for the storage. Assumes: views of functional graphs alias their first argument.
"""

from __future__ import annotations

import torch

__all__ = ["rebase_storage_views"]

aten = torch.ops.aten

_VIEWS = frozenset(
    {
        aten.slice.Tensor,
        aten.select.int,
        aten.permute.default,
        aten.transpose.int,
        aten.t.default,
        aten.view.default,
        aten._unsafe_view.default,
        aten.alias.default,
        aten.detach.default,
        aten.expand.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
        aten.unsqueeze.default,
        aten.diagonal.default,
        aten.unfold.default,
        aten.as_strided.default,
    }
)


def rebase_storage_views(graph: torch.fx.GraphModule) -> None:
    """Replace the operand of each such node by the owner of its storage."""
    changed = False
    for node in graph.graph.nodes:
        if node.op != "call_function" or node.target is not aten.as_strided.default:
            continue
        owner = _owner(node.args[0])
        if owner is node.args[0]:
            continue
        size, stride, *offset = node.args[1:]
        start = offset[0] if offset and offset[0] is not None else node.args[0].meta["val"].storage_offset()
        node.args = (owner, size, stride, start)
        changed = True
    if changed:
        graph.graph.lint()
        graph.recompile()


def _owner(node: torch.fx.Node) -> torch.fx.Node:
    while node.op == "call_function" and node.target in _VIEWS:
        (source, *_) = node.args
        assert isinstance(source, torch.fx.Node)
        node = source
    return node
