"""float8 in a lane: bytes to float32 and back, bit for bit as eager.

In: vectors of bytes or of float32. Out: MLIR at the insertion point. Encoding rounds to nearest, ties to even.
e4m3fn has no infinity: from its largest value (448) on, infinity included, everything becomes that value, as in eager;
e5m2 overflows to infinity.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math

from pytorchsim.target.dtypes import F8E4M3FN, F8E5M2, Dtype

__all__ = ["decode_float8", "encode_float8"]

_F32_FRACTION_BITS, _F32_BIAS = 23, 127


@dataclass(frozen=True)
class _Format:
    """`fraction` bits and the exponent's `bias`. Magnitudes from `overflow` on become the byte `beyond`; every byte
    from `first_nan` on (without its sign) is a NaN."""

    fraction: int
    bias: int
    overflow: float
    beyond: int
    first_nan: int
    has_infinity: bool


_FORMATS = {
    F8E4M3FN: _Format(fraction=3, bias=7, overflow=448.0, beyond=0x7E, first_nan=0x7F, has_infinity=False),
    F8E5M2: _Format(fraction=2, bias=15, overflow=65536.0, beyond=0x7C, first_nan=0x7D, has_infinity=True),
}
_NAN = 0x7F


def decode_float8(byte: ir.Value, memory: Dtype, elements: int) -> ir.Value:
    """The float32 of each byte: exact.

    The byte's exponent and fraction, shifted under float32's, are the value times a power of two, zero and subnormals
    included (float32 then reads a subnormal), so one multiplication corrects all of them.
    """
    layout, bits = _FORMATS[memory], _Bits(elements)
    wide = arith.extui(bits.i32, byte)
    magnitude = arith.andi(wide, bits.integer(0x7F))
    shifted = arith.shli(magnitude, bits.integer(_F32_FRACTION_BITS - layout.fraction))
    scale = bits.real(2.0 ** (_F32_BIAS - layout.bias))
    value = arith.mulf(arith.bitcast(bits.f32, shifted), scale)
    if layout.has_infinity:
        is_infinite = arith.cmpi(arith.CmpIPredicate.eq, magnitude, bits.integer(layout.beyond))
        value = arith.select(is_infinite, bits.real(float("inf")), value)
    is_nan = arith.cmpi(arith.CmpIPredicate.uge, magnitude, bits.integer(layout.first_nan))
    value = arith.select(is_nan, bits.real(float("nan")), value)
    sign = arith.shli(arith.andi(wide, bits.integer(0x80)), bits.integer(24))
    return arith.bitcast(bits.f32, arith.ori(arith.bitcast(bits.i32, value), sign))


def encode_float8(value: ir.Value, memory: Dtype, elements: int) -> ir.Value:
    """The nearest byte of each float32.

    Normal results round in the integer domain: half a unit and the last kept bit are added, then the exponent is
    rebased. Subnormal results round by adding a power of two whose unit in the last place is theirs.
    """
    layout, bits = _FORMATS[memory], _Bits(elements)
    pattern = arith.bitcast(bits.i32, value)
    sign = arith.shrui(arith.andi(pattern, bits.integer(-(1 << 31))), bits.integer(24))
    magnitude = math.absf(value)
    absolute = arith.bitcast(bits.i32, magnitude)

    dropped = _F32_FRACTION_BITS - layout.fraction
    last = arith.andi(arith.shrui(absolute, bits.integer(dropped)), bits.integer(1))
    rounded = arith.addi(arith.addi(absolute, bits.integer((1 << (dropped - 1)) - 1)), last)
    rebased = arith.subi(rounded, bits.integer((_F32_BIAS - layout.bias) << _F32_FRACTION_BITS))
    normal = arith.shrui(rebased, bits.integer(dropped))

    least_normal = 2.0 ** (1 - layout.bias)
    anchor = least_normal * 2.0**dropped
    aligned = arith.bitcast(bits.i32, arith.addf(magnitude, bits.real(anchor)))
    subnormal = arith.subi(aligned, arith.bitcast(bits.i32, bits.real(anchor)))

    is_subnormal = arith.cmpf(arith.CmpFPredicate.OLT, magnitude, bits.real(least_normal))
    byte = arith.select(is_subnormal, subnormal, normal)
    # Below the limit, rounding up runs into the limit's byte by itself.
    too_large = arith.cmpf(arith.CmpFPredicate.OGE, magnitude, bits.real(layout.overflow))
    byte = arith.select(too_large, bits.integer(layout.beyond), byte)
    is_nan = arith.cmpf(arith.CmpFPredicate.UNO, value, value)
    byte = arith.select(is_nan, bits.integer(_NAN), byte)
    return arith.trunci(ir.VectorType.get([elements], ir.IntegerType.get_signless(8)), arith.ori(byte, sign))


class _Bits:
    """Types and constants of one vector length."""

    def __init__(self, elements: int) -> None:
        self.i32 = ir.VectorType.get([elements], ir.IntegerType.get_signless(32))
        self.f32 = ir.VectorType.get([elements], ir.F32Type.get())

    def integer(self, value: int) -> ir.Value:
        attribute = ir.IntegerAttr.get(self.i32.element_type, value)
        return arith.constant(self.i32, ir.DenseElementsAttr.get_splat(self.i32, attribute))

    def real(self, value: float) -> ir.Value:
        attribute = ir.FloatAttr.get(self.f32.element_type, value)
        return arith.constant(self.f32, ir.DenseElementsAttr.get_splat(self.f32, attribute))
