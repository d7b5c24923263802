"""The generic kernel: any loop program, elementwise or with reductions, tile by tile, double-buffered.

In: a `LoopProgram` with merged axes, the argument slot of each buffer, the machine. Out: the MLIR text of one kernel
and what was decided. Every broadcast, stride, transposition and tail is the DMA's business: tile functions walk dense
per-lane buffers. The control function starts the loads of the next tile, waits for this one's, computes, and starts
its stores; cores take every `cores`-th tile of rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import SpadOverflowError
from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import Buffer, KernelBuilder
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, TransferOp
from pytorchsim.templates.base import BuiltKernel
from pytorchsim.templates.block import Accumulator, BufferKey, StoreBuffer
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.stages import Stage, plan_stages
from pytorchsim.templates.tile import BUFFER_COPIES, Tile
from pytorchsim.templates.tile_functions import StagedFunction, StreamedStage, TileFunctions
from pytorchsim.templates.tile_search import search

__all__ = ["build_loop_kernel"]

_LOAD_TAG, _STORE_TAG = 0, BUFFER_COPIES
"""Transfers of buffer copy c carry tag `_LOAD_TAG + c` or `_STORE_TAG + c`."""

_ROW_LOAD_TAG, _ROW_STORE_TAG = 2 * BUFFER_COPIES, 2 * BUFFER_COPIES + 1
"""Row-level transfers of streamed rows."""


@dataclass(frozen=True)
class _Operand:
    """One transferred buffer with its descriptor's symbol and the axes that the descriptor walks."""

    buffer: Buffer
    descriptor: str
    axes: tuple[int, ...]


def build_loop_kernel(
    name: str, program: LoopProgram, slots: Mapping[str, int], origins: tuple[str, ...], config: NpuConfig
) -> BuiltKernel:
    """The kernel `name` of `program`; `slots` gives each buffer's argument number.

    Raises SpadOverflowError where no tile fits.
    """
    stages = plan_stages(program)
    found = search(program, stages, config)
    if found.tile is None:
        used = found.smallest_footprint
        raise SpadOverflowError(
            kernel=name,
            origins=origins,
            tile=found.smallest.describe(),
            used_bytes=used.total_bytes,
            budget_bytes=config.core.scratchpad_bytes_per_lane,
            shares=used.all_shares(),
            smallest=found.smallest.describe(),
        )
    tile = found.tile
    with KernelBuilder(name, config, origins=origins, tile_shape=tile.describe()) as kernel:
        control = _Control(kernel, program, tile, slots)
        functions = TileFunctions(kernel, program, stages, tile, config.core.lanes)
        if tile.streams(program.sizes):
            control.streamed(stages, functions.streamed())
        else:
            control.resident(functions.resident())
        return BuiltKernel(kernel.text(), tile.describe(), found.reasons)


class _Control:
    """Builds the control function: buffers, descriptors, loops over tiles."""

    def __init__(self, kernel: KernelBuilder, program: LoopProgram, tile: Tile, slots: Mapping[str, int]) -> None:
        self._kernel, self._program, self._tile, self._slots = kernel, program, tile, slots
        self._counts = tile.counts(program.sizes)
        self._operands: dict[BufferKey, _Operand] = {}
        self._buffers: dict[BufferKey, Buffer] = {}
        self._memories: dict[BufferKey, ir.Value] = {}
        for number, access in enumerate(program.loads):
            self._declare(access, f"in{number}", access, TransferOp.LOAD)
        for number, store in enumerate(program.stores):
            self._declare(StoreBuffer(number), f"out{number}", store.access, TransferOp.STORE)

    def _declare(self, key: BufferKey, name: str, access: Access, op: TransferOp) -> None:
        """The buffer and the descriptor of one access."""
        tile, row_level = self._tile, self._program.is_row_level(access)
        walked = [axis for axis in range(len(tile.sizes)) if axis in tile.row_axes or not row_level]
        axes = [
            Axis(
                tile.sizes[axis],
                access.index.strides[axis],
                tile.scratchpad_stride(axis, row_level=row_level),
                lane=axis == tile.lane_axis,
            )
            for axis in walked
        ]
        if row_level and not tile.rows_inner and op is TransferOp.LOAD:
            axes.append(Axis(tile.vector_elements, 0, 1))  # one value per row, in every element of its vector
        ragged = [axis for axis in walked if self._program.sizes[axis] % tile.sizes[axis]]
        descriptor = Descriptor(
            slot=self._slots[access.buffer],
            op=op,
            dtype=access.dtype,
            axes=tuple(axes),
            offset=access.index.offset,
            lane_stride=tile.lane_run,
            bounds=tuple(
                Bound(
                    0, tuple(int(walked.index(axis) == other) for other in range(len(axes))), self._program.sizes[axis]
                )
                for axis in ragged
            ),
        )
        size = tile.elements(row_level=row_level) * access.dtype.bytes
        buffer = self._kernel.buffer(name, size, copies=BUFFER_COPIES)
        symbol = self._kernel.descriptor(f"transfer_{name}", descriptor)
        self._operands[key] = _Operand(buffer, symbol, tuple(walked))
        self._buffers[key] = buffer

    def resident(self, body: StagedFunction) -> None:
        """Tiles of whole rows."""
        loads: list[BufferKey] = list(self._program.loads)
        stores: list[BufferKey] = [StoreBuffer(number) for number in range(len(self._program.stores))]
        with self._kernel.control() as (core, cores):
            self._refer()
            end = builders.index_constant(prod(self._counts))

            def compute(_number: ir.Value, copy: ir.Value) -> None:
                self._call(body, copy, {})

            self._pipeline(
                (core, end, cores), loads, stores, lambda number: self._origins(number, self._tile.row_axes), compute
            )

    def streamed(self, stages: Sequence[Stage], functions: Sequence[StreamedStage]) -> None:
        """Rows longer than a tile: every stage walks all tiles of its rows before the next one does."""
        for function in functions:
            for key in function.init.buffers if function.init else ():
                if isinstance(key, Accumulator):
                    self._declare_accumulator(key)
        row_loads = [access for access in self._program.loads if self._program.is_row_level(access)]
        row_stores = [number for stage in stages for number in stage.row_stores]
        tile = self._tile
        with self._kernel.control() as (core, cores):
            self._refer()
            zero, one = builders.index_constant(0), builders.index_constant(1)
            rows = scf.ForOp(core, builders.index_constant(prod(self._counts[: self._program.row_rank])), cores)
            with ir.InsertionPoint(rows.body):
                origins = self._origins(rows.induction_variable, tile.row_axes)
                self._start(row_loads, zero, builders.index_constant(_ROW_LOAD_TAG), origins)
                builders.wait(_ROW_LOAD_TAG)
                builders.wait(_ROW_STORE_TAG)
                for stage, function in zip(stages, functions, strict=True):
                    if function.rows is not None:
                        self._call(function.rows, zero, {})
                    if function.init is not None:
                        self._call(function.init, zero, {})
                    if function.update is not None:
                        self._walk(stage, function.update, origins, (zero, one))
                    if function.finish is not None:
                        self._call(function.finish, zero, {})
                self._start(
                    [StoreBuffer(n) for n in row_stores], zero, builders.index_constant(_ROW_STORE_TAG), origins
                )
                scf.YieldOp([])
            builders.wait(_ROW_STORE_TAG)

    def _walk(
        self,
        stage: Stage,
        update: StagedFunction,
        row_origins: Mapping[int, ir.Value],
        bounds: tuple[ir.Value, ir.Value],
    ) -> None:
        """One stage over all tiles of a tile's rows."""
        zero, one = bounds
        stores: list[BufferKey] = [StoreBuffer(number) for number in stage.walk_stores]
        loads = [key for key in update.buffers if isinstance(key, Access) and not self._program.is_row_level(key)]
        tiles = builders.index_constant(prod(self._counts[self._program.row_rank :]))

        def origins(number: ir.Value) -> dict[int, ir.Value]:
            return {**row_origins, **self._origins(number, self._tile.reduced_axes)}

        def compute(number: ir.Value, copy: ir.Value) -> None:
            self._call(update, copy, self._origins(number, self._tile.reduced_axes))

        self._pipeline((zero, tiles, one), loads, stores, origins, compute)

    def _pipeline(
        self,
        tiles: tuple[ir.Value, ir.Value, ir.Value],
        loads: Sequence[BufferKey],
        stores: Sequence[BufferKey],
        origins: Callable[[ir.Value], dict[int, ir.Value]],
        compute: Callable[[ir.Value, ir.Value], None],
    ) -> None:
        """Tiles `first, first + step ... < end`: the next one loads while this one computes and the last one is
        stored."""
        first, end, step = tiles
        zero, one = builders.index_constant(0), builders.index_constant(1)

        def tag(copy: ir.Value, base: int) -> ir.Value:
            return arith.addi(copy, builders.index_constant(base)) if base else copy

        with _when(arith.cmpi(arith.CmpIPredicate.ult, first, end)):
            self._start(loads, zero, tag(zero, _LOAD_TAG), origins(first))
            scf.YieldOp([])
        loop = scf.ForOp(first, end, step, [zero])
        with ir.InsertionPoint(loop.body):
            number, copy = loop.induction_variable, loop.inner_iter_args[0]
            following, other = arith.addi(number, step), arith.subi(one, copy)
            with _when(arith.cmpi(arith.CmpIPredicate.ult, following, end)):
                self._start(loads, other, tag(other, _LOAD_TAG), origins(following))
                scf.YieldOp([])
            builders.wait(tag(copy, _LOAD_TAG))
            builders.wait(tag(copy, _STORE_TAG))
            compute(number, copy)
            self._start(stores, copy, tag(copy, _STORE_TAG), origins(number))
            scf.YieldOp([other])
        for copy_number in range(BUFFER_COPIES):
            builders.wait(_STORE_TAG + copy_number)

    def _declare_accumulator(self, key: Accumulator) -> None:
        elements = self._tile.elements(row_level=True)
        widest = 8  # bytes: no accumulator's type is wider
        self._buffers[key] = self._kernel.buffer(f"acc{key.operation}_{key.part}", elements * widest)

    def _refer(self) -> None:
        self._memories = {key: builders.buffer_ref(buffer) for key, buffer in self._buffers.items()}

    def _pointer(self, key: BufferKey, copy: ir.Value, kind: ir.Type) -> ir.Value:
        buffer = self._buffers[key]
        shift = arith.muli(copy, builders.index_constant(buffer.bytes_per_copy if buffer.copies > 1 else 0))
        memory = ir.MemRefType(kind)
        return builders.tile_view(self._memories[key], shift, memory.shape[0], memory.element_type)

    def _start(self, keys: Sequence[BufferKey], copy: ir.Value, tag: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        byte = ir.IntegerType.get_signless(8)
        for key in keys:
            operand = self._operands[key]
            kind = ir.MemRefType.get([operand.buffer.bytes_per_copy], byte)
            by_axis = {operand.axes.index(axis): origin for axis, origin in origins.items() if axis in operand.axes}
            builders.transfer(operand.descriptor, self._pointer(key, copy, kind), tag, by_axis)

    def _call(self, function: StagedFunction, copy: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        """Call with copy `copy` of what transfers fill; row-level buffers of streamed rows have only copy 0 in use."""
        arguments = []
        kinds = [argument.type for argument in function.function.arguments]
        for key, kind in zip(function.buffers, kinds, strict=False):
            streamed_row = (
                isinstance(key, Access) and self._tile.streams(self._program.sizes) and self._program.is_row_level(key)
            )
            arguments.append(self._pointer(key, builders.index_constant(0) if streamed_row else copy, kind))
        builders.call_tile(function.function, [*arguments, *(origins[axis] for axis in function.origin_axes)])

    def _origins(self, number: ir.Value, axes: range) -> dict[int, ir.Value]:
        """The first element of tile `number` (counted over `axes`, the last fastest) along each axis that has
        several."""
        counts = [self._counts[axis] for axis in axes]
        origins: dict[int, ir.Value] = {}
        for position, axis in enumerate(axes):
            if counts[position] == 1:
                continue
            inner = prod(counts[position + 1 :])
            along = arith.divui(number, builders.index_constant(inner)) if inner > 1 else number
            if prod(counts[:position]) > 1:
                along = arith.remui(along, builders.index_constant(counts[position]))
            origins[axis] = arith.muli(along, builders.index_constant(self._tile.sizes[axis]))
        return origins


def _when(condition: ir.Value) -> ir.InsertionPoint:
    """An insertion point inside `if condition`."""
    return ir.InsertionPoint(scf.IfOp(condition).then_block)
