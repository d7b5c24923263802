"""Arithmetic on recorded values, for functions that are built from simpler operations.

In: a recorder and its values. Out: a `Term` per value; operators and methods record operations. A Python number takes
the type of the term next to it.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

__all__ = ["Recorder", "Term", "where"]


class Recorder(Protocol):
    """What records operations: the loop recorder. Values are opaque and have a `dtype`."""

    def record(self, name: str, *operands: Any) -> Any:
        """One operation by name, on values and numbers."""

    def constant(self, value: float, dtype: torch.dtype) -> Any:
        """A literal."""

    def convert(self, x: Any, computed: torch.dtype) -> Any:
        """A conversion to a type computed in."""

    def bitcast(self, x: Any, computed: torch.dtype) -> Any:
        """The same bits as another type of the same width."""


class Term:
    """A recorded value that can be computed with. `a.equals(b)` compares; `==` would not give a term."""

    def __init__(self, recorder: Recorder, value: Any) -> None:
        """`value` is one of `recorder`'s."""
        self.recorder, self.value = recorder, value

    @property
    def dtype(self) -> torch.dtype:
        """The type computed in."""
        kind: torch.dtype = self.value.dtype
        return kind

    def apply(self, name: str, *others: Term | float) -> Term:
        """The operation `name` with this term as its first operand."""
        operands = [other.value if isinstance(other, Term) else other for other in others]
        return Term(self.recorder, self.recorder.record(name, self.value, *operands))

    def like(self, number: float) -> Term:
        """`number` in this term's type."""
        return Term(self.recorder, self.recorder.constant(number, self.dtype))

    def to(self, dtype: torch.dtype) -> Term:
        """This term converted."""
        return Term(self.recorder, self.recorder.convert(self.value, dtype))

    def bits(self, dtype: torch.dtype) -> Term:
        """This term's bits read as `dtype`."""
        return Term(self.recorder, self.recorder.bitcast(self.value, dtype))

    def __add__(self, other: Term | float) -> Term:
        return self.apply("add", other)

    def __sub__(self, other: Term | float) -> Term:
        return self.apply("sub", other)

    def __rsub__(self, other: float) -> Term:
        return self.like(other) - self

    def __mul__(self, other: Term | float) -> Term:
        return self.apply("mul", other)

    def __truediv__(self, other: Term | float) -> Term:
        return self.apply("truediv", other)

    def __rtruediv__(self, other: float) -> Term:
        return self.like(other) / self

    def __neg__(self) -> Term:
        return self.apply("neg")

    def __abs__(self) -> Term:
        return self.apply("abs")

    def __and__(self, other: Term | int) -> Term:
        return self.apply("bitwise_and", other)

    def __or__(self, other: Term | int) -> Term:
        return self.apply("bitwise_or", other)

    def __xor__(self, other: Term | int) -> Term:
        return self.apply("bitwise_xor", other)

    def __lshift__(self, other: Term | int) -> Term:
        return self.apply("bitwise_left_shift", other)

    def __rshift__(self, other: Term | int) -> Term:
        return self.apply("bitwise_right_shift", other)

    def __lt__(self, other: Term | float) -> Term:
        return self.apply("lt", other)

    def __le__(self, other: Term | float) -> Term:
        return self.apply("le", other)

    def __gt__(self, other: Term | float) -> Term:
        return self.apply("gt", other)

    def __ge__(self, other: Term | float) -> Term:
        return self.apply("ge", other)

    def equals(self, other: Term | float) -> Term:
        """Where the two are equal."""
        return self.apply("eq", other)

    def differs(self, other: Term | float) -> Term:
        """Where the two are not equal, NaN included."""
        return self.apply("ne", other)

    def fma(self, factor: Term | float, addend: Term | float) -> Term:
        """`self * factor + addend`, rounded once."""
        return self.apply("fma", factor, addend)

    def polynomial(self, coefficients: tuple[float, ...]) -> Term:
        """The polynomial with `coefficients`, the highest power's first, by Horner's rule.

        Only the last step, where rounding counts, is a fused one: its addend takes a vector register, and LLVM would
        keep one for each coefficient all through a loop. A sum takes its constant from a scalar register.
        """
        total = self.like(coefficients[0])
        for coefficient in coefficients[1:-1]:
            total = total * self + coefficient
        return total.fma(self, coefficients[-1])


def where(condition: Term, then: Term | float, otherwise: Term | float) -> Term:
    """`then` where `condition` holds, else `otherwise`; at least one of the two is a term."""
    return condition.apply("where", then, otherwise)
