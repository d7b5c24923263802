"""Index expressions as recorded operations: positions along axes, and integer arithmetic on them in the lanes.

In: an `IndexSum`. Out: a recorded value of int32, or of int64 where some part of the sum may exceed it. Divisions are
of non-negative numbers by constants.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from pytorchsim.templates.index_analysis import affine_of
from pytorchsim.templates.index_terms import AxisTerm, Choice, Digit, IndexSum, Term, ValueTerm, sum_of
from pytorchsim.templates.iteration_space import IterationSpace
from pytorchsim.templates.loop_program import Operation
from pytorchsim.templates.recorded_types import machine_dtype

__all__ = ["INT32_LIMIT", "IndexEmitter", "OperationRecorder", "RecordedValue", "values_inside"]

INT32_LIMIT = 1 << 31


class RecordedValue:
    """What an operation returns to the loop body: the number of its operation and its torch dtype."""

    def __init__(self, number: int, dtype: torch.dtype) -> None:
        self.number, self.dtype = number, dtype


class OperationRecorder(Protocol):
    """What writes operations down: the loop recorder."""

    def record(self, name: str, *operands: Any) -> Any:
        """One operation by name, on values and numbers."""

    def append(self, operation: Operation, dtype: torch.dtype) -> RecordedValue:
        """One operation as it is."""

    def constant(self, value: float, dtype: torch.dtype) -> RecordedValue:
        """A literal."""

    def convert(self, x: RecordedValue, computed: torch.dtype) -> RecordedValue:
        """A conversion to a type computed in."""


class IndexEmitter:
    """Emits sums over the axes of `space`. `values`: the gathered values in them, by number."""

    def __init__(self, operations: OperationRecorder, space: IterationSpace) -> None:
        self._operations, self._space = operations, space
        self.values: dict[int, RecordedValue] = {}

    def emit(self, total: IndexSum) -> RecordedValue:
        """Operations that compute `total`."""
        reach = max(_reach(total), 1)
        dtype = torch.int32 if reach < INT32_LIMIT else torch.int64
        return self._emit_sum(total, dtype)

    def _emit_sum(self, total: IndexSum, dtype: torch.dtype) -> RecordedValue:
        axes = sum_of([(t, c) for t, c in total.terms if isinstance(t, AxisTerm)], total.constant)
        parts: list[RecordedValue] = []
        if axes.terms:
            place = affine_of(axes, len(self._space.sizes))
            position = Operation("position", (), machine_dtype(dtype), position=place)
            parts.append(self._operations.append(position, dtype))
        for term, coefficient in total.terms:
            if not isinstance(term, AxisTerm):
                value = self._emit_term(term, dtype)
                parts.append(value if coefficient == 1 else self._operations.record("mul", value, coefficient))
        if not parts:
            return self._operations.constant(axes.constant, dtype)
        result = parts[0]
        for part in parts[1:]:
            result = self._operations.record("add", result, part)
        if not axes.terms and axes.constant:
            result = self._operations.record("add", result, axes.constant)
        return result

    def _emit_term(self, term: Term, dtype: torch.dtype) -> RecordedValue:
        if isinstance(term, ValueTerm):
            value = self.values[term.number]
            if term.wrap:
                negative = self._operations.record("lt", value, 0)
                wrapped = self._operations.record("add", value, term.extent)
                value = self._operations.record("where", negative, wrapped, value)
            return self._operations.convert(value, dtype)
        if isinstance(term, Digit):
            return self._emit_digit(term, dtype)
        if isinstance(term, Choice):
            result = self._emit_sum(term.operands[0], dtype)
            for operand in term.operands[1:]:
                name = "mul" if term.name == "product" else term.name
                result = self._operations.record(name, result, self._emit_sum(operand, dtype))
            return result
        raise TypeError(f"{term} is emitted with its sum")

    def _emit_digit(self, digit: Digit, dtype: torch.dtype) -> RecordedValue:
        """Division and remainder of a non-negative number: the whole is lifted by a multiple of both radices."""
        period = digit.divisor * (digit.modulus or 1)
        least, _ = digit.whole.interval()
        lift = max(0, -(least // period))
        value = self._emit_sum(digit.whole + IndexSum((), lift * period), dtype)
        kind = machine_dtype(dtype)
        if digit.divisor > 1:
            quotient = Operation("index_quotient", (value.number,), kind, constant=digit.divisor)
            value = self._operations.append(quotient, dtype)
        if digit.modulus is not None:
            remainder = Operation("index_remainder", (value.number,), kind, constant=digit.modulus)
            return self._operations.append(remainder, dtype)
        return self._operations.record("add", value, -lift) if lift else value


def values_inside(term: Term) -> list[ValueTerm]:
    """The gathered values that `term` is made of."""
    if isinstance(term, ValueTerm):
        return [term]
    if isinstance(term, Digit):
        return [value for inner, _ in term.whole.terms for value in values_inside(inner)]
    if isinstance(term, Choice):
        return [value for operand in term.operands for inner, _ in operand.terms for value in values_inside(inner)]
    return []


def _reach(total: IndexSum) -> int:
    """The largest magnitude in the computation of `total`, every part of it included."""
    least, most = total.interval()
    sizes = [abs(least), abs(most), sum(abs(c) * max(map(abs, term.interval())) for term, c in total.terms)]
    for term, _ in total.terms:
        if isinstance(term, Digit):
            sizes.append(_reach(term.whole) * 2 + term.divisor * (term.modulus or 1))
        elif isinstance(term, Choice):
            sizes += [_reach(operand) for operand in term.operands]
        elif isinstance(term, ValueTerm):
            sizes.append(term.extent)
    return max(sizes) + abs(total.constant)
