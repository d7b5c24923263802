"""Walking a module and reporting problems, for the passes written in Python.

In: a module. Out: its operations in program order; `BrokenRules`, of which the pipeline makes an `IRVerificationError`
that names kernel and pass.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from pytorchsim.mlir.dialect import KERNEL_ATTRIBUTE

__all__ = ["BrokenRules", "function_of", "kernel_name", "operations_of", "problem_at", "refuse"]

_SHOWN_PROBLEMS = 10


class BrokenRules(Exception):
    """A pass refuses the module. The text lists every problem with op, function and location."""


def operations_of(root: ir.Module | ir.Operation | ir.OpView, *, prefix: str = "") -> list[ir.Operation]:
    """Every operation inside `root` (not `root` itself) whose name starts with `prefix`, before anything is changed."""
    found: list[ir.Operation] = []
    top = root.operation

    def visit(operation: ir.Operation) -> ir.WalkResult:
        if operation != top and operation.name.startswith(prefix):
            found.append(operation)
        return ir.WalkResult.ADVANCE

    top.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def kernel_name(module: ir.Module) -> str:
    """The name of the module's kernel, empty when it has none."""
    attributes = module.operation.attributes
    return str(ir.StringAttr(attributes[KERNEL_ATTRIBUTE]).value) if KERNEL_ATTRIBUTE in attributes else ""


def function_of(operation: ir.Operation) -> str:
    """The symbol of the function that holds `operation`, empty outside of functions."""
    at: ir.Operation | None = operation
    while at is not None:
        if at.name in ("func.func", "llvm.func"):
            return str(ir.StringAttr(at.attributes["sym_name"]).value)
        parent = at.parent
        at = None if parent is None else parent.operation
    return ""


def problem_at(operation: ir.Operation, text: str) -> str:
    """One problem: what, where."""
    function = function_of(operation)
    inside = f" in @{function}" if function else ""
    return f"'{operation.name}'{inside} at {operation.location}: {text}"


def refuse(problems: Sequence[str]) -> None:
    """Raise BrokenRules when there are problems."""
    if not problems:
        return
    shown = [*problems[:_SHOWN_PROBLEMS]]
    if len(problems) > _SHOWN_PROBLEMS:
        shown.append(f"and {len(problems) - _SHOWN_PROBLEMS} more")
    raise BrokenRules("\n  ".join(shown))
