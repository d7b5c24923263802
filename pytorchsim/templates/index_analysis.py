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
    operands = expression.args
    if isinstance(expression, sympy.Add):
        return reduce(lambda a, b: a + b, (_sum(operand, resolve) for operand in operands))
    if isinstance(expression, Identity):
        return _sum(operands[0], resolve)
    if isinstance(expression, sympy.Mul):
        return reduce(_product, (_sum(operand, resolve) for operand in operands))
    if isinstance(expression, sympy.Pow) and operands[1].is_Integer and int(operands[1]) > 0:
        return reduce(_product, [_sum(operands[0], resolve)] * int(operands[1]))
    if isinstance(expression, (FloorDiv, CleanDiv)):
        return _sum(operands[0], resolve).divided(_radix(operands[1], expression))
    if isinstance(expression, ModularIndexing):
        divided = _sum(operands[0], resolve).divided(_radix(operands[1], expression))
        return divided.modulo(_radix(operands[2], expression))
    if isinstance(expression, (PythonMod, Mod)):
        return _sum(operands[0], resolve).modulo(_radix(operands[1], expression))
    if isinstance(expression, (Min, Max, sympy.Min, sympy.Max)):
        name = "minimum" if isinstance(expression, (Min, sympy.Min)) else "maximum"
        return _choice(name, [_sum(operand, resolve) for operand in operands])
    if isinstance(expression, sympy.Abs):
        inside = _sum(operands[0], resolve)
        return _choice("maximum", [inside, inside.times(-1)])
    if isinstance(expression, Where):
        return _wrapped(expression, resolve)
    raise UnsupportedError(f"{expression} in an index: {type(expression).__name__} is not integer index arithmetic")


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
