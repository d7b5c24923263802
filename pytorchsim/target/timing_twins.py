"""Stand-ins for the custom instructions on a simulator that does not know them: instructions of RVV 1.0 with the same
vector operands and an operation class of gem5 that nothing else in a tile function uses.

In: a custom instruction's word. Out: the stand-in's word. Only cycles come out right, never values. Assumes: SEW of 16
bits or more for the two float forms, and tile functions, which have no DMA.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pytorchsim.target.isa import CUSTOM, OPCODE

__all__ = ["TWINS", "Twin", "timing_twin"]


@dataclass(frozen=True)
class Twin:
    """`op_class`: gem5's name of the functional unit's class. `word(vd, vs2)`: the encoding."""

    mnemonic: str
    op_class: str
    word: Callable[[int, int], int]


def _vector(funct6: int, funct3: int, vd: int, vs2: int, vs1: int) -> int:
    return funct6 << 26 | 1 << 25 | vs2 << 20 | vs1 << 15 | funct3 << 12 | vd << 7 | 0x57


# Encodings: RVV 1.0, "Vector Instruction Listing". OPFVV is funct3 1, OPMVV 2, OPFVF 5.
_SFU = Twin("vfrsqrt7.v vd, vs2", "SimdFloatSqrt", lambda vd, vs2: _vector(0b010011, 1, vd, vs2, 0b00100))
_XLU = Twin("vfslide1down.vf vd, vs2, ft0", "SimdFloatExt", lambda vd, vs2: _vector(0b001111, 5, vd, vs2, 0))
_PUSH = Twin("vredxor.vs vs2, vs2, vs2", "SimdReduceAlu", lambda _, vs2: _vector(0b000011, 2, vs2, vs2, vs2))
_POP = Twin("vfrec7.v vd, vd", "SimdFloatDiv", lambda vd, _: _vector(0b010011, 1, vd, vd, 0b00101))
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


def timing_twin(word: int) -> tuple[str, int] | None:
    """Name of the custom instruction and its stand-in's word; None for a word that is not custom.

    Raises:
        ValueError: a custom instruction without a stand-in (DMA), or no instruction of ours.
    """
    if word & 0x7F != OPCODE:
        return None
    for instruction in CUSTOM:
        if any(word & mask == match for mask, match in instruction.words()):
            twin = TWINS.get(instruction.name)
            if twin is None:
                raise ValueError(f"{instruction.name} has no stand-in: no tile function contains it")
            return instruction.name, twin.word(word >> 7 & 31, word >> 20 & 31)
    raise ValueError(f"word {word:#010x} is in the custom opcode space and no instruction of docs/isa.md")
