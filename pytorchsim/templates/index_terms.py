"""Integer index expressions as sums of terms, and the rules of floor division and remainder on them.

A sum is a constant plus coefficients times terms: the position along an axis, a gathered value, a digit
`(sum // divisor) % modulus`, or a choice (minimum, maximum, product) of sums. Every rule is exact for integers, also
negative ones: division rounds down, a remainder has the sign of its modulus.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["AxisTerm", "Choice", "Digit", "IndexSum", "Interval", "Term", "ValueTerm", "sum_of"]

Interval = tuple[int, int]
"""The least and the greatest value."""


@dataclass(frozen=True)
class AxisTerm:
    """The position along axis `axis`: 0 to `size` - 1."""

    axis: int
    size: int

    def interval(self) -> Interval:
        return 0, self.size - 1


@dataclass(frozen=True)
class ValueTerm:
    """A gathered value, the result of operation `number` made non-negative by `wrap`: 0 to `extent` - 1."""

    number: int
    extent: int
    wrap: bool

    def interval(self) -> Interval:
        return 0, self.extent - 1


@dataclass(frozen=True)
class Digit:
    """`(whole // divisor) % modulus`; without modulus the quotient alone."""

    whole: IndexSum
    divisor: int
    modulus: int | None

    def interval(self) -> Interval:
        least, most = self.whole.interval()
        least, most = least // self.divisor, most // self.divisor
        if self.modulus is None:
            return least, most
        if least // self.modulus == most // self.modulus:
            return least % self.modulus, most % self.modulus
        return 0, self.modulus - 1


@dataclass(frozen=True)
class Choice:
    """`minimum`, `maximum` or `product` of sums."""

    name: str
    operands: tuple[IndexSum, ...]

    def interval(self) -> Interval:
        intervals = [operand.interval() for operand in self.operands]
        if self.name == "minimum":
            return min(low for low, _ in intervals), min(high for _, high in intervals)
        if self.name == "maximum":
            return max(low for low, _ in intervals), max(high for _, high in intervals)
        least, most = intervals[0]
        for low, high in intervals[1:]:
            corners = [a * b for a in (least, most) for b in (low, high)]
            least, most = min(corners), max(corners)
        return least, most


Term = AxisTerm | ValueTerm | Digit | Choice


@dataclass(frozen=True)
class IndexSum:
    """`constant + sum(coefficient * term)`. Terms differ, coefficients are not 0; made by `sum_of`."""

    terms: tuple[tuple[Term, int], ...]
    constant: int = 0

    def interval(self) -> Interval:
        """Bounds; exact where every term is an axis or a value."""
        least = most = self.constant
        for term, coefficient in self.terms:
            low, high = term.interval()
            least += coefficient * (low if coefficient > 0 else high)
            most += coefficient * (high if coefficient > 0 else low)
        return least, most

    @property
    def is_affine(self) -> bool:
        """Whether every term is the position along an axis."""
        return all(isinstance(term, AxisTerm) for term, _ in self.terms)

    def __add__(self, other: IndexSum) -> IndexSum:
        return sum_of((*self.terms, *other.terms), self.constant + other.constant)

    def times(self, factor: int) -> IndexSum:
        """The sum `factor` times."""
        return sum_of(((term, coefficient * factor) for term, coefficient in self.terms), self.constant * factor)

    def divided(self, divisor: int) -> IndexSum:
        """`self // divisor`, `divisor` positive: multiples of it come out, what is left vanishes where it stays below
        the divisor and else becomes one digit."""
        whole = [(term, coefficient) for term, coefficient in self.terms if coefficient % divisor == 0]
        rest = sum_of(
            [(term, coefficient) for term, coefficient in self.terms if coefficient % divisor], self.constant % divisor
        )
        quotient = sum_of([(term, coefficient // divisor) for term, coefficient in whole], self.constant // divisor)
        least, most = rest.interval()
        if least // divisor == most // divisor:
            return quotient + IndexSum((), least // divisor)
        common = math.gcd(divisor, *(coefficient for _, coefficient in rest.terms))
        if common > 1:
            reduced = sum_of([(term, c // common) for term, c in rest.terms], rest.constant // common)
            return quotient + reduced.divided(divisor // common)
        return quotient + _quotient(rest, divisor)

    def modulo(self, modulus: int) -> IndexSum:
        """`self % modulus`, `modulus` positive: multiples of it vanish, what is left stays where it is below the
        modulus."""
        rest = sum_of(((term, c % modulus) for term, c in self.terms), self.constant % modulus)
        for candidate in (self, rest, _balanced(rest, modulus)):
            least, most = candidate.interval()
            if least // modulus == most // modulus:
                return candidate + IndexSum((), -(least // modulus) * modulus)
        common = math.gcd(modulus, *(coefficient for _, coefficient in rest.terms))
        if common > 1:
            reduced = sum_of([(term, c // common) for term, c in rest.terms], rest.constant // common)
            return reduced.modulo(modulus // common).times(common) + IndexSum((), rest.constant % common)
        return _remainder(_balanced(rest, modulus), modulus)


def sum_of(terms: Iterable[tuple[Term, int]], constant: int = 0) -> IndexSum:
    """The sum with equal terms collected."""
    collected: dict[Term, int] = {}
    for term, coefficient in terms:
        collected[term] = collected.get(term, 0) + coefficient
    return IndexSum(tuple(sorted(((term, c) for term, c in collected.items() if c), key=_order)), constant)


def _order(entry: tuple[Term, int]) -> tuple[int, str]:
    """Axes first, in order: equal sums have equal terms in equal places."""
    term = entry[0]
    return (term.axis, "") if isinstance(term, AxisTerm) else (1 << 30, repr(term))


def _quotient(rest: IndexSum, divisor: int) -> IndexSum:
    """`rest // divisor` as a digit; of a digit alone as one digit where the radices divide."""
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and rest.constant == 0:
        term = rest.terms[0][0]
        if isinstance(term, Digit) and term.modulus is None:
            return sum_of([(Digit(term.whole, term.divisor * divisor, None), 1)])
        if isinstance(term, Digit) and term.modulus is not None and term.modulus % divisor == 0:
            return sum_of([(Digit(term.whole, term.divisor * divisor, term.modulus // divisor), 1)])
    return sum_of([(Digit(rest, divisor, None), 1)])


def _remainder(rest: IndexSum, modulus: int) -> IndexSum:
    if len(rest.terms) == 1 and rest.terms[0][1] == 1 and rest.constant == 0:
        term = rest.terms[0][0]
        if isinstance(term, Digit) and (term.modulus is None or term.modulus % modulus == 0):
            return sum_of([(Digit(term.whole, term.divisor, modulus), 1)])
    return sum_of([(Digit(rest, 1, modulus), 1)])


def _balanced(rest: IndexSum, modulus: int) -> IndexSum:
    """The same remainder with coefficients of least magnitude: `7 * i` modulo 8 is `-i`."""
    return sum_of(
        ((term, c - modulus if 2 * c > modulus else c) for term, c in rest.terms),
        rest.constant,
    )
