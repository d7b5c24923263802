"""Does the index algebra keep the value of every expression, and do axis splits make views affine?"""

from __future__ import annotations

from itertools import product

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._sympy.functions import FloorDiv, Max, Min, ModularIndexing

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.floor_modulo import flatten_nested_floormod
from pytorchsim.templates.index_analysis import affine_index, affine_of, index_sum
from pytorchsim.templates.index_terms import AxisTerm, Choice, Digit, IndexSum, Term
from pytorchsim.templates.iteration_space import IterationSpace

V = sympy.Symbol("v", integer=True, nonnegative=True)
U, W = sympy.symbols("u w", integer=True, nonnegative=True)


def _term_value(term: Term, point: tuple[int, ...]) -> int:
    if isinstance(term, AxisTerm):
        return point[term.axis]
    if isinstance(term, Digit):
        quotient = _value(term.whole, point) // term.divisor
        return quotient if term.modulus is None else quotient % term.modulus
    assert isinstance(term, Choice)
    values = [_value(operand, point) for operand in term.operands]
    if term.name == "product":
        return values[0] * values[1]
    return min(values) if term.name == "minimum" else max(values)


def _value(index: IndexSum, point: tuple[int, ...]) -> int:
    return index.constant + sum(coefficient * _term_value(term, point) for term, coefficient in index.terms)


def _split(space: IterationSpace, expressions: list[sympy.Expr]) -> list[IndexSum]:
    while True:
        sums = [index_sum(expression, space.position) for expression in expressions]
        if not [total for total in sums if space.split_for(total)]:  # every one is asked
            return sums


def _same_values(space: IterationSpace, sizes: tuple[int, ...], expression: sympy.Expr, total: IndexSum) -> None:
    """Axes walk the points of the variables in the same order, so the lists must be equal."""
    low, high = total.interval()
    expected = [
        int(expression.xreplace(dict(zip(space.variables, map(sympy.Integer, point), strict=True))).doit())
        for point in product(*map(range, sizes))
    ]
    actual = [_value(total, point) for point in product(*map(range, space.sizes))]
    assert actual == expected
    assert all(low <= value <= high for value in actual)


def _nest_value(expression: sympy.Expr, value: int) -> int:
    """`expression` at V = `value`, by the definition of its functions."""
    if expression == V:
        return value
    if isinstance(expression, FloorDiv):
        base, divisor = expression.args
        return _nest_value(base, value) // int(divisor)
    if isinstance(expression, ModularIndexing):
        base, divisor, modulus = expression.args
        return _nest_value(base, value) // int(divisor) % int(modulus)
    assert expression.is_Integer
    return int(expression)


@pytest.mark.parametrize("inner", ["floor", "modulo"])
@pytest.mark.parametrize("outer", ["floor", "modulo"])
def test_flattening_keeps_every_value(inner: str, outer: str) -> None:
    """Every nest of two operations with radices up to 6, at every number below 150."""
    collapsed = 0
    for a, m, b, n in product(range(1, 7), repeat=4):
        first = FloorDiv(V, a, evaluate=False) if inner == "floor" else ModularIndexing(V, a, m, evaluate=False)
        nest = FloorDiv(first, b, evaluate=False) if outer == "floor" else ModularIndexing(first, b, n, evaluate=False)
        flat = flatten_nested_floormod(nest)
        collapsed += flat != nest
        for value in range(150):
            assert _nest_value(flat, value) == _nest_value(nest, value), (nest, flat, value)
    assert collapsed > 100


def test_flattening_is_one_digit_where_radices_divide() -> None:
    unevaluated = ModularIndexing(V, 2, 12)
    assert flatten_nested_floormod(FloorDiv(unevaluated, 3)) == ModularIndexing(V, 6, 4)
    assert flatten_nested_floormod(ModularIndexing(unevaluated, 1, 4)) == ModularIndexing(V, 2, 4)
    assert flatten_nested_floormod(ModularIndexing(ModularIndexing(V, 1, 24), 2, 6)) == ModularIndexing(V, 2, 6)


def test_flattening_leaves_several_variables_and_odd_radices_alone() -> None:
    for expression in (
        FloorDiv(ModularIndexing(V + U, 2, 12), 3),
        FloorDiv(ModularIndexing(V + 1, 2, 12), 3),
        FloorDiv(ModularIndexing(V, 1, 10), 4),
        ModularIndexing(ModularIndexing(V, 1, 10), 1, 4),
    ):
        assert flatten_nested_floormod(expression) == expression


NESTS = st.deferred(
    lambda: (
        st.just(V)
        | st.builds(FloorDiv, NESTS, st.integers(1, 12))
        | st.builds(ModularIndexing, NESTS, st.integers(1, 12), st.integers(1, 24))
    )
)


@given(NESTS)
def test_flattening_deep_nests(expression: sympy.Expr) -> None:
    flat = flatten_nested_floormod(expression)
    for value in (0, 1, 2, 5, 11, 12, 23, 24, 71, 143, 1000):
        assert _nest_value(flat, value) == _nest_value(expression, value)


LINEAR = st.builds(lambda a, b, c: a * U + b * W + c, st.integers(-9, 12), st.integers(-9, 12), st.integers(-20, 20))
NONNEGATIVE = st.builds(lambda a, b, c: a * U + b * W + c, st.integers(0, 12), st.integers(0, 12), st.integers(0, 20))
EXPRESSIONS = st.deferred(
    lambda: (
        NONNEGATIVE
        | st.builds(FloorDiv, EXPRESSIONS, st.sampled_from([1, 2, 3, 4, 6, 8, 12]))
        | st.builds(ModularIndexing, EXPRESSIONS, st.sampled_from([1, 2, 3, 4]), st.sampled_from([2, 3, 4, 6, 12]))
        | st.builds(lambda a, b: a + 3 * b, EXPRESSIONS, EXPRESSIONS)
    )
)
SIZES = st.tuples(st.sampled_from([1, 2, 4, 6, 9, 12]), st.sampled_from([1, 3, 4, 8, 12]))


@settings(max_examples=150, deadline=None)
@given(SIZES, st.lists(EXPRESSIONS, min_size=1, max_size=3))
def test_splits_keep_every_value(sizes: tuple[int, int], expressions: list[sympy.Expr]) -> None:
    space = IterationSpace((U, W), sizes)
    for expression, total in zip(expressions, _split(space, expressions), strict=True):
        _same_values(space, sizes, expression, total)


@settings(max_examples=150, deadline=None)
@given(SIZES, LINEAR, st.integers(1, 12), st.integers(1, 12))
def test_rules_hold_for_negative_numbers(
    sizes: tuple[int, int], linear: sympy.Expr, divisor: int, modulus: int
) -> None:
    space = IterationSpace((U, W), sizes)
    plain = index_sum(linear, space.position)
    points = list(product(*map(range, sizes)))
    for total, expected in (
        (plain.divided(divisor), [_value(plain, point) // divisor for point in points]),
        (plain.modulo(modulus), [_value(plain, point) % modulus for point in points]),
        (
            plain.divided(divisor).modulo(modulus),
            [_value(plain, point) // divisor % modulus for point in points],
        ),
        (
            plain.modulo(modulus).divided(divisor),
            [_value(plain, point) % modulus // divisor for point in points],
        ),
    ):
        assert [_value(total, point) for point in points] == expected


@pytest.mark.parametrize(
    ("sizes", "expression", "axes"),
    [
        ((24,), FloorDiv(V, 4) + 100 * ModularIndexing(V, 1, 4), (6, 4)),
        ((60,), FloorDiv(V, 12) + 7 * ModularIndexing(V, 4, 3) + 50 * ModularIndexing(V, 1, 4), (5, 3, 4)),
        ((64,), 8 * ModularIndexing(V, 1, 8) + FloorDiv(V, 8), (8, 8)),
        ((30,), FloorDiv(29 - V, 5), (6, 5)),
        ((30,), ModularIndexing(29 - V, 1, 5), (6, 5)),
    ],
)
def test_a_view_becomes_affine(sizes: tuple[int, ...], expression: sympy.Expr, axes: tuple[int, ...]) -> None:
    space = IterationSpace((V,), sizes)
    (total,) = _split(space, [expression])
    assert total.is_affine
    assert space.sizes == axes
    _same_values(space, sizes, expression, total)


def test_windows_partition_and_reshape() -> None:
    """A window partition read through a reshape: both axes split, every digit gone."""
    window = ModularIndexing(U, 1, 4) + 4 * ModularIndexing(W, 1, 6) + 24 * (FloorDiv(U, 4) + 3 * FloorDiv(W, 6))
    space = IterationSpace((U, W), (12, 18))
    (total,) = _split(space, [window])
    assert total.is_affine
    assert space.sizes == (3, 4, 3, 6)
    _same_values(space, (12, 18), window, total)


def test_a_mixed_radix_sum_of_two_variables_splits_the_outer_one() -> None:
    space = IterationSpace((U, W), (6, 8))
    (total,) = _split(space, [FloorDiv(8 * U + W, 16)])
    assert total.is_affine
    assert space.sizes == (3, 2, 8)


def test_incompatible_radices_keep_the_first_split() -> None:
    space = IterationSpace((V,), (24,))
    by_four, by_six = _split(space, [FloorDiv(V, 4), FloorDiv(V, 6)])
    assert by_four.is_affine
    assert not by_six.is_affine
    _same_values(space, (24,), FloorDiv(V, 6), by_six)


def test_cuts_that_would_not_help_are_not_made() -> None:
    space = IterationSpace((U, W), (8, 8))
    _split(space, [FloorDiv(U + W, 4)])
    assert space.sizes == (8, 8)


def test_splits_of_reduced_variables_stay_reduced() -> None:
    space = IterationSpace((U, W), (5, 12), reduced=1)
    _split(space, [ModularIndexing(W, 1, 4) * 3 + U])
    assert space.sizes == (5, 3, 4)
    assert space.reduced == 2


def test_minimum_and_maximum() -> None:
    space = IterationSpace((U, W), (6, 8))
    expression = Min(U, 3) + Max(W - 4, 0) + Min(U, 100)
    (total,) = _split(space, [expression])
    _same_values(space, (6, 8), expression, total)
    assert Min(U, 100) != U  # what only ranges decide
    assert index_sum(Min(U, 100), space.position).is_affine


def test_affine_index_refuses_by_name() -> None:
    assert affine_index(3 * U - W + 7, (U, W)).strides == (3, -1)
    with pytest.raises(UnsupportedError, match="not affine"):
        affine_index(FloorDiv(U, 2), (U, W))
    with pytest.raises(UnsupportedError, match="neither a loop variable"):
        affine_index(V, (U, W))
    with pytest.raises(UnsupportedError, match="divides by"):
        affine_index(FloorDiv(U, V), (U, W))
    with pytest.raises(ValueError, match="not the position"):
        affine_of(index_sum(FloorDiv(U, 2), IterationSpace((U,), (7,)).position), 1)
