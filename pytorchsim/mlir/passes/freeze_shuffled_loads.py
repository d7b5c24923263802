"""freeze-shuffled-loads: a loaded vector is frozen before a shuffle sees it.

Takes: the llvm dialect. Leaves: `llvm.freeze` between a vector load and its shuffles and bitcasts. Instruction
selection turns "load, then spread one element" into a scalar load, which would see one lane only; it does not look
through a freeze, which costs no instruction. `npu.splat` is safe without; other shuffles may become a spread while
LLVM folds them.
"""

from __future__ import annotations

from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.passes.walk import operations_of

__all__ = ["freeze_shuffled_loads"]

_LOADS = ("llvm.load", "llvm.intr.vp.load", "llvm.intr.masked.load")
_LOOKS_THROUGH = ("llvm.shufflevector", "llvm.bitcast")


def freeze_shuffled_loads(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    del config
    for operation in operations_of(module, prefix="llvm."):
        if operation.name not in _LOADS or not isinstance(operation.results[0].type, ir.VectorType):
            continue
        loaded = operation.results[0]
        if not any(use.owner.name in _LOOKS_THROUGH for use in loaded.uses):
            continue
        with ir.InsertionPoint.after(operation), operation.location:
            frozen = ir.Operation.create("llvm.freeze", results=[loaded.type], operands=[loaded])
        loaded.replace_all_uses_except(frozen.results[0], frozen)
