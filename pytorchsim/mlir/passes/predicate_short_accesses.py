"""predicate-short-accesses: loads and stores of vectors that fit a scalar register become `vp.load` and `vp.store`.

Takes: the llvm dialect. Leaves: every load and store of a vector of at most 64 bits predicated (all elements on).
Instruction selection turns a plain store of such a constant into a scalar store, which has no lane; the constant may be
one that LLVM only finds while optimising. It leaves predicated accesses alone.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import llvm

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.passes.walk import operations_of

__all__ = ["predicate_short_accesses"]

_SCALAR_REGISTER_BITS = 64


def predicate_short_accesses(module: ir.Module, config: NpuConfig) -> None:
    """Rewrite in place."""
    del config
    for operation in operations_of(module):
        if operation.name == "llvm.load" and _is_short(operation.results[0].type):
            with ir.InsertionPoint(operation), operation.location:
                mask, length = _all_elements(operation.results[0].type)
                loaded = ir.Operation.create(
                    "llvm.intr.vp.load",
                    results=[operation.results[0].type],
                    operands=[operation.operands[0], mask, length],
                )
            operation.results[0].replace_all_uses_with(loaded.results[0])
            operation.erase()
        elif operation.name == "llvm.store" and _is_short(operation.operands[0].type):
            value, pointer = operation.operands
            with ir.InsertionPoint(operation), operation.location:
                mask, length = _all_elements(value.type)
                ir.Operation.create("llvm.intr.vp.store", operands=[value, pointer, mask, length])
            operation.erase()


def _is_short(kind: ir.Type) -> bool:
    if not isinstance(kind, ir.VectorType):
        return False
    return int(kind.shape[0]) * int(kind.element_type.width) <= _SCALAR_REGISTER_BITS


def _all_elements(kind: ir.Type) -> tuple[ir.Value, ir.Value]:
    count = int(ir.VectorType(kind).shape[0])
    i1, i32 = ir.IntegerType.get_signless(1), ir.IntegerType.get_signless(32)
    mask_kind = ir.VectorType.get([count], i1)
    mask = llvm.ConstantOp(mask_kind, ir.DenseElementsAttr.get_splat(mask_kind, ir.IntegerAttr.get(i1, 1))).result
    return mask, llvm.ConstantOp(i32, ir.IntegerAttr.get(i32, count)).result
