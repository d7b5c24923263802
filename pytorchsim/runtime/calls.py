"""Which graph runs belong to one top-level call.

In: the Python stack and autograd's state when a graph begins. Out: tokens, equal within a call of one compiled model
and different between calls, and the number of the running backward pass.
Assumes: torch 2.13 runs a compiled model inside `compile_wrapper` of `torch/_dynamo/eval_frame.py`. Where that frame is
missing (a generated module called directly), every graph is a call of its own.
"""

from __future__ import annotations

import sys
from pathlib import PurePath
from types import FrameType
from typing import Any

import torch

__all__ = ["CallToken", "backward_pass", "enclosing_call"]

_WRAPPER_FUNCTION = "compile_wrapper"
_WRAPPER_FILE = ("torch", "_dynamo", "eval_frame.py")


class CallToken:
    """Stands for one call. It lives on the call's outermost frame, in the slot for a local trace function.

    A frame cannot be held on to without keeping the caller's tensors alive, and its address is used again by the next
    call; an object on it has neither fault. As a trace function it asks for no events.
    """

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Ends tracing of the frame, should a debugger be active."""


def enclosing_call() -> CallToken:
    """The token of the outermost call of a compiled model that is running in this thread."""
    frame: FrameType | None = sys._getframe(1)
    outermost: FrameType | None = None
    while frame is not None:
        code = frame.f_code
        if code.co_name == _WRAPPER_FUNCTION and PurePath(code.co_filename).parts[-3:] == _WRAPPER_FILE:
            outermost = frame
        frame = frame.f_back
    if outermost is None:
        return CallToken()
    token = outermost.f_trace
    if not isinstance(token, CallToken):
        token = CallToken()
        if outermost.f_trace is None:  # else a debugger is stepping through it
            outermost.f_trace = token
    return token


def backward_pass() -> int | None:
    """The number of the backward pass that runs in this thread; None outside of one."""
    number = int(torch._C._current_graph_task_id())
    return None if number < 0 else number
