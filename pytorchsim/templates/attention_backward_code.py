"""What the lines of a step of attention's backward share: how vectors are loaded, pushed and kept; loops over blocks.

In: a problem, a tile, regions of buffers. Out: MLIR at the insertion point of a tile function. A *piece* is a vector of
queries. A *line* is one use of the arrays; while its last results are popped, weights and first inputs of the next one
are pushed (`overlap`), as many as the queues have room for.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir
from mlir.dialects import scf, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import F32, Dtype
from pytorchsim.templates.attention_backward_problem import BackwardProblem
from pytorchsim.templates.attention_backward_tile import BackwardTile
from pytorchsim.templates.attention_vectors import Index, Region, load, plus, store, times, value_of
from pytorchsim.templates.vector_values import from_memory

__all__ = ["Emit", "Line", "Opening", "Part", "Push", "Pushes", "StepCode", "alternate", "take_turns"]

_HELD, _LOADED_AHEAD = 3, 3
"""Vectors whose registers stay their own behind their push, and vectors loaded before the first of them is pushed."""

Emit = Callable[[], None]

Push = tuple[Callable[[], ir.Value], Callable[[ir.Value], None]]
"""How a vector is loaded, and pushed."""

Pushes = Callable[[int], list[Push]]
"""By the number of a piece."""


@dataclass(frozen=True)
class Opening:
    """A push before the first pop of a line: of `rows` inputs of an array (0: of weights), once `after` parts of the
    drain of the line before are done."""

    push: Push
    array: int = 0
    rows: int = 0
    after: int = 0


@dataclass(frozen=True)
class Part:
    """A part of a block's pops: `rows` by array."""

    emit: Emit
    rows: Mapping[int, int]


@dataclass(frozen=True)
class Line:
    """`opening`: weights and inputs before its first pop; `middle`: what comes then, up to its last input; `drain`: the
    pops behind that."""

    opening: Callable[[], list[Opening]]
    middle: Emit
    drain: Callable[[], list[Part]]


class StepCode:
    """Emits parts of lines."""

    def __init__(self, problem: BackwardProblem, tile: BackwardTile, memory: Mapping[str, Region]) -> None:
        self.problem, self.tile, self.memory = problem, tile, memory
        self.pieces = tile.lanes // tile.vector
        self._held: deque[ir.Value] = deque()

    def stream(
        self,
        lag: int,
        weights: Callable[[], list[Push]],
        push: Callable[[Index, int], list[Opening]],
        pop: Callable[[Index, Pushes], list[Part]],
    ) -> Line:
        """A line in which all blocks of queries pass the arrays, popped `lag` blocks behind their pushes."""
        blocks = self.tile.queries
        early = min(max(1, lag), blocks)

        def opening() -> list[Opening]:
            inputs = [item for block in range(early) for piece in range(self.pieces) for item in push(block, piece)]
            return [*map(Opening, weights()), *inputs]

        def steady(block: Index) -> None:
            def pushes(piece: int) -> list[Push]:
                return [item.push for item in push(plus(block, early), piece)]

            for part in pop(block, pushes):
                part.emit()

        def drain() -> list[Part]:
            return [part for block in range(blocks - early, blocks) for part in pop(block, lambda _: [])]

        return Line(opening, lambda: self.repeat(range(blocks - early), steady), drain)

    def overlap(self, drain: Sequence[Part], following: Line | None) -> None:
        """The drain of a line and the opening of the next one, in turn."""
        opening = following.opening() if following else []
        emits = self.pushing([item.push for item in opening])
        queued: Counter[int] = Counter()
        for part in drain:
            queued.update(part.rows)
        done = number = 0
        while done < len(drain) or number < len(opening):
            ahead = opening[number : number + _LOADED_AHEAD]  # what is loaded with it
            fits = ahead and queued[ahead[0].array] + ahead[0].rows <= self.tile.queue
            ready = fits and max(item.after for item in ahead) <= done
            if ready and (done == len(drain) or number * len(drain) <= done * len(opening)):
                queued[ahead[0].array] += ahead[0].rows
                emits[number]()
                number += 1
            else:
                drain[done].emit()
                queued.subtract(drain[done].rows)
                done += 1

    def either(self, condition: ir.Value, then: Emit, otherwise: Emit) -> None:
        """One or the other."""
        choice = scf.IfOp(condition, has_else=True)
        for block, emit in ((choice.then_block, then), (choice.else_block, otherwise)):
            self._held.clear()
            with ir.InsertionPoint(block):
                emit()
                scf.YieldOp([])
        self._held.clear()

    def repeat(self, blocks: range, emit: Callable[[Index], None]) -> None:
        """A loop over blocks, or one block written out."""
        if len(blocks) == 1:
            emit(blocks.start)
        elif blocks:
            self._held.clear()
            loop = scf.ForOp(*map(value_of, (blocks.start, blocks.stop, 1)))
            with ir.InsertionPoint(loop.body):
                emit(loop.induction_variable)
                scf.YieldOp([])
            self._held.clear()

    def push_all(self, pushes: Sequence[Push]) -> None:
        """One behind the other."""
        for emit in self.pushing(pushes):
            emit()

    def pushing(self, pushes: Sequence[Push]) -> list[Emit]:
        """Each is loaded before those ahead of it are pushed, so that no push waits for its load."""
        loaded: list[ir.Value] = []

        def emit(number: int) -> None:
            while len(loaded) < min(number + _LOADED_AHEAD, len(pushes)):
                loaded.append(pushes[len(loaded)][0]())
            pushes[number][1](loaded[number])
            self.hold(loaded[number])

        return [lambda number=number: emit(number) for number in range(len(pushes))]  # type: ignore[misc]

    def hold(self, value: ir.Value) -> None:
        """A register is pushed, or its exponentials taken, row by row: nothing else is put there until a few more have
        come."""
        self._held.append(value)
        if len(self._held) > _HELD:
            builders.keep([self._held.popleft()])

    def weight_pushes(
        self, name: str, start: Index, rows: int, array: int, dtype: Dtype, *, wide: bool = False
    ) -> list[Push]:
        """Pushes of `rows` weights from `start`; `wide`: as float32."""
        vector = self.tile.vector

        def push_of(piece: int) -> Push:
            def read() -> ir.Value:
                value = self.raw(name, plus(start, piece * vector), dtype)
                return from_memory(value, dtype, vector) if wide else value

            pushed = F32 if wide else dtype
            return read, lambda value: builders.push_weights(value, array=array, dtype=pushed, first=piece == 0)

        return [push_of(piece) for piece in range(rows // vector)]

    def at(self, block: Index, piece: int) -> Index:
        """The place of a piece of a block of queries."""
        return plus(times(block, self.tile.lanes), piece * self.tile.vector)

    def load(self, name: str, block: Index, piece: int) -> ir.Value:
        """Float32 of a piece."""
        return load(self.memory[name], value_of(self.at(block, piece)), self.tile.vector)

    def store(self, name: str, value: ir.Value, block: Index, piece: int) -> None:
        """The reverse."""
        store(value, self.memory[name], value_of(self.at(block, piece)), self.tile.vector)

    def raw(self, name: str, at: Index, dtype: Dtype | None = None) -> ir.Value:
        """A vector as it lies in memory."""
        region = self.memory[name]
        kind = ir.VectorType.get([self.tile.vector], builders.element_type(dtype or self.problem.dtype))
        return vector.load(kind, region.memory, [region.address(value_of(at))])


def take_turns(lists: Sequence[Sequence[Emit]]) -> None:
    """Emit the lists' parts in turn."""
    for emit in alternate(lists):
        emit()


def alternate(lists: Sequence[Sequence[Any]]) -> list[Any]:
    """One list of all parts, spread evenly."""
    longest = max((len(parts) for parts in lists), default=0)
    found: list[Any] = []
    for turn in range(longest):
        for parts in lists:
            begin, end = (-(-len(parts) * number // longest) for number in (turn, turn + 1))
            found += parts[begin:end]
    return found
