"""`lowers`: lowerings of ours, for our graphs only.

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
from torch._inductor.lowering import user_lowerings

from pytorchsim.frontend.registration import compiling_for_npu

__all__ = ["lowers"]

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
