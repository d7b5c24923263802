"""The axes that index expressions are written in: loop variables, split so that quotients and remainders vanish.

In: loop variables with their extents and, while bodies are replayed, the digits that stood in the way of an affine
index. Out: axes. A variable of extent n with cuts c1 | c2 | ... | n becomes the axes of its mixed-radix digits, the
most significant first: `v // c2`, `v % c2 // c1`, `v % c1`. A cut whose radix does not fit those already there is
refused; the digits that wanted it are then computed in the lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy

from pytorchsim.templates.index_terms import AxisTerm, Choice, Digit, IndexSum, Term, sum_of

__all__ = ["IterationSpace"]


class IterationSpace:
    """`variables` of extents `sizes`, outermost first, the last `reduced` of them reduced; no cuts to begin with."""

    def __init__(self, variables: Sequence[sympy.Symbol], sizes: Sequence[int], reduced: int = 0) -> None:
        self.variables = tuple(variables)
        self._extents = tuple(int(size) for size in sizes)
        self._reduced = reduced
        self._cuts: list[list[int]] = [[1] for _ in self.variables]

    @property
    def sizes(self) -> tuple[int, ...]:
        """Extents of the axes."""
        return tuple(size for variable in range(len(self.variables)) for _, size in self._digits(variable))

    @property
    def reduced(self) -> int:
        """How many axes, the last ones, are reduced."""
        rows = len(self.variables) - self._reduced
        return sum(len(self._cuts[variable]) for variable in range(rows, len(self.variables)))

    def position(self, variable: sympy.Symbol) -> IndexSum | None:
        """A loop variable in terms of the axes; None for any other symbol."""
        if variable not in self.variables:
            return None
        number = self.variables.index(variable)
        first = sum(len(cuts) for cuts in self._cuts[:number])
        terms: list[tuple[Term, int]] = [
            (AxisTerm(first + digit, size), weight)
            for digit, (weight, size) in enumerate(self._digits(number))
            if size > 1
        ]
        return sum_of(terms)

    def split_for(self, index: IndexSum) -> bool:
        """Add the cuts that make the digits of `index` vanish, where they do and the radices fit; whether any was
        added, so that everything has to be written in the new axes."""
        for digit in _digits_inside(index):
            wished = _cuts_for(digit)
            if wished and self._accept(wished):
                return True
        return False

    def _digits(self, variable: int) -> list[tuple[int, int]]:
        """(weight, extent) of the digits of a variable, the most significant first."""
        cuts = sorted(self._cuts[variable])
        tops = [*cuts[1:], self._extents[variable]]
        return [(weight, top // weight if top else 0) for weight, top in zip(cuts, tops, strict=True)][::-1]

    def _accept(self, wished: Sequence[tuple[int, int]]) -> bool:
        """Add cuts (axis, radix) all together or none."""
        added: list[tuple[int, int]] = []
        for axis, radix in wished:
            variable, weight = self._owner(axis)
            cut, extent = weight * radix, self._extents[variable]
            fits = extent % cut == 0 and all(cut % other == 0 or other % cut == 0 for other in self._cuts[variable])
            if not fits:
                return False
            if cut not in self._cuts[variable] and cut != extent:
                added.append((variable, cut))
        for variable, cut in added:
            if cut not in self._cuts[variable]:
                self._cuts[variable].append(cut)
        return bool(added)

    def _owner(self, axis: int) -> tuple[int, int]:
        """The variable that `axis` is a digit of, and the digit's weight."""
        for variable in range(len(self.variables)):
            digits = self._digits(variable)
            if axis < len(digits):
                return variable, digits[axis][0]
            axis -= len(digits)
        raise IndexError(axis)


def _digits_inside(index: IndexSum) -> Iterator[Digit]:
    """Every digit of `index`, inner ones first."""
    for term, _ in index.terms:
        if isinstance(term, Digit):
            yield from _digits_inside(term.whole)
            yield term
        elif isinstance(term, Choice):
            for operand in term.operands:
                yield from _digits_inside(operand)


def _cuts_for(digit: Digit) -> list[tuple[int, int]]:
    """Cuts (axis, radix) after which the digit is affine; none where no cuts do that."""
    if not digit.whole.is_affine:
        return []
    if digit.divisor > 1:
        cuts = _cuts_below(digit.whole, digit.divisor)
        if cuts or digit.modulus is None:
            return cuts
    return _cuts_below(digit.whole, digit.divisor * (digit.modulus or 1))


def _cuts_below(whole: IndexSum, radix: int) -> list[tuple[int, int]]:
    """Cuts that separate multiples of `radix` from a rest that does not reach into the next multiple."""
    cuts: list[tuple[int, int]] = []
    least = most = whole.constant % radix
    for term, coefficient in whole.terms:
        if not isinstance(term, AxisTerm) or coefficient % radix == 0:
            continue
        step = abs(coefficient)
        reach = step * (term.size - 1)
        if reach >= radix and radix % step == 0:
            cuts.append((term.axis, radix // step))
            reach = radix - step
        if coefficient > 0:
            most += reach
        else:
            least -= reach
    return cuts if least // radix == most // radix else []
