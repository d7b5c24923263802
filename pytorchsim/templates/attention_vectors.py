"""Vectors inside a lane as attention uses them, parts of buffers, and a query's value in every element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import F32, Dtype
from pytorchsim.templates.vector_values import from_memory, to_memory

__all__ = ["NARROW", "Region", "fold_steps", "load", "narrowed", "regions", "store", "widened"]

Combine = Callable[[ir.Value, ir.Value], ir.Value]

NARROW = 2
"""The shortest vector: values of a query are computed in it and then spread."""


@dataclass(frozen=True)
class Region:
    """A part of a buffer: elements behind `start` of `memory`."""

    memory: ir.Value
    start: int = 0

    def address(self, index: ir.Value) -> ir.Value:
        """Of an element."""
        return arith.addi(index, builders.index_constant(self.start)) if self.start else index


def regions(memory: ir.Value, parts: Mapping[str, int]) -> dict[str, Region]:
    """The parts of a buffer, by name, of so many elements each."""
    found, start = {}, 0
    for name, elements in parts.items():
        found[name] = Region(memory, start)
        start += elements
    return found


def load(region: Region, index: ir.Value, elements: int, dtype: Dtype = F32) -> ir.Value:
    """A vector as it is computed with: narrow floats become float32, bytes of a bool bits."""
    kind = ir.VectorType.get([elements], ir.Type.parse(dtype.mlir))
    return from_memory(vector.load(kind, region.memory, [region.address(index)]), dtype, elements)


def store(value: ir.Value, region: Region, index: ir.Value, elements: int, dtype: Dtype = F32) -> None:
    """The reverse of `load`."""
    vector.store(to_memory(value, dtype, elements), region.memory, [region.address(index)])


def fold_steps(elements: int, combine: Combine) -> list[Callable[[ir.Value], ir.Value]]:
    """Functions that, each called on the result of the one before, fold a vector of `elements`
    into one of two equal elements: halves are combined, so that vectors get shorter."""

    def halve(count: int) -> Callable[[ir.Value], ir.Value]:
        low, high = list(range(count // 2)), list(range(count // 2, count))
        return lambda a: combine(vector.shuffle(a, a, low), vector.shuffle(a, a, high))

    steps = []
    while elements > NARROW:
        steps.append(halve(elements))
        elements //= 2
    return [*steps, lambda a: combine(a, vector.shuffle(a, a, [1, 0]))]


def narrowed(value: ir.Value) -> ir.Value:
    """The first two elements."""
    return vector.shuffle(value, value, [0, 1])


def widened(value: ir.Value, elements: int) -> ir.Value:
    """A vector of two equal elements as one of `elements`, by putting it behind itself."""
    count = NARROW
    while count < elements:
        value = vector.shuffle(value, value, [*range(count), *range(count)])
        count *= 2
    return value
