"""One step of a matrix product on the systolic arrays: Y[m, n] += X[m, k] @ W[k, n], as a tile function.

In: a `GemmTile` and buffers as pointers: X as [k block][m], W as [array][k], Y as [array][rows], per lane. Out: a tile
function in a `KernelBuilder`.

The core issues in order, so the order below is the schedule. A row's result comes 2 * lanes - 1 cycles after its
push, hence pops lag pushes by as many rows as the queues hold. Weights of a matrix are pushed behind the last row of
the one before it, in pieces between pops; they load in `lanes` cycles, in which the array uses up what was queued.
A popped vector is added to the result only after the next one was popped, so that no addition waits for rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import Dtype, Kind
from pytorchsim.templates.gemm_tile import GemmTile

__all__ = ["STEP_LMUL", "array_step", "instruction_counts"]

STEP_LMUL = 4
"""Registers per vector of results: eight groups hold inputs, weights and two pops of two arrays."""

_MOST_MATRICES_AHEAD = 4
"""Matrices in flight where they have few rows: enough to hide fill and drain behind `lanes` cycles of weights each."""


@dataclass(frozen=True)
class _Popped:
    """Results of one vector of rows, by array; `row` counts within Y."""

    row: ir.Value
    values: tuple[ir.Value, ...]
    accumulate: bool


@dataclass(frozen=True)
class _Schedule:
    """Numbers that shape the code. In vectors: `rows` of a matrix, `window` of them handled at its edges. In matrices:
    `blocks` of the step, `ahead` in flight. `pieces`: pushes that load one matrix, of `piece` weights each."""

    rows: int
    window: int
    blocks: int
    ahead: int
    pieces: int
    piece: int

    @classmethod
    def of(cls, tile: GemmTile, dtype: Dtype, config: NpuConfig) -> _Schedule:
        rows = tile.m // tile.vector
        queued = max(1, config.array.queue_entries // tile.vector)
        window = min(rows, queued)
        ahead = max(1, min(queued // rows, _MOST_MATRICES_AHEAD, tile.k_blocks))
        piece = min(tile.lanes, builders.longest_vector(config, max(dtype.bits, 16), STEP_LMUL))
        return cls(rows, window, tile.k_blocks, ahead, tile.lanes // piece, piece)


def instruction_counts(tile: GemmTile, dtype: Dtype, config: NpuConfig) -> int:
    """Pushes and pops that one step executes."""
    schedule = _Schedule.of(tile, dtype, config)
    per_block = tile.n_slots * schedule.pieces + schedule.rows * (1 + tile.n_slots)
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
        self._schedule = _Schedule.of(tile, self._dtype, config)
        self._popped: list[_Popped] = []

    def emit(self, *, accumulate: bool) -> None:
        """Fill the pipeline, run all matrices, drain it."""
        plan = self._schedule
        for block in range(plan.ahead):
            for piece in range(plan.pieces):
                self._push_weights(_index(block), piece)
            for row in range(plan.window):
                self._push_inputs(_index(block), _index(row))
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
        queued = plan.window * plan.ahead
        room = max(plan.window, queued)
        pieces = list(range(plan.pieces)) if refill else []
        rows = list(range(plan.window)) if refill else []
        for row in range(inner, plan.rows):
            self._pop(block, _index(row), accumulate=accumulate)
            queued -= 1
            if pieces:
                self._push_weights(following, pieces.pop(0))
            while not pieces and rows and queued < room:
                self._push_inputs(following, _index(rows.pop(0)))
                queued += 1
            self._finish(keep=1)
        self._finish(keep=0)
        for piece in pieces:
            self._push_weights(following, piece)
        for row in rows:
            self._push_inputs(following, _index(row))

    def _inner(self, block: ir.Value, count: int, *, accumulate: bool) -> None:
        """Pop row vectors 0 to `count`, each followed by the push of the one `window` behind it. The results popped
        last are carried into the next round, two at a time so that no register is copied."""

        def one(row: ir.Value) -> None:
            self._pop(block, row, accumulate=accumulate)
            self._push_inputs(block, arith.addi(row, _index(self._schedule.window)))
            self._finish(keep=1)

        one(_index(0))
        pairs = (count - 1) // 2
        if pairs > 1:
            carried = self._popped.pop()
            loop = scf.ForOp(*map(_index, (0, pairs, 1)), [carried.row, *carried.values])
            with ir.InsertionPoint(loop.body):
                row, *values = loop.inner_iter_args
                self._popped = [_Popped(row, tuple(values), accumulate)]
                base = arith.addi(arith.muli(loop.induction_variable, _index(2)), _index(1))
                one(base)
                one(arith.addi(base, _index(1)))
                last = self._popped.pop()
                scf.YieldOp([last.row, *last.values])
            row, *values = loop.results
            self._popped = [_Popped(row, tuple(values), accumulate)]
        else:
            pairs = 0
        for number in range(1 + 2 * pairs, count):
            one(_index(number))

    def _pop(self, block: ir.Value, row: ir.Value, *, accumulate: bool) -> None:
        del block  # results come in the order of the pushes
        tile = self._tile
        values = tuple(builders.pop(tile.vector, array=array, dtype=self._sum) for array in range(tile.n_slots))
        self._popped.append(_Popped(arith.muli(row, _index(tile.vector)), values, accumulate))

    def _finish(self, *, keep: int) -> None:
        """Add popped vectors to the result, all but the last `keep`."""
        while len(self._popped) > keep:
            popped = self._popped.pop(0)
            addresses = [
                arith.addi(popped.row, _index(array * self._y_rows)) if array else popped.row
                for array in range(self._tile.n_slots)
            ]
            sums = list(popped.values)
            if popped.accumulate:
                add = arith.addf if self._sum.kind is Kind.FLOAT else arith.addi
                before = [self._load(self._y, self._sum, address, self._tile.vector) for address in addresses]
                sums = [add(old, new) for old, new in zip(before, sums, strict=True)]
            for address, value in zip(addresses, sums, strict=True):
                vector.store(value, self._y, [address])

    def _push_inputs(self, block: ir.Value, row: ir.Value) -> None:
        tile = self._tile
        address = arith.addi(arith.muli(block, _index(tile.m)), arith.muli(row, _index(tile.vector)))
        rows = self._load(self._x, self._dtype, address, tile.vector)
        builders.push_inputs(rows, arrays=range(tile.n_slots), dtype=self._dtype)

    def _push_weights(self, block: ir.Value, piece: int) -> None:
        tile, plan = self._tile, self._schedule
        for array in range(tile.n_slots):
            start = array * tile.k + piece * plan.piece
            address = arith.addi(arith.muli(block, _index(tile.lanes)), _index(start))
            weights = self._load(self._w, self._dtype, address, plan.piece)
            builders.push_weights(weights, array=array, dtype=self._dtype, first=piece == 0)

    @staticmethod
    def _load(memory: ir.Value, dtype: Dtype, address: ir.Value, elements: int) -> ir.Value:
        return vector.load(ir.VectorType.get([elements], builders.element_type(dtype)), memory, [address])


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
