"""What a matrix product is to its template: sizes, where operands and result lie, what is fused in front and behind.

In: the frozen layouts of Inductor's buffers, recorded programs. Out: hashable values that the tile search is keyed by.
Rows m, columns n, products k and batches b are groups of axes each; an operand is an affine function of its axes with
guards, so that a window of a convolution is an operand like any other. Every operand and the result has a *frame*: its
axes in the order (batch, slot group, walked group). By `body`:

| body | X | W | Y | over the lanes |
|---|---|---|---|---|
| array | (b, k, m) | (b, n, k) | (b, n, m) | the slot group |
| lanes | (b, m, k) | (b, n, k) | (b, n, m) | n; X is the same in every lane |
| batch | (b, k, m) | (b, n, k) | (b, n, m) | the last batch axis |
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal, TypeVar

from pytorchsim.target.dtypes import BF16, F16, F32, I8, I32, U8, Dtype, Kind
from pytorchsim.templates.coordinates import Coordinate
from pytorchsim.templates.loop_program import Access, AffineIndex, Guard, LoopProgram

__all__ = [
    "ARRAY_DTYPES",
    "FEW_ROWS",
    "Body",
    "GemmFusion",
    "GemmProblem",
    "Operand",
    "Part",
    "Role",
    "accumulator_dtype",
    "body_of",
]

_T = TypeVar("_T")

Operand = Literal["x", "w"]
Part = Literal["x", "w", "y"]
Role = Literal["b", "m", "n", "k"]
Body = Literal["array", "lanes", "batch"]

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


def body_of(dtype: Dtype, rows: int) -> Body:
    """What multiplies a product of `rows` rows whose batches are done one after another."""
    return "array" if dtype in ARRAY_DTYPES and rows >= FEW_ROWS else "lanes"


class _Derived:
    """A frozen value that keeps what was derived from it."""

    @cached_property
    def derived(self) -> dict[Hashable, Any]:
        """By what it depends on besides: a search asks for the same of thousands of tiles."""
        return {}

    def derive(self, key: Hashable, make: Callable[[], _T]) -> _T:
        """What `make` makes, once for each `key`."""
        known: _T | None = self.derived.get(key)
        if known is None:
            known = self.derived[key] = make()
        return known


@dataclass(frozen=True)
class GemmProblem(_Derived):
    """Y[b, m, n] = sum over k of X[b, m, k] * W[b, k, n]. `x`, `w`, `y` are indices over their frames, in elements;
    elements outside of an operand's guards are zeros, those outside of `y_guards` are not stored. `y_coordinates`: of
    the result, that are not an axis each."""

    batch_axes: tuple[int, ...]
    m_axes: tuple[int, ...]
    n: int
    k_axes: tuple[int, ...]
    x: AffineIndex
    w: AffineIndex
    y: AffineIndex
    dtype: Dtype
    result_dtype: Dtype
    body: Body
    x_guards: tuple[Guard, ...] = ()
    w_guards: tuple[Guard, ...] = ()
    y_guards: tuple[Guard, ...] = ()
    y_coordinates: tuple[Coordinate, ...] = ()

    @property
    def batch(self) -> int:
        """Products."""
        return prod(self.batch_axes)

    @property
    def m(self) -> int:
        """Rows."""
        return prod(self.m_axes)

    @property
    def k(self) -> int:
        """Products of a sum."""
        return prod(self.k_axes)

    @property
    def accumulator(self) -> Dtype:
        """The type of the sums in the scratchpad."""
        return accumulator_dtype(self.dtype)

    @property
    def simple(self) -> bool:
        """Whether rows and products are one axis each and everything exists: what prologues, reductions and
        prescribed tiles are made for."""
        guards = (*self.x_guards, *self.w_guards, *self.y_guards)
        return len(self.m_axes) == len(self.k_axes) == len(self.batch_axes) == 1 and not guards

    def axes(self, role: Role) -> tuple[int, ...]:
        """Sizes of the axes of a group."""
        return {"b": self.batch_axes, "m": self.m_axes, "n": (self.n,), "k": self.k_axes}[role]

    def roles(self, part: Part) -> tuple[Role, Role, Role]:
        """The groups of a part's frame."""
        if part == "x":
            return ("b", "m", "k") if self.body == "lanes" else ("b", "k", "m")
        return ("b", "n", "k") if part == "w" else ("b", "n", "m")

    def frame(self, part: Part) -> tuple[int, ...]:
        """Sizes along the axes of a part's frame."""
        return tuple(size for role in self.roles(part) for size in self.axes(role))

    def walked(self, part: Part) -> int:
        """How many axes the last group of a part's frame has."""
        return len(self.axes(self.roles(part)[-1]))

    def index(self, part: Part) -> AffineIndex:
        """Where it lies, over its frame."""
        return {"x": self.x, "w": self.w, "y": self.y}[part]

    def access(self, part: Part, buffer: str, dtype: Dtype) -> Access:
        """Loads or stores `buffer` as the part."""
        guards = {"x": self.x_guards, "w": self.w_guards, "y": self.y_guards}[part]
        return Access(buffer, dtype, self.index(part), guards)


@dataclass(frozen=True)
class GemmFusion(_Derived):
    """Programs over the frames, the walked axes last and as the reduced ones. `tail` runs on the result and reads it
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
