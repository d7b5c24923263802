"""One step of a matrix product on the systolic arrays: Y[m, n] += X[m, k] @ W[k, n], as a tile function.

In: a `GemmTile` and buffers as pointers: X as [k block][m], W as [array][k], Y as [array][rows], per lane. Out: a tile
function in a `KernelBuilder`.

The core issues in order, so the order below is the schedule. A row's result comes 2 * lanes - 1 cycles after its
push, hence pops lag pushes by as many rows as the queues hold. Weights of a matrix are pushed behind the last row of
the one before it, in pieces between pops; they load in `lanes` cycles, in which the array uses up what was queued.
A popped vector is added to the result only after the next one was popped, so that no addition waits for rows. LLVM
keeps this order (`mlir/llvm_worker.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import Dtype, Kind
from pytorchsim.templates.gemm_problem import accumulator_dtype
from pytorchsim.templates.gemm_tile import GemmTile

__all__ = ["STEP_LMUL", "ArraySchedule", "add_partial", "array_step", "instruction_counts"]

STEP_LMUL = 4
"""Registers per vector of results: eight groups hold inputs, weights and two pops of two arrays."""

_UNROLLED_ROUNDS = 4
"""Rounds that are written out; more become a loop."""

_MOST_MATRICES_AHEAD = 4
"""Matrices in flight where they have few rows: enough to hide fill and drain behind `lanes` cycles of weights each."""


@dataclass(frozen=True)
class _Popped:
    """Results of one vector of rows, by array; `row` counts within Y."""

    row: ir.Value
    values: tuple[ir.Value, ...]
    accumulate: bool


Event = Literal["first weights", "weights", "inputs", "pop"]


@dataclass(frozen=True)
class ArraySchedule:
    """Numbers that shape the code. In vectors of `vector` rows: `rows` of a matrix, `window` of them handled at its
    edges. In matrices: `blocks` of the step, `ahead` in flight. `pieces`: pushes that load one matrix, of `piece`
    weights each. `slots`: arrays in use, of which `row_parts` share the rows: `rows` and `window` are of one array.
    `sum_bits`: of a result."""

    rows: int
    window: int
    blocks: int
    ahead: int
    pieces: int
    piece: int
    vector: int
    slots: int
    sum_bits: int
    row_parts: int = 1

    @classmethod
    def of(cls, tile: GemmTile, dtype: Dtype, config: NpuConfig) -> ArraySchedule:
        """The schedule of a step."""
        rows = tile.m // tile.vector // tile.row_parts
        queued = max(1, config.array.queue_entries // tile.vector)
        window = min(rows, queued)
        ahead = max(1, min(queued // rows, _MOST_MATRICES_AHEAD, tile.k_blocks))
        lmul = min(STEP_LMUL, config.core.max_lmul)
        piece = min(tile.lanes, builders.longest_vector(config, max(dtype.bits, 16), lmul))
        pieces, bits = tile.lanes // piece, accumulator_dtype(dtype).bits
        return cls(rows, window, tile.k_blocks, ahead, pieces, piece, tile.vector, tile.arrays, bits, tile.row_parts)

    def edge(self) -> Iterator[tuple[Event, int]]:
        """What happens while the last `window` vectors of a matrix are popped and the matrix `ahead` follows: events
        with the number of the piece, of the row to push, or of the row to pop."""
        room = queued = self.window * self.ahead
        pieces, rows = deque(range(1, self.pieces)), deque(range(self.window))
        yield "first weights", 0
        for row in range(self.rows - self.window, self.rows):
            yield "pop", row
            queued -= 1
            if pieces:
                yield "weights", pieces.popleft()
            while not pieces and rows and queued < room:
                yield "inputs", rows.popleft()
                queued += 1
        yield from (("weights", piece) for piece in pieces)
        yield from (("inputs", row) for row in rows)

    def opening(self) -> Iterator[tuple[Event, int]]:
        """What fills the pipeline with one matrix."""
        for piece in range(self.pieces):
            yield ("weights" if piece else "first weights"), piece
        for row in range(self.window):
            yield "inputs", row

    def events(self, blocks: int) -> Iterator[Event]:
        """Pushes and pops of a step of `blocks` matrices, in order."""
        ahead = min(self.ahead, blocks)
        for _ in range(ahead):
            for event, _ in self.opening():
                yield event
        for block in range(blocks):
            for _ in range(self.rows - self.window):
                yield "pop"
                yield "inputs"
            if block < blocks - ahead:
                yield from (event for event, _ in self.edge())
            else:
                for _ in range(self.window):
                    yield "pop"


def instruction_counts(tile: GemmTile, dtype: Dtype, config: NpuConfig) -> int:
    """Pushes and pops that one step executes."""
    schedule = ArraySchedule.of(tile, dtype, config)
    per_block = tile.arrays * schedule.pieces + schedule.rows * (tile.row_parts + tile.arrays)
    return schedule.blocks * per_block


def array_step(
    kernel: KernelBuilder, name: str, tile: GemmTile, dtypes: tuple[Dtype, Dtype], y_rows: int, *, accumulate: bool
) -> TileFunction:
    """`name(x, w, y)`: y += x @ w, or y = x @ w without `accumulate`. `dtypes`: of operands and sums. `y_rows`: the
    pitch of Y, of which the step sees the rows from its pointer on."""
    operand, result = (builders.element_type(dtype) for dtype in dtypes)
    x, w = tile.m * tile.k_blocks, tile.n_slots * tile.k
    y = (tile.n_slots - 1) * y_rows + tile.m
    with kernel.tile_function(name, [(x, operand), (w, operand), (y, result)]) as function:
        _Step(tile, dtypes, y_rows, function.arguments, kernel.config).emit(accumulate=accumulate)
    return function


def add_partial(kernel: KernelBuilder, name: str, tile: GemmTile, dtype: Dtype, y_rows: int) -> TileFunction:
    """`name(partial, y)`: y += partial, a result of `array_step` with a pitch of its own."""
    element = builders.element_type(dtype)
    y = (tile.n_slots - 1) * y_rows + tile.m
    with kernel.tile_function(name, [(tile.n_slots * tile.m, element), (y, element)]) as function:
        partial, result = function.arguments
        add = arith.addf if dtype.kind is Kind.FLOAT else arith.addi
        kind = ir.VectorType.get([tile.vector], element)
        for slot in range(tile.n_slots):
            loop = scf.ForOp(*map(_index, (0, tile.m, tile.vector)))
            with ir.InsertionPoint(loop.body):
                row = loop.induction_variable
                here, there = (arith.addi(row, _index(slot * pitch)) for pitch in (tile.m, y_rows))
                total = add(vector.load(kind, result, [there]), vector.load(kind, partial, [here]))
                vector.store(total, result, [there])
                scf.YieldOp([])
    return function


class _Step:
    """Emits pushes and pops in the order in which they shall issue."""

    def __init__(
        self,
        tile: GemmTile,
        dtypes: tuple[Dtype, Dtype],
        y_rows: int,
        pointers: tuple[ir.Value, ...],
        config: NpuConfig,
    ) -> None:
        self._tile, self._y_rows = tile, y_rows
        self._dtype, self._sum = dtypes
        self._x, self._w, self._y = pointers
        self._schedule = ArraySchedule.of(tile, self._dtype, config)
        self._pending: _Popped | None = None

    def emit(self, *, accumulate: bool) -> None:
        """Fill the pipeline, run all matrices, drain it."""
        plan = self._schedule
        for block in range(plan.ahead):
            for push in plan.opening():
                self._push(push, self._operand(_index(block), push))
        steady = plan.blocks - plan.ahead
        self._blocks(0, steady, refill=True, accumulate=accumulate)
        self._blocks(steady, plan.blocks, refill=False, accumulate=accumulate)

    def _blocks(self, first: int, end: int, *, refill: bool, accumulate: bool) -> None:
        """Matrices `first` to `end`; the very first one overwrites the result unless `accumulate`."""
        if first == 0 and end > 0 and not accumulate:
            self._block(_index(0), refill=refill, accumulate=False)
            first = 1
        _repeat(first, end, lambda block: self._block(block, refill=refill, accumulate=True))

    def _block(self, block: ir.Value, *, refill: bool, accumulate: bool) -> None:
        """Pop all rows of a matrix while the rest of its rows, then the matrix `ahead` of it, are pushed."""
        plan = self._schedule
        inner = plan.rows - plan.window
        if inner:
            self._inner(block, inner, accumulate=accumulate)
        following = arith.addi(block, _index(plan.ahead))
        edge = list(plan.edge()) if refill else [("pop", row) for row in range(inner, plan.rows)]
        if edge[0][0] != "pop":
            self._push(edge[0], self._operand(following, edge[0]))
        for row, pushes in _rounds(edge):
            self._round(_index(row), following, pushes, accumulate=accumulate)
        self._finish()

    def _inner(self, block: ir.Value, count: int, *, accumulate: bool) -> None:
        """Pop row vectors 0 to `count`, each followed by the push of the one `window` behind it. The results popped
        last are carried into the next round, two at a time so that no register is copied."""

        def one(row: ir.Value) -> None:
            behind = arith.addi(row, _index(self._schedule.window))
            self._round(row, block, [("inputs", behind)], accumulate=accumulate)

        one(_index(0))
        pairs = (count - 1) // 2 if count > _UNROLLED_ROUNDS else 0
        if pairs and self._pending is not None:
            pending = self._pending
            loop = scf.ForOp(*map(_index, (0, pairs, 1)), [pending.row, *pending.values])
            with ir.InsertionPoint(loop.body):
                row, *values = loop.inner_iter_args
                self._pending = _Popped(row, tuple(values), accumulate)
                base = arith.addi(arith.muli(loop.induction_variable, _index(2)), _index(1))
                one(base)
                one(arith.addi(base, _index(1)))
                scf.YieldOp([self._pending.row, *self._pending.values])
            row, *values = loop.results
            self._pending = _Popped(row, tuple(values), accumulate)
        for number in range(1 + 2 * pairs, count):
            one(_index(number))

    def _round(
        self, row: ir.Value, block: ir.Value, pushes: Sequence[tuple[Event, int | ir.Value]], *, accumulate: bool
    ) -> None:
        """Pop row vector `row`, push what follows, add what was popped in the round before. Everything that does not
        wait for the arrays is loaded first, into registers that nobody is reading: a push reads its register for as
        many cycles as it has rows."""
        before = self._result_before(self._pending)
        first = self._operand(block, pushes[0]) if pushes else []
        tile = self._tile
        values = tuple(builders.pop(tile.vector, array=array, dtype=self._sum) for array in range(tile.arrays))
        for number, push in enumerate(pushes):
            self._push(push, self._operand(block, push) if number else first)
        self._finish(before)
        self._pending = _Popped(arith.muli(row, _index(tile.vector)), values, accumulate)

    def _result_before(self, pending: _Popped | None) -> list[ir.Value]:
        """What the pending results are added to."""
        if pending is None or not pending.accumulate:
            return []
        return [self._load(self._y, self._sum, address, self._tile.vector) for address in self._addresses(pending)]

    def _finish(self, before: Sequence[ir.Value] | None = None) -> None:
        """Add the pending results and store them."""
        pending, self._pending = self._pending, None
        if pending is None:
            return
        sums = list(pending.values)
        if pending.accumulate:
            add = arith.addf if self._sum.kind is Kind.FLOAT else arith.addi
            if before is None:
                before = self._result_before(pending)
            sums = [add(old, new) for old, new in zip(before, sums, strict=True)]
        for address, value in zip(self._addresses(pending), sums, strict=True):
            vector.store(value, self._y, [address])

    def _addresses(self, popped: _Popped) -> list[ir.Value]:
        """Where each array's vector lies in Y."""
        tile = self._tile
        shifts = [
            slot * self._y_rows + part * (tile.m // tile.row_parts)
            for slot in range(tile.n_slots)
            for part in range(tile.row_parts)
        ]
        return [arith.addi(popped.row, _index(shift)) if shift else popped.row for shift in shifts]

    def _operand(self, block: ir.Value, push: tuple[Event, int | ir.Value]) -> list[ir.Value]:
        """Load what a push takes: a row vector of each part of the rows, or a piece of the weights of each slot."""
        tile, plan = self._tile, self._schedule
        event, number = push
        if event == "inputs":
            row = number if isinstance(number, ir.Value) else _index(number)
            address = arith.addi(arith.muli(block, _index(tile.m)), arith.muli(row, _index(tile.vector)))
            parts = [part * (tile.m // tile.row_parts) for part in range(tile.row_parts)]
            addresses = [arith.addi(address, _index(shift)) if shift else address for shift in parts]
            return [self._load(self._x, self._dtype, address, tile.vector) for address in addresses]
        if not isinstance(number, int):
            raise TypeError("pieces of weights are numbered at build time")
        first = arith.muli(block, _index(tile.lanes))
        starts = [slot * tile.k + number * plan.piece for slot in range(tile.n_slots)]
        return [self._load(self._w, self._dtype, arith.addi(first, _index(start)), plan.piece) for start in starts]

    def _push(self, push: tuple[Event, int | ir.Value], loaded: Sequence[ir.Value]) -> None:
        """Array `slot * row_parts + part` has the weights of its slot and the rows of its part."""
        event, _ = push
        tile = self._tile
        for number, values in enumerate(loaded):
            if event == "inputs":
                arrays = range(number, tile.arrays, tile.row_parts)
                builders.push_inputs(values, arrays=arrays, dtype=self._dtype)
                continue
            for array in range(number * tile.row_parts, (number + 1) * tile.row_parts):
                builders.push_weights(values, array=array, dtype=self._dtype, first=event == "first weights")

    @staticmethod
    def _load(memory: ir.Value, dtype: Dtype, address: ir.Value, elements: int) -> ir.Value:
        return vector.load(ir.VectorType.get([elements], builders.element_type(dtype)), memory, [address])


def _rounds(events: Iterable[tuple[Event, int]]) -> Iterator[tuple[int, list[tuple[Event, int | ir.Value]]]]:
    """Each pop's row with the pushes that follow it; what comes before the first pop is left out."""
    row: int | None = None
    pushes: list[tuple[Event, int | ir.Value]] = []
    for event, number in events:
        if event != "pop":
            pushes.append((event, number))
            continue
        if row is not None:
            yield row, pushes
        row, pushes = number, []
    if row is not None:
        yield row, pushes


def _repeat(first: int, end: int, emit: Callable[[ir.Value], None]) -> None:
    """`emit` for each number, as a loop where there are several."""
    if end - first == 1:
        emit(_index(first))
    elif end > first:
        loop = scf.ForOp(*map(_index, (first, end, 1)))
        with ir.InsertionPoint(loop.body):
            emit(loop.induction_variable)
            scf.YieldOp([])


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
