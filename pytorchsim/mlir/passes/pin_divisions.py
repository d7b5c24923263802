"""pin-divisions: a division of vectors stays where it was written.

Takes: tile functions. Leaves: no `arith.divf` of two vectors that are no constants, but calls of `vfdiv`. LLVM joins
the divisions at the end of a loop and before it into one at the loop's start, behind the stores that must not wait for
it: the software pipeline that was written there is undone. A call it leaves alone.
"""

from __future__ import annotations

from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import vcix
from pytorchsim.mlir.passes.walk import operations_of

__all__ = ["pin_divisions"]


def pin_divisions(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    for operation in operations_of(module, prefix="arith.divf"):
        dividend, divisor = operation.operands
        if not isinstance(dividend.type, ir.VectorType) or _is_constant(dividend) or _is_constant(divisor):
            continue
        with ir.InsertionPoint(operation), operation.location:
            result = vcix.divide(dividend, divisor, config.core.vlen_bits)
        operation.results[0].replace_all_uses_with(result)
        operation.erase()


def _is_constant(value: ir.Value) -> bool:
    """A divisor or dividend that LLVM does something better with."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"
