"""The tile functions of a loop program: what runs on the lanes once a tile lies in the scratchpad.

In: a program, its stages and a tile. Out: tile functions in a `KernelBuilder`, each with the list of buffers it
takes. A tile that holds whole rows has one function, `body`. Streamed rows have, for each stage, `init` (accumulators
to the identity), `update` (one tile's walk), `finish` (fold across the vector and the lanes) and `rows` (row-level
stores); what outlives a function lies in accumulator buffers. Index tiles that are computed have functions of their
own, which run before the transfers that use them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.templates.block import Block, BufferKey, Kept, StoreBuffer, accumulators
from pytorchsim.templates.gathers import IndexForm, IndexTileKey
from pytorchsim.templates.loop_buffers import buffer_shape
from pytorchsim.templates.loop_program import Access, LoopProgram, needed_operations
from pytorchsim.templates.phases import StepWork
from pytorchsim.templates.stages import Stage
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.window_loads import WindowLoad

__all__ = ["StagedFunction", "StreamedStage", "TileFunctions"]

_Emit = Callable[[Block], None]
_EmitBlock = Callable[[Block, ir.Value], None]


@dataclass(frozen=True)
class StagedFunction:
    """A tile function, the buffers of its pointer arguments in order, and the axes whose origins follow as scalars."""

    function: TileFunction
    buffers: tuple[BufferKey, ...]
    origin_axes: tuple[int, ...] = ()


@dataclass(frozen=True)
class StreamedStage:
    """The functions of one stage over streamed rows; None where there is nothing to do."""

    rows: StagedFunction | None
    init: StagedFunction | None
    update: StagedFunction | None
    finish: StagedFunction | None


@dataclass(frozen=True)
class TileFunctions:
    """Emits the functions of `program` on `tile` into `kernel`; `lanes` is the machine's number of lanes. `taps`: loads
    that are one buffer with others (`window_taps`)."""

    kernel: KernelBuilder
    program: LoopProgram
    stages: tuple[Stage, ...]
    tile: Tile
    lanes: int
    taps: Mapping[Access, tuple[WindowLoad, int]] = field(default_factory=dict)

    def resident(self) -> StagedFunction:
        """The one function of a tile that holds whole rows: all stages, block by block, row-level values in
        registers."""

        def emit(block: Block, number: ir.Value) -> None:
            row = block.row_address(number)
            for stage in self.stages:
                block.compute(stage.row_operations, row, block.values, block.positions(number))
                block.store(stage.row_stores, row, block.values)
                if stage.walks:
                    start = {carried: block.start(carried) for carried in stage.carried}
                    walked = block.walk(stage, number, start)
                    for reduction in stage.reductions:
                        block.settle(reduction, block.fold(reduction, walked[reduction], self.lanes))

        computed = [n for stage in self.stages for n in (*stage.row_operations, *stage.walk_operations)]
        buffers: list[BufferKey] = [
            *self._loads(sorted(set(computed))),
            *(Kept(number) for stage in self.stages for number in stage.kept),
            *(StoreBuffer(number) for number in range(len(self.program.stores))),
        ]
        axes = self._shared_axes(self.program.positions_used)
        if any(stage.walks for stage in self.stages):
            return self._function("body", buffers, self._each_block(emit), axes)
        (stage,) = self.stages
        work = StepWork(stage.row_operations, stage.row_stores)
        return self._function("body", buffers, lambda block: block.rows(work), axes)

    def index_tiles(self, name: str, keys: Sequence[IndexTileKey]) -> StagedFunction:
        """A function that computes index tiles, block by block."""
        operations = needed_operations(self.program, [key.value for key in keys])
        rows = [number for number in operations if self.program.row_values[number]]
        walked = [number for number in operations if not self.program.row_values[number]]
        in_rows = [key for key in keys if key.form is IndexForm.ROW]
        in_full = [key for key in keys if key.form is IndexForm.FULL]

        def emit(block: Block, number: ir.Value) -> None:
            block.values = {}
            block.compute(rows, block.row_address(number), block.values, block.positions(number))
            block.store_indices(in_rows, block.row_address(number), block.values)
            if not in_full:
                return
            steps = scf.ForOp(*(builders.index_constant(value) for value in (0, self.tile.walk_count, 1)))
            with ir.InsertionPoint(steps.body):
                step = steps.induction_variable
                values, address = dict(block.values), block.walk_address(number, step)
                block.compute(walked, address, values, block.positions(number, step))
                block.store_indices(in_full, address, values)
                scf.YieldOp([])

        axes = self.program.positions_used if in_full else self._row_positions()
        return self._function(name, [*self._loads(operations), *keys], self._each_block(emit), self._shared_axes(axes))

    def streamed(self) -> tuple[StreamedStage, ...]:
        """The functions of every stage of rows that span several tiles."""
        return tuple(self._stage(number) for number in range(len(self.stages)))

    def _stage(self, number: int) -> StreamedStage:
        stage = self.stages[number]
        earlier = [reduction for before in self.stages[:number] for reduction in before.reductions]
        row_operations = [operation for upto in self.stages[: number + 1] for operation in upto.row_operations]
        recalled = [*self._loads(row_operations), *accumulators(self.program, earlier)]
        own = accumulators(self.program, stage.carried)

        def recall(block: Block, at: ir.Value) -> None:
            """Row-level values again: reductions from their accumulators, then what is computed from them."""
            row = block.row_address(at)
            for reduction in earlier:
                block.settle(reduction, block.load_accumulator(reduction, row))
            block.compute(sorted(row_operations), row, block.values, block.positions(at))

        def rows(block: Block, at: ir.Value) -> None:
            recall(block, at)
            block.store(stage.row_stores, block.row_address(at), block.values)

        def init(block: Block, at: ir.Value) -> None:
            for carried in stage.carried:
                block.store_accumulator(carried, block.start(carried), block.row_address(at))

        def update(block: Block, at: ir.Value) -> None:
            row = block.row_address(at)
            recall(block, at)
            start = {carried: block.load_accumulator(carried, row) for carried in stage.carried}
            for carried, partial in block.walk(stage, at, start).items():
                block.store_accumulator(carried, partial, row)

        def finish(block: Block, at: ir.Value) -> None:
            row = block.row_address(at)
            for reduction in stage.reductions:
                folded = block.fold(reduction, block.load_accumulator(reduction, row), self.lanes)
                block.store_accumulator(reduction, folded, row)

        row_axes = self._shared_axes(self._row_positions())
        row_outputs = [StoreBuffer(store) for store in stage.row_stores]
        walk_buffers = [*self._loads(stage.walk_operations), *own, *(StoreBuffer(store) for store in stage.walk_stores)]
        folds = bool(own) and not self.tile.rows_inner
        return StreamedStage(
            rows=self._function(f"rows{number}", [*recalled, *row_outputs], self._each_block(rows), row_axes)
            if row_outputs
            else None,
            init=self._function(f"init{number}", own, self._each_block(init)) if own else None,
            update=self._function(
                f"update{number}", [*recalled, *walk_buffers], self._each_block(update), self._streamed_axes()
            )
            if stage.walks
            else None,
            finish=self._function(f"finish{number}", own, self._each_block(finish)) if folds else None,
        )

    def _streamed_axes(self) -> tuple[int, ...]:
        return self._shared_axes(sorted({*self.tile.reduced_axes, *self.program.positions_used}))

    def _shared_axes(self, axes: Sequence[int]) -> tuple[int, ...]:
        """Those of `axes` that several tiles share: their origins vary."""
        counts = self.tile.counts(self.program.sizes)
        return tuple(axis for axis in axes if counts[axis] > 1)

    def _row_positions(self) -> tuple[int, ...]:
        return tuple(axis for axis in self.program.positions_used if axis in self.tile.row_axes)

    def _loads(self, numbers: Sequence[int]) -> list[BufferKey]:
        return [access for n in numbers if (access := self.program.operations[n].access) is not None]

    def _each_block(self, emit: _EmitBlock) -> _Emit:
        """A loop that runs `emit` for each block."""

        def loop_over_blocks(block: Block) -> None:
            loop = scf.ForOp(*(builders.index_constant(value) for value in (0, self.tile.blocks, 1)))
            with ir.InsertionPoint(loop.body):
                emit(block, loop.induction_variable)
                scf.YieldOp([])

        return loop_over_blocks

    def _function(
        self, name: str, keys: Sequence[BufferKey], emit: _Emit, origin_axes: tuple[int, ...] = ()
    ) -> StagedFunction:
        """The tile function that `emit` writes. A window is one pointer."""
        of_key = {key: self.taps[key] if isinstance(key, Access) and key in self.taps else (key, 0) for key in keys}
        buffers = tuple(dict.fromkeys(buffer for buffer, _ in of_key.values()))
        shapes = [buffer_shape(self.program, self.tile, key) for key in buffers]
        pointers = [(count, builders.element_type(dtype)) for count, dtype in shapes]
        with self.kernel.tile_function(name, pointers, [ir.IndexType.get()] * len(origin_axes)) as function:
            of_buffers, of_origins = function.arguments[: len(buffers)], function.arguments[len(buffers) :]
            pointer_of = dict(zip(buffers, of_buffers, strict=True))
            emit(
                Block(
                    self.program,
                    self.tile,
                    {key: pointer_of[buffer] for key, (buffer, _) in of_key.items()},
                    dict(zip(origin_axes, of_origins, strict=True)),
                    taps={
                        key: number * buffer_shape(self.program, self.tile, key)[0]
                        for key, (_, number) in of_key.items()
                        if number
                    },
                )
            )
        return StagedFunction(function, buffers, origin_axes)
