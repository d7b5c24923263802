"""Gradients of queries, keys and values from a block of keys: products of what its scores have left in the scratchpad.

In: the code of a step, weights and gradients of scores. Out: lines that add to the gradients. What a product has
computed as float32 it multiplies as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.attention_backward_code import (
    Line,
    Opening,
    Part,
    Push,
    Pushes,
    StepCode,
    alternate,
    take_turns,
)
from pytorchsim.templates.attention_backward_scores import PARTS_BEHIND
from pytorchsim.templates.attention_vectors import Index, load, plus, store, times, value_of

__all__ = ["SumLines"]

_LATER = 2
"""Pieces popped before the first of them is used: a pop takes a cycle per row."""


@dataclass(frozen=True)
class _Outcome:
    """A product along queries: columns of `weights`, rows of `inputs`, added to `sums`."""

    weights: str
    inputs: str
    sums: str
    pitch: int
    array: int


class SumLines:
    """Lines of the gradient of queries, then of those of values and keys."""

    def __init__(self, code: StepCode) -> None:
        self._code = code
        tile = code.tile
        values = _Outcome("weights", "gradient", "value_sums", tile.value_pitch, 0)
        keys = _Outcome("of_scores", "query", "key_sums", tile.size_pitch, tile.arrays - 1)
        self._outcomes = [[values, keys]] if tile.arrays > 1 else [[values], [keys]]

    def lines(self, keys: Index) -> list[Line]:
        """For a block of keys."""
        of_queries = [self._of_queries(keys, part) for part in range(self._code.tile.depth)]
        return [*of_queries, *(self._of_keys(keys, outcomes) for outcomes in self._outcomes)]

    def _of_queries(self, keys: Index, part: int) -> Line:
        """Pieces take turns on the arrays."""
        tile = self._code.tile
        arrays = tile.arrays if self._code.pieces % tile.arrays == 0 else 1
        lag = tile.queue * arrays // tile.lanes
        start = plus(times(keys, tile.lanes), part * tile.keys * tile.lanes)
        sums = part * tile.all_queries * tile.lanes

        blocks, pieces = tile.queries, self._code.pieces
        drained = min(tile.queue // tile.lanes, blocks)  # blocks of scores popped last, whose gradients come late

        def weights() -> list[Push]:
            push, dtype = self._code.weight_pushes, self._code.problem.dtype
            pushes = [push("key_columns", start, tile.lanes, array, dtype, wide=True) for array in range(arrays)]
            return alternate(pushes)

        def push(block: Index, piece: int) -> list[Opening]:
            after = 0
            if part == 0 and isinstance(block, int) and block >= blocks - drained:
                after = (block - blocks + drained) * (pieces + PARTS_BEHIND) + piece + PARTS_BEHIND + 1
            load_and_push = (
                lambda: self._code.load("of_scores", block, piece),
                lambda value: builders.push_inputs(value, arrays=[piece % arrays], dtype=F32),
            )
            return [Opening(load_and_push, piece % arrays, tile.vector, after)]

        def pop(block: Index, pushes: Pushes) -> list[Part]:
            waiting: list[tuple[ir.Value, ir.Value, ir.Value]] = []

            def emit(piece: int) -> None:
                if piece < pieces:
                    at = value_of(plus(self._code.at(block, piece), sums))
                    loaded = [(give, read()) for read, give in pushes(piece)]
                    popped = builders.pop(tile.vector, array=piece % arrays, dtype=F32)
                    waiting.append((at, popped, load(self._code.memory["query_sums"], at, tile.vector)))
                    for give, value in loaded:
                        give(value)
                        self._code.hold(value)
                if piece >= _LATER:
                    at, popped, older = waiting.pop(0)
                    store(arith.addf(older, popped), self._code.memory["query_sums"], at, tile.vector)

            return [
                Part(partial(emit, piece), {piece % arrays: tile.vector} if piece < pieces else {})
                for piece in range(pieces + _LATER)
            ]

        return self._code.stream(lag, weights, push, pop)

    def _of_keys(self, keys: Index, outcomes: Sequence[_Outcome]) -> Line:
        """Inputs of a block, then the weights of the next one, while sums of blocks before are popped."""
        tile = self._code.tile
        lag = min(2, tile.queue // max(outcome.pitch for outcome in outcomes) - 1)
        if lag < 1:
            return self._of_keys_in_parts(keys, outcomes)
        early, last = min(lag, tile.queries - 1), tile.queries - 1

        def inputs(block: Index) -> list[Opening]:
            return self._inputs(outcomes, block, 0, tile.queue)

        def sums() -> list[Part]:
            return self._sums(outcomes, keys, 0, tile.queue)

        def opening() -> list[Opening]:
            found = list(map(Opening, self._weights(outcomes, 0)))
            for block in range(early):
                found += [*inputs(block), *map(Opening, self._weights(outcomes, block + 1))]
            return found

        def steady(block: Index) -> None:
            self._code.push_all([item.push for item in inputs(block)])
            weights = self._code.pushing(self._weights(outcomes, plus(block, 1)))
            take_turns([weights, [part.emit for part in sums()]])

        def middle() -> None:
            self._code.repeat(range(early, last), steady)
            self._code.push_all([item.push for item in inputs(last)])

        return Line(opening, middle, lambda: [part for _ in range(early + 1) for part in sums()])

    def _of_keys_in_parts(self, keys: Index, outcomes: Sequence[_Outcome]) -> Line:
        """Rows that the queues do not hold at once: pushed and popped in parts."""
        tile = self._code.tile
        count = max(outcome.pitch for outcome in outcomes) // tile.vector
        room = max(1, tile.queue // tile.vector)
        starts = range(0, count, room)

        def push(block: Index, first: int) -> None:
            self._code.push_all([item.push for item in self._inputs(outcomes, block, first, first + room)])

        def pop(first: int) -> list[Part]:
            return self._sums(outcomes, keys, first, first + room)

        def steady(block: Index) -> None:
            for first in starts:
                push(block, first)
                for part in pop(first):
                    part.emit()
            self._code.push_all(self._weights(outcomes, plus(block, 1)))

        def middle() -> None:
            self._code.repeat(range(tile.queries - 1), steady)
            for first in starts:
                push(tile.queries - 1, first)
                if first != starts[-1]:
                    for part in pop(first):
                        part.emit()

        return Line(lambda: list(map(Opening, self._weights(outcomes, 0))), middle, lambda: pop(starts[-1]))

    def _weights(self, outcomes: Sequence[_Outcome], block: Index) -> list[Push]:
        """What a block's scores have become, as weights."""
        lanes, push = self._code.tile.lanes, self._code.weight_pushes
        return alternate([push(o.weights, times(block, lanes), lanes, o.array, F32) for o in outcomes])

    def _inputs(self, outcomes: Sequence[_Outcome], block: Index, first: int, end: int) -> list[Opening]:
        """Pieces `first` to `end` of the rows of a block of queries, in float32 as their weights."""
        vector, dtype = self._code.tile.vector, self._code.problem.dtype

        def push_of(outcome: _Outcome, piece: int) -> Opening:
            at = plus(times(block, outcome.pitch), piece * vector)
            push = (
                lambda: load(self._code.memory[outcome.inputs], value_of(at), vector, dtype),
                lambda value: builders.push_inputs(value, arrays=[outcome.array], dtype=F32),
            )
            return Opening(push, outcome.array, vector)

        return alternate([[push_of(o, piece) for piece in _pieces(o, first, end, vector)] for o in outcomes])

    def _sums(self, outcomes: Sequence[_Outcome], keys: Index, first: int, end: int) -> list[Part]:
        """The same pieces of results."""
        return alternate([self._sum(o, keys, _pieces(o, first, end, self._code.tile.vector)) for o in outcomes])

    def _sum(self, outcome: _Outcome, keys: Index, pieces: range) -> list[Part]:
        """Each popped piece is added once later ones are popped."""
        vector, sums = self._code.tile.vector, self._code.memory[outcome.sums]
        waiting: list[tuple[ir.Value, ir.Value, ir.Value]] = []

        def add() -> None:
            at, popped, older = waiting.pop(0)
            store(arith.addf(older, popped), sums, at, vector)

        def pop(piece: int) -> None:
            at = value_of(plus(times(keys, outcome.pitch), piece * vector))
            popped = builders.pop(vector, array=outcome.array, dtype=F32)
            if len(waiting) == _LATER:
                add()
            waiting.append((at, popped, load(sums, at, vector)))

        pops = [Part(partial(pop, piece), {outcome.array: vector}) for piece in pieces]
        return [*pops, *[Part(add, {})] * min(_LATER, len(pieces))]


def _pieces(outcome: _Outcome, first: int, end: int, vector: int) -> range:
    """Those that it has."""
    return range(first, min(end, outcome.pitch // vector))
