"""The control function of attention: which step loads what, when a block of queries is finished and stored.

A unit is a tile of heads and queries; its steps are the tiles of keys, those that `causal` masks as a whole left out.
Each core takes a contiguous range of units. While a step computes, the loads of the next one run; results are stored
from one of two copies while the next unit grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import Buffer, KernelBuilder, TileFunction
from pytorchsim.target.descriptor import Descriptor
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.attention_edges import finish_function, start_function
from pytorchsim.templates.attention_problem import AttentionProblem, Place
from pytorchsim.templates.attention_step import STEP_BUFFERS, step_function
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_transfers import Along, matrix_descriptor, minus_infinity
from pytorchsim.templates.control_flow import (
    add,
    both,
    divide,
    equal,
    if_else,
    if_true,
    less,
    minimum,
    multiply,
    parity,
    select,
)

__all__ = ["AttentionControl"]

_LOAD_TAG, _STORE_TAG = 0, 2
"""Loads of step s carry tag s mod 2, stores of unit u tag 2 + u mod 2."""


@dataclass(frozen=True)
class _Moved:
    """A buffer with the descriptor that moves a copy of it, if any does. `origins`: what its axes behind the batch axes
    are along: heads, queries or keys; empty where they always begin at 0."""

    buffer: Buffer
    elements: int
    dtype: Dtype
    descriptor: str = ""
    origins: tuple[str, ...] = ()


class AttentionControl:
    """Builds one kernel. `slots`: argument number by tensor: query, key, value, result, mask, statistics."""

    def __init__(
        self, kernel: KernelBuilder, problem: AttentionProblem, tile: AttentionTile, slots: Mapping[str, int]
    ) -> None:
        self._kernel, self._problem, self._tile, self._slots = kernel, problem, tile, slots
        self._moved: dict[str, _Moved] = {}
        self._memories: dict[str, ir.Value] = {}
        self._ends = False
        self._limited: TileFunction | None = None

    def build(self) -> None:
        """Everything."""
        self._declare()
        problem, tile = self._problem, self._tile
        start = None if tile.opens_rows(problem) else start_function(self._kernel, tile)
        # Also with a mask, though it hides what lies behind the end: an infinite query times nothing is NaN.
        self._ends = problem.keys % (tile.keys * tile.lanes) != 0
        step = step_function(self._kernel, "step", problem, tile, limited=False)
        if problem.causal or self._ends:
            self._limited = step_function(self._kernel, "limited", problem, tile, limited=True)
        finish = finish_function(self._kernel, problem, tile)
        self._control(start, step, finish)

    # ---- Buffers ---------------------------------------------------------------------------------------------------

    def _declare(self) -> None:
        problem, tile = self._problem, self._tile
        needs = tile.buffers(problem)
        queries, keys = tile.queries * tile.lanes, tile.keys * tile.lanes
        size, value_size = (problem.size, tile.size_pitch), (problem.value_size, tile.value_pitch)
        all_queries, all_keys = (problem.queries, queries), (problem.keys, keys)
        shapes = {
            "query": _Shape(problem.query, size, "", all_queries, "queries", tile.size_pitch, swap=True),
            "key": _Shape(problem.key, all_keys, "keys", (problem.size, problem.size), "", keys, depth=tile.depth),
            "value": _Shape(problem.value, value_size, "", all_keys, "keys", tile.value_pitch, swap=True),
            "result": _Shape(
                problem.result, (problem.value_size,) * 2, "", all_queries, "queries", tile.value_pitch, swap=True
            ),
        }
        if problem.mask is not None:
            shapes["mask"] = _Shape(problem.mask, all_keys, "keys", all_queries, "queries", keys, swap=True)
        if problem.statistics is not None:
            shapes["statistics"] = _Shape(
                problem.statistics, (1, 1), "", all_queries, "queries", tile.vector, swap=True
            )
        for name, need in needs.items():
            buffer = self._kernel.buffer(name, need.bytes_per_copy, copies=need.copies)
            if name not in shapes:
                self._moved[name] = _Moved(buffer, need.elements, need.dtype)
                continue
            shape = shapes[name]
            symbol = self._kernel.descriptor(f"transfer_{name}", self._descriptor(name, shape, need.elements))
            self._moved[name] = _Moved(
                buffer, need.elements, need.dtype, symbol, ("heads", shape.walked_along, shape.lane_along)
            )

    def _descriptor(self, name: str, shape: _Shape, elements: int) -> Descriptor:
        """Axes: batch axes, heads, the one walked in the lane, the one over the lanes."""
        problem, tile, place = self._problem, self._tile, shape.place
        walked_stride, lane_stride = (place.column, place.row) if shape.swap else (place.row, place.column)
        outer = [Along(1, 1, stride, 0) for stride in place.batch[:-1]]
        heads = Along(problem.heads, tile.heads, place.batch[-1], elements // tile.heads)
        walked = Along(*shape.walked, walked_stride, 1)
        lane = Along(*shape.lane, lane_stride, shape.pitch, lane=True)
        fill = minus_infinity(place.dtype) if name == "mask" else 0
        store = name in ("result", "statistics")
        return matrix_descriptor(self._slots[name], place, (*outer, heads, walked, lane), store=store, fill=fill)

    def _pointer(self, name: str, copy: ir.Value | int = 0) -> ir.Value:
        moved = self._moved[name]
        number = builders.index_constant(copy) if isinstance(copy, int) else copy
        shift = multiply(number, moved.buffer.bytes_per_copy)
        return builders.tile_view(self._memories[name], shift, moved.elements, builders.element_type(moved.dtype))

    # ---- Control ---------------------------------------------------------------------------------------------------

    def _control(self, start: TileFunction | None, step: TileFunction, finish: TileFunction) -> None:
        head_tiles, query_tiles, _ = self._tile.counts(self._problem)
        units = prod(self._problem.batch[:-1]) * head_tiles * query_tiles
        with self._kernel.control() as (core, cores):
            zero, one = builders.index_constant(0), builders.index_constant(1)
            self._memories = {name: builders.buffer_ref(moved.buffer) for name, moved in self._moved.items()}
            first = arith.divui(multiply(core, units), cores)
            end = arith.divui(multiply(add(core, 1), units), cores)
            if_true(less(first, end), lambda: self._load(first, zero, zero))
            loop = scf.ForOp(first, end, one, [zero])
            with ir.InsertionPoint(loop.body):
                unit, number = loop.induction_variable, loop.inner_iter_args[0]
                following = self._unit(unit, end, number, (start, step))
                self._end(unit, finish)
                scf.YieldOp([following])
            for copy in range(2):
                builders.wait(_STORE_TAG + copy)

    def _unit(
        self, unit: ir.Value, end: ir.Value, number: ir.Value, functions: tuple[TileFunction | None, TileFunction]
    ) -> ir.Value:
        """All steps of a unit; returns the number of the next step."""
        zero, one = builders.index_constant(0), builders.index_constant(1)
        count = self._steps(unit)
        loop = scf.ForOp(zero, count, one, [number])
        with ir.InsertionPoint(loop.body):
            keys, current = loop.induction_variable, loop.inner_iter_args[0]
            following = add(current, 1)
            more = less(add(keys, 1), count)
            next_unit = select(more, unit, add(unit, 1))
            next_keys = select(more, add(keys, 1), zero)
            if_true(less(next_unit, end), lambda: self._load(next_unit, next_keys, following))
            builders.wait(parity(current))
            self._compute(unit, keys, current, functions)
            scf.YieldOp([following])
        return loop.results[0]

    def _compute(
        self, unit: ir.Value, keys: ir.Value, number: ir.Value, functions: tuple[TileFunction | None, TileFunction]
    ) -> None:
        start, step = functions
        if start is not None:
            if_true(equal(keys, 0), lambda: builders.call_tile(start, [self._pointer("state")]))
        copies = {"query": parity(unit), "key": parity(number), "value": parity(number), "mask": parity(number)}
        pointers = [self._pointer(name, copies.get(name, 0)) for name in STEP_BUFFERS if name in self._moved]
        limited, origins = self._limited, self._origins(unit, keys)
        if limited is None:
            builders.call_tile(step, pointers)
            return
        if_else(
            self._whole(origins),
            lambda: builders.call_tile(step, pointers),
            lambda: builders.call_tile(limited, [*pointers, origins["queries"], origins["keys"]]),
        )

    def _whole(self, origins: Mapping[str, ir.Value]) -> ir.Value:
        """Whether no position masks a key of the step: all exist, and `causal` none comes behind the first query."""
        last = add(origins["keys"], self._tile.keys * self._tile.lanes - 1)
        whole = less(last, self._problem.keys)
        return both(whole, less(last, add(origins["queries"], 1))) if self._problem.causal else whole

    def _end(self, unit: ir.Value, finish: TileFunction) -> None:
        """The unit's results are divided by their totals and stored."""
        copy = parity(unit)
        builders.wait(add(copy, _STORE_TAG))
        names = [name for name in ("result", "statistics") if name in self._moved]
        builders.call_tile(finish, [self._pointer("state"), *(self._pointer(name, copy) for name in names)])
        for name in names:
            self._transfer(name, copy, add(copy, _STORE_TAG), self._origins(unit, builders.index_constant(0)), unit)

    def _load(self, unit: ir.Value, keys: ir.Value, number: ir.Value) -> None:
        origins, tag = self._origins(unit, keys), parity(number)
        if_true(equal(keys, 0), lambda: self._transfer("query", parity(unit), tag, origins, unit))
        for name in ("key", "value", "mask"):
            if name in self._moved:
                self._transfer(name, parity(number), tag, origins, unit)

    def _transfer(
        self, name: str, copy: ir.Value, tag: ir.Value, origins: Mapping[str, ir.Value], unit: ir.Value
    ) -> None:
        moved = self._moved[name]
        outer = self._outer(unit)
        places = dict(enumerate(outer))
        places |= {len(outer) + n: origins[along] for n, along in enumerate(moved.origins) if along}
        builders.transfer(moved.descriptor, self._pointer(name, copy), tag, places)

    def _divided(self, unit: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
        """Batch entry, tile of heads, tile of queries."""
        heads, queries, _ = self._tile.counts(self._problem)
        rest, query_tile = divide(unit, queries)
        batch, head_tile = divide(rest, heads)
        return batch, head_tile, query_tile

    def _outer(self, unit: ir.Value) -> list[ir.Value]:
        """Coordinates along the batch axes before the heads."""
        batch, _, _ = self._divided(unit)
        coordinates: list[ir.Value] = []
        for size in reversed(self._problem.batch[:-1]):
            batch, coordinate = divide(batch, size)
            coordinates.insert(0, coordinate)
        return coordinates

    def _origins(self, unit: ir.Value, keys: ir.Value) -> dict[str, ir.Value]:
        tile = self._tile
        _, head_tile, query_tile = self._divided(unit)
        return {
            "heads": multiply(head_tile, tile.heads),
            "queries": multiply(query_tile, tile.queries * tile.lanes),
            "keys": multiply(keys, tile.keys * tile.lanes),
        }

    def _steps(self, unit: ir.Value) -> ir.Value:
        """Tiles of keys that a unit attends to."""
        tile, problem = self._tile, self._problem
        _, _, count = tile.counts(problem)
        if not problem.causal:
            return builders.index_constant(count)
        _, _, query_tile = self._divided(unit)
        end = minimum(multiply(add(query_tile, 1), tile.queries * tile.lanes), problem.queries)
        last, _ = divide(arith.subi(end, builders.index_constant(1)), tile.keys * tile.lanes)
        return minimum(add(last, 1), count)


@dataclass(frozen=True)
class _Shape:
    """How a tensor lies in a buffer: (extent, tile) of the axis walked in the lane and of the one over the lanes, what
    each is along, and elements between slots of the lane axis. `swap`: rows lie over the lanes."""

    place: Place
    walked: tuple[int, int]
    walked_along: str
    lane: tuple[int, int]
    lane_along: str
    pitch: int
    swap: bool = False
    depth: int = 1
