"""widen-bf16-conversions: a conversion of bf16 to an integer goes through f32.

Takes: `arith.fptosi` and `arith.fptoui` of any float. Leaves: none of vectors of bf16, extended or not. LLVM folds a
rounding (`math.floor` ...) of bf16 into the conversion and then finds no instruction for it, which ends its process.
The widening is done on the bits, as the upper half of an f32, because LLVM would fold `arith.extf` away again.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.passes.walk import operations_of

__all__ = ["widen_bf16_conversions"]

_CONVERSIONS = {"arith.fptosi": arith.fptosi, "arith.fptoui": arith.fptoui}
_UPPER_HALF_BITS = 16


def widen_bf16_conversions(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    del config
    for operation in operations_of(module, prefix="arith.fpto"):
        value = _before_extensions(operation.operands[0])
        if not (isinstance(value.type, ir.VectorType) and isinstance(value.type.element_type, ir.BF16Type)):
            continue
        with ir.InsertionPoint(operation), operation.location:
            wide = _as_f32(value)
            result = _CONVERSIONS[operation.name](operation.results[0].type, wide)
        operation.results[0].replace_all_uses_with(result)
        operation.erase()


def _before_extensions(value: ir.Value) -> ir.Value:
    """What `value` was before `arith.extf`: LLVM converts that directly, whatever it was extended to."""
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name == "arith.extf":
        value = owner.operands[0]
        owner = value.owner
    return value


def _as_f32(value: ir.Value) -> ir.Value:
    shape = list(ir.VectorType(value.type).shape)
    i16, i32 = (ir.VectorType.get(shape, ir.IntegerType.get_signless(bits)) for bits in (16, 32))
    shift = ir.DenseElementsAttr.get_splat(i32, ir.IntegerAttr.get(i32.element_type, _UPPER_HALF_BITS))
    bits = arith.shli(arith.extui(i32, arith.bitcast(i16, value)), arith.constant(i32, shift))
    return arith.bitcast(ir.VectorType.get(shape, ir.F32Type.get()), bits)
