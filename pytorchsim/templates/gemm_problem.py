"""What a matrix product is to its template: sizes, where operands and result lie, what is fused in front and behind.

In: the frozen layouts of Inductor's buffers, recorded programs. Out: hashable values that the tile search is keyed by.
Every operand and the result has a *frame*: (batch, lane axis, walked axis). X is split along k over the lanes and
walked along m, W split along n and walked along k, the result split along n and walked along m.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pytorchsim.target.dtypes import BF16, F16, F32, I8, I32, U8, Dtype, Kind
from pytorchsim.templates.loop_program import AffineIndex, LoopProgram

__all__ = ["ARRAY_DTYPES", "FEW_ROWS", "GemmFusion", "GemmProblem", "Operand", "Part", "accumulator_dtype"]

Operand = Literal["x", "w"]
Part = Literal["x", "w", "y"]

ARRAY_DTYPES = (F32, F16, BF16, I8, U8)
"""What the systolic arrays multiply here (docs/kernel_abi.md); floats accumulate in f32, integers in i32."""

FEW_ROWS = 8
"""Products of fewer rows run on the vector lanes: each weight is used so rarely that loading it into an array costs as
much as multiplying with it."""


def accumulator_dtype(dtype: Dtype) -> Dtype:
    """The type that products of `dtype` are summed in."""
    if dtype.kind is Kind.FLOAT:
        return F32 if dtype.bits <= F32.bits else dtype
    return I32 if dtype.bits <= I32.bits else dtype


@dataclass(frozen=True)
class GemmProblem:
    """Y[b, m, n] = sum over k of X[b, m, k] * W[b, k, n]. `x`, `w`, `y` are indices over their frames, in elements:
    (b, k, m), (b, n, k) and (b, n, m)."""

    batch: int
    m: int
    n: int
    k: int
    x: AffineIndex
    w: AffineIndex
    y: AffineIndex
    dtype: Dtype
    result_dtype: Dtype

    @property
    def accumulator(self) -> Dtype:
        """The type of the sums in the scratchpad."""
        return accumulator_dtype(self.dtype)

    @property
    def on_arrays(self) -> bool:
        """Whether the systolic arrays multiply it; else the vector lanes do."""
        return self.dtype in ARRAY_DTYPES and self.m >= FEW_ROWS

    def frame(self, part: Part) -> tuple[int, int, int]:
        """Sizes along (batch, lane axis, walked axis)."""
        lane, walked = {"x": (self.k, self.m), "w": (self.n, self.k), "y": (self.n, self.m)}[part]
        return self.batch, lane, walked

    def index(self, part: Part) -> AffineIndex:
        """Where it lies, over its frame."""
        return {"x": self.x, "w": self.w, "y": self.y}[part]


@dataclass(frozen=True)
class GemmFusion:
    """Programs over the frames, the walked axis last and as the reduced one. `tail` runs on the result and reads it
    under its buffer's name in the accumulator's type; `x` and `w` each store the operand."""

    tail: LoopProgram | None = None
    x: LoopProgram | None = None
    w: LoopProgram | None = None

    def prologue(self, operand: Operand) -> LoopProgram | None:
        """What computes `operand`, if it is not loaded as it is."""
        return self.x if operand == "x" else self.w

    @property
    def reduces(self) -> bool:
        """Whether the tail folds whole columns of the result."""
        return self.tail is not None and any(op.reduction for op in self.tail.operations)
