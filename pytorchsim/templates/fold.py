"""Folding partial results that are spread over a vector or over the lanes, in a fixed tree; every element and lane
gets the result."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, vector

from pytorchsim.mlir import builders
from pytorchsim.templates.reductions import Partial

__all__ = ["fold_lanes", "fold_vector"]


def fold_vector(partial: Partial, elements: int, combine: Callable[[Partial, Partial], Partial]) -> Partial:
    """All elements of each vector folded, by rotations of half, a quarter ... of the vector."""
    shift = elements // 2
    while shift:
        rotate = _rotation(elements, shift)
        partial = combine(partial, tuple(_as_bytes(value, rotate) for value in partial))
        shift //= 2
    return partial


def fold_lanes(partial: Partial, lanes: int, combine: Callable[[Partial, Partial], Partial]) -> Partial:
    """The same vector of all lanes folded, by exchanges with the lane whose number differs in one bit."""
    for step in range(lanes.bit_length() - 1):
        exchange = _exchange(step)
        partial = combine(partial, tuple(_as_bytes(value, exchange) for value in partial))
    return partial


def _rotation(elements: int, shift: int) -> Callable[[ir.Value], ir.Value]:
    order = [(element + shift) % elements for element in range(elements)]
    return lambda value: vector.shuffle(value, value, order)


def _exchange(step: int) -> Callable[[ir.Value], ir.Value]:
    return lambda value: builders.exchange(value, step)


def _as_bytes(value: ir.Value, move: Callable[[ir.Value], ir.Value]) -> ir.Value:
    """`move` of a vector; one of bits travels as bytes, since nothing rotates mask registers."""
    kind = ir.VectorType(value.type)
    if kind.element_type != ir.IntegerType.get_signless(1):
        return move(value)
    byte = ir.VectorType.get(kind.shape, ir.IntegerType.get_signless(8))
    moved = move(arith.extui(byte, value))
    zero = arith.constant(byte, ir.DenseElementsAttr.get_splat(byte, ir.IntegerAttr.get(byte.element_type, 0)))
    return arith.cmpi(arith.CmpIPredicate.ne, moved, zero)
