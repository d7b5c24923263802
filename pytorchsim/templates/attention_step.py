"""One step of attention as a tile function: in which order the stages of its blocks run.

In: a problem, a tile, buffers as pointers. Out: a tile function in a `KernelBuilder`. For a block of queries (one in
each lane) and a block of keys: scores = K Q^T, with the queries as weights of an array; the highest score so far and
the factor that brings older sums to it; weights exp(score - highest), pushed into an array as they are computed, since
a lane's weights are already its column; sums of values, popped and added to the older ones times the factor (Milakov
and Gimelshein, Online normalizer calculation for softmax, 2018).

The core issues in order, so the order below is the schedule. Overlapped, the stages of different blocks run at once, a
piece of each in turn: while weights of block u are computed, keys of block u + 4 are pushed, scores of u + 2 popped
(both two blocks, 2 x lanes cycles, ahead of their use), the maximum of u + 1 is folded, values of u - 1 are pushed and
sums of u - 3 popped. What is slow (a pop, an exponential) is used one piece later; exponents are computed one piece
ahead, so that exponentials follow each other without a gap. Otherwise the stages follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import arith, math, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_stages import LOADED_AT_ONCE, Block, Stages, State
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_vectors import Index, Region, equal, plus, regions, value_of

__all__ = ["STEP_BUFFERS", "step_function"]

STEP_BUFFERS = ("query", "key", "value", "mask", "state", "scratch")
"""The pointer arguments, in order; `mask` only where there is one."""

_KEYS, _SCORES, _FOLD, _WEIGHTS, _VALUES = 4, 2, 1, 0, -1
"""How many blocks a stage is ahead of the weights."""


def step_function(
    kernel: KernelBuilder, name: str, problem: AttentionProblem, tile: AttentionTile, *, limited: bool
) -> TileFunction:
    """`name(pointers..., [first query, first key])`; scalars where `limited`: where positions mask keys."""
    needs = tile.buffers(problem)
    names = [name for name in STEP_BUFFERS if name in needs]
    sizes = [(needs[name].elements, builders.element_type(needs[name].dtype)) for name in names]
    scalars = [ir.IndexType.get()] * 2 if limited else []
    with kernel.tile_function(name, sizes, scalars) as function:
        pointers, first = function.arguments[: len(names)], function.arguments[len(names) :]
        memory = {part: Region(pointer) for part, pointer in zip(names, pointers, strict=True)}
        memory |= regions(memory["state"].memory, tile.state) | regions(memory["scratch"].memory, tile.scratch)
        stages = Stages(problem, tile, memory, first or None, kernel.config.array.count)
        if tile.overlapped:
            _Pipeline(tile, stages).emit()
        else:
            _in_order(tile, stages)
    return function


def _in_order(tile: AttentionTile, stages: Stages) -> None:
    """Block by block, stage by stage."""
    if tile.blocks == 1:
        _whole_block(tile, stages, Block(0, 0, 0, 0, 0, 0))
        return
    first = _Chunk(tile, 0, 0, 0, 0, 0)
    loop = scf.ForOp(*map(value_of, (0, tile.blocks, 1)), first.carried())
    with ir.InsertionPoint(loop.body):
        chunk = first.with_carried(loop.induction_variable, list(loop.inner_iter_args))
        _whole_block(tile, stages, chunk.block(0))
        scf.YieldOp(chunk.following().carried())


def _whole_block(tile: AttentionTile, stages: Stages, block: Block) -> None:
    """One block from its keys to its sums."""
    state, limit, pieces = State(), stages.limit(block), range(tile.lanes // tile.vector)
    for depth in range(tile.depth):
        stages.push_queries(block, depth)
        for piece in pieces:
            stages.push_keys(stages.keys(block, piece, depth))
        for piece in pieces:
            scores = stages.pop_scores()
            if depth:
                scores = arith.addf(stages.partial_scores(block, piece), scores)
            if depth + 1 < tile.depth:
                stages.keep_scores(scores, block, piece)
            else:
                state.popped = scores
                stages.finish_scores(state, block, piece, limit)
    for part in stages.fold(state, block):
        part()
    stages.begin_total(state, block)
    highest = stages.highest(block)
    for piece in pieces:
        state.weight = math.exp(stages.exponent(stages.partial_scores(block, piece), highest))
        stages.push_weight(state.weight, first=piece == 0)
        stages.add_weight(state)
    stages.end_total(state, block)
    factor, queue = stages.factor(block), max(1, tile.queue // tile.vector)
    count = tile.value_pitch // tile.vector
    for first in range(0, count, queue):
        end = min(first + queue, count)
        for group in range(first, end, LOADED_AT_ONCE):
            stages.push_values(stages.values(block, group, min(group + LOADED_AT_ONCE, end)))
        for piece in range(first, end):
            popped = stages.pop_sums()
            stages.keep_sums(block, piece, math.fma(stages.sums(block, piece), factor, popped))


@dataclass(frozen=True)
class _Chunk:
    """`tile.unroll` blocks of one row: the number of the chunk, and the places of its first block. What a tile makes
    the same for all chunks is an `int`."""

    tile: AttentionTile
    number: Index
    row: Index
    keys: Index
    query_place: Index
    key_place: Index

    @classmethod
    def at(cls, tile: AttentionTile, number: int) -> _Chunk:
        """By number, all places known."""
        row, key_place = divmod(number * tile.unroll, tile.keys)
        head, query_place = divmod(row, tile.queries)
        return cls(tile, number, row, head * tile.keys + key_place, query_place, key_place)

    def block(self, place: int) -> Block:
        """One of its blocks."""
        keys, key_place = plus(self.keys, place), plus(self.key_place, place)
        return Block(self.number, place, self.row, keys, self.query_place, key_place)

    def following(self) -> _Chunk:
        """The chunk behind this one."""
        tile, one = self.tile, ir.IntegerType.get_signless(1)
        key_place, query_place = plus(self.key_place, tile.unroll), plus(self.query_place, 1)
        always = arith.constant(one, 1)
        new_row = always if tile.unroll == tile.keys else equal(key_place, tile.keys)
        new_head = always if tile.queries == 1 else equal(query_place, tile.queries)
        same_head = arith.andi(new_row, arith.xori(new_head, always))
        back = arith.select(same_head, value_of(tile.keys), value_of(0))
        next_place = arith.select(new_head, value_of(0), value_of(query_place))
        return replace(
            self,
            number=plus(self.number, 1),
            row=arith.select(new_row, value_of(plus(self.row, 1)), value_of(self.row)),
            keys=arith.subi(value_of(plus(self.keys, tile.unroll)), back),
            query_place=arith.select(new_row, next_place, value_of(self.query_place)),
            key_place=arith.select(new_row, value_of(0), value_of(key_place)),
        )

    def carried(self) -> list[ir.Value]:
        """What differs from chunk to chunk, for a loop."""
        return [value_of(getattr(self, name)) for name in self._varying()]

    def with_carried(self, number: Index, values: Sequence[ir.Value]) -> _Chunk:
        """Chunk `number` with what a loop carried; the rest is as it always is."""
        chunk = replace(self, number=number, query_place=0, key_place=0)
        return replace(chunk, **dict(zip(self._varying(), values, strict=True)))

    def _varying(self) -> list[str]:
        tile = self.tile
        names = ["row", "keys"]
        names += ["query_place"] if tile.queries > 1 else []
        return names + (["key_place"] if tile.unroll != tile.keys else [])


@dataclass
class _Round:
    """One block in each stage (those that are active), and what is loaded ahead of its use. `popped_sums`: piece
    numbers, what was popped of them, the older sums."""

    keys: Block | None
    scores: Block | None
    fold: Block | None
    weights: Block | None
    values: Block | None
    sums: Block | None
    factor: ir.Value | None = None
    limit: ir.Value | None = None
    last_limit: ir.Value | None = None
    popped_sums: list[tuple[int, ir.Value, ir.Value | None]] = field(default_factory=list)
    folding: list[Callable[[], None]] = field(default_factory=list)
    parts: int = 0
    pushed_keys: ir.Value | None = None
    pushed_weight: ir.Value | None = None


class _Pipeline:
    """Blocks as a pipeline: filled and drained once per step."""

    def __init__(self, tile: AttentionTile, stages: Stages) -> None:
        self._tile, self._stages = tile, stages
        self._pieces = tile.lanes // tile.vector
        self._active = (_KEYS, _SCORES, _FOLD, _WEIGHTS, _VALUES, -tile.value_lag)
        self._pops = self._sum_pops()

    def emit(self) -> None:
        """A loop where all stages are active, what is before and behind it written out."""
        tile = self._tile
        unroll, blocks, lag = tile.unroll, tile.blocks, tile.value_lag
        state = State()
        first, end = -(-lag // unroll), (blocks - _KEYS) // unroll
        if end - first < 2:
            self._rounds(range(-_KEYS, blocks + lag), state)
            return
        self._rounds(range(-_KEYS, first * unroll), state)
        window = range((unroll - 1 + _KEYS) // unroll, -lag // unroll - 1, -1)
        known = [_Chunk.at(tile, first + ahead) for ahead in window]
        kept = state.values()
        width = len(known[0].carried())
        carried = [*kept, *(value for chunk in known for value in chunk.carried())]
        loop = scf.ForOp(*map(value_of, (first, end, 1)), carried)
        with ir.InsertionPoint(loop.body):
            values = list(loop.inner_iter_args)
            state, places = State(*values[: len(kept)]), values[len(kept) :]
            chunks = {}
            for position, ahead in enumerate(window):
                number = plus(loop.induction_variable, ahead)
                own = places[position * width : (position + 1) * width]
                chunks[ahead] = known[position].with_carried(number, own)
            for place in range(unroll):
                parts = {ahead: divmod(place + ahead, unroll) for ahead in self._active}
                self._round({ahead: chunks[chunk].block(own) for ahead, (chunk, own) in parts.items()}, state)
            following = [chunks[window[0]].following(), *(chunks[ahead] for ahead in window[:-1])]
            scf.YieldOp([*state.values(), *(value for chunk in following for value in chunk.carried())])
        state = State(*loop.results[: len(kept)])
        self._rounds(range(end * unroll, blocks + lag), state)

    def _rounds(self, numbers: range, state: State) -> None:
        """Rounds written out: stages of blocks that do not exist are left out."""
        for number in numbers:
            existing = [ahead for ahead in self._active if 0 <= number + ahead < self._tile.blocks]
            self._round({ahead: self._block_at(number + ahead) for ahead in existing}, state)

    def _block_at(self, number: int) -> Block:
        chunk, place = divmod(number, self._tile.unroll)
        return _Chunk.at(self._tile, chunk).block(place)

    def _round(self, blocks: Mapping[int, Block], state: State) -> None:
        """One piece of each stage in turn."""
        stages = self._stages
        keys, scores, fold, weights, values, sums = (blocks.get(ahead) for ahead in self._active)
        now = _Round(keys, scores, fold, weights, values, sums)
        if now.keys:
            stages.push_new_queries(now.keys)
        now.limit = stages.limit(now.scores) if now.scores else None
        now.last_limit = stages.limit(now.fold) if now.fold else None
        for piece in range(self._pieces):
            self._piece(now, piece, state)
        self._keep_sums(now, self._add_sums(now))
        for pushed in (now.pushed_keys, now.pushed_weight):
            if pushed is not None:
                builders.keep([pushed])

    def _piece(self, now: _Round, piece: int, state: State) -> None:
        """What a stage computes for a piece stands apart from what it waits for. Whoever writes a register that is
        still being pushed, or read by an exponential, waits: such registers are kept for as long."""
        stages = self._stages
        kept = [state.exponent] if now.weights and state.exponent is not None else []
        weight = math.exp(state.exponent) if kept else None
        if piece == 0 and now.values and not stages.pushes_late:
            kept += self._push_values(now.values)
        scores = self._next_scores(now, piece, state) if self._pieces > 1 else None
        opened = piece == 0 and now.weights is not None and not stages.opens_row(now.weights)
        factor = stages.factor(now.weights) if opened and now.weights else None
        popped = stages.pop_scores() if now.scores else None
        self._load_keys(now, piece)
        self._finish_scores(now, piece, state)
        state.popped = popped
        if scores is not None:
            state.exponent = stages.exponent(scores, state.top)
        if now.pushed_keys is not None:
            stages.push_keys(now.pushed_keys)
        self._fold(now, 2 * piece)
        finished = self._add_sums(now)
        self._pop_sums(now, piece)
        self._weights(now, piece, state, weight)
        if piece == 0 and now.values and stages.pushes_late:
            kept += self._push_values(now.values)
        self._fold(now, 2 * piece + 1)
        self._keep_sums(now, finished)
        if piece == 0:
            self._turn_rows(now, state, factor)
        if self._pieces == 1 and (scores := self._next_scores(now, piece, state)) is not None:
            state.exponent = stages.exponent(scores, state.top)
        if kept:
            builders.keep(kept)

    def _push_values(self, block: Block) -> list[ir.Value]:
        """All of a block's values, once its last weights are pushed; returns them."""
        values = self._stages.values(block, 0, self._tile.value_pitch // self._tile.vector)
        self._stages.push_values(values)
        return values

    def _weights(self, now: _Round, piece: int, state: State, weight: ir.Value | None) -> None:
        """The weights before are added, these are pushed; those before where they are rounded first."""
        pushed, first = (state.weight, min(1, self._pieces - 1)) if self._stages.pushes_late else (weight, 0)
        if state.weight is not None:
            self._stages.add_weight(state)
        state.weight = weight
        if now.pushed_weight is not None:
            builders.keep([now.pushed_weight])
        now.pushed_weight = None
        if pushed is not None:
            rounded = self._stages.push_weight(pushed, first=piece == first)
            now.pushed_weight = rounded if rounded != pushed else None

    def _turn_rows(self, now: _Round, state: State, factor: ir.Value | None) -> None:
        """The last weights of a block have ended its total."""
        if now.values:
            self._stages.end_total(state, now.values)
        if now.weights:
            self._stages.begin_total(state, now.weights, factor)

    def _next_scores(self, now: _Round, piece: int, state: State) -> ir.Value | None:
        """Those of the next piece of weights: of this block, or the first of the next one, whose fold ends here."""
        if piece + 1 < self._pieces:
            return self._stages.partial_scores(now.weights, piece + 1) if now.weights else None
        for part in now.folding:
            part()
        now.folding = []
        if now.fold is None:
            return None
        state.top = self._stages.highest(now.fold)
        return self._stages.partial_scores(now.fold, 0)

    def _load_keys(self, now: _Round, piece: int) -> None:
        """Keys are loaded into the register of those before, which have been pushed by then."""
        if now.keys is None:
            return
        if now.pushed_keys is not None:
            builders.keep([now.pushed_keys])
        now.pushed_keys = self._stages.keys(now.keys, piece)

    def _fold(self, now: _Round, place: int) -> None:
        """Parts of the fold, spread over the round; the last piece needs the result."""
        places = max(1, 2 * (self._pieces - 1))
        later = now.parts * max(0, places - 1 - place) // places
        while len(now.folding) > later:
            now.folding.pop(0)()

    def _finish_scores(self, now: _Round, piece: int, state: State) -> None:
        """Those popped a piece before; the last ones of a block are followed by its fold."""
        if state.popped is None:
            return
        if piece == 0 and now.fold:
            self._stages.finish_scores(state, now.fold, self._pieces - 1, now.last_limit)
            now.folding = self._stages.fold(state, now.fold)
            now.parts = len(now.folding)
        elif piece and now.scores:
            self._stages.finish_scores(state, now.scores, piece - 1, now.limit)

    def _pop_sums(self, now: _Round, piece: int) -> None:
        if now.sums is None:
            return
        if now.factor is None and piece in self._pops and not self._stages.opens_row(now.sums):
            now.factor = self._stages.factor(now.sums)
        for number in self._pops.get(piece, ()):
            popped = self._stages.pop_sums()
            older = self._stages.sums(now.sums, number) if now.factor is not None else None
            now.popped_sums.append((number, popped, older))

    def _add_sums(self, now: _Round) -> list[tuple[int, ir.Value]]:
        """Sums popped before, with the older ones: numbers of pieces and the new sums, to be kept."""
        pending, now.popped_sums = now.popped_sums, []
        return [
            (number, popped if older is None else math.fma(older, now.factor, popped))
            for number, popped, older in pending
        ]

    def _keep_sums(self, now: _Round, finished: list[tuple[int, ir.Value]]) -> None:
        for number, sums in finished:
            if now.sums:
                self._stages.keep_sums(now.sums, number, sums)

    def _sum_pops(self) -> dict[int, Sequence[int]]:
        """Which pieces of sums are popped at which piece: from the second one on, so that the last ones are finished in
        the round; in its second half where sums are popped only a round behind their values."""
        count = self._tile.value_pitch // self._tile.vector
        half = self._tile.value_lag == 2
        start = self._pieces // 2 if half else min(1, self._pieces - 1)
        places = self._pieces - start if half else max(1, self._pieces - 1 - start)
        pops: dict[int, list[int]] = {}
        for number in range(count):
            pops.setdefault(start + number * places // count, []).append(number)
        return dict(pops)
