"""Vectors inside a lane as attention uses them, parts of buffers, and a query's value in every element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import arith, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import F32, Dtype
from pytorchsim.templates.vector_values import from_memory, to_memory

__all__ = [
    "LEAST",
    "Index",
    "Region",
    "equal",
    "load",
    "modulo",
    "plus",
    "regions",
    "store",
    "times",
    "value_of",
]

LEAST = -3.4028234663852886e38
"""The least finite float32: the highest score before any."""

Index = Any
"""An `int` that is known when the kernel is built, or an `index` value."""


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


def value_of(index: Index) -> ir.Value:
    """As a value."""
    return builders.index_constant(index) if isinstance(index, int) else index


def times(index: Index, factor: int) -> Index:
    """Product."""
    return index * factor if isinstance(index, int) else arith.muli(index, value_of(factor))


def plus(left: Index, right: Index) -> Index:
    """Sum."""
    if isinstance(left, int) and isinstance(right, int):
        return left + right
    if (isinstance(left, int) and left == 0) or (isinstance(right, int) and right == 0):
        return right if isinstance(left, int) else left
    return arith.addi(value_of(left), value_of(right))


def modulo(index: Index, power: int) -> Index:
    """Remainder by a power of two."""
    return index % power if isinstance(index, int) else arith.andi(index, value_of(power - 1))


def equal(index: Index, number: int) -> ir.Value:
    """Whether they are the same."""
    return arith.cmpi(arith.CmpIPredicate.eq, value_of(index), value_of(number))
