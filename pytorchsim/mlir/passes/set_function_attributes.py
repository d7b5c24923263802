"""set-function-attributes: what LLVM must know of each function.

Takes: modules in the llvm dialect. Leaves: `llvm.func`s with LLVM's attributes, no `npu` attribute. It comes last
because the conversion of func.func drops `no_inline` and `llvm.vscale_range`.
"""

from __future__ import annotations

from mlir import ir

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.dialect import CONTROL_ATTRIBUTE, TILE_ATTRIBUTE
from pytorchsim.mlir.passes.walk import operations_of

__all__ = ["set_function_attributes"]

_EVERY_FUNCTION = ("noinline", "nounwind", "no-builtins")
"""no-builtins: loops must not become memset or memcpy, which are calls or scalar stores."""

_NO_TABLES = ("no-jump-tables", "true")
"""Branches stay branches: a table is read by scalar loads and left by an indirect jump."""

_VSCALE_BITS = 64
"""RVV: vscale = VLEN / 64."""


def set_function_attributes(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    scale = config.core.vlen_bits // _VSCALE_BITS
    vscale_range = ir.Attribute.parse(f"#llvm.vscale_range<minRange = {scale} : i32, maxRange = {scale} : i32>")
    tables = ir.ArrayAttr.get([ir.StringAttr.get(text) for text in _NO_TABLES])
    for function in operations_of(module, prefix="llvm.func"):
        # Vector code in a control function would mean something else on this machine than the scalars it replaces.
        control = CONTROL_ATTRIBUTE in function.attributes
        names = [*_EVERY_FUNCTION, "noimplicitfloat"] if control else list(_EVERY_FUNCTION)
        function.attributes["passthrough"] = ir.ArrayAttr.get([*(ir.StringAttr.get(name) for name in names), tables])
        function.attributes["vscale_range"] = vscale_range
        for marker in (CONTROL_ATTRIBUTE, TILE_ATTRIBUTE):
            if marker in function.attributes:
                del function.attributes[marker]
