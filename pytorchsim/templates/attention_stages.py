"""The stages of attention, each for one block: what is loaded, pushed, popped, computed and stored.

In: a problem, a tile, regions of buffers. Out: MLIR at the insertion point of a tile function. A *piece* is a vector of
keys (or of a value's elements). `attention_step` and `attention_pipeline` say in which order stages run.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, scf, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import F32, I32, Kind
from pytorchsim.templates.attention_fold import Fold
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_tile import COPIES, AttentionTile
from pytorchsim.templates.attention_vectors import (
    Index,
    Region,
    equal,
    load,
    modulo,
    plus,
    store,
    times,
    value_of,
)
from pytorchsim.templates.vector_values import splat, to_memory, vector_type

__all__ = ["LOADED_AT_ONCE", "Block", "Stages", "State"]

LOADED_AT_ONCE = 4
"""Vectors that are loaded before the first of them is pushed: a push reads its register for as many cycles as it has
rows, and the next load must not wait for that."""


@dataclass(frozen=True)
class Block:
    """A pair of blocks: number `place` of so many that are written out (`chunk` counts those); that of its queries, of
    its keys (over all heads), and their places among the queries and the keys of their head."""

    chunk: Index
    place: int
    row: Index
    keys: Index
    query_place: Index
    key_place: Index


@dataclass
class State:
    """What is under way between two pieces: scores popped; the maximum of a block so far; the exponents of the next
    weights and the highest score in them; a weight computed; the total of a row."""

    popped: ir.Value | None = None
    highest: ir.Value | None = None
    exponent: ir.Value | None = None
    top: ir.Value | None = None
    weight: ir.Value | None = None
    total: ir.Value | None = None

    def values(self) -> list[ir.Value]:
        """Those that exist."""
        values = (self.popped, self.highest, self.exponent, self.top, self.weight, self.total)
        return [value for value in values if value is not None]


class Stages:
    """Emits stages of blocks. `first`: the first query and the first key of the step, where positions mask."""

    def __init__(
        self,
        problem: AttentionProblem,
        tile: AttentionTile,
        memory: Mapping[str, Region],
        first: tuple[ir.Value, ir.Value] | None,
        arrays: int,
    ) -> None:
        self._problem, self._tile, self._memory = problem, tile, memory
        self._first, self._opens = first, tile.opens_rows(problem)
        self._score_array, self._value_array = 0, min(1, arrays - 1)
        added = problem.mask is not None
        # The maximum of what is not scaled yet is that of what is, if the order stays. A power of two scales without
        # rounding, so that the highest score less itself is zero: other scales round the maximum, but not the product
        # of a fused multiply-add, and from scores of 1e9 on the difference is more than exponentials hold.
        exact = numbers.frexp(problem.scale)[0] == 0.5
        self._scale_late = not added and exact

    # ---- Scores ----------------------------------------------------------------------------------------------------

    def push_new_queries(self, block: Block) -> None:
        """The queries as weights, where they are not those of the block before."""
        if isinstance(block.key_place, int):
            if block.key_place == 0:
                self.push_queries(block, 0)
            return
        choice = scf.IfOp(equal(block.key_place, 0))
        with ir.InsertionPoint(choice.then_block):
            self.push_queries(block, 0)
            scf.YieldOp([])

    def push_queries(self, block: Block, depth: int) -> None:
        """The queries, or the part of them at `depth` of the contraction, as weights."""
        tile = self._tile
        rows = min(tile.lanes, tile.size_pitch - depth * tile.lanes)
        start = plus(times(block.row, tile.size_pitch), depth * tile.lanes)

        def push(value: ir.Value, number: int) -> None:
            dtype = self._problem.dtype
            builders.push_weights(value, array=self._score_array, dtype=dtype, first=number == 0)

        self._push_all("query", start, rows // tile.vector, push)

    def keys(self, block: Block, piece: int, depth: int = 0) -> ir.Value:
        """`vector` keys, as they lie in memory. A head's keys lie depth by depth."""
        tile = self._tile
        if tile.depth == 1:
            at = plus(times(block.keys, tile.lanes), piece * tile.vector)
        else:
            head = value_of(block.keys) if tile.keys == 1 else arith.divui(value_of(block.keys), value_of(tile.keys))
            start = plus(times(head, tile.depth * tile.keys * tile.lanes), depth * tile.keys * tile.lanes)
            at = plus(plus(start, times(block.key_place, tile.lanes)), piece * tile.vector)
        return self._raw("key", at)

    def push_keys(self, keys: ir.Value) -> None:
        """As inputs."""
        builders.push_inputs(keys, arrays=[self._score_array], dtype=self._problem.dtype)

    def pop_scores(self) -> ir.Value:
        """The oldest piece."""
        return builders.pop(self._tile.vector, array=self._score_array, dtype=F32)

    def partial_scores(self, block: Block, piece: int) -> ir.Value:
        """Scores as they are kept."""
        return load(self._memory["scores"], self._score_address(block, piece), self._tile.vector)

    def keep_scores(self, scores: ir.Value, block: Block, piece: int) -> None:
        """For the weights, or for the next part of the contraction."""
        store(scores, self._memory["scores"], self._score_address(block, piece), self._tile.vector)

    def _score_address(self, block: Block, piece: int) -> ir.Value:
        return value_of(plus(self._copy(block, self._tile.lanes), piece * self._tile.vector))

    def _copy(self, block: Block, elements: int) -> Index:
        """Where the block's one of `COPIES` begins."""
        unroll = self._tile.unroll
        if COPIES % unroll == 0:
            return plus(times(modulo(block.chunk, COPIES // unroll), unroll * elements), block.place * elements)
        return times(modulo(plus(times(block.chunk, unroll), block.place), COPIES), elements)

    def opens_row(self, block: Block) -> bool:
        """Whether it is known to be the first block of keys that its queries see."""
        return self._opens and isinstance(block.key_place, int) and block.key_place == 0

    def finish_scores(self, state: State, block: Block, piece: int, limit: ir.Value | None) -> None:
        """Mask what was popped, keep it and the highest."""
        tile = self._tile
        if state.popped is None:
            raise ValueError("nothing was popped")
        scores = self._masked(state.popped, block, piece)
        if limit is not None and self._first is not None:
            key = plus(plus(self._first[1], times(block.key_place, tile.lanes)), piece * tile.vector)
            narrow = arith.index_cast(ir.IntegerType.get_signless(32), value_of(key))
            spread = vector.broadcast(vector_type(I32, tile.vector), narrow)
            keep = arith.cmpi(arith.CmpIPredicate.slt, spread, limit)
            scores = arith.select(keep, scores, splat(float("-inf"), F32, tile.vector))
        state.highest = scores if piece == 0 or state.highest is None else arith.maxnumf(state.highest, scores)
        self.keep_scores(scores, block, piece)
        state.popped = None

    def _masked(self, popped: ir.Value, block: Block, piece: int) -> ir.Value:
        tile, mask = self._tile, self._problem.mask
        scale = splat(self._problem.scale, F32, tile.vector)
        if mask is None:
            return popped if self._scale_late else arith.mulf(popped, scale)
        row = times(block.row, tile.keys * tile.lanes)
        at = plus(plus(row, times(block.key_place, tile.lanes)), piece * tile.vector)
        value = load(self._memory["mask"], value_of(at), tile.vector, mask.dtype)
        if mask.dtype.kind is not Kind.FLOAT:  # eager adds such masks, too: what is not a number stays so
            zero, hidden = (splat(constant, F32, tile.vector) for constant in (0.0, float("-inf")))
            value = arith.select(value, zero, hidden)
        return math.fma(popped, scale, value)

    def limit(self, block: Block) -> ir.Value | None:
        """Per element e of a vector: the first key that is masked, minus e; None where no position masks."""
        if self._first is None:
            return None
        tile, problem = self._tile, self._problem
        kind = vector_type(I32, tile.vector)
        numbers = [ir.IntegerAttr.get(kind.element_type, number) for number in range(tile.vector)]
        steps = arith.constant(kind, ir.DenseElementsAttr.get(numbers, type=kind))
        end = splat(problem.keys, I32, tile.vector)
        if problem.causal:
            query = plus(self._first[0], plus(times(block.query_place, tile.lanes), 1))
            narrow = arith.index_cast(ir.IntegerType.get_signless(32), value_of(query))
            own = arith.addi(vector.broadcast(kind, narrow), builders.lane_id(tile.vector))
            end = arith.minsi(end, own)
        return arith.subi(end, steps)

    # ---- The highest score and the factor ----------------------------------------------------------------------------

    def fold(self, state: State, block: Block) -> list[Callable[[], None]]:
        """Parts of: fold the block's maximum, update the row's, keep both and the factor for older sums."""
        if state.highest is None:
            raise ValueError("no score was finished")
        scale = self._problem.scale if self._scale_late else None
        row = value_of(times(block.row, self._tile.vector))
        copy = value_of(self._copy(block, self._tile.vector))
        return Fold(state.highest, scale, self._memory, row, copy).parts(opens_row=self.opens_row(block))

    def highest(self, block: Block) -> ir.Value:
        """The highest score up to the block, until the next one is folded."""
        return load(self._memory["highest"], value_of(times(block.row, self._tile.vector)), self._tile.vector)

    def factor(self, block: Block) -> ir.Value:
        """What brings sums and totals before the block to its highest score."""
        return load(self._memory["factors"], value_of(self._copy(block, self._tile.vector)), self._tile.vector)

    # ---- Weights -----------------------------------------------------------------------------------------------------

    def exponent(self, scores: ir.Value, highest: ir.Value) -> ir.Value:
        """Of a weight."""
        if not self._scale_late:
            return arith.subf(scores, highest)
        return math.fma(scores, splat(self._problem.scale, F32, self._tile.vector), arith.negf(highest))

    @property
    def pushes_late(self) -> bool:
        """Whether weights are pushed a piece later: where they are rounded before, which waits for all results of an
        exponential."""
        return self._problem.dtype != F32

    def push_weight(self, weight: ir.Value, *, first: bool) -> ir.Value:
        """As weights of the array that multiplies values; returns what is pushed."""
        dtype = self._problem.dtype
        value = to_memory(weight, dtype, self._tile.vector)
        builders.push_weights(value, array=self._value_array, dtype=dtype, first=first)
        return value

    def begin_total(self, state: State, block: Block, factor: ir.Value | None = None) -> None:
        """The row's total so far, brought to its new highest score. `factor`: where it is loaded already."""
        if self.opens_row(block):
            state.total = None
            return
        if state.total is None or not self._follows(block):
            state.total = load(self._memory["total"], value_of(times(block.row, self._tile.vector)), self._tile.vector)
        state.total = arith.mulf(state.total, self.factor(block) if factor is None else factor)

    def add_weight(self, state: State) -> None:
        """To the total."""
        state.total = state.weight if state.total is None else arith.addf(state.total, state.weight)

    def end_total(self, state: State, block: Block) -> None:
        """Keep it, where no other block of the row is known to follow."""
        if isinstance(block.key_place, int) and block.key_place + 1 < self._tile.keys and self._tile.overlapped:
            return
        address = value_of(times(block.row, self._tile.vector))
        store(state.total, self._memory["total"], address, self._tile.vector)

    @staticmethod
    def _follows(block: Block) -> bool:
        """Whether the block before it is known to be of the same row."""
        return isinstance(block.key_place, int) and block.key_place > 0

    # ---- Values ------------------------------------------------------------------------------------------------------

    def values(self, block: Block, first: int, end: int) -> list[ir.Value]:
        """Pieces `first` to `end` of the block's values."""
        start = plus(times(block.keys, self._tile.value_pitch), first * self._tile.vector)
        return [self._raw("value", plus(start, piece * self._tile.vector)) for piece in range(end - first)]

    def push_values(self, values: Sequence[ir.Value]) -> None:
        """For the weights pushed last."""
        for value in values:
            builders.push_inputs(value, arrays=[self._value_array], dtype=self._problem.dtype)

    def pop_sums(self) -> ir.Value:
        """The oldest piece."""
        return builders.pop(self._tile.vector, array=self._value_array, dtype=F32)

    def sums(self, block: Block, piece: int) -> ir.Value:
        """Those before the block, which does not open its row."""
        return load(self._memory["sums"], self._sum_address(block, piece), self._tile.vector)

    def keep_sums(self, block: Block, piece: int, sums: ir.Value) -> None:
        """Those with the block."""
        store(sums, self._memory["sums"], self._sum_address(block, piece), self._tile.vector)

    def _sum_address(self, block: Block, piece: int) -> ir.Value:
        return value_of(plus(times(block.row, self._tile.value_pitch), piece * self._tile.vector))

    def _push_all(self, name: str, start: Index, count: int, push: Callable[[ir.Value, int], None]) -> None:
        """Load and push `count` pieces, a few at a time."""
        for first in range(0, count, LOADED_AT_ONCE):
            group = range(first, min(first + LOADED_AT_ONCE, count))
            loaded = [self._raw(name, plus(start, piece * self._tile.vector)) for piece in group]
            for piece, value in zip(group, loaded, strict=True):
                push(value, piece)

    def _raw(self, name: str, at: Index) -> ir.Value:
        """A vector as it lies in memory."""
        kind = ir.VectorType.get([self._tile.vector], builders.element_type(self._problem.dtype))
        return vector.load(kind, self._memory[name].memory, [value_of(at)])
