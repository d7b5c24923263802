"""`lowers`: lowerings of ours, for our graphs only; `admit_fallbacks`: what Inductor itself has no lowering for.

In: functions from Inductor's IR to Inductor's IR. Out: entries of Inductor's `user_lowerings`, which is asked before
its own table; graphs of other backends get its own. Assumes: an entry gets raw arguments (no promotion, no
broadcasting), and `None` means "use the stock lowering", so a refusal must raise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch._inductor.ir import validate_ir
from torch._inductor.lowering import (
    FALLBACK_ALLOW_LIST,
    lowerings,
    make_fallback,
    require_contiguous,
    tag_to_layout_constraint,
    user_lowerings,
)
from torch._library.utils import get_layout_constraint_tag, is_builtin

from pytorchsim.frontend.decompositions import decomposition_table
from pytorchsim.frontend.registration import compiling_for_npu

__all__ = ["admit_fallbacks", "lowers"]

_Lowering = TypeVar("_Lowering", bound=Callable[..., Any])


def lowers(*overloads: torch._ops.OpOverload) -> Callable[[_Lowering], _Lowering]:
    """Decorator: lower `overloads` of a graph of ours with this function.

    Raises:
        ValueError: an overload has a lowering already.
    """

    def register(lowering: _Lowering) -> _Lowering:
        @functools.wraps(lowering)
        def dispatching(*args: Any, **kwargs: Any) -> Any:
            if not compiling_for_npu():
                return None
            result = lowering(*args, **kwargs)
            validate_ir(result)
            return result

        for overload in overloads:
            if overload in user_lowerings:
                raise ValueError(f"{overload} has a lowering already")
            user_lowerings[overload] = dispatching
        return lowering

    return register


def admit_fallbacks(graph: torch.fx.GraphModule, *, backward: bool) -> None:
    """Enter the operations of `graph` that Inductor has no lowering for as its fallbacks.

    Inductor does the same, with the same layouts, when it meets one, but raises an assertion instead where the
    environment variable `CI` is set and PyTorch has some decomposition: neither a lowering of ours nor the name of a
    host op may depend on that.
    """
    for node in graph.graph.nodes:
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target in lowerings:
            continue
        if target.name().split(".")[0] in FALLBACK_ALLOW_LIST:
            continue
        tag = get_layout_constraint_tag(target, with_default=False)
        constraint: Callable[..., Any] | None
        if tag is None and backward and is_builtin(target):
            constraint = require_contiguous  # some eager kernels of backwards are wrong on other layouts
        else:
            constraint = tag_to_layout_constraint(get_layout_constraint_tag(target, with_default=True))
        make_fallback(target, layout_constraint=constraint, warn=False, get_decomp_fn=decomposition_table)
