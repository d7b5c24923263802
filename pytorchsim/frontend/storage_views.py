"""`as_strided` means the storage: of a view it becomes `as_strided` of the tensor that owns the storage
(`rebase_storage_views`), and of an input that begins elsewhere in its storage than at compile time it is refused
(`with_checked_offsets`), since Dynamo does not look at where inputs begin.

In: a graph as Inductor gets it. Out: the graph, changed in place. Eager's `as_strided` means the storage, whatever view
it is called on; Inductor computes a view of a value that is not stored yet without what lies around it, and takes that
for the storage. Assumes: views of functional graphs alias their first argument.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from pytorchsim.errors import UnsupportedError

__all__ = ["rebase_storage_views", "with_checked_offsets"]

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


def with_checked_offsets(
    compiled: Callable[..., Any], gm: torch.fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[..., Any]:
    """`compiled`, which raises UnsupportedError where an input of an `as_strided` with an offset of its own begins at
    another element of its storage than in `example_inputs`. `gm`: a graph of Dynamo."""
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    expected = {
        placeholders.index(source): int(example_inputs[placeholders.index(source)].storage_offset())
        for node in gm.graph.nodes
        if node.target in ("as_strided", torch.as_strided) and _has_offset(node)
        for source in [_first_source(node)]
        if source.op == "placeholder"
    }
    if not expected:
        return compiled

    def checked(*inputs: Any) -> Any:
        for number, offset in expected.items():
            if inputs[number].storage_offset() != offset:
                raise UnsupportedError(
                    f"as_strided with a storage offset, of an input that begins at element"
                    f" {inputs[number].storage_offset()} of its storage: the graph was compiled for one that begins at"
                    f" {offset}. Pass a clone of the input, or call torch._dynamo.reset() and compile again."
                )
        return compiled(*inputs)

    return checked


def _has_offset(node: torch.fx.Node) -> bool:
    return len(node.args) > 3 or node.kwargs.get("storage_offset") is not None


def _first_source(node: torch.fx.Node) -> torch.fx.Node:
    while node.op.startswith("call") and node.args and isinstance(node.args[0], torch.fx.Node):
        node = node.args[0]
    return node
