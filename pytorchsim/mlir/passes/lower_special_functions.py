"""lower-special-functions: `math` ops that the SFU computes become VCIX intrinsics.

Takes: tile functions with `math` ops. Leaves: no `math` op but those that LLVM has vector instructions for.
Refuses what would become a call of libm: other functions, other types than f32, scalars.
"""

from __future__ import annotations

from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import vcix
from pytorchsim.mlir.passes.walk import operations_of, problem_at, refuse

__all__ = ["NATIVE_MATH", "lower_special_functions"]

NATIVE_MATH = frozenset(
    f"math.{name}"
    for name in [
        "absf",
        "absi",
        "ceil",
        "copysign",
        "ctlz",
        "ctpop",
        "cttz",
        "floor",
        "fma",
        "isfinite",
        "isnan",
        "round",
        "roundeven",
        "rsqrt",
        "sqrt",
        "trunc",
    ]
)
"""`math` ops that become vector (or scalar) instructions without help."""


def lower_special_functions(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place. BrokenRules names every op that no instruction computes."""
    del config
    problems = []
    for operation in operations_of(module, prefix="math."):
        name = operation.name
        if name in NATIVE_MATH:
            continue
        if name not in vcix.SPECIAL_FUNCTIONS:
            known = ", ".join(sorted(vcix.SPECIAL_FUNCTIONS))
            problems.append(
                problem_at(operation, f"no instruction computes it; decompose it into {known} and arithmetic")
            )
            continue
        kind = operation.results[0].type
        if not (isinstance(kind, ir.VectorType) and isinstance(kind.element_type, ir.F32Type)):
            problems.append(problem_at(operation, f"the SFU computes vectors of f32, not {kind}; convert first"))
            continue
        with ir.InsertionPoint(operation), operation.location:
            result = vcix.special_function(vcix.SPECIAL_FUNCTIONS[name], operation.operands[0])
        operation.results[0].replace_all_uses_with(result)
        operation.erase()
    refuse(problems)
