"""pin-divisions: a division of vectors stays where it was written.

Takes: tile functions. Leaves: no `arith.divf` of two vectors that are no constants, but calls of `vfdiv`, where RVV
divides such a vector by one instruction. LLVM joins
the divisions at the end of a loop and before it into one at the loop's start, behind the stores that must not wait for
it: the software pipeline that was written there is undone. A call it leaves alone.
"""

from __future__ import annotations

from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import vcix
from pytorchsim.mlir.passes.walk import operations_of

__all__ = ["pin_divisions"]

_MOST_REGISTERS = 8  # of a group: LMUL 8, RVV 1.0 section 3.4.2


def pin_divisions(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    for operation in operations_of(module, prefix="arith.divf"):
        dividend, divisor = operation.operands
        if not _is_one_instruction(dividend.type, config.core.vlen_bits):
            continue
        if _is_constant(dividend) or _is_constant(divisor):
            continue
        with ir.InsertionPoint(operation), operation.location:
            result = vcix.divide(dividend, divisor, config.core.vlen_bits)
        operation.results[0].replace_all_uses_with(result)
        operation.erase()


def _is_one_instruction(kind: ir.Type, vlen_bits: int) -> bool:
    """Whether a register group holds the vector and RVV divides its elements; LLVM widens bf16 and splits the rest."""
    if not isinstance(kind, ir.VectorType) or not isinstance(kind.element_type, (ir.F16Type, ir.F32Type, ir.F64Type)):
        return False
    return bool(kind.shape[0] * kind.element_type.width <= _MOST_REGISTERS * vlen_bits)


def _is_constant(value: ir.Value) -> bool:
    """A divisor or dividend that LLVM does something better with."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"
