"""split-functions: the control function and each tile function get a module of their own, so an object of their own.

Takes: one kernel module. Leaves: a module of modules, one per function, named as the function. The control function's
has the declarations of the tile functions, the buffers and the descriptors; a tile function's has nothing else. An
object per function makes a call a boundary that LLVM moves nothing across, and lets objects be cached by content.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.dialect import CONTROL_ATTRIBUTE, DATA_LAYOUT, TARGET_TRIPLE

__all__ = ["split_functions"]


def split_functions(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    del config
    symbols: list[ir.OpView] = []
    functions: list[func.FuncOp] = []
    for view in module.body.operations:
        if isinstance(view, func.FuncOp):
            functions.append(view)
        else:
            symbols.append(view)
    for function in functions:
        body = _add_module(module, function.name.value)
        with ir.InsertionPoint(body):
            if CONTROL_ATTRIBUTE in function.attributes:
                for symbol in symbols:
                    symbol.operation.clone()
                for callee in functions:
                    if callee != function:
                        _declare(callee)
            clone = function.operation.clone()
            if "sym_visibility" in clone.attributes:  # private in the kernel; the linker needs it
                del clone.attributes["sym_visibility"]
    for view in [*symbols, *functions]:
        view.operation.erase()


def _add_module(module: ir.Module, name: str) -> ir.Block:
    with ir.InsertionPoint(module.body):
        inner = ir.Operation.create(
            "builtin.module",
            attributes={
                "sym_name": ir.StringAttr.get(name),
                "llvm.data_layout": ir.StringAttr.get(DATA_LAYOUT),
                "llvm.target_triple": ir.StringAttr.get(TARGET_TRIPLE),
            },
            regions=1,
        )
    return inner.regions[0].blocks.append()


def _declare(function: func.FuncOp) -> None:
    """A declaration with the same type and the same promises about the arguments."""
    declaration = func.FuncOp(function.name.value, function.type, visibility="private")
    declaration.arg_attrs = function.arg_attrs
