"""Inductor's index expressions in the terms of an iteration space, or a refusal that names the expression.

In: a sympy expression over loop variables and gathered values. Out: an `IndexSum`, or for callers that need one an
`AffineIndex`. Expressions are read by their structure, never as text.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

import sympy
from torch.utils._sympy.functions import (
    CleanDiv,
    FloorDiv,
    Identity,
    Max,
    Min,
    Mod,
    ModularIndexing,
    PythonMod,
    Where,
)

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.floor_modulo import flatten_nested_floormod
from pytorchsim.templates.index_terms import AxisTerm, Choice, IndexSum, sum_of
from pytorchsim.templates.iteration_space import IterationSpace
from pytorchsim.templates.loop_program import AffineIndex

__all__ = ["Resolver", "affine_index", "affine_of", "index_sum"]

Resolver = Callable[[sympy.Symbol], "IndexSum | None"]
"""What a symbol stands for; None where it is unknown."""


def affine_index(index: sympy.Expr, variables: Sequence[sympy.Symbol]) -> AffineIndex:
    """`index` as strides over `variables` and an offset, all in elements.

    Raises UnsupportedError where the index is not affine in them with integer coefficients.
    """
    unbounded = 1 << 62  # extents are not known here: nothing may be concluded from them
    space = IterationSpace(variables, [unbounded] * len(variables))
    total = index_sum(index, space.position)
    if not total.is_affine:
        raise UnsupportedError(
            f"index {index} is not affine in ({', '.join(map(str, variables))});"
            " only constant strides and offsets are supported"
        )
    return affine_of(total, len(variables))


def affine_of(total: IndexSum, rank: int) -> AffineIndex:
    """A sum of positions along axes as strides over `rank` axes."""
    strides = [0] * rank
    for term, coefficient in total.terms:
        if not isinstance(term, AxisTerm):
            raise ValueError(f"{term} is not the position along an axis")
        strides[term.axis] = coefficient
    return AffineIndex(tuple(strides), total.constant)


def index_sum(index: sympy.Expr, resolve: Resolver) -> IndexSum:
    """`index` as a sum; `resolve` says what its symbols stand for.

    Raises UnsupportedError where it is no integer arithmetic of theirs with constant divisors.
    """
    return _sum(flatten_nested_floormod(sympy.sympify(index)), resolve)


def _sum(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    if expression.is_Integer:
        return IndexSum((), int(expression))
    if isinstance(expression, sympy.Symbol):
        known = resolve(expression)
        if known is None:
            raise UnsupportedError(f"symbol {expression} in an index is neither a loop variable nor a gathered value")
        return known
    for kinds, read in _READERS:
        if isinstance(expression, kinds):
            return read(expression, resolve)
    raise UnsupportedError(f"{expression} in an index: {type(expression).__name__} is not integer index arithmetic")


def _arguments(expression: sympy.Expr, resolve: Resolver) -> list[IndexSum]:
    return [_sum(operand, resolve) for operand in expression.args]


def _addition(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    return reduce(lambda a, b: a + b, _arguments(expression, resolve))


def _multiplication(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    return reduce(_product, _arguments(expression, resolve))


def _power(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    base, exponent = expression.args
    if not (exponent.is_Integer and int(exponent) > 0):
        raise UnsupportedError(f"{expression} in an index: only positive constant powers are integers")
    return reduce(_product, [_sum(base, resolve)] * int(exponent))


def _quotient(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    return _sum(expression.args[0], resolve).divided(_radix(expression.args[1], expression))


def _digit(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    return _quotient(expression, resolve).modulo(_radix(expression.args[2], expression))


def _remainder(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    return _sum(expression.args[0], resolve).modulo(_radix(expression.args[1], expression))


def _absolute(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    (inside,) = _arguments(expression, resolve)
    return _choice("maximum", [inside, inside.times(-1)])


def _radix(value: sympy.Expr, expression: sympy.Expr) -> int:
    if value.is_Integer and int(value) > 0:
        return int(value)
    raise UnsupportedError(f"index {expression} divides by {value}; only positive constants are supported")


def _product(left: IndexSum, right: IndexSum) -> IndexSum:
    if not left.terms:
        return right.times(left.constant)
    if not right.terms:
        return left.times(right.constant)
    return sum_of([(Choice("product", (left, right)), 1)])


def _choice(name: str, operands: list[IndexSum]) -> IndexSum:
    """Minimum or maximum; the operand itself where intervals decide."""
    pick = min if name == "minimum" else max
    if not any(operand.terms for operand in operands):
        return IndexSum((), pick(operand.constant for operand in operands))
    for operand in operands:
        low, high = operand.interval()
        others = [other.interval() for other in operands if other is not operand]
        if all(high <= other[0] if name == "minimum" else low >= other[1] for other in others):
            return operand
    return sum_of([(Choice(name, tuple(operands)), 1)])


def _wrapped(expression: sympy.Expr, resolve: Resolver) -> IndexSum:
    """`e + n if e < 0 else e`, how a negative index is written: `e` modulo n where e is in -n .. n - 1."""
    condition, negative, otherwise = expression.args
    plain = _sum(otherwise, resolve)
    shift = _sum(negative, resolve) + plain.times(-1)
    least, most = plain.interval()
    holds_if_negative = isinstance(condition, sympy.StrictLessThan) and condition.args == (otherwise, sympy.S.Zero)
    if not holds_if_negative or shift.terms or not -shift.constant <= least <= most < shift.constant:
        raise UnsupportedError(f"index {expression}: of choices only the wrapping of negative indices is supported")
    return plain.modulo(shift.constant)


_READERS: tuple[tuple[tuple[type, ...], Callable[[sympy.Expr, Resolver], IndexSum]], ...] = (
    ((sympy.Add,), _addition),
    ((Identity,), lambda expression, resolve: _sum(expression.args[0], resolve)),
    ((sympy.Mul,), _multiplication),
    ((sympy.Pow,), _power),
    ((FloorDiv, CleanDiv), _quotient),
    ((ModularIndexing,), _digit),
    ((PythonMod, Mod), _remainder),
    ((Min, sympy.Min), lambda expression, resolve: _choice("minimum", _arguments(expression, resolve))),
    ((Max, sympy.Max), lambda expression, resolve: _choice("maximum", _arguments(expression, resolve))),
    ((sympy.Abs,), _absolute),
    ((Where,), _wrapped),
)
"""How each kind of expression is read."""
