"""verify-llvm: nothing but the llvm dialect is left.

Takes: what the lowering passes left. Leaves it as it is, or raises BrokenRules. An operation that no pass
lowered would end the process inside the translation to LLVM IR, which does not report it.
"""

from __future__ import annotations

from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.passes.walk import operations_of, problem_at, refuse

__all__ = ["verify_llvm"]


def verify_llvm(module: ir.Module, config: NpuConfig) -> None:
    """Check in place. BrokenRules lists every operation that is left."""
    del config
    problems = [
        problem_at(operation, "no pass lowers it; it has no place in a kernel")
        for operation in operations_of(module)
        if not operation.name.startswith("llvm.") and operation.name != "builtin.module"
    ]
    refuse(problems)
