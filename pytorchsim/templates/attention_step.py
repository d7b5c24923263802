"""One step of attention as a tile function: in which order the stages of its blocks run.

In: a problem, a tile, buffers as pointers. Out: a tile function in a `KernelBuilder`. For a block of queries (one in
each lane) and a block of keys: scores = K Q^T, with the queries as weights of an array; the highest score so far and
the factor that brings older sums to it; weights exp(score - highest), pushed into an array as they are computed, since
a lane's weights are already its column; sums of values, popped and added to the older ones times the factor (Milakov
and Gimelshein, Online normalizer calculation for softmax, 2018).

The core issues in order, so the order below is the schedule. Overlapped, the stages of different blocks run at once, a
piece of each in turn: while weights of block u are computed, keys of block u + 4 are pushed, scores of u + 2 popped
(both two blocks, 2 x lanes cycles, ahead of their use), the maximum of u + 1 is folded, values of u - 1 are pushed and
sums of u - 3 popped. What is slow (a pop, an exponential) is used one piece later, what is loaded half a piece later.
Otherwise the stages follow one another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from mlir import ir
from mlir.dialects import arith, math, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_stages import Block, Stages, State
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_vectors import Region, equal, plus, regions, value_of

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
        _whole_block(tile, stages, Block(0, 0, 0, 0, 0))
        return
    loop = scf.ForOp(*map(value_of, (0, tile.blocks, 1)), [value_of(0)] * 4)
    with ir.InsertionPoint(loop.body):
        block = Block(loop.induction_variable, *loop.inner_iter_args)
        _whole_block(tile, stages, block)
        scf.YieldOp([value_of(value) for value in _next(tile, block).values()])


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
        stages.push_weight(state, first=piece == 0)
        stages.add_weight(state)
    stages.end_total(state, block)
    factor, queue = stages.factor(block), max(1, tile.queue // tile.vector)
    count = tile.value_pitch // tile.vector
    for first in range(0, count, queue):
        end = min(first + queue, count)
        stages.push_values(block, first, end)
        for piece in range(first, end):
            popped = stages.pop_sums()
            stages.keep_sums(block, piece, math.fma(stages.sums(block, piece), factor, popped))


@dataclass
class _Round:
    """One block in each stage (those that are active), and what is loaded ahead of its use. `sums`: a piece number,
    what was popped of it, the older sums."""

    keys: Block | None
    scores: Block | None
    fold: Block | None
    weights: Block | None
    values: Block | None
    sums: Block | None
    highest: ir.Value | None = None
    factor: ir.Value | None = None
    limit: ir.Value | None = None
    last_limit: ir.Value | None = None
    popped_sums: tuple[int, ir.Value, ir.Value] | None = None
    folding: list[Callable[[], None]] = field(default_factory=list)


class _Pipeline:
    """Blocks as a pipeline: filled and drained once per step."""

    def __init__(self, tile: AttentionTile, stages: Stages) -> None:
        self._tile, self._stages = tile, stages
        self._pieces = tile.lanes // tile.vector
        self._active = (_KEYS, _SCORES, _FOLD, _WEIGHTS, _VALUES, -tile.value_lag)
        self._pops = self._sum_pops()
        self._kept: list[ir.Value] = []

    def emit(self) -> None:
        """A loop where all stages are active, what is before and behind it written out."""
        blocks, lag = self._tile.blocks, self._tile.value_lag
        state = State()
        steady = range(lag, blocks - _KEYS)
        if len(steady) < 2:
            self._rounds(range(-_KEYS, blocks + lag), state)
            return
        self._rounds(range(-_KEYS, steady.start), state)
        window = range(_KEYS, -lag - 1, -1)
        known = [self._block_at(steady.start + ahead) for ahead in window]
        carried = [*state.values(), *(value_of(value) for block in known for value in block.values())]
        loop = scf.ForOp(*map(value_of, (steady.start, steady.stop, 1)), carried)
        with ir.InsertionPoint(loop.body):
            values = list(loop.inner_iter_args)
            state = State(*values[:4])
            blocks_at = {
                ahead: Block(plus(loop.induction_variable, ahead), *values[4 + 4 * position : 8 + 4 * position])
                for position, ahead in enumerate(window)
            }
            self._round({ahead: blocks_at[ahead] for ahead in self._active}, state)
            following = [_next(self._tile, blocks_at[_KEYS]), *(blocks_at[ahead] for ahead in window[:-1])]
            scf.YieldOp([*state.values(), *(value_of(value) for block in following for value in block.values())])
        state = State(*loop.results[:4])
        self._rounds(range(steady.stop, blocks + lag), state)

    def _rounds(self, numbers: range, state: State) -> None:
        """Rounds written out: stages of blocks that do not exist are left out."""
        for number in numbers:
            existing = [ahead for ahead in self._active if 0 <= number + ahead < self._tile.blocks]
            self._round({ahead: self._block_at(number + ahead) for ahead in existing}, state)

    def _round(self, blocks: Mapping[int, Block], state: State) -> None:
        """One piece of each stage in turn."""
        stages = self._stages
        keys, scores, fold, weights, values, sums = (blocks.get(ahead) for ahead in self._active)
        now = _Round(keys, scores, fold, weights, values, sums)
        if now.keys:
            stages.push_new_queries(now.keys)
        if now.weights:
            now.highest = stages.highest(now.weights)
        now.limit = stages.limit(now.scores) if now.scores else None
        now.last_limit = stages.limit(now.fold) if now.fold else None
        now.factor = stages.factor(now.sums) if now.sums else None
        for piece in range(self._pieces):
            self._piece(now, piece, state)
        if self._kept:
            builders.keep(self._kept)
        self._kept = []
        for part in now.folding:
            part()
        finished = self._add_sums(now)
        if finished is not None and now.sums:
            stages.keep_sums(now.sums, *finished)

    def _piece(self, now: _Round, piece: int, state: State) -> None:
        """What a stage computes for a piece stands apart from what it waits for. Whoever writes a register that is
        still being pushed, or read by an exponential, waits: such registers are kept for a piece."""
        stages, kept = self._stages, self._kept
        self._kept = []
        scores = stages.partial_scores(now.weights, piece) if now.weights else None
        popped = stages.pop_scores() if now.scores else None
        keys = stages.keys(now.keys, piece) if now.keys else None
        self._fold(now, 2 * piece)
        exponent = stages.exponent(scores, now.highest) if scores is not None and now.highest is not None else None
        if keys is not None:
            stages.push_keys(keys)
        self._finish_scores(now, piece, state)
        state.popped = popped
        finished = self._add_sums(now)
        self._pop_sums(now, piece)
        if kept:
            builders.keep(kept)
        weight = math.exp(exponent) if exponent is not None else None
        self._kept += [value for value in (keys, exponent, state.weight) if value is not None]
        if state.weight is not None:
            stages.push_weight(state, first=piece == 1 or self._pieces == 1)
        if piece == 0 and now.values:
            self._kept += stages.push_values(now.values, 0, self._tile.value_pitch // self._tile.vector)[:2]
        self._fold(now, 2 * piece + 1)
        if finished is not None and now.sums:
            stages.keep_sums(now.sums, *finished)
        if state.weight is not None:
            stages.add_weight(state)
        self._row_total(now, piece, state)
        state.weight = weight

    def _fold(self, now: _Round, place: int) -> None:
        """Parts of the fold, spread over the rest of the round."""
        places = 2 * self._pieces - 1 - place
        for _ in range(-(-len(now.folding) // max(1, places))):
            now.folding.pop(0)()

    def _finish_scores(self, now: _Round, piece: int, state: State) -> None:
        """Those popped a piece before; the last ones of a block are followed by its fold."""
        if state.popped is None:
            return
        if piece == 0 and now.fold:
            self._stages.finish_scores(state, now.fold, self._pieces - 1, now.last_limit)
            now.folding = self._stages.fold(state, now.fold)
        elif piece and now.scores:
            self._stages.finish_scores(state, now.scores, piece - 1, now.limit)

    def _row_total(self, now: _Round, piece: int, state: State) -> None:
        """The last weight of a block ends its total."""
        if piece == 0 and now.values:
            self._stages.end_total(state, now.values)
        if piece == 0 and now.weights:
            self._stages.begin_total(state, now.weights)

    def _pop_sums(self, now: _Round, piece: int) -> None:
        if now.sums is None:
            return
        for number in self._pops.get(piece, ()):
            finished = self._add_sums(now)
            if finished is not None:
                self._stages.keep_sums(now.sums, *finished)
            now.popped_sums = (number, self._stages.pop_sums(), self._stages.sums(now.sums, number))

    def _add_sums(self, now: _Round) -> tuple[int, ir.Value] | None:
        """Sums popped before, with the older ones: the number of the piece and the new sums, to be kept."""
        if now.popped_sums is None:
            return None
        (number, popped, older), now.popped_sums = now.popped_sums, None
        return number, math.fma(older, now.factor, popped)

    def _sum_pops(self) -> dict[int, Sequence[int]]:
        """Which pieces of sums are popped at which piece: over the whole round, or its second half where sums are
        popped only a round behind their values."""
        count = self._tile.value_pitch // self._tile.vector
        start = self._pieces // 2 if self._tile.value_lag == 2 else 0
        pops: dict[int, list[int]] = {}
        for number in range(count):
            pops.setdefault(start + number * (self._pieces - start) // count, []).append(number)
        return dict(pops)

    def _block_at(self, number: int) -> Block:
        row, key_place = divmod(number, self._tile.keys)
        head, query_place = divmod(row, self._tile.queries)
        return Block(number, row, head * self._tile.keys + key_place, query_place, key_place)


def _next(tile: AttentionTile, block: Block) -> Block:
    """The block behind one whose places are known at run time only."""
    key_place, query_place = plus(block.key_place, 1), plus(block.query_place, 1)
    new_row = equal(key_place, tile.keys)
    query_place = arith.select(new_row, query_place, block.query_place)
    new_head = equal(query_place, tile.queries)
    same_keys = arith.andi(new_row, arith.xori(new_head, arith.constant(ir.IntegerType.get_signless(1), 1)))
    back = arith.select(same_keys, value_of(tile.keys), value_of(0))
    return replace(
        block,
        row=arith.select(new_row, plus(block.row, 1), block.row),
        keys=arith.subi(plus(block.keys, 1), back),
        query_place=arith.select(new_head, value_of(0), query_place),
        key_place=arith.select(new_row, value_of(0), key_place),
    )
