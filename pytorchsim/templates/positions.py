"""Where in the reduced axes the elements of a vector stand, lane by lane."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from mlir import ir
from mlir.dialects import arith, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import I32
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.vector_values import splat, vector_type

__all__ = ["Positions"]


class Positions:
    """Positions at step `at` of a walk over `tile` in a space of `extents`; `origins` of the axes that several tiles
    share."""

    def __init__(self, extents: tuple[int, ...], tile: Tile, origins: Mapping[int, ir.Value], at: ir.Value) -> None:
        self._extents, self._tile, self._origins, self._at = extents, tile, origins, at

    def along(self, axis: int) -> ir.Value:
        """Position along reduced `axis`: a vector of i32."""
        tile, elements = self._tile, self._tile.vector_elements
        stride, size = tile.inner_stride(axis), tile.in_lane(axis)
        if tile.rows_inner:
            within = self._spread(arith.remui(arith.divui(self._at, _index(stride)), _index(size)))
        else:
            within = self._in_the_lane()
            if stride > 1:
                within = arith.divui(within, splat(stride, I32, elements))
            if axis != tile.inner_axes[0]:
                within = arith.remui(within, splat(size, I32, elements))
        if axis == tile.lane_axis:
            lane = builders.lane_id(elements)
            within = arith.addi(within, arith.muli(lane, splat(tile.lane_run, I32, elements)))
        origin = self._origins.get(axis)
        return within if origin is None else arith.addi(within, self._spread(origin))

    def flat(self) -> ir.Value:
        """Position in the reduced axes taken as one: a vector of i32."""
        axes = self._tile.reduced_axes
        total = None
        for axis in axes:
            scale = prod(self._extents[axis + 1 :])
            part = self.along(axis)
            part = arith.muli(part, splat(scale, I32, self._tile.vector_elements)) if scale > 1 else part
            total = part if total is None else arith.addi(total, part)
        if total is None:
            raise ValueError("positions of a space without reduced axes")
        return total

    def exists(self) -> ir.Value | None:
        """Which elements of the vector exist, as bits; None where all do. Steps past the end are not taken where rows
        are inner."""
        tile = self._tile
        if tile.rows_inner:
            return None
        conditions = [
            self._below(self.along(axis), self._extents[axis])
            for axis in tile.reduced_axes
            if self._extents[axis] % tile.sizes[axis]
        ]
        if tile.pitch != tile.inner_elements:
            conditions.append(self._below(self._in_the_lane(), tile.inner_elements))
        whole = None
        for condition in conditions:
            whole = condition if whole is None else arith.andi(whole, condition)
        return whole

    def _in_the_lane(self) -> ir.Value:
        """Numbers of the vector's elements in the pitch."""
        elements = self._tile.vector_elements
        kind = vector_type(I32, elements)
        numbers = [ir.IntegerAttr.get(kind.element_type, number) for number in range(elements)]
        steps = arith.constant(kind, ir.DenseElementsAttr.get(numbers, type=kind))
        return arith.addi(self._spread(arith.muli(self._at, _index(elements))), steps)

    def _below(self, position: ir.Value, extent: int) -> ir.Value:
        return arith.cmpi(arith.CmpIPredicate.ult, position, splat(extent, I32, self._tile.vector_elements))

    def _spread(self, value: ir.Value) -> ir.Value:
        narrow = arith.index_cast(ir.IntegerType.get_signless(32), value)
        return vector.broadcast(vector_type(I32, self._tile.vector_elements), narrow)


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
