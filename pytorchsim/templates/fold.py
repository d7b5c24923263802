"""Folding partial results that are spread over a vector or over the lanes, in a fixed tree; every element and lane
gets the result. The vector is halved until two elements are left, so that most of it takes one beat a step."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, vector

from pytorchsim.mlir import builders
from pytorchsim.templates.reductions import Partial

__all__ = ["fold_vector"]

_PAIR = 2
"""Elements of the shortest vector."""


def fold_vector(
    partial: Partial, elements: int, combine: Callable[[Partial, Partial], Partial], *, lanes: int = 1
) -> Partial:
    """All elements of each vector folded: halves, quarters ... of the vector; then the same vector of `lanes` lanes, by
    exchanges with the lane whose number differs in one bit."""
    count = elements
    while count > _PAIR:
        count //= 2
        low, high = (tuple(_as_bytes(value, _part(at, count)) for value in partial) for at in (0, count))
        partial = combine(low, high)
    partial = combine(partial, tuple(_as_bytes(value, _swapped) for value in partial))
    for step in range(lanes.bit_length() - 1):
        partial = combine(partial, tuple(_as_bytes(value, _exchange(step)) for value in partial))
    return tuple(_as_bytes(value, _spread(elements)) for value in partial)


def _part(first: int, count: int) -> Callable[[ir.Value], ir.Value]:
    """Elements `first` to `first + count`."""
    return lambda value: vector.extract_strided_slice(
        ir.VectorType.get([count], ir.VectorType(value.type).element_type), value, [first], [count], [1]
    )


def _swapped(pair: ir.Value) -> ir.Value:
    return vector.shuffle(pair, pair, [1, 0])


def _exchange(step: int) -> Callable[[ir.Value], ir.Value]:
    return lambda value: builders.exchange(value, step)


def _spread(elements: int) -> Callable[[ir.Value], ir.Value]:
    """The first of a pair in all of `elements`."""

    def spread(pair: ir.Value) -> ir.Value:
        if elements == _PAIR:
            return pair
        kind = ir.VectorType.get([elements], ir.VectorType(pair.type).element_type)
        return builders.splat(vector.insert_strided_slice(pair, _zero(kind), [0], [1]), 0)

    return spread


def _zero(kind: ir.VectorType) -> ir.Value:
    element = kind.element_type
    is_integer = isinstance(element, ir.IntegerType)
    scalar = ir.IntegerAttr.get(element, 0) if is_integer else ir.FloatAttr.get(element, 0.0)
    return arith.constant(kind, ir.DenseElementsAttr.get_splat(kind, scalar))


def _as_bytes(value: ir.Value, move: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """`move` of a vector; one of bits travels as bytes, since nothing rotates mask registers."""
    kind = ir.VectorType(value.type)
    if kind.element_type != ir.IntegerType.get_signless(1):
        return move(value)
    moved = move(arith.extui(ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(8)), value))
    return arith.cmpi(arith.CmpIPredicate.ne, moved, _zero(ir.VectorType(moved.type)))
