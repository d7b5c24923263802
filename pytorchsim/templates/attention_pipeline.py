"""Blocks of attention as a pipeline: the stages of different blocks run at once, a piece of each in turn.

The core issues in order, so the order below is the schedule. While weights of block u are computed, keys of block
u + 4 are pushed, scores of u + 2 popped (both two blocks, 2 x lanes cycles, ahead of their use), the maximum of u + 1
is folded, values of u - 1 are pushed and sums of u - 3 popped. What is slow (a pop, an exponential) is used one piece
later; exponents are computed one piece ahead, so that exponentials follow each other without a gap.

In: a tile, its stages. Out: operations at the insertion point of a tile function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import math, scf

from pytorchsim.mlir import builders
from pytorchsim.templates.attention_chunk import Chunk
from pytorchsim.templates.attention_stages import Block, Stages, State
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_vectors import plus, value_of

__all__ = ["Pipeline"]

_KEYS, _SCORES, _FOLD, _WEIGHTS, _VALUES = 4, 2, 1, 0, -1
"""How many blocks a stage is ahead of the weights."""


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


class Pipeline:
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
        known = [Chunk.at(tile, first + ahead) for ahead in window]
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
        return Chunk.at(self._tile, chunk).block(place)

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
