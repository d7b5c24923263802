"""One step of a matrix product on the systolic arrays: Y[m, n] += X[m, k] @ W[k, n], as a tile function.

In: a `GemmTile` and buffers as pointers: X as [k block][m], W as [slot][k], Y as [slot][rows], per lane. Out: a tile
function in a `KernelBuilder`.

The core issues in order, so the order in which `ArraySchedule` puts pushes and pops is the schedule. A popped vector is
added to the result only after the next one was popped, so that no addition waits for rows. LLVM keeps this order
(`mlir/llvm_worker.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.target.dtypes import Dtype, Kind
from pytorchsim.templates.array_schedule import ArraySchedule, Event
from pytorchsim.templates.gemm_tile import GemmTile

__all__ = ["add_partial", "array_step"]

_UNROLLED_ROUNDS = 8
"""Rounds that are written out; more become a loop."""


@dataclass(frozen=True)
class _Popped:
    """Results of one vector of rows, by slot and part; `row` counts within Y, in a shared matrix within the part."""

    row: ir.Value
    values: tuple[ir.Value, ...]
    shared: bool
    accumulate: bool


@dataclass(frozen=True)
class _Run:
    """Rounds that differ by their rows only: the first of each, how many, and the popped matrix, if one is popped."""

    pop: Event | None
    push: Event
    count: int


def array_step(
    kernel: KernelBuilder, name: str, tile: GemmTile, dtypes: tuple[Dtype, Dtype], y_rows: int, *, accumulate: bool
) -> TileFunction:
    """`name(x, w, y)`: y += x @ w, or y = x @ w without `accumulate`. `dtypes`: of operands and sums. `y_rows`: the
    pitch of Y, of which the step sees the rows from its pointer on."""
    operand, result = (builders.element_type(dtype) for dtype in dtypes)
    x, w = tile.m * tile.k_blocks, tile.n_slots * tile.k
    y = (tile.n_slots - 1) * y_rows + tile.m
    with kernel.tile_function(name, [(x, operand), (w, operand), (y, result)]) as function:
        _Step(tile, dtypes, y_rows, function.arguments, kernel.config, accumulate=accumulate).emit()
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
    """Emits pushes and pops in the order in which they shall issue. A group of matrices, one for each array of a
    column, is numbered by its first block of products; a shared matrix by its block."""

    def __init__(
        self,
        tile: GemmTile,
        dtypes: tuple[Dtype, Dtype],
        y_rows: int,
        pointers: tuple[ir.Value, ...],
        config: NpuConfig,
        *,
        accumulate: bool,
    ) -> None:
        self._tile, self._y_rows, self._accumulate = tile, y_rows, accumulate
        self._dtype, self._sum = dtypes
        self._x, self._w, self._y = pointers
        self._plan = ArraySchedule.of(tile, self._dtype, config)
        self._pending: deque[_Popped] = deque()
        self._pushed: Sequence[ir.Value] = ()

    def emit(self) -> None:
        """The first matrices one by one, those that are alike as a loop; the last has none behind it."""
        plan = self._plan
        last = plan.matrices - 1
        steady = min(plan.steady(accumulate=self._accumulate), last)
        self._weights(0, self._block(0))
        for matrix in range(steady):
            self._matrix(matrix, self._block(matrix), followed=True)
        self._repeat(steady, last, lambda block: self._matrix(steady, block, followed=True))
        self._matrix(last, self._block(last), followed=False)
        for run in _runs([(pop, pop) for pop in plan.drain(plan.matrices)], plan):
            self._rounds(run, None, hold=False)
        self._finish(0)

    def _repeat(self, first: int, end: int, emit: Callable[[ir.Value], None]) -> None:
        """`emit` for the block of each matrix, as a loop where there are several."""
        if end - first == 1:
            emit(self._block(first))
        elif end > first:
            bounds = (self._first_block(first), self._first_block(end), self._plan.parts)
            loop = scf.ForOp(*map(_index, bounds))
            self._pushed = ()
            with ir.InsertionPoint(loop.body):
                emit(loop.induction_variable)
                self._keep(())
                scf.YieldOp([])

    def _first_block(self, matrix: int) -> int:
        shared = min(matrix, self._plan.shared)
        return shared + (matrix - shared) * self._plan.parts

    def _block(self, matrix: int) -> ir.Value:
        return _index(self._first_block(matrix))

    def _matrix(self, matrix: int, block: ir.Value, *, followed: bool) -> None:
        """Push the rows of a matrix (numbered `block`, like `matrix`) while earlier ones are popped, then the weights
        of the next matrix."""
        runs = list(_runs(self._plan.rounds(matrix), self._plan))
        for run in runs:
            self._rounds(run, block, hold=followed and run is runs[-1])
        if followed:
            step = 1 if matrix < self._plan.shared else self._plan.parts
            self._weights(matrix + 1, arith.addi(block, _index(step)))

    def _weights(self, matrix: int, block: ir.Value) -> None:
        """Push all pieces, each slot's and, unless they share it, each part's own matrix. A piece takes as many cycles
        as it has rows; meanwhile what was popped is added: the results popped last are there before the last piece."""
        tile, plan = self._tile, self._plan
        blocks = 1 if matrix < plan.shared else plan.parts
        first = arith.muli(block, _index(tile.lanes))
        for piece in range(plan.pieces):
            if piece == plan.pieces - 1:
                self._finish(0)
            starts = [
                slot * tile.k + part * tile.lanes + piece * plan.piece
                for slot in range(tile.n_slots)
                for part in range(blocks)
            ]
            loaded = [self._load(self._w, self._dtype, arith.addi(first, _index(at)), plan.piece) for at in starts]
            for array in range(tile.arrays):
                values = loaded[array * blocks // plan.parts]
                builders.push_weights(values, array=array, dtype=self._dtype, first=piece == 0)
            self._keep(loaded)
            self._finish(1)
        self._finish(0)

    def _rounds(self, run: _Run, block: ir.Value | None, *, hold: bool) -> None:
        """The rounds of a run. The results popped last are carried into the next round of a loop, two at a time so that
        no register is copied. `hold`: the last round adds nothing, because more urgent pushes follow."""

        def one(number: ir.Value) -> None:
            push = None if block is None else arith.addi(number, _index(run.push.number))
            pop = arith.addi(number, _index(run.pop.number)) if run.pop else None
            self._round(run, pop, push, block)
            self._finish(2 if hold and number is last else 1)

        count = run.count
        pairs = (count - 2) // 2 if run.pop and count > _UNROLLED_ROUNDS else 0
        numbers = [_index(number) for number in (0, *range(1 + 2 * pairs, count))]
        last = numbers[-1]
        one(numbers[0])
        if pairs:
            (pending,) = self._pending
            loop = scf.ForOp(*map(_index, (0, pairs, 1)), [pending.row, *pending.values])
            with ir.InsertionPoint(loop.body):
                row, *values = loop.inner_iter_args
                self._pending[0] = replace(pending, row=row, values=tuple(values))
                self._pushed = ()
                base = arith.addi(arith.muli(loop.induction_variable, _index(2)), _index(1))
                one(base)
                one(arith.addi(base, _index(1)))
                self._keep(())
                (carried,) = self._pending
                scf.YieldOp([carried.row, *carried.values])
            row, *values = loop.results
            self._pending[0] = replace(pending, row=row, values=tuple(values))
        for number in numbers[1:]:
            one(number)

    def _round(self, run: _Run, pop: ir.Value | None, push: ir.Value | None, block: ir.Value | None) -> None:
        """Pop a vector of rows, push another one, which was loaded before."""
        inputs = self._inputs(run.push, push, block) if push is not None and block is not None else []
        popped = None
        if pop is not None and run.pop is not None:
            parts = self._plan.parts_at(run.pop.matrix, run.pop.number)
            arrays = [slot * self._plan.parts + part for slot in range(self._plan.slots) for part in range(parts)]
            values = tuple(builders.pop(self._tile.vector, array=array, dtype=self._sum) for array in arrays)
            accumulate = self._accumulate or run.pop.matrix > 0
            row = arith.muli(pop, _index(self._tile.vector))
            popped = _Popped(row, values, run.pop.matrix < self._plan.shared, accumulate)
        for part, value in enumerate(inputs):
            columns = range(part, self._tile.arrays, self._plan.parts)
            builders.push_inputs(value, arrays=columns, dtype=self._dtype)
        self._keep(inputs)
        if popped is not None:
            self._pending.append(popped)

    def _keep(self, pushed: Sequence[ir.Value]) -> None:
        """Nothing since the last push was loaded or popped into the registers that it reads: it does so for as many
        cycles as it has rows."""
        if self._pushed:
            builders.keep(self._pushed)
        self._pushed = pushed

    def _inputs(self, push: Event, row: ir.Value, block: ir.Value) -> list[ir.Value]:
        """A vector of rows for each part: of a shared matrix the part's own rows, else the same of its own block."""
        tile, plan = self._tile, self._plan
        address = arith.addi(arith.muli(block, _index(tile.m)), arith.muli(row, _index(tile.vector)))
        shift = plan.part_rows * tile.vector if push.matrix < plan.shared else tile.m
        shifts = [part * shift for part in range(plan.parts_at(push.matrix, push.number))]
        addresses = [arith.addi(address, _index(shift)) if shift else address for shift in shifts]
        return [self._load(self._x, self._dtype, address, tile.vector) for address in addresses]

    def _finish(self, left: int) -> None:
        """Add popped results and store them, but for the `left` youngest vectors."""
        while len(self._pending) > left:
            self._store(self._pending.popleft())

    def _store(self, pending: _Popped) -> None:
        add = arith.addf if self._sum.kind is Kind.FLOAT else arith.addi
        sums = list(pending.values)
        if not pending.shared:
            parts = self._plan.parts
            groups = [pending.values[first : first + parts] for first in range(0, len(pending.values), parts)]
            sums = [_sum(group, add) for group in groups]
        addresses = self._addresses(pending)
        if pending.accumulate:
            before = [self._load(self._y, self._sum, address, self._tile.vector) for address in addresses]
            sums = [add(old, new) for old, new in zip(before, sums, strict=True)]
        for address, value in zip(addresses, sums, strict=True):
            vector.store(value, self._y, [address])

    def _addresses(self, popped: _Popped) -> list[ir.Value]:
        """Where the sums lie in Y: a vector per slot, of a shared matrix one per part that has it."""
        plan, tile = self._plan, self._tile
        parts = len(popped.values) // plan.slots if popped.shared else 1
        shifts = [
            slot * self._y_rows + part * plan.part_rows * tile.vector
            for slot in range(tile.n_slots)
            for part in range(parts)
        ]
        return [arith.addi(popped.row, _index(shift)) if shift else popped.row for shift in shifts]

    @staticmethod
    def _load(memory: ir.Value, dtype: Dtype, address: ir.Value, elements: int) -> ir.Value:
        return vector.load(ir.VectorType.get([elements], builders.element_type(dtype)), memory, [address])


def _runs(rounds: Sequence[tuple[Event | None, Event]], plan: ArraySchedule) -> Iterator[_Run]:
    """Rounds joined as long as matrices and arrays in use are the same; rows then count up side by side."""
    first, count, known = 0, 0, None
    for number, (pop, push) in enumerate(rounds):
        kind = (pop and pop.matrix, push.matrix, *(plan.parts_at(e.matrix, e.number) for e in (pop, push) if e))
        if count and kind != known:
            yield _Run(*rounds[first], count)
            first, count = number, 0
        known, count = kind, count + 1
    if count:
        yield _Run(*rounds[first], count)


def _sum(values: Sequence[ir.Value], add: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """Of the arrays of a column."""
    total, *others = values
    for value in others:
        total = add(total, value)
    return total


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
