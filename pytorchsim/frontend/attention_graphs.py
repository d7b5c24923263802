"""`write_out_attention`: attention operations become what kernels compute: those without a template plain operations of
the same graph, the backward a sum per query and the operation of its template.

In: a graph as Inductor gets it, after AOTAutograd has split forward and backward. Out: the graph, changed in place. So
late because scores written out earlier could be saved by the forward, and the backward is to compute them again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from pytorchsim.config.session import Session
from pytorchsim.frontend.attention_definition import attention_backward_definition, attention_definition
from pytorchsim.frontend.attention_operator import ATTENTION, ATTENTION_BACKWARD, attention_backward_by_kernel
from pytorchsim.frontend.decompositions import decomposition_table

__all__ = ["write_out_attention"]


def write_out_attention(graph: torch.fx.GraphModule, session: Session) -> None:
    """Replace each such node by the nodes of its definition."""
    choices: dict[Any, Callable[[torch.fx.Node, Session], Callable[..., Any] | None]]
    choices = {ATTENTION: _of_forward, ATTENTION_BACKWARD: _of_backward}
    calls = [node for node in graph.graph.nodes if node.op == "call_function" and node.target in choices]
    found = [(node, definition) for node in calls if (definition := choices[node.target](node, session))]
    for node, definition in found:
        _inline(graph, node, definition)
    if found:
        graph.graph.lint()
        graph.recompile()


def _of_forward(node: torch.fx.Node, session: Session) -> Callable[..., Any] | None:
    """None where the attention template has a tile for it."""
    # Only here: a process that finds everything in caches needs no MLIR.
    from pytorchsim.templates.attention import attention_refusal, problem_of_tensors

    operands: Any = map_arg(node.args[:6], lambda argument: argument.meta["val"])
    query, key, value, mask, causal, scale = operands
    result, statistics = node.meta["val"]
    problem = problem_of_tensors(query, key, value, mask, result, statistics, causal=causal, scale=scale)
    return attention_definition if attention_refusal(problem, session.config) else None


def _of_backward(node: torch.fx.Node, session: Session) -> Callable[..., Any]:
    """By the template, where it has a tile and no gradient of the mask, which is as large as the scores, is wanted."""
    from pytorchsim.templates.attention_backward import BackwardOperands, most_queries, problem_of_backward

    operands: Any = map_arg(node.args, lambda argument: argument.meta["val"])
    gradient, query, key, value, mask, _, statistics, causal, scale, of_mask = operands
    if of_mask:
        return attention_backward_definition
    of_query, of_key, of_value, _ = node.meta["val"]
    tensors = {"gradient": gradient, "query": query, "key": key, "value": value, "statistics": statistics}
    tensors |= {"delta": statistics, "of_query": of_query, "of_key": of_key, "of_value": of_value}
    tensors |= {} if mask is None else {"mask": mask}
    problem = problem_of_backward(tensors, BackwardOperands(mask is not None, causal, scale))
    most = most_queries(problem, session.config)
    return partial(attention_backward_by_kernel, most=most) if most else attention_backward_definition


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
