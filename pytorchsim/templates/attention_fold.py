"""The fold of attention: from the highest score of each element of a vector to that of a block and its row, and to the
factor that brings what was summed before to it.

In: the block's maxima, places of the row's state. Out: parts, each of which waits for the one before: whoever emits
them puts other work between. Between the first ones is nothing to do: a reduction takes about as long as a piece.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlir import ir
from mlir.dialects import arith, math, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.attention_vectors import LEAST, Region, load, store
from pytorchsim.templates.vector_values import splat, vector_type

__all__ = ["Fold"]


class Fold:
    """`scale`: what maxima are multiplied with, if anything. `row`, `copy`: where the row's highest score and the
    block's factor are, in elements."""

    def __init__(
        self, maxima: ir.Value, scale: float | None, memory: Mapping[str, Region], row: ir.Value, copy: ir.Value
    ) -> None:
        self._value, self._scale, self._memory = maxima, scale, memory
        self._row, self._copy, self._elements = row, copy, ir.VectorType(maxima.type).shape[0]
        self._old: ir.Value | None = None

    def parts(self, *, opens_row: bool) -> list[Callable[[], None]]:
        """In order. `opens_row`: nothing is older than the block."""
        highest = [self._largest, _pause, _pause, self._spread, self._scaled]
        if opens_row:
            return [*highest, self._begin]
        return [*highest, self._update, self._keep, self._factor, self._spread, self._keep_factor]

    def _largest(self) -> None:
        self._value = builders.largest(self._value)

    def _spread(self) -> None:
        self._value = builders.splat(self._value, 0, self._elements)

    def _scaled(self) -> None:
        if self._scale is not None:
            self._value = arith.mulf(self._value, splat(self._scale, F32, self._elements))

    def _begin(self) -> None:
        highest = arith.maxnumf(self._value, splat(LEAST, F32, self._elements))
        store(highest, self._memory["highest"], self._row, self._elements)

    def _update(self) -> None:
        self._old = load(self._memory["highest"], self._row, self._elements)
        self._value = arith.maxnumf(self._old, self._value)

    def _keep(self) -> None:
        store(self._value, self._memory["highest"], self._row, self._elements)
        self._value = arith.subf(self._old, self._value)

    def _factor(self) -> None:
        """All elements are the same, and the special function unit takes a cycle for each."""
        self._value = math.exp(vector.extract_strided_slice(vector_type(F32, 2), self._value, [0], [2], [1]))

    def _keep_factor(self) -> None:
        store(self._value, self._memory["factors"], self._copy, self._elements)


def _pause() -> None:
    """Nothing: the time of a part."""
