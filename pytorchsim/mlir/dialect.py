"""MLIR contexts with the `npu` dialect loaded, and the names other files need to recognise its ops and attributes.

In: nothing. Out: a context in which `npu` and the upstream dialects are registered and verified. A context serves the
kernels of one thread, one after another (contexts are single-threaded here: kernels are compiled in parallel, not
passes).
"""

from __future__ import annotations

import threading
from functools import cache
from importlib.resources import files

from mlir import ir
from mlir.dialects import irdl

__all__ = [
    "BUFFER_ALIGNMENT_BYTES",
    "CONTROL_ATTRIBUTE",
    "DATA_LAYOUT",
    "KERNEL_ATTRIBUTE",
    "ORIGINS_ATTRIBUTE",
    "TARGET_TRIPLE",
    "TILE_ATTRIBUTE",
    "TILE_SHAPE_ATTRIBUTE",
    "dialect_source",
    "npu_context",
]

BUFFER_ALIGNMENT_BYTES = 64
"""Every copy of a scratchpad buffer starts at a multiple of this; tile functions assume it of their pointers."""

TARGET_TRIPLE = "riscv64-unknown-elf"

DATA_LAYOUT = "e-m:e-p:64:64-i64:64-i128:128-n32:64-S128"
"""LLVM's layout for the triple.

Set on the MLIR module before translation: without it i64 accesses get 4-byte alignment.
"""

KERNEL_ATTRIBUTE = "npu.kernel"
"""Module attribute: the kernel's name, also the control function's."""

ORIGINS_ATTRIBUTE = "npu.origins"
"""Module attribute: where in the model the kernel comes from, an array of strings, for messages only."""

TILE_SHAPE_ATTRIBUTE = "npu.tile_shape"
"""Module attribute: the tile sizes by axis name, a dictionary of integers, for messages only."""

CONTROL_ATTRIBUTE = "npu.control"
"""Unit attribute of the control function."""

TILE_ATTRIBUTE = "npu.tile"
"""Unit attribute of a tile function."""


@cache
def dialect_source() -> str:
    """The IRDL text of the dialect."""
    return files("pytorchsim.mlir").joinpath("npu_dialect.mlir").read_text(encoding="utf-8")


class _OfThread(threading.local):
    """The context of a thread and how many more kernels it serves."""

    context: ir.Context | None = None
    left: int = 0


_of_thread = _OfThread()

_KERNELS_PER_CONTEXT = 64
"""What a context has seen (types, attributes, names) it keeps, so it is renewed."""


def npu_context() -> ir.Context:
    """This thread's context with the dialect loaded. Unregistered dialects stay refused. A new one takes 7 ms."""
    if _of_thread.context is None or not _of_thread.left:
        context = ir.Context()
        context.enable_multithreading(False)
        with context, ir.Location.unknown():
            irdl.load_dialects(ir.Module.parse(dialect_source()))
        _of_thread.context, _of_thread.left = context, _KERNELS_PER_CONTEXT
    _of_thread.left -= 1
    return _of_thread.context
