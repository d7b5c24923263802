"""Where in the iteration space the elements of a vector stand, lane by lane. All in registers: no table of positions
exists in the scratchpad, and a kernel's bytes per lane do not grow with the arithmetic on them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import arith, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import I32, Dtype
from pytorchsim.templates.loop_program import AffineIndex
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.vector_values import Emitter, Operands, splat, vector_type

__all__ = ["INDEX_EMITTERS", "Positions", "whole_steps"]


@dataclass(frozen=True)
class Positions:
    """Positions in block `block` of `tile`, at step `step` of its walk, in a space of `extents`; `origins` of the axes
    that several tiles share. Without `step` only row axes have positions."""

    extents: tuple[int, ...]
    tile: Tile
    origins: Mapping[int, ir.Value]
    block: ir.Value
    step: ir.Value | None = None

    def along(self, axis: int) -> ir.Value:
        """Position along `axis`: a vector of i32."""
        tile, elements = self.tile, self.tile.vector_elements
        stride, size = tile.inner_stride(axis), tile.in_lane(axis)
        group = tile.inner_axes if axis in tile.inner_axes else tile.outer_axes
        outermost = axis == group[0]  # its quotient needs no remainder
        if axis in tile.outer_axes:
            number = self._outer()
            number = number if stride == 1 else arith.divui(number, _index(stride))
            within = self._spread(number if outermost else arith.remui(number, _index(size)))
        else:
            within = self._in_the_lane()
            if stride > 1:
                within = arith.divui(within, splat(stride, I32, elements))
            if not outermost:
                within = arith.remui(within, splat(size, I32, elements))
        if axis == tile.lane_axis:
            lane = builders.lane_id(elements)
            within = arith.addi(within, arith.muli(lane, splat(tile.lane_run, I32, elements)))
        origin = self.origins.get(axis)
        return within if origin is None else arith.addi(within, self._spread(origin))

    def of(self, index: AffineIndex, dtype: Dtype) -> ir.Value:
        """An affine function of the positions: a vector of `dtype`, i32 or i64."""
        elements = self.tile.vector_elements
        total = splat(index.offset, dtype, elements)
        for axis, stride in enumerate(index.strides):
            if not stride:
                continue
            along = self.along(axis)
            along = along if dtype == I32 else arith.extsi(vector_type(dtype, elements), along)
            scaled = along if stride == 1 else arith.muli(along, splat(stride, dtype, elements))
            total = arith.addi(total, scaled)
        return total

    def flat(self) -> ir.Value:
        """Position in the reduced axes taken as one: a vector of i32."""
        strides = [0] * len(self.extents)
        for axis in self.tile.reduced_axes:
            strides[axis] = prod(self.extents[axis + 1 :])
        return self.of(AffineIndex(tuple(strides)), I32)

    def exists(self) -> ir.Value | None:
        """Which elements of the vector exist in the reduced axes, as bits; None where all do."""
        tile = self.tile
        if not tile.walks_past_rows(self.extents):
            return None
        conditions = [
            self._below(self.along(axis), self.extents[axis])
            for axis in tile.reduced_axes
            if self.extents[axis] % tile.sizes[axis]
        ]
        if tile.pitch != tile.inner_elements:
            conditions.append(self._below(self._in_the_lane(), tile.inner_elements))
        whole = None
        for condition in conditions:
            whole = condition if whole is None else arith.andi(whole, condition)
        return whole

    def _outer(self) -> ir.Value:
        """The number of the pitch."""
        if not self.tile.rows_inner:
            return self.block
        return self._walked()

    def _walked(self) -> ir.Value:
        if self.step is None:
            raise ValueError("positions along reduced axes outside a walk")
        return self.step

    def _in_the_lane(self) -> ir.Value:
        """Numbers of the vector's elements in the pitch."""
        elements = self.tile.vector_elements
        kind = vector_type(I32, elements)
        numbers = [ir.IntegerAttr.get(kind.element_type, number) for number in range(elements)]
        steps = arith.constant(kind, ir.DenseElementsAttr.get(numbers, type=kind))
        first = self.block if self.tile.rows_inner else self._walked()
        return arith.addi(self._spread(arith.muli(first, _index(elements))), steps)

    def _below(self, position: ir.Value, extent: int) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.ult, position, splat(extent, I32, self.tile.vector_elements))

    def _spread(self, value: ir.Value) -> ir.Value:
        narrow = arith.index_cast(ir.IntegerType.get_signless(32), value)
        return vector.broadcast(vector_type(I32, self.tile.vector_elements), narrow)


def whole_steps(extents: tuple[int, ...], tile: Tile, origins: Mapping[int, ir.Value]) -> ir.Value | int:
    """The first steps of a walk along vectors in which every element of every lane exists in the reduced axes."""
    ragged = [axis for axis in tile.reduced_axes if extents[axis] % tile.sizes[axis]]
    if not ragged:
        return tile.inner_elements // tile.vector_elements
    (axis, *more) = ragged
    if more or axis != tile.inner_axes[0]:
        return 0
    stride, size = tile.inner_stride(axis), tile.in_lane(axis)
    before_last_lane = tile.sizes[axis] - size if axis == tile.lane_axis else 0
    origin = origins.get(axis)
    if origin is None:
        existing = min(max(extents[axis] - before_last_lane, 0), size)
        return existing * stride // tile.vector_elements
    left = arith.subi(_index(extents[axis] - before_last_lane), origin)
    left = arith.minsi(arith.maxsi(left, _index(0)), _index(size))
    return arith.divui(arith.muli(left, _index(stride)), _index(tile.vector_elements))


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)


def _quotient(o: Operands) -> ir.Value:
    return arith.divui(o.values[0], o.constant(_radix(o)))


def _remainder(o: Operands) -> ir.Value:
    return arith.remui(o.values[0], o.constant(_radix(o)))


def _radix(o: Operands) -> int:
    if o.operation.constant is None:
        raise ValueError("a quotient carries its divisor")
    return int(o.operation.constant)


INDEX_EMITTERS: dict[str, Emitter] = {"index_quotient": _quotient, "index_remainder": _remainder}
"""Operations of index arithmetic: of non-negative integers, by a constant."""
