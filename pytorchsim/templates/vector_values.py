"""Values in registers: their MLIR types, constants, and the way from and to memory.

In: machine dtypes and a vector length. Out: MLIR at the insertion point. A value is `vector<NxT>`: bool is one bit,
float16, bfloat16 and float8 are computed as float32. Integers are signless in MLIR; their signedness is in `Dtype`
and every operation reads it there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from pytorchsim.target.dtypes import BF16, F8E4M3FN, F8E5M2, F16, F32, Dtype, Kind
from pytorchsim.templates.float_formats import decode_float8, encode_float8
from pytorchsim.templates.loop_program import Operation

__all__ = [
    "NARROW_FLOATS",
    "Emitter",
    "Operands",
    "computed_dtype",
    "element_type",
    "from_bits",
    "from_memory",
    "round_to",
    "splat",
    "to_bits",
    "to_memory",
    "vector_type",
]

NARROW_FLOATS = (F16, BF16, F8E4M3FN, F8E5M2)
"""Types of memory only: lanes compute them as float32."""

_FLOAT8 = (F8E4M3FN, F8E5M2)


@dataclass(frozen=True)
class Operands:
    """What an emitter gets: the operation, its operands' values and types, and the vector length in elements."""

    operation: Operation
    values: tuple[ir.Value, ...]
    dtypes: tuple[Dtype, ...]
    elements: int

    def constant(self, value: float) -> ir.Value:
        """A vector of `value` in the type of the first operand."""
        return splat(value, self.dtypes[0], self.elements)


Emitter = Callable[[Operands], ir.Value]


def computed_dtype(memory: Dtype) -> Dtype:
    """The type that a lane computes values of `memory` in."""
    return F32 if memory in NARROW_FLOATS else memory


def element_type(dtype: Dtype) -> ir.Type:
    """The MLIR type a lane computes in: bool is one bit."""
    return ir.IntegerType.get_signless(1) if dtype.kind is Kind.BOOL else ir.Type.parse(dtype.mlir)


def vector_type(dtype: Dtype, elements: int) -> ir.VectorType:
    """`elements` values of `dtype` in registers."""
    return ir.VectorType.get([elements], element_type(dtype))


def splat(value: float | bool, dtype: Dtype, elements: int) -> ir.Value:
    """A constant vector. An integer wraps into the type."""
    element = element_type(dtype)
    if dtype.kind is Kind.FLOAT:
        attribute: ir.Attribute = ir.FloatAttr.get(element, float(value))
    else:
        attribute = ir.IntegerAttr.get(element, _signed(int(value), 1 if dtype.kind is Kind.BOOL else dtype.bits))
    kind = vector_type(dtype, elements)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, attribute))


def from_memory(value: ir.Value, memory: Dtype, elements: int) -> ir.Value:
    """A loaded vector in the type it is computed in. Any non-zero byte of a bool is true."""
    if memory.kind is Kind.BOOL:
        byte = ir.VectorType.get([elements], ir.IntegerType.get_signless(8))
        zero = arith.constant(byte, ir.DenseElementsAttr.get_splat(byte, ir.IntegerAttr.get(byte.element_type, 0)))
        return arith.cmpi(arith.CmpIPredicate.ne, value, zero)
    if memory in _FLOAT8:
        return decode_float8(value, memory, elements)
    if memory in NARROW_FLOATS:
        return arith.extf(vector_type(F32, elements), value)
    return value


def to_memory(value: ir.Value, memory: Dtype, elements: int) -> ir.Value:
    """A computed vector in the type it is stored in; floats round to nearest, ties to even."""
    if memory.kind is Kind.BOOL:
        return arith.extui(ir.VectorType.get([elements], ir.IntegerType.get_signless(8)), value)
    if memory in _FLOAT8:
        return encode_float8(value, memory, elements)
    if memory in NARROW_FLOATS:
        return arith.truncf(ir.VectorType.get([elements], ir.Type.parse(memory.mlir)), value)
    return value


def round_to(memory: Dtype) -> Emitter:
    """The operation that rounds float32 to what `memory` can hold."""
    return lambda o: from_memory(to_memory(o.values[0], memory, o.elements), memory, o.elements)


def to_bits(memory: Dtype) -> Emitter:
    """The operation that gives the bits, as an integer, of float32 stored as `memory`."""

    def emit(o: Operands) -> ir.Value:
        stored = to_memory(o.values[0], memory, o.elements)
        integers = vector_type(o.operation.dtype, o.elements)
        return stored if stored.type == integers else arith.bitcast(integers, stored)

    return emit


def from_bits(memory: Dtype) -> Emitter:
    """The operation that reads integers as the bits of `memory` and gives float32."""

    def emit(o: Operands) -> ir.Value:
        stored = ir.VectorType.get([o.elements], ir.Type.parse(memory.mlir))
        bits = o.values[0]
        return from_memory(bits if bits.type == stored else arith.bitcast(stored, bits), memory, o.elements)

    return emit


def _signed(value: int, bits: int) -> int:
    """`value` modulo 2**bits as the attribute of a signless integer wants it: -2**(bits-1) .. 2**(bits-1)-1."""
    if bits == 1:
        return value & 1
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half
