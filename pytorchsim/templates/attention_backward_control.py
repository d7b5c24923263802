"""The control function of attention's backward: which step loads what, when gradients are finished and stored.

A *unit* is a head, a *group* a tile of its keys; its steps are the tiles of queries, those left out of which `causal`
hides every key of the group. Each core takes a contiguous range of units. While a step computes, the loads of the next
one run. Gradients of keys and values grow over a group, those of queries over a unit, in the scratchpad.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import Buffer, KernelBuilder, TileFunction
from pytorchsim.target.dtypes import F32, Dtype
from pytorchsim.templates.attention_backward_problem import BackwardProblem
from pytorchsim.templates.attention_backward_step import BACKWARD_BUFFERS, backward_step
from pytorchsim.templates.attention_backward_tile import BackwardTile
from pytorchsim.templates.attention_backward_transfers import WALKED_ROWS, BackwardTransfers
from pytorchsim.templates.attention_vectors import Region, load, regions, store
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
from pytorchsim.templates.footprint import BufferNeed
from pytorchsim.templates.vector_values import splat

__all__ = ["BackwardControl"]

_LOAD_TAG, _KEY_STORE_TAG, _QUERY_STORE_TAG = 0, 2, 4
"""Loads of step s carry tag s mod 2, stores of group g tag 2 + g mod 2."""

_OF_QUERIES = ("query", "query_columns", "gradient", "gradient_columns", "statistics", "delta")
_OF_KEYS = ("key", "key_columns", "value")


class BackwardControl:
    """Builds one kernel. `slots`: argument number by tensor, named as the places of the problem."""

    def __init__(
        self, kernel: KernelBuilder, problem: BackwardProblem, tile: BackwardTile, slots: Mapping[str, int]
    ) -> None:
        self._kernel, self._problem, self._tile, self._slots = kernel, problem, tile, slots
        self._needs: dict[str, BufferNeed] = tile.buffers(problem)
        self._buffers: dict[str, Buffer] = {}
        self._descriptors: dict[str, str] = {}
        self._memories: dict[str, ir.Value] = {}
        self._query_tiles, self._key_tiles = tile.counts(problem)

    def build(self) -> None:
        """Everything."""
        for name, need in self._needs.items():
            self._buffers[name] = self._kernel.buffer(name, need.bytes_per_copy, copies=need.copies)
        for name, descriptor in BackwardTransfers(self._problem, self._tile, self._slots).all().items():
            self._descriptors[name] = self._kernel.descriptor(f"transfer_{name}", descriptor)
        problem, tile, kernel = self._problem, self._tile, self._kernel
        step = backward_step(kernel, "step", problem, tile, limited=False)
        limited = None
        if problem.causal or problem.keys % (tile.keys * tile.lanes):
            limited = backward_step(kernel, "limited", problem, tile, limited=True)
        clears = {name: _clear(kernel, f"clear_{name}", self._needs[name], tile) for name in ("query_sums", "state")}
        finish_keys, finish_queries = self._finish_keys(), self._finish_queries()
        self._control(step, limited, clears, finish_keys, finish_queries)

    # ---- Transfers ---------------------------------------------------------------------------------------------------

    def _transfer(self, name: str, copy: ir.Value | int, tag: ir.Value | int, unit: ir.Value, origin: ir.Value) -> None:
        """`origin`: the first row."""
        places = dict(enumerate(self._coordinates(unit)))
        batch = len(places)
        places[batch + (0 if name in WALKED_ROWS else 1)] = origin
        builders.transfer(self._descriptors[name], self._pointer(name, copy), tag, places)

    def _coordinates(self, unit: ir.Value) -> list[ir.Value]:
        """Along the batch axes."""
        coordinates: list[ir.Value] = []
        for size in reversed(self._problem.batch):
            unit, coordinate = divide(unit, size)
            coordinates.insert(0, coordinate)
        return coordinates

    def _pointer(self, name: str, copy: ir.Value | int = 0) -> ir.Value:
        need, buffer = self._needs[name], self._buffers[name]
        number = builders.index_constant(copy) if isinstance(copy, int) else copy
        shift = multiply(number, buffer.bytes_per_copy)
        return builders.tile_view(self._memories[name], shift, need.elements, builders.element_type(need.dtype))

    # ---- Tile functions ----------------------------------------------------------------------------------------------

    def _finish_keys(self) -> TileFunction:
        """`finish_keys(state, of_key, of_value)`: sums of keys are scaled."""
        state, dtypes = self._tile.state, [self._needs[name].dtype for name in ("of_key", "of_value")]
        sizes = [(sum(state.values()), ir.F32Type.get())]
        sizes += [(count, builders.element_type(dtype)) for count, dtype in zip(state.values(), dtypes, strict=True)]
        with self._kernel.tile_function("finish_keys", sizes) as function:
            parts = regions(function.arguments[0], state)
            for number, ((name, count), dtype) in enumerate(zip(state.items(), dtypes, strict=True)):
                target = Region(function.arguments[1 + number])
                self._scaled(parts[name], target, count, dtype, 1.0 if number else self._problem.scale)
        return function

    def _finish_queries(self) -> TileFunction:
        """`finish_queries(query_sums, of_query)`."""
        count = self._tile.query_sums
        sizes = [(count, ir.F32Type.get()), (count, builders.element_type(self._problem.dtype))]
        with self._kernel.tile_function("finish_queries", sizes) as function:
            sums, target = map(Region, function.arguments)
            self._scaled(sums, target, count, self._problem.dtype, self._problem.scale)
        return function

    def _scaled(self, source: Region, target: Region, count: int, dtype: Dtype, scale: float) -> None:
        vector = self._tile.vector
        factor = splat(scale, F32, vector)

        def emit(at: ir.Value) -> None:
            value = load(source, at, vector)
            store(value if scale == 1.0 else arith.mulf(value, factor), target, at, vector, dtype)

        _each_vector(count, vector, emit)

    # ---- Control -----------------------------------------------------------------------------------------------------

    def _control(
        self,
        step: TileFunction,
        limited: TileFunction | None,
        clears: Mapping[str, TileFunction],
        finish_keys: TileFunction,
        finish_queries: TileFunction,
    ) -> None:
        units = prod(self._problem.batch)
        with self._kernel.control() as (core, cores):
            zero, one = builders.index_constant(0), builders.index_constant(1)
            self._memories = {name: builders.buffer_ref(buffer) for name, buffer in self._buffers.items()}
            first = multiply(arith.divui(multiply(core, units), cores), self._key_tiles)
            end = multiply(arith.divui(multiply(add(core, 1), units), cores), self._key_tiles)
            if_true(less(first, end), lambda: self._load(first, self._first_step(first), zero))
            groups = scf.ForOp(first, end, one, [zero])
            with ir.InsertionPoint(groups.body):
                group, number = groups.induction_variable, groups.inner_iter_args[0]
                unit, key_tile = divide(group, self._key_tiles)
                self._call(clears["state"], ["state"])
                if_true(equal(key_tile, 0), lambda: self._call(clears["query_sums"], ["query_sums"]))
                begin = self._first_step(group)
                steps = scf.ForOp(begin, builders.index_constant(self._query_tiles), one, [number])
                with ir.InsertionPoint(steps.body):
                    query_tile, current = steps.induction_variable, steps.inner_iter_args[0]
                    following = add(current, 1)
                    more = less(add(query_tile, 1), self._query_tiles)
                    next_group = select(more, group, add(group, 1))
                    next_tile = select(more, add(query_tile, 1), self._first_step(next_group))
                    if_true(less(next_group, end), lambda: self._load(next_group, next_tile, following))
                    builders.wait(parity(current))
                    self._compute(group, query_tile, current, step, limited)
                    scf.YieldOp([following])
                self._end_of_group(unit, group, key_tile, finish_keys, finish_queries)
                scf.YieldOp([steps.results[0]])
            for tag in (_KEY_STORE_TAG, _KEY_STORE_TAG + 1, _QUERY_STORE_TAG):
                builders.wait(tag)

    def _end_of_group(
        self,
        unit: ir.Value,
        group: ir.Value,
        key_tile: ir.Value,
        finish_keys: TileFunction,
        finish_queries: TileFunction,
    ) -> None:
        """The gradients of its keys are complete; with the last one those of the unit's queries."""
        copy = parity(group)
        tag = add(copy, _KEY_STORE_TAG)
        builders.wait(tag)
        builders.call_tile(
            finish_keys, [self._pointer("state"), self._pointer("of_key", copy), self._pointer("of_value", copy)]
        )
        for name in ("of_key", "of_value"):
            self._transfer(name, copy, tag, unit, multiply(key_tile, self._tile.keys * self._tile.lanes))

        def finish() -> None:
            builders.wait(_QUERY_STORE_TAG)
            self._call(finish_queries, ["query_sums", "of_query"])
            self._transfer("of_query", 0, _QUERY_STORE_TAG, unit, builders.index_constant(0))

        if_true(equal(key_tile, self._key_tiles - 1), finish)

    def _call(self, function: TileFunction, names: list[str]) -> None:
        builders.call_tile(function, [self._pointer(name) for name in names])

    def _first_step(self, group: ir.Value) -> ir.Value:
        """The first tile of queries that sees a key of the group; one remains where none does."""
        if not self._problem.causal:
            return builders.index_constant(0)
        _, key_tile = divide(group, self._key_tiles)
        before = builders.index_constant(self._problem.first // self._tile.lanes)
        blocks = arith.subi(arith.maxui(multiply(key_tile, self._tile.keys), before), before)
        first, _ = divide(blocks, self._tile.queries)
        return minimum(first, self._query_tiles - 1)

    def _query_copy(self, group: ir.Value, number: ir.Value) -> ir.Value:
        """Queries that are all in one tile stay for the unit."""
        return parity(divide(group, self._key_tiles)[0]) if self._query_tiles == 1 else parity(number)

    def _load(self, group: ir.Value, query_tile: ir.Value, number: ir.Value) -> None:
        """What step `number` needs and does not have yet."""
        unit, key_tile = divide(group, self._key_tiles)
        tag, tile = parity(number), self._tile
        first_query = multiply(query_tile, tile.queries * tile.lanes)
        first_key = multiply(key_tile, tile.keys * tile.lanes)

        def queries() -> None:
            for name in _OF_QUERIES:
                self._transfer(name, self._query_copy(group, number), tag, unit, first_query)

        def keys() -> None:
            for name in _OF_KEYS:
                self._transfer(name, parity(group), tag, unit, first_key)

        if_true(equal(key_tile, 0) if self._query_tiles == 1 else None, queries)
        if_true(equal(query_tile, self._first_step(group)), keys)
        if self._problem.mask is not None:
            places = dict(enumerate([*self._coordinates(unit), first_query, first_key]))
            builders.transfer(self._descriptors["mask"], self._pointer("mask", parity(number)), tag, places)

    def _compute(
        self, group: ir.Value, query_tile: ir.Value, number: ir.Value, step: TileFunction, limited: TileFunction | None
    ) -> None:
        tile = self._tile
        copies = {name: self._query_copy(group, number) for name in _OF_QUERIES}
        copies |= {name: parity(group) for name in _OF_KEYS} | {"mask": parity(number)}
        pointers = []
        for name in BACKWARD_BUFFERS:
            if name == "query_sums":
                pointers.append(self._query_sums(query_tile))
            elif name in self._needs:
                pointers.append(self._pointer(name, copies.get(name, 0)))
        if limited is None:
            builders.call_tile(step, pointers)
            return
        _, key_tile = divide(group, self._key_tiles)
        first_query = add(multiply(query_tile, tile.queries * tile.lanes), self._problem.first)
        first_key = multiply(key_tile, tile.keys * tile.lanes)
        last_key = add(first_key, tile.keys * tile.lanes - 1)
        whole = less(last_key, self._problem.keys)
        if self._problem.causal:
            whole = both(whole, less(last_key, add(first_query, 1)))
        if_else(
            whole,
            lambda: builders.call_tile(step, pointers),
            lambda: builders.call_tile(limited, [*pointers, first_query, first_key]),
        )

    def _query_sums(self, query_tile: ir.Value) -> ir.Value:
        """From the first query of a tile on."""
        tile = self._tile
        shift = multiply(query_tile, tile.queries * tile.lanes * F32.bytes)
        elements = tile.query_sums - (tile.all_queries - tile.queries) * tile.lanes
        return builders.tile_view(self._memories["query_sums"], shift, elements, ir.F32Type.get())


def _clear(kernel: KernelBuilder, name: str, need: BufferNeed, tile: BackwardTile) -> TileFunction:
    """`name(buffer)`: zeros."""
    with kernel.tile_function(name, [(need.elements, ir.F32Type.get())]) as function:
        zero = splat(0.0, F32, tile.vector)
        target = Region(function.arguments[0])
        _each_vector(need.elements, tile.vector, lambda at: store(zero, target, at, tile.vector))
    return function


def _each_vector(count: int, vector: int, emit: Callable[[ir.Value], None]) -> None:
    loop = scf.ForOp(*map(builders.index_constant, (0, count, vector)))
    with ir.InsertionPoint(loop.body):
        emit(loop.induction_variable)
        scf.YieldOp([])
