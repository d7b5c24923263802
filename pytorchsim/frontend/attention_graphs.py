"""`write_out_attention`: attention operations that no kernel computes become plain operations of the same graph.

In: a graph as Inductor gets it, after AOTAutograd has split forward and backward. Out: the graph, changed in place. So
late because scores written out earlier could be saved by the forward, and the backward is to compute them again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from pytorchsim.config.session import Session
from pytorchsim.frontend.attention_operator import (
    ATTENTION,
    ATTENTION_BACKWARD,
    attention_backward_definition,
    attention_definition,
)
from pytorchsim.frontend.decompositions import decomposition_table

__all__ = ["write_out_attention"]

_DEFINITIONS: dict[Any, Callable[..., Any]] = {
    ATTENTION: attention_definition,
    ATTENTION_BACKWARD: attention_backward_definition,
}


def write_out_attention(graph: torch.fx.GraphModule, session: Session) -> None:
    """Replace each such node by the nodes of its definition."""
    calls = [node for node in graph.graph.nodes if node.op == "call_function" and node.target in _DEFINITIONS]
    found = [node for node in calls if not _has_kernel(node, session)]
    for node in found:
        _inline(graph, node, _DEFINITIONS[node.target])
    if found:
        graph.graph.lint()
        graph.recompile()


def _has_kernel(node: torch.fx.Node, session: Session) -> bool:
    """Whether the attention template has a tile for it."""
    # Only here: a process that finds everything in caches needs no MLIR.
    from pytorchsim.templates.attention import attention_refusal, problem_of_tensors

    if node.target is not ATTENTION:
        return False
    operands: Any = map_arg(node.args[:6], lambda argument: argument.meta["val"])
    query, key, value, mask, causal, scale = operands
    result, statistics = node.meta["val"]
    problem = problem_of_tensors(query, key, value, mask, result, statistics, causal=causal, scale=scale)
    return not attention_refusal(problem, session.config)


def _inline(graph: torch.fx.GraphModule, node: torch.fx.Node, definition: Callable[..., Any]) -> None:
    """The definition's nodes in front of `node`, which they replace."""
    operands = [argument for argument in node.args if isinstance(argument, torch.fx.Node)]
    others = list(node.args)

    def of_tensors(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        return definition(*(next(given) if isinstance(a, torch.fx.Node) else a for a in others))

    examples = [operand.meta["val"] for operand in operands]
    with examples[0].fake_mode:
        traced = make_fx(of_tensors, decomposition_table=decomposition_table())(*examples)
    values = dict(zip((n for n in traced.graph.nodes if n.op == "placeholder"), operands, strict=True))
    with graph.graph.inserting_before(node):
        for inner in traced.graph.nodes:
            if inner.op == "placeholder":
                continue
            if inner.op == "output":
                results = map_arg(inner.args[0], lambda n: values[n])
                break
            copy = graph.graph.node_copy(inner, lambda n: values[n])
            for name in ("stack_trace", "nn_module_stack", "original_aten"):
                if name in node.meta:
                    copy.meta[name] = node.meta[name]
            values[inner] = copy
    for user in list(node.users):
        user.replace_all_uses_with(results[user.args[1]])
        graph.graph.erase_node(user)
    graph.graph.erase_node(node)
