"""Sizes that depend on values of tensors: seen before Inductor, refused with the operation and its place.

In: a graph as Inductor gets it. Out: nothing, or an `UnsupportedError`. Assumes: such a size is an unbacked symbol in
the shape of the node that makes it (`nonzero`, indexing by a mask, `repeat_interleave` by a tensor).
"""

from __future__ import annotations

from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from pytorchsim.errors import UnsupportedError
from pytorchsim.scheduler.source_lines import source_line

__all__ = ["refuse_data_dependent_sizes"]


def refuse_data_dependent_sizes(graph: torch.fx.GraphModule) -> None:
    """Kernels are compiled for sizes that are known.

    Raises:
        UnsupportedError: some tensor of the graph has a size that only its computation tells.
    """
    for node in graph.graph.nodes:
        value: Any = node.meta.get("val")
        tensors = value if isinstance(value, list | tuple) else (value,)
        if any(isinstance(tensor, torch.Tensor) and free_unbacked_symbols(tensor.shape) for tensor in tensors):
            raise UnsupportedError(_refusal(node))


def _refusal(node: torch.fx.Node) -> str:
    file, line, code = source_line(node.meta.get("stack_trace"))
    where = f" at {file}:{line}: {code}" if file else ""
    return (
        f"the size of what {node.target} (FX node {node.name}) gives{where} depends on values of tensors; kernels are"
        " compiled for known sizes. Keep the size fixed: torch.where or masked_fill for a mask, output_size= for"
        " repeat_interleave; or leave out fullgraph=True, so that the graph breaks there"
    )
