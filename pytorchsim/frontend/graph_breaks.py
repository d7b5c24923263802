"""Graph breaks: between two graphs of a function Python runs, and with it whatever tensor work stands there.

In: a graph of Dynamo, which says why it ends. Out: nothing, an error (strict) or a warning if it ends in a break.
Assumes: a function that breaks before its first tensor operation gives no graph, so that nobody is told of it.
"""

from __future__ import annotations

import warnings
from traceback import FrameSummary

import torch
from torch._dynamo.output_graph import GraphCompileReason

from pytorchsim.errors import HostOpError, HostOpWarning

__all__ = ["check_graph_break", "ends_in_break"]


def ends_in_break(gm: torch.fx.GraphModule) -> bool:
    """Whether another graph of the same function follows."""
    reason = getattr(gm, "compile_subgraph_reason", None)
    return isinstance(reason, GraphCompileReason) and bool(reason.graph_break)


def check_graph_break(gm: torch.fx.GraphModule, *, strict: bool) -> None:
    """Raise (strict) or warn if `gm` ends in a graph break.

    Raises:
        HostOpError: strict; the message has Dynamo's reason and the source line.
    """
    reason = getattr(gm, "compile_subgraph_reason", None)
    if not isinstance(reason, GraphCompileReason) or not reason.graph_break:
        return
    frame = reason.user_stack[-1] if reason.user_stack else FrameSummary("<graph>", 0, "")
    why = reason.reason.strip().splitlines()[0]
    message = (
        f"graph break at {frame.filename}:{frame.lineno}: {frame.line}: {why}."
        " What stands between the two graphs runs on the host"
    )
    if strict:
        raise HostOpError(
            f"strict mode: {message}. Rewrite the line (torch.compile(fullgraph=True) explains it in full), or leave"
            " out options={'strict': True}."
        )
    warnings.warn_explicit(message, HostOpWarning, frame.filename, frame.lineno or 0, module="pytorchsim")
