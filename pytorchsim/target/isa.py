"""The custom instructions of the NPU: encoding, operands, meaning, latency class, for decoder, docs and tests alike.

All are Xsfvcp (`sf.vc.*`) encodings in the custom-2 opcode space, which stock LLVM emits from intrinsics. `CUSTOM` is
the table; the C++ decoder (`isa_generated.h`) and `docs/isa.md` are generated from it, and a test proves that no two
overlap.

Reference bodies work on whole machine state of one instruction: a vector operand is an array `[lanes, vl]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = [
    "CUSTOM",
    "OPCODE",
    "CustomInstruction",
    "Form",
    "LatencyClass",
    "Operand",
    "SfuFunction",
    "array_product",
    "by_name",
    "encode",
    "exchange_lanes",
    "special_function",
]

OPCODE = 0x5B
"""custom-2, the major opcode of Xsfvcp."""

Array = npt.NDArray[np.float32]
Number = TypeVar("Number", bound=np.generic)


class Form(Enum):
    """Which `sf.vc` form carries an instruction: value = (bits 31:28, vm, funct3)."""

    X = (0, 1, 4)
    IV = (2, 1, 3)
    V_IV = (2, 0, 3)
    V_I = (0, 0, 3)

    @property
    def mnemonic(self) -> str:
        """The assembler's name of the form."""
        return {"X": "sf.vc.x", "IV": "sf.vc.iv", "V_IV": "sf.vc.v.iv", "V_I": "sf.vc.v.i"}[self.name]


class LatencyClass(Enum):
    """What the timing model charges for; its figures are in the config."""

    DMA = "dma"
    SFU = "sfu"
    XLU = "xlu"
    ARRAY_PUSH = "array-push"
    ARRAY_POP = "array-pop"
    LANE = "lane"


class SfuFunction(IntEnum):
    """Special functions, in the order of the engine's table."""

    ERF = 0
    TANH = 1
    SIN = 2
    COS = 3
    LOG = 4
    ATAN = 5
    EXP = 6


@dataclass(frozen=True)
class Operand:
    """A field of the instruction word that the instruction uses, and what it holds."""

    field: str  # "rd", "rs1" or "rs2"
    meaning: str
    low: int = 0
    high: int = 31

    @property
    def shift(self) -> int:
        """Lowest bit of the field."""
        return {"rd": 7, "rs1": 15, "rs2": 20}[self.field]


@dataclass(frozen=True)
class CustomInstruction:
    """One instruction. Fields that are no operand are zero, unless `fixed` gives them a value."""

    name: str
    form: Form
    op: int
    operands: tuple[Operand, ...]
    latency: LatencyClass
    meaning: str
    fixed: tuple[tuple[str, int], ...] = ()
    sfu: SfuFunction | None = None

    def words(self) -> tuple[tuple[int, int], ...]:
        """`(mask, match)` pairs that together accept exactly this instruction's words.

        A field whose operand has a restricted range becomes one pair per value.
        """
        high, vm, funct3 = self.form.value
        mask = 0x7F | 7 << 12 | 1 << 25 | 3 << 26 | 0xF << 28
        match = OPCODE | funct3 << 12 | vm << 25 | self.op << 26 | high << 28
        pairs = [(mask, match)]
        operands = {operand.field: operand for operand in self.operands}
        fixed = dict(self.fixed)
        for field, shift in (("rd", 7), ("rs1", 15), ("rs2", 20)):
            operand = operands.get(field)
            if operand is None:
                pairs = [(m | 31 << shift, v | fixed.get(field, 0) << shift) for m, v in pairs]
            elif (operand.low, operand.high) != (0, 31):
                values = range(operand.low, operand.high + 1)
                pairs = [(m | 31 << shift, v | value << shift) for m, v in pairs for value in values]
        return tuple(pairs)


_VD = Operand("rd", "destination vector register")
_VS2 = Operand("rs2", "source vector register")


def _sfu(name: str, op: int, imm: int, function: SfuFunction, meaning: str) -> CustomInstruction:
    return CustomInstruction(
        f"sfu.{name}", Form.V_IV, op, (_VD, _VS2), LatencyClass.SFU, meaning, (("rs1", imm),), function
    )


CUSTOM: tuple[CustomInstruction, ...] = (
    CustomInstruction(
        "dma.start",
        Form.X,
        0,
        (Operand("rd", "tag"), Operand("rs1", "register: descriptor address")),
        LatencyClass.DMA,
        "starts the transfer that the descriptor and the values set since the last start describe",
    ),
    CustomInstruction(
        "dma.wait",
        Form.X,
        1,
        (Operand("rs1", "register: tag"),),
        LatencyClass.DMA,
        "waits until every transfer started with the tag is done; loads deliver here",
    ),
    CustomInstruction(
        "dma.set",
        Form.X,
        2,
        (
            Operand(
                "rd", "what is set: 0-7 origin of the axis, 8 scratchpad bytes, 9 tag, 10-11 index tile bytes", 0, 11
            ),
            Operand("rs1", "register: value"),
        ),
        LatencyClass.DMA,
        "sets a value for the next start",
    ),
    _sfu("erf", 0, 0, SfuFunction.ERF, "error function"),
    _sfu("tanh", 1, 0, SfuFunction.TANH, "hyperbolic tangent"),
    _sfu("sin", 2, 0, SfuFunction.SIN, "sine, radians"),
    _sfu("cos", 2, 1, SfuFunction.COS, "cosine, radians"),
    _sfu("log", 2, 2, SfuFunction.LOG, "natural logarithm"),
    _sfu("atan", 2, 3, SfuFunction.ATAN, "arc tangent"),
    _sfu("exp", 3, 0, SfuFunction.EXP, "e to the power of the element"),
    CustomInstruction(
        "xlu.exchange",
        Form.V_IV,
        3,
        (_VD, _VS2, Operand("rs1", "1 + s", 1, 10)),
        LatencyClass.XLU,
        "lane l receives the elements of lane l XOR 2^s",
    ),
    CustomInstruction(
        "array.push_weights",
        Form.IV,
        0,
        (Operand("rd", "array in bits 3:0, bit 4 = first"), Operand("rs1", "element type code"), _VS2),
        LatencyClass.ARRAY_PUSH,
        "appends vl weight rows: element e of lane j becomes W[row + e][j]; first starts a new matrix at row 0",
    ),
    CustomInstruction(
        "array.push_inputs",
        Form.IV,
        1,
        (Operand("rd", "mask of arrays"), Operand("rs1", "element type code"), _VS2),
        LatencyClass.ARRAY_PUSH,
        "for every array of the mask appends vl results: result i of lane j = sum over k of input_i[lane k] * W[k][j]",
    ),
    CustomInstruction(
        "lane.id",
        Form.V_I,
        0,
        (_VD,),
        LatencyClass.LANE,
        "every element becomes the number of its lane",
    ),
    CustomInstruction(
        "array.pop",
        Form.V_I,
        1,
        (_VD, Operand("rs1", "result type code"), Operand("rs2", "array")),
        LatencyClass.ARRAY_POP,
        "takes the vl oldest results of the array, converted to the result type",
    ),
)

_BY_NAME = {instruction.name: instruction for instruction in CUSTOM}


def by_name(name: str) -> CustomInstruction:
    """The instruction called `name`. KeyError lists what exists."""
    try:
        return _BY_NAME[name]
    except KeyError:
        raise KeyError(f"no custom instruction {name!r}; known: {', '.join(_BY_NAME)}") from None


def encode(name: str, *, rd: int = 0, rs1: int = 0, rs2: int = 0) -> int:
    """The 32-bit word of an instruction with these fields. ValueError where the fields are not that instruction."""
    instruction = by_name(name)
    for field, value in instruction.fixed:
        if field == "rs1":
            rs1 = value
    high, vm, funct3 = instruction.form.value
    word = OPCODE | rd << 7 | funct3 << 12 | rs1 << 15 | rs2 << 20 | vm << 25 | instruction.op << 26 | high << 28
    if not any(word & mask == match for mask, match in instruction.words()):
        raise ValueError(f"{name} cannot have rd={rd}, rs1={rs1}, rs2={rs2}")
    return word


_DOUBLE: dict[SfuFunction, Callable[[float], float]] = {
    SfuFunction.ERF: math.erf,
    SfuFunction.TANH: math.tanh,
    SfuFunction.SIN: lambda x: math.sin(x) if math.isfinite(x) else math.nan,
    SfuFunction.COS: lambda x: math.cos(x) if math.isfinite(x) else math.nan,
    SfuFunction.LOG: lambda x: math.log(x) if x > 0 else (-math.inf if x == 0 else math.nan),
    SfuFunction.ATAN: math.atan,
    SfuFunction.EXP: lambda x: math.exp(x) if x < 700 else x if math.isnan(x) else math.inf,
}


def special_function(function: SfuFunction, values: Array) -> Array:
    """Reference body of the SFU: evaluated in float64, rounded once to float32; every NaN is 0x7fc00000."""
    body = _DOUBLE[function]
    flat = np.array([body(float(x)) for x in values.ravel()], dtype=np.float64)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        result = flat.astype(np.float32).reshape(values.shape)
    result.view(np.uint32)[np.isnan(result)] = 0x7FC00000
    return result


def exchange_lanes(values: npt.NDArray[Number], step: int) -> npt.NDArray[Number]:
    """Reference body of the XLU: `values` is [lanes, vl]; row l of the result is row `l ^ (1 << step)`."""
    return np.take(values, np.arange(values.shape[0]) ^ (1 << step), axis=0)


def array_product(inputs: npt.NDArray[Any], weights: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Reference body of an input push: `inputs` [lanes k, vl i], `weights` [lanes k, lanes j]; results [lanes j, vl i].

    Floats accumulate in float32 in the order of k with one rounding per step (fused); integers wrap in int32.
    """
    if np.issubdtype(inputs.dtype, np.integer):
        return (weights.astype(np.int64).T @ inputs.astype(np.int64)).astype(np.int32)
    total = np.zeros((weights.shape[1], inputs.shape[1]), dtype=np.float32)
    for k in range(weights.shape[0]):
        # The product of two float32 is exact in float64. Adding there and rounding to float32 rounds twice, so the
        # sum is first made odd in its last bit where it is inexact (round to odd): then the second rounding is right.
        product = np.outer(weights[k].astype(np.float64), inputs[k].astype(np.float64))
        total = _round_to_odd_sum(product, total.astype(np.float64)).astype(np.float32)
    return total


def _round_to_odd_sum(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """`a + b` in float64, rounded to odd."""
    with np.errstate(invalid="ignore", over="ignore"):
        total = a + b
        part = total - a
        error = (a - (total - part)) + (b - part)
    bits = total.view(np.int64)
    inexact = np.isfinite(total) & (error != 0) & (bits & 1 == 0)
    toward_zero = np.signbit(error) != np.signbit(total)
    return np.where(inexact, bits + np.where(toward_zero, -1, 1), bits).view(np.float64)
