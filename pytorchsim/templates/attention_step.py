"""One step of attention as a tile function: blocks of queries against blocks of keys.

In: a problem, a tile, buffers as pointers. Out: a tile function in a `KernelBuilder`. For a block of queries (one in
each lane) and a block of keys: scores = K Q^T, with the queries as weights of an array; the highest score so far and
the factor that brings older sums to it; weights exp(score - highest), pushed into an array as they are computed, since
a lane's weights are already its column; sums of values, popped and added to the older ones times the factor (Milakov
and Gimelshein, Online normalizer calculation for softmax, 2018).

The core issues in order, so the order below is the schedule. Overlapped, the stages of different blocks run at once, a
piece (a vector) of each in turn: while weights of block u are computed, keys of block u + 4 are pushed, scores of
u + 2 popped (both two blocks, 2 x lanes cycles, ahead of their use), the maximum of u + 1 is folded, values of u - 1
are pushed and sums of u - 3 popped. What is slow (a pop, an exponential) is used one piece later. Otherwise the stages
follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mlir import ir
from mlir.dialects import arith, math, scf, vector

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import F32, I32, Kind
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_tile import FACTOR_COPIES, HIGHEST_COPIES, SCORE_COPIES, AttentionTile
from pytorchsim.templates.attention_vectors import Region, fold_steps, load, narrowed, regions, store, widened
from pytorchsim.templates.vector_values import splat, to_memory, vector_type

__all__ = ["STEP_BUFFERS", "step_function"]

STEP_BUFFERS = ("query", "key", "value", "mask", "state", "scratch")
"""The pointer arguments, in order; `mask` only where there is one. Scalars follow: the first query, the first key."""

_KEYS, _SCORES, _FOLD, _WEIGHTS, _VALUES = 4, 2, 1, 0, -1
"""How many blocks a stage is ahead of the weights."""

Index = Any
"""An `int` that is known when the kernel is built, or an `index` value."""


@dataclass(frozen=True)
class _Block:
    """A pair of blocks: its number in the step, that of its queries, of its keys (over all heads), and their places
    among the queries and the keys of their head."""

    number: Index
    row: Index
    keys: Index
    query_place: Index
    key_place: Index

    def values(self) -> list[Index]:
        return [self.number, self.row, self.keys, self.query_place, self.key_place]


@dataclass
class _State:
    """What is under way between two pieces: scores popped, a weight computed, the maximum of a block so far, the total
    of a row."""

    popped: ir.Value | None = None
    weight: ir.Value | None = None
    highest: ir.Value | None = None
    total: ir.Value | None = None

    def values(self) -> list[ir.Value]:
        return [value for value in (self.popped, self.weight, self.highest, self.total) if value is not None]


def step_function(kernel: KernelBuilder, problem: AttentionProblem, tile: AttentionTile) -> TileFunction:
    """`step(pointers..., first query, first key)`."""
    needs = tile.buffers(problem)
    names = [name for name in STEP_BUFFERS if name in needs]
    sizes = [(needs[name].elements, builders.element_type(needs[name].dtype)) for name in names]
    with kernel.tile_function("step", sizes, [ir.IndexType.get()] * 2) as function:
        *pointers, first_query, first_key = function.arguments
        memory = {name: Region(pointer) for name, pointer in zip(names, pointers, strict=True)}
        memory |= regions(memory["state"].memory, tile.state) | regions(memory["scratch"].memory, tile.scratch)
        step = _Step(problem, tile, memory, (first_query, first_key), kernel.config.array.count)
        if tile.overlapped:
            step.overlapped()
        else:
            step.in_order()
    return function


class _Step:
    """Emits the stages of blocks."""

    def __init__(
        self,
        problem: AttentionProblem,
        tile: AttentionTile,
        memory: Mapping[str, Region],
        first: tuple[ir.Value, ir.Value],
        arrays: int,
    ) -> None:
        self._problem, self._tile, self._memory = problem, tile, memory
        self._first_query, self._first_key = first
        self._score_array, self._value_array = 0, min(1, arrays - 1)
        self._pieces = tile.lanes // tile.vector
        self._limited = problem.causal or (problem.mask is None and problem.keys % (tile.keys * tile.lanes) != 0)

    # ---- Orders of stages ------------------------------------------------------------------------------------------

    def in_order(self) -> None:
        """Block by block, stage by stage."""
        blocks = self._tile.blocks
        block = _Block(0, 0, 0, 0, 0)
        if blocks == 1:
            self._all_stages(block)
            return
        loop = scf.ForOp(*map(_value, (0, blocks, 1)), [_value(0)] * 4)
        with ir.InsertionPoint(loop.body):
            block = _Block(loop.induction_variable, *loop.inner_iter_args)
            self._all_stages(block)
            scf.YieldOp([_value(value) for value in self._next(block).values()[1:]])

    def _all_stages(self, block: _Block) -> None:
        """One block from its keys to its sums."""
        state, limit = _State(), self._limit(block)
        for depth in range(self._tile.depth):
            self._push_queries(block, depth)
            for piece in range(self._pieces):
                self._push_keys(block, piece, depth)
            for piece in range(self._pieces):
                scores = self._pop_scores()
                at = self._score_address(block, piece)
                if depth:
                    scores = arith.addf(load(self._memory["scores"], at, self._tile.vector), scores)
                if depth + 1 < self._tile.depth:
                    store(scores, self._memory["scores"], at, self._tile.vector)
                else:
                    state.popped = scores
                    self._finish_scores(state, block, piece, limit)
        for fold in self._fold(state, block):
            fold()
        self._begin_total(state, block)
        for piece in range(self._pieces):
            state.weight = self._weight(block, piece)
            self._push_weight(state, first=piece == 0)
            self._add_weight(state)
        self._end_total(state, block)
        queue = max(1, self._tile.queue // self._tile.vector)
        pieces = range(self._tile.value_pitch // self._tile.vector)
        for first in range(0, len(pieces), queue):
            for piece in pieces[first : first + queue]:
                self._push_value(block, piece)
            for piece in pieces[first : first + queue]:
                self._add_sums(block, piece, self._pop_sums())

    def overlapped(self) -> None:
        """Blocks as a pipeline: filled and drained once per step."""
        blocks, lag = self._tile.blocks, self._tile.value_lag
        stages = (_KEYS, _SCORES, _FOLD, _WEIGHTS, _VALUES, -lag)
        state = _State()
        steady = range(lag, blocks - _KEYS)
        if len(steady) < 2:
            self._rounds(range(-_KEYS, blocks + lag), stages, state)
            return
        self._rounds(range(-_KEYS, steady.start), stages, state)
        known = [self._block_at(steady.start + ahead) for ahead in range(_KEYS, -lag - 1, -1)]
        carried = [*state.values(), *(_value(value) for block in known for value in block.values()[1:])]
        loop = scf.ForOp(*map(_value, (steady.start, steady.stop, 1)), carried)
        with ir.InsertionPoint(loop.body):
            values = list(loop.inner_iter_args)
            state = _State(*values[:4])
            window = []
            for position, ahead in enumerate(range(_KEYS, -lag - 1, -1)):
                number = arith.addi(loop.induction_variable, _signed(ahead))
                window.append(_Block(number, *values[4 + 4 * position : 8 + 4 * position]))
            self._round({ahead: window[_KEYS - ahead] for ahead in stages}, state)
            window = [self._next(window[0]), *window[:-1]]
            scf.YieldOp([*state.values(), *(_value(value) for block in window for value in block.values()[1:])])
        state = _State(*loop.results[:4])
        self._rounds(range(steady.stop, blocks + lag), stages, state)

    def _rounds(self, numbers: range, stages: Sequence[int], state: _State) -> None:
        """Rounds written out: stages of blocks that do not exist are left out."""
        for number in numbers:
            active = {
                ahead: self._block_at(number + ahead) for ahead in stages if 0 <= number + ahead < self._tile.blocks
            }
            self._round(active, state)

    def _round(  # noqa: C901  one schedule, read from top to bottom
        self, blocks: Mapping[int, _Block], state: _State
    ) -> None:
        """One piece of each stage in turn."""
        lag = -self._tile.value_lag
        keys, scores, fold, weights, values, sums = (
            blocks.get(ahead) for ahead in (_KEYS, _SCORES, _FOLD, _WEIGHTS, _VALUES, lag)
        )
        limit = self._limit(scores) if scores else None
        folding: list[Callable[[], None]] = []
        factor = self._factor(sums) if sums else None
        highest = self._highest(weights) if weights else None
        popped_sums: tuple[int, ir.Value] | None = None
        pops = self._sum_pops()
        last_limit = self._limit(fold) if fold else None
        for piece in range(self._pieces):
            weight = self._weight(weights, piece, highest) if weights else None
            if state.weight is not None:
                self._push_weight(state, first=piece == 1 or self._pieces == 1)
            if piece == 0 and values:
                for number in range(self._tile.value_pitch // self._tile.vector):
                    self._push_value(values, number)
            if piece == 0 and keys:
                self._push_new_queries(keys)
            popped = self._pop_scores() if scores else None
            if keys:
                self._push_keys(keys, piece, 0)
            if state.popped is not None:
                if piece == 0 and fold:
                    self._finish_scores(state, fold, self._pieces - 1, last_limit)
                    folding = self._fold(state, fold)
                elif piece and scores:
                    self._finish_scores(state, scores, piece - 1, limit)
            state.popped = popped
            if popped_sums and sums:
                self._add_sums(sums, popped_sums[0], popped_sums[1], factor)
                popped_sums = None
            for number in pops.get(piece, ()):
                if popped_sums and sums:
                    self._add_sums(sums, popped_sums[0], popped_sums[1], factor)
                popped_sums = (number, self._pop_sums()) if sums else None
            if state.weight is not None:
                self._add_weight(state)
                if piece == 0 and values:
                    self._end_total(state, values)
            if piece == 0 and weights:
                self._begin_total(state, weights)
            state.weight = weight
            for _ in range(-(-len(folding) // max(1, self._pieces - 1 - piece))):
                folding.pop(0)()
        for step in folding:
            step()
        if popped_sums and sums:
            self._add_sums(sums, popped_sums[0], popped_sums[1], factor)

    def _sum_pops(self) -> dict[int, list[int]]:
        """Which vectors of sums are popped at which piece: over the whole round, or its second half where sums are
        popped only a round behind their values."""
        count = self._tile.value_pitch // self._tile.vector
        start = self._pieces // 2 if self._tile.value_lag == 2 else 0
        pops: dict[int, list[int]] = {}
        for number in range(count):
            pops.setdefault(start + number * (self._pieces - start) // count, []).append(number)
        return pops

    # ---- Blocks ----------------------------------------------------------------------------------------------------

    def _block_at(self, number: int) -> _Block:
        tile = self._tile
        row, key_place = divmod(number, tile.keys)
        head, query_place = divmod(row, tile.queries)
        return _Block(number, row, head * tile.keys + key_place, query_place, key_place)

    def _next(self, block: _Block) -> _Block:
        """The block behind one whose numbers are known at run time only."""
        tile = self._tile
        place = arith.addi(_value(block.key_place), _value(1))
        new_row = _equal(place, tile.keys)
        query = arith.select(new_row, arith.addi(_value(block.query_place), _value(1)), _value(block.query_place))
        new_head = _equal(query, tile.queries)
        back = arith.select(arith.andi(new_row, arith.xori(new_head, _true())), _value(tile.keys), _value(0))
        row = arith.select(new_row, arith.addi(_value(block.row), _value(1)), _value(block.row))
        keys = arith.subi(arith.addi(_value(block.keys), _value(1)), back)
        return replace(
            block,
            row=row,
            keys=keys,
            query_place=arith.select(new_head, _value(0), query),
            key_place=arith.select(new_row, _value(0), place),
        )

    # ---- Scores ----------------------------------------------------------------------------------------------------

    def _push_new_queries(self, block: _Block) -> None:
        """The queries as weights, where they are not those of the block before."""
        if isinstance(block.key_place, int):
            if block.key_place == 0:
                self._push_queries(block, 0)
            return
        choice = scf.IfOp(_equal(block.key_place, 0))
        with ir.InsertionPoint(choice.then_block):
            self._push_queries(block, 0)
            scf.YieldOp([])

    def _push_queries(self, block: _Block, depth: int) -> None:
        tile, dtype = self._tile, self._problem.dtype
        rows = min(tile.lanes, tile.size_pitch - depth * tile.lanes)
        for piece in range(0, rows, tile.vector):
            at = _sum(_times(block.row, tile.size_pitch), depth * tile.lanes + piece)
            value = self._raw("query", at)
            builders.push_weights(value, array=self._score_array, dtype=dtype, first=piece == 0)

    def _push_keys(self, block: _Block, piece: int, depth: int) -> None:
        """`vector` keys. A head's keys lie depth by depth."""
        tile = self._tile
        if tile.depth == 1:
            at = _sum(_times(block.keys, tile.lanes), piece * tile.vector)
        else:
            head = _value(block.keys) if tile.keys == 1 else arith.divui(_value(block.keys), _value(tile.keys))
            start = _sum(_times(head, tile.depth * tile.keys * tile.lanes), depth * tile.keys * tile.lanes)
            at = _sum(_plus(start, _times(block.key_place, tile.lanes)), piece * tile.vector)
        builders.push_inputs(self._raw("key", at), arrays=[self._score_array], dtype=self._problem.dtype)

    def _pop_scores(self) -> ir.Value:
        return builders.pop(self._tile.vector, array=self._score_array, dtype=F32)

    def _score_address(self, block: _Block, piece: int) -> ir.Value:
        ring = _times(_modulo(block.number, SCORE_COPIES), self._tile.lanes)
        return _value(_sum(ring, piece * self._tile.vector))

    def _finish_scores(self, state: _State, block: _Block, piece: int, limit: ir.Value | None) -> None:
        """Scale and mask what was popped, keep it and the highest."""
        tile = self._tile
        if state.popped is None:
            raise ValueError("nothing was popped")
        scores = self._masked(state.popped, block, piece)
        if limit is not None:
            key = _plus(_plus(self._first_key, _times(block.key_place, tile.lanes)), piece * tile.vector)
            narrow = arith.index_cast(ir.IntegerType.get_signless(32), _value(key))
            spread = vector.broadcast(vector_type(I32, tile.vector), narrow)
            keep = arith.cmpi(arith.CmpIPredicate.slt, spread, limit)
            scores = arith.select(keep, scores, splat(float("-inf"), F32, tile.vector))
        state.highest = scores if piece == 0 or state.highest is None else arith.maxnumf(state.highest, scores)
        store(scores, self._memory["scores"], self._score_address(block, piece), tile.vector)
        state.popped = None

    def _masked(self, popped: ir.Value, block: _Block, piece: int) -> ir.Value:
        tile, mask = self._tile, self._problem.mask
        scale = splat(self._problem.scale, F32, tile.vector)
        if mask is None:
            return arith.mulf(popped, scale)
        row = _times(block.row, tile.keys * tile.lanes)
        at = _sum(_plus(row, _times(block.key_place, tile.lanes)), piece * tile.vector)
        value = load(self._memory["mask"], _value(at), tile.vector, mask.dtype)
        if mask.dtype.kind is Kind.FLOAT:
            return math.fma(popped, scale, value)
        return arith.select(value, arith.mulf(popped, scale), splat(float("-inf"), F32, tile.vector))

    def _limit(self, block: _Block) -> ir.Value | None:
        """Per element e of a vector: the first key that is masked, minus e; None where no position masks."""
        if not self._limited:
            return None
        tile, problem = self._tile, self._problem
        kind = vector_type(I32, tile.vector)
        numbers = [ir.IntegerAttr.get(kind.element_type, number) for number in range(tile.vector)]
        steps = arith.constant(kind, ir.DenseElementsAttr.get(numbers, type=kind))
        end = splat(problem.keys, I32, tile.vector)
        if problem.causal:
            query = _plus(self._first_query, _sum(_times(block.query_place, tile.lanes), 1))
            narrow = arith.index_cast(ir.IntegerType.get_signless(32), _value(query))
            own = arith.addi(vector.broadcast(kind, narrow), builders.lane_id(tile.vector))
            end = arith.minsi(end, own)
        return arith.subi(end, steps)

    # ---- The highest score and the factor ----------------------------------------------------------------------------

    def _fold(self, state: _State, block: _Block) -> list[Callable[[], None]]:
        """Parts of: fold the block's maximum, update the row's, keep both and the factor for older sums."""
        tile, memory = self._tile, self._memory
        box: dict[str, ir.Value] = {}
        if state.highest is None:
            raise ValueError("no score was finished")
        box["value"] = state.highest
        parts: list[Callable[[], None]] = []

        def apply(step: Callable[[ir.Value], ir.Value]) -> Callable[[], None]:
            def run() -> None:
                box["value"] = step(box["value"])

            return run

        parts += [apply(step) for step in fold_steps(tile.vector, arith.maxnumf)]

        def update() -> None:
            box["old"] = narrowed(load(memory["highest"], _value(_times(block.row, tile.vector)), tile.vector))
            box["new"] = arith.maxnumf(box["old"], box["value"])
            box["factor"] = math.exp(arith.subf(box["old"], box["new"]))

        def keep() -> None:
            highest = widened(box["new"], tile.vector)
            store(highest, memory["highest"], _value(_times(block.row, tile.vector)), tile.vector)
            ring = _times(_modulo(block.number, HIGHEST_COPIES), tile.vector)
            store(highest, memory["maxima"], _value(ring), tile.vector)

        def keep_factor() -> None:
            ring = _times(_modulo(block.number, FACTOR_COPIES), tile.vector)
            store(widened(box["factor"], tile.vector), memory["factors"], _value(ring), tile.vector)

        return [*parts, update, keep, keep_factor]

    def _highest(self, block: _Block) -> ir.Value:
        ring = _times(_modulo(block.number, HIGHEST_COPIES), self._tile.vector)
        return load(self._memory["maxima"], _value(ring), self._tile.vector)

    def _factor(self, block: _Block) -> ir.Value:
        ring = _times(_modulo(block.number, FACTOR_COPIES), self._tile.vector)
        return load(self._memory["factors"], _value(ring), self._tile.vector)

    # ---- Weights -----------------------------------------------------------------------------------------------------

    def _weight(self, block: _Block, piece: int, highest: ir.Value | None = None) -> ir.Value:
        if highest is None:
            highest = self._highest(block)
        scores = load(self._memory["scores"], self._score_address(block, piece), self._tile.vector)
        return math.exp(arith.subf(scores, highest))

    def _push_weight(self, state: _State, *, first: bool) -> None:
        dtype = self._problem.dtype
        value = to_memory(state.weight, dtype, self._tile.vector)
        builders.push_weights(value, array=self._value_array, dtype=dtype, first=first)

    def _begin_total(self, state: _State, block: _Block) -> None:
        """The row's total so far, brought to its new highest score."""
        old = load(self._memory["total"], _value(_times(block.row, self._tile.vector)), self._tile.vector)
        state.total = arith.mulf(old, self._factor(block))

    def _add_weight(self, state: _State) -> None:
        state.total = arith.addf(state.total, state.weight)

    def _end_total(self, state: _State, block: _Block) -> None:
        address = _value(_times(block.row, self._tile.vector))
        store(state.total, self._memory["total"], address, self._tile.vector)

    # ---- Values ------------------------------------------------------------------------------------------------------

    def _push_value(self, block: _Block, piece: int) -> None:
        at = _sum(_times(block.keys, self._tile.value_pitch), piece * self._tile.vector)
        builders.push_inputs(self._raw("value", at), arrays=[self._value_array], dtype=self._problem.dtype)

    def _pop_sums(self) -> ir.Value:
        return builders.pop(self._tile.vector, array=self._value_array, dtype=F32)

    def _add_sums(self, block: _Block, piece: int, popped: ir.Value, factor: ir.Value | None = None) -> None:
        if factor is None:
            factor = self._factor(block)
        address = _value(_sum(_times(block.row, self._tile.value_pitch), piece * self._tile.vector))
        old = load(self._memory["sums"], address, self._tile.vector)
        store(math.fma(old, factor, popped), self._memory["sums"], address, self._tile.vector)

    def _raw(self, name: str, at: Index) -> ir.Value:
        """A vector as it lies in memory."""
        kind = ir.VectorType.get([self._tile.vector], builders.element_type(self._problem.dtype))
        return vector.load(kind, self._memory[name].memory, [_value(at)])


def _value(index: Index) -> ir.Value:
    return builders.index_constant(index) if isinstance(index, int) else index


def _signed(value: int) -> ir.Value:
    return arith.constant(ir.IndexType.get(), value)


def _times(index: Index, factor: int) -> Index:
    return index * factor if isinstance(index, int) else arith.muli(index, _value(factor))


def _sum(index: Index, number: int) -> Index:
    if isinstance(index, int):
        return index + number
    return arith.addi(index, _value(number)) if number else index


def _plus(left: Index, right: Index) -> Index:
    if isinstance(right, int):
        return _sum(left, right)
    return _sum(right, left) if isinstance(left, int) else arith.addi(left, right)


def _modulo(index: Index, power: int) -> Index:
    return index % power if isinstance(index, int) else arith.andi(index, _value(power - 1))


def _equal(index: Index, number: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, _value(index), _value(number))


def _true() -> ir.Value:
    return arith.constant(ir.IntegerType.get_signless(1), 1)
