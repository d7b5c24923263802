"""Scores, weights, and the gradients of scores, of a block of keys.

In: the code of a step. Out: lines that leave weights and gradients of scores in the scratchpad, a lane having those of
its key. Scores are multiplied, scaled and masked as in the forward (`attention_stages`), to the last bit.
"""

from __future__ import annotations

import math as numbers
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith, math, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import F32, I32, Kind
from pytorchsim.templates.attention_backward_code import Line, Opening, Part, Push, Pushes, StepCode, alternate
from pytorchsim.templates.attention_vectors import Index, load, plus, times, value_of
from pytorchsim.templates.vector_values import splat, vector_type

__all__ = ["PARTS_BEHIND", "ScoreLines"]

PARTS_BEHIND = 2
"""Pieces from the pop of a score to the use of its exponential: so many more parts than pieces has a block."""


@dataclass(frozen=True)
class _Product:
    """A product along the elements of queries and keys (`into` is "weights"), or of gradients and values: `part` is the
    block of the contraction."""

    into: str
    part: int
    array: int


class ScoreLines:
    """`first`: the step's first query and its first key, where positions mask."""

    def __init__(self, code: StepCode, first: tuple[ir.Value, ...] | None) -> None:
        self._code, self._first = code, first
        tile, problem = code.tile, code.problem
        exact = numbers.frexp(problem.scale)[0] == 0.5
        self._scaled_exactly = problem.mask is None and exact
        scores = [_Product("weights", part, 0) for part in range(tile.depth)]
        gradients = [_Product("of_scores", part, tile.arrays - 1) for part in range(tile.value_depth)]
        parts = range(max(tile.depth, tile.value_depth))
        if tile.arrays > 1:
            self._rounds = [[*scores[part : part + 1], *gradients[part : part + 1]] for part in parts]
        else:
            self._rounds = [[product] for product in (*scores, *gradients)]

    def lines(self, keys: Index) -> list[Line]:
        """For a block of keys: a line per part of the contractions."""
        return [self._line(keys, number) for number in range(len(self._rounds))]

    def _line(self, keys: Index, number: int) -> Line:
        products = self._rounds[number]
        lag = self._code.tile.queue // self._code.tile.lanes

        rows = self._code.tile.vector

        def push(block: Index, piece: int) -> list[Opening]:
            return [Opening(self._push_of(product, block, piece), product.array, rows) for product in products]

        def pop(block: Index, pushes: Pushes) -> list[Part]:
            return self._pops(keys, number, block, pushes)

        return self._code.stream(lag, lambda: self._operands(products, keys), push, pop)

    def _push_of(self, product: _Product, block: Index, piece: int) -> Push:
        """Elements of queries, or of gradients, as inputs."""
        name = "query_columns" if product.into == "weights" else "gradient_columns"
        start = product.part * self._code.tile.queries * self._code.tile.lanes
        dtype = self._code.problem.dtype
        return (
            lambda: self._code.raw(name, plus(self._code.at(block, piece), start)),
            lambda value: builders.push_inputs(value, arrays=[product.array], dtype=dtype),
        )

    def _operands(self, products: Sequence[_Product], keys: Index) -> list[Push]:
        """Keys, or values, as weights."""
        tile, pushes = self._code.tile, []
        for product in products:
            name, pitch = ("key", tile.size_pitch) if product.into == "weights" else ("value", tile.value_pitch)
            start = plus(times(keys, pitch), product.part * tile.lanes)
            rows = min(tile.lanes, pitch - product.part * tile.lanes)
            pushes.append(self._code.weight_pushes(name, start, rows, product.array, self._code.problem.dtype))
        return alternate(pushes)

    def _pops(self, keys: Index, number: int, block: Index, pushes: Pushes) -> list[Part]:
        """Pieces of a block of queries. What comes late (a pop, an exponential) is used one or two pieces later."""
        values: dict[int, dict[str, ir.Value]] = {}
        pieces = self._code.pieces
        last = number == len(self._rounds) - 1

        def part(piece: int) -> None:
            loaded = []
            if piece < pieces:
                values[piece] = self._pop_products(number, block, piece)
                loaded = [(push, load()) for load, push in pushes(piece)]
            if last and 0 < piece <= pieces:
                values[piece - 1]["statistics"] = self._code.load("statistics", block, piece - 1)
            if last and piece >= PARTS_BEHIND:
                values[piece - PARTS_BEHIND]["delta"] = self._code.load("delta", block, piece - PARTS_BEHIND)
            if not last and piece:
                for into, value in values.pop(piece - 1).items():
                    self._code.store(into, value, block, piece - 1)
            if last and 0 < piece <= pieces:
                self._exponentials(values[piece - 1], keys, block, piece - 1)
            for push, value in loaded:
                push(value)
                self._code.hold(value)
            if last and piece >= PARTS_BEHIND:
                self._finish(values.pop(piece - PARTS_BEHIND), block, piece - PARTS_BEHIND)

        rows = {product.array: self._code.tile.vector for product in self._rounds[number]}
        parts = pieces + (PARTS_BEHIND if last else 1)
        return [Part(partial(part, piece), rows if piece < pieces else {}) for piece in range(parts)]

    def _pop_products(self, number: int, block: Index, piece: int) -> dict[str, ir.Value]:
        """Sums up to round `number`, by what they are."""
        tile, found = self._code.tile, {}
        products = {product.into: product for product in self._rounds[number]}
        for into, product in products.items():
            found[into] = builders.pop(tile.vector, array=product.array, dtype=F32)
        for into, value in found.items():
            if products[into].part:
                found[into] = arith.addf(self._code.load(into, block, piece), value)
        if number == len(self._rounds) - 1:
            for into in ("weights", "of_scores"):
                if into not in found:
                    found[into] = self._code.load(into, block, piece)
        return found

    def _exponentials(self, values: dict[str, ir.Value], keys: Index, block: Index, piece: int) -> None:
        """Scores become weights."""
        tile, problem = self._code.tile, self._code.problem
        scale = splat(problem.scale, F32, tile.vector)
        statistics = values["statistics"]
        scores = values["weights"]
        if self._scaled_exactly and self._first is None:
            exponent = math.fma(scores, scale, arith.negf(statistics))
        else:
            scores = self._masked(scores, scale, keys, block, piece)
            if self._first is not None:
                hidden = splat(float("-inf"), F32, tile.vector)
                scores = arith.select(self._visible(self._first, keys, block, piece), scores, hidden)
            exponent = arith.subf(scores, statistics)
        values["weights"] = math.exp(exponent)
        self._code.hold(exponent)

    def _masked(self, scores: ir.Value, scale: ir.Value, keys: Index, block: Index, piece: int) -> ir.Value:
        """Scaled, and the mask added, as in the forward."""
        tile, mask = self._code.tile, self._code.problem.mask
        if mask is None:
            return arith.mulf(scores, scale)
        at = plus(times(keys, tile.queries * tile.lanes), self._code.at(block, piece))
        value = load(self._code.memory["mask"], value_of(at), tile.vector, mask.dtype)
        if mask.dtype.kind is not Kind.FLOAT:
            zero, hidden = (splat(constant, F32, tile.vector) for constant in (0.0, float("-inf")))
            value = arith.select(value, zero, hidden)
        return math.fma(scores, scale, value)

    def _visible(self, first: tuple[ir.Value, ...], keys: Index, block: Index, piece: int) -> ir.Value:
        """Whether the lane's key exists and, where `causal`, is not behind the query."""
        tile, problem, kind = self._code.tile, self._code.problem, vector_type(I32, self._code.tile.vector)
        lane = builders.lane_id(tile.vector)
        first_key = plus(first[1], times(keys, tile.lanes))

        def spread(number: ir.Value) -> ir.Value:
            narrow = arith.index_cast(ir.IntegerType.get_signless(32), number)
            return vector.broadcast(kind, narrow)

        end = spread(arith.subi(value_of(problem.keys), first_key))
        visible = arith.cmpi(arith.CmpIPredicate.slt, lane, end)
        if not problem.causal:
            return visible
        attributes = [ir.IntegerAttr.get(kind.element_type, number) for number in range(tile.vector)]
        steps = arith.constant(kind, ir.DenseElementsAttr.get(attributes, type=kind))
        query = plus(first[0], self._code.at(block, piece))
        own = arith.addi(steps, spread(arith.subi(query, first_key)))
        return arith.andi(visible, arith.cmpi(arith.CmpIPredicate.sle, lane, own))

    def _finish(self, values: Mapping[str, ir.Value], block: Index, piece: int) -> None:
        """Keep weights and the gradients of scores."""
        weights = values["weights"]
        inner = arith.subf(values["of_scores"], values["delta"])
        self._code.store("weights", weights, block, piece)
        self._code.store("of_scores", arith.mulf(weights, inner), block, piece)
