"""MLIR contexts with the `npu` dialect loaded, and the names other files need to recognise its ops and attributes.

In: nothing. Out: a context in which `npu` and the upstream dialects are registered and verified. One context serves one
kernel on one thread (contexts are single-threaded here: kernels are compiled in parallel, not passes).
"""

from __future__ import annotations

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


def npu_context() -> ir.Context:
    """A new context with the dialect loaded. Unregistered dialects stay refused. About 6 ms."""
    context = ir.Context()
    context.enable_multithreading(False)
    with context, ir.Location.unknown():
        irdl.load_dialects(ir.Module.parse(dialect_source()))
    return context
