"""Stand-ins for instructions that gem5 does not know: instructions of RVV 1.0 with the same vector operands.

In: an instruction's word. Out: the stand-in's word; for a custom instruction one of an operation class of gem5 that
nothing else in a tile function uses, for a conversion of bf16 that of f16. Only cycles come out right, never values.
Assumes: 32-bit elements where float forms stand for custom instructions (SFU, array results), and tile functions, which
have no DMA and no reduction inside a lane (those would give a scalar).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytorchsim.target.isa import CUSTOM, OPCODE

__all__ = ["SHARED_PUSH", "TWINS", "Twin", "timing_twin"]


@dataclass(frozen=True)
class Twin:
    """`op_class`: gem5's name of the functional unit's class. `word(vd, vs2)`: the encoding."""

    mnemonic: str
    op_class: str
    word: Callable[[int, int], int]


def _vector(funct6: int, funct3: int, vd: int, vs2: int, vs1: int) -> int:
    return funct6 << 26 | 1 << 25 | vs2 << 20 | vs1 << 15 | funct3 << 12 | vd << 7 | 0x57


# Encodings: RVV 1.0, "Vector Instruction Listing". OPFVV is funct3 1, OPMVV 2. What takes elements of any width is of
# integers: gem5 does not define its float forms for bytes.
_SFU = Twin("vfrsqrt7.v vd, vs2", "SimdFloatSqrt", lambda vd, vs2: _vector(0b010011, 1, vd, vs2, 0b00100))
_XLU = Twin("vredmaxu.vs vd, vs2, vs2", "SimdReduceCmp", lambda vd, vs2: _vector(0b000110, 2, vd, vs2, vs2))
_PUSH = Twin("vredsum.vs vs2, vs2, vs2", "SimdReduceAdd", lambda _, vs2: _vector(0b000000, 2, vs2, vs2, vs2))
_POP = Twin("vfredmin.vs vd, vd, vd", "SimdFloatReduceCmp", lambda vd, _: _vector(0b000101, 1, vd, vd, vd))
_LANE = Twin("vid.v vd", "SimdMisc", lambda vd, _: _vector(0b010100, 2, vd, 0, 0b10001))

TWINS: dict[str, Twin] = {
    **{instruction.name: _SFU for instruction in CUSTOM if instruction.name.startswith("sfu.")},
    "xlu.exchange": _XLU,
    "array.push_weights": _PUSH,
    "array.push_inputs": _PUSH,
    "array.pop": _POP,
    "lane.id": _LANE,
}
"""Every custom instruction of a tile function. Those of the DMA are missing on purpose."""

SHARED_PUSH = Twin("vredxor.vs vs2, vs2, vs2", "SimdReduceAlu", lambda _, vs2: _vector(0b000011, 2, vs2, vs2, vs2))
"""Instead of that of `array.push_inputs` where it names several arrays, so takes a place in each one's queue."""


@dataclass(frozen=True)
class _Conversion:
    """A conversion of bf16: where `mask` selects `match`, these bits are those of f16's conversion in its place."""

    name: str
    mask: int
    match: int
    half: int

    def word(self, word: int) -> int:
        return word & ~self.mask | self.half


def _unary(vs1: int) -> int:
    return 0b010010 << 26 | vs1 << 15 | 1 << 12 | 0x57


def _scalar(funct7: int, rs2: int) -> int:
    return funct7 << 25 | rs2 << 20 | 0x53


_UNARY_MASK = 0x3F << 26 | 0x1F << 15 | 7 << 12 | 0x7F
_SCALAR_MASK = 0x7F << 25 | 0x1F << 20 | 0x7F

# Encodings: RISC-V ISA manual, Zfbfmin and Zvfbfmin; of f16: Zfhmin and RVV 1.0, VFUNARY0.
_CONVERSIONS = (
    _Conversion("vfncvtbf16.f.f.w", _UNARY_MASK, _unary(0b11101), _unary(0b10100)),
    _Conversion("vfwcvtbf16.f.f.v", _UNARY_MASK, _unary(0b01101), _unary(0b01100)),
    _Conversion("fcvt.bf16.s", _SCALAR_MASK, _scalar(0b0100010, 8), _scalar(0b0100010, 0)),
    _Conversion("fcvt.s.bf16", _SCALAR_MASK, _scalar(0b0100000, 6), _scalar(0b0100000, 2)),
)


def timing_twin(word: int) -> tuple[str, int] | None:
    """Name of the instruction and its stand-in's word; None for a word that gem5 knows.

    Raises:
        ValueError: a custom instruction without a stand-in (DMA), or no instruction of ours.
    """
    if word & 0x7F != OPCODE:
        found = next((entry for entry in _CONVERSIONS if word & entry.mask == entry.match), None)
        return None if found is None else (found.name, found.word(word))
    for instruction in CUSTOM:
        if any(word & mask == match for mask, match in instruction.words()):
            twin = TWINS.get(instruction.name)
            if twin is None:
                raise ValueError(f"{instruction.name} has no stand-in: no tile function contains it")
            if instruction.name == "array.push_inputs" and (word >> 7 & 31).bit_count() > 1:
                twin = SHARED_PUSH
            return instruction.name, twin.word(word >> 7 & 31, word >> 20 & 31)
    raise ValueError(f"word {word:#010x} is in the custom opcode space and no instruction of docs/isa.md")
