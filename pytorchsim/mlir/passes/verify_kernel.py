"""verify-kernel: the rules of a kernel module that a dialect cannot state (docs/compiler.md lists them).

Takes: the module that the scheduler built. Leaves it as it is, or raises BrokenRules with every problem found.
What the rules keep out is what would put a lane's value into a scalar register, or abort inside LLVM.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.dialect import CONTROL_ATTRIBUTE, KERNEL_ATTRIBUTE, TILE_ATTRIBUTE
from pytorchsim.mlir.passes.verify_control import control_problems
from pytorchsim.mlir.passes.verify_symbols import symbol_problems
from pytorchsim.mlir.passes.verify_tile import tile_problems
from pytorchsim.mlir.passes.walk import kernel_name, problem_at, refuse

__all__ = ["verify_kernel"]


def verify_kernel(module: ir.Module, config: NpuConfig) -> None:
    """Check in place. BrokenRules lists every problem with op, function and location."""
    name = kernel_name(module)
    problems: list[str] = []
    if not name:
        problems.append(problem_at(module.operation, f'a kernel module has the attribute {KERNEL_ATTRIBUTE} = "name"'))
    table, found = symbol_problems(module)
    problems += found
    controls = 0
    for view in module.body.operations:
        operation = view.operation
        if not isinstance(view, func.FuncOp):
            if operation.name not in ("npu.buffer", "npu.descriptor"):
                problems.append(problem_at(operation, "a kernel module holds npu.buffer, npu.descriptor and func.func"))
            continue
        if CONTROL_ATTRIBUTE in operation.attributes:
            controls += 1
            if view.name.value != name:
                problems.append(problem_at(operation, f"the control function has the kernel's name {name!r}"))
            problems += control_problems(view, table, config)
        elif TILE_ATTRIBUTE in operation.attributes:
            if not view.name.value.startswith(f"{name}__"):
                problems.append(problem_at(operation, f"a tile function's name starts with '{name}__'"))
            problems += tile_problems(view, config)
        else:
            problems.append(problem_at(operation, f"a function is marked {CONTROL_ATTRIBUTE} or {TILE_ATTRIBUTE}"))
    if controls != 1:
        problems.append(problem_at(module.operation, f"a kernel has one control function, not {controls}"))
    refuse(problems)
