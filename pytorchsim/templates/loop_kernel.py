"""The generic kernel: any loop program, elementwise or with reductions, tile by tile, double-buffered.

In: a `LoopProgram` with merged axes, the argument slot of each buffer, the machine. Out: the MLIR text of one kernel
and what was decided. Every broadcast, stride, transposition and tail is the DMA's business: tile functions walk dense
per-lane buffers. The control function starts the loads of the next tile, waits for this one's, computes, and starts
its stores; cores take every `cores`-th tile of rows. What is gathered follows in phases (`gathers.py`), for this tile
only. A kernel that scatters runs on core 0 alone: later elements overwrite or are added to earlier ones in the order of
tiles, whatever the number of cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import UnsupportedError
from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import Buffer, KernelBuilder
from pytorchsim.target.descriptor import TransferOp
from pytorchsim.templates.base import BuiltKernel
from pytorchsim.templates.block import BufferKey, StoreBuffer
from pytorchsim.templates.gathers import IndexForm, IndexTileKey, Phase
from pytorchsim.templates.loop_buffers import buffer_shape, loop_buffers
from pytorchsim.templates.loop_program import Access, LoopProgram, direct_load
from pytorchsim.templates.stages import Stage
from pytorchsim.templates.tile import BUFFER_COPIES
from pytorchsim.templates.tile_descriptors import TileTransfer, access_transfer, index_tile_transfer, window_transfer
from pytorchsim.templates.tile_functions import StagedFunction, StreamedStage, TileFunctions
from pytorchsim.templates.tile_loads import window_taps
from pytorchsim.templates.tile_search import BEST_TILE, WantedTile, cheapest
from pytorchsim.templates.window_loads import WindowLoad

__all__ = ["build_loop_kernel"]

_LOAD_TAG, _STORE_TAG = 0, BUFFER_COPIES
"""Transfers of buffer copy c carry tag `_LOAD_TAG + c` or `_STORE_TAG + c`."""

_ROW_LOAD_TAG, _ROW_STORE_TAG = 2 * BUFFER_COPIES, 2 * BUFFER_COPIES + 1
"""Row-level transfers of streamed rows."""

_GATHER_TAG = 2 * BUFFER_COPIES + 2
"""Loads that need an index tile: started and waited for in one go."""


@dataclass(frozen=True)
class _Operand:
    """One transferred buffer with its descriptor's symbol and what its origins are."""

    buffer: Buffer
    descriptor: str
    transfer: TileTransfer


@dataclass(frozen=True)
class _Gathering:
    """A phase after the first, with the function that computes its index tiles."""

    function: StagedFunction | None
    phase: Phase


def build_loop_kernel(
    name: str,
    program: LoopProgram,
    slots: Mapping[str, int],
    origins: tuple[str, ...],
    config: NpuConfig,
    *,
    wanted: WantedTile = BEST_TILE,
) -> BuiltKernel:
    """The kernel `name` of `program`; `slots` gives each buffer's argument number.

    Raises SpadOverflowError where no tile fits, UnsupportedError where those that fit are none that the machine moves.
    """
    found = cheapest(program, config, row_tiles=wanted.row_tiles)
    if not found.ranked:
        if found.inexpressible:
            raise UnsupportedError(f"no tile of it can be moved: {found.inexpressible}")
        raise found.smallest_footprint.overflow(name, origins, found.smallest.describe())
    chosen = found.ranked[min(wanted.rank, len(found.ranked) - 1)]
    tile, stages = chosen.tile, chosen.stages
    with KernelBuilder(name, config, origins=origins, tile_shape=tile.describe()) as kernel:
        taps = window_taps(program, tile, config.dram.burst_bytes)
        functions = TileFunctions(kernel, program, stages, tile, config.core.lanes, taps)
        control = _Control(functions, slots)
        if tile.streams(program.sizes):
            control.streamed(stages, functions.streamed())
        else:
            control.resident(functions.resident())
        estimate = f"{chosen.cycles:.0f} cycles"
        return BuiltKernel(kernel.text(), tile.describe(), found.reasons, len(found.ranked), estimate)


class _Control:
    """Builds the control function: buffers, descriptors, loops over tiles."""

    def __init__(self, functions: TileFunctions, slots: Mapping[str, int]) -> None:
        self._kernel, self._program, self._tile = functions.kernel, functions.program, functions.tile
        self._functions, self._slots = functions, slots
        program, tile = self._program, self._tile
        self._counts = tile.counts(program.sizes)
        self._streams = tile.streams(program.sizes)
        self._plan = tile.plan(program, functions.stages)
        self._operands: dict[BufferKey, _Operand] = {}
        self._buffers: dict[BufferKey, Buffer] = {}
        self._memories: dict[BufferKey, ir.Value] = {}
        burst_bytes = self._kernel.config.dram.burst_bytes
        self._taps = functions.taps
        for key, declared in loop_buffers(program, tile, functions.stages, burst_bytes).items():
            need = declared.need
            self._buffers[key] = self._kernel.buffer(declared.name, need.bytes_per_copy, copies=need.copies)
            if isinstance(key, IndexTileKey):
                self._declare_index_transfer(key, declared.name)
            elif isinstance(key, StoreBuffer):
                store = program.stores[key.number]
                self._declare_transfer(key, declared.name, store.access, store.op)
            elif isinstance(key, Access):
                self._declare_transfer(key, declared.name, key, TransferOp.LOAD)
            elif isinstance(key, WindowLoad):
                elements, _ = buffer_shape(program, tile, key.access)
                transfer = window_transfer(program, tile, key, slots[key.access.buffer], elements)
                symbol = self._kernel.descriptor(f"transfer_{declared.name}", transfer.descriptor)
                self._operands[key] = _Operand(self._buffers[key], symbol, transfer)

    def _declare_transfer(self, key: BufferKey, name: str, access: Access, op: TransferOp) -> None:
        """The descriptor of one access."""
        transfer = access_transfer(self._program, self._tile, access, op, self._slots[access.buffer])
        indices = [self._buffers[tile] for tile in transfer.index_tiles]
        symbol = self._kernel.descriptor(f"transfer_{name}", transfer.descriptor, index_buffers=indices)
        self._operands[key] = _Operand(self._buffers[key], symbol, transfer)

    def _declare_index_transfer(self, key: IndexTileKey, name: str) -> None:
        """The descriptor of an index tile that is loaded as it is."""
        access = direct_load(self._program, key.value)
        if key.form is IndexForm.DIRECT and access is not None:
            transfer = index_tile_transfer(self._program, self._tile, key, self._slots[access.buffer])
            symbol = self._kernel.descriptor(f"transfer_{name}", transfer.descriptor)
            self._operands[key] = _Operand(self._buffers[key], symbol, transfer)

    def _gatherings(self, name: str, phases: Sequence[Phase]) -> list[_Gathering]:
        """The phases after the first, with their functions."""
        return [
            _Gathering(
                self._functions.index_tiles(f"{name}{number}", phase.computed) if phase.computed else None, phase
            )
            for number, phase in enumerate(phases)
            if number
        ]

    def resident(self, body: StagedFunction) -> None:
        """Tiles of whole rows."""
        (phases,) = self._plan.walks
        gatherings = self._gatherings("indices", phases)
        stores: list[BufferKey] = [StoreBuffer(number) for number in range(len(self._program.stores))]
        with self._kernel.control() as (core, cores):
            self._refer()
            tiles = self._share_of_core(core, cores, prod(self._counts))

            def origins(number: ir.Value) -> dict[int, ir.Value]:
                return self._origins(number, self._tile.row_axes)

            def compute(number: ir.Value, copy: ir.Value) -> None:
                self._gather(gatherings, copy, origins(number))
                self._call(body, copy, origins(number))

            self._pipeline(tiles, phases[0], stores, origins, compute)

    def _share_of_core(self, core: ir.Value, cores: ir.Value, count: int) -> tuple[ir.Value, ir.Value, ir.Value]:
        """(first, end, step) of the tiles that this core takes."""
        end = builders.index_constant(count)
        if not self._program.scatters:
            return core, end, cores
        zero = builders.index_constant(0)
        first_core = arith.cmpi(arith.CmpIPredicate.eq, core, zero)
        return zero, arith.select(first_core, end, zero), builders.index_constant(1)

    def _gather(self, gatherings: Sequence[_Gathering], copy: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        """The phases after the first, for the tile in copy `copy`."""
        for gathering in gatherings:
            if gathering.function is not None:
                self._call(gathering.function, copy, origins)
            if gathering.phase.loads:
                self._start(gathering.phase.loads, copy, builders.index_constant(_GATHER_TAG), origins)
                builders.wait(_GATHER_TAG)

    def streamed(self, stages: Sequence[Stage], functions: Sequence[StreamedStage]) -> None:
        """Rows longer than a tile: every stage walks all tiles of its rows before the next one does."""
        row_gatherings = self._gatherings("row_indices", self._plan.rows)
        walk_gatherings = [
            self._gatherings(f"indices{number}_", phases) for number, phases in enumerate(self._plan.walks)
        ]
        row_stores = [number for stage in stages for number in stage.row_stores]
        tile = self._tile
        with self._kernel.control() as (core, cores):
            self._refer()
            zero = builders.index_constant(0)
            share = self._share_of_core(core, cores, prod(self._counts[: self._program.row_rank]))
            rows = scf.ForOp(*share)
            with ir.InsertionPoint(rows.body):
                origins = self._origins(rows.induction_variable, tile.row_axes)
                builders.wait(_ROW_STORE_TAG)
                first = self._plan.rows[0]
                self._start((*first.indices, *first.loads), zero, builders.index_constant(_ROW_LOAD_TAG), origins)
                builders.wait(_ROW_LOAD_TAG)
                self._gather(row_gatherings, zero, origins)
                for number, (stage, function) in enumerate(zip(stages, functions, strict=True)):
                    if function.rows is not None:
                        self._call(function.rows, zero, origins)
                    if function.init is not None:
                        self._call(function.init, zero, origins)
                    if function.update is not None:
                        self._walk(
                            stage, function.update, origins, (self._plan.walks[number][0], walk_gatherings[number])
                        )
                    if function.finish is not None:
                        self._call(function.finish, zero, origins)
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
        loading: tuple[Phase, Sequence[_Gathering]],
    ) -> None:
        """One stage over all tiles of a tile's rows; `loading`: its first phase and the later ones."""
        first, gatherings = loading
        stores: list[BufferKey] = [StoreBuffer(number) for number in stage.walk_stores]
        count = prod(self._counts[self._program.row_rank :])
        tiles = [builders.index_constant(value) for value in (0, count, 1)]

        def origins(number: ir.Value) -> dict[int, ir.Value]:
            return {**row_origins, **self._origins(number, self._tile.reduced_axes)}

        def compute(number: ir.Value, copy: ir.Value) -> None:
            self._gather(gatherings, copy, origins(number))
            self._call(update, copy, origins(number))

        self._pipeline((tiles[0], tiles[1], tiles[2]), first, stores, origins, compute)

    def _pipeline(
        self,
        tiles: tuple[ir.Value, ir.Value, ir.Value],
        phase: Phase,
        stores: Sequence[BufferKey],
        origins: Callable[[ir.Value], dict[int, ir.Value]],
        compute: Callable[[ir.Value, ir.Value], None],
    ) -> None:
        """Tiles `first, first + step ... < end`: the next one loads while this one computes and the last one is
        stored."""
        first, end, step = tiles
        loads: tuple[BufferKey, ...] = (*phase.indices, *phase.loads)
        # A store on its way still reads the index tile that the next load would overwrite.
        scatters = any(self._operands[key].transfer.index_tiles for key in stores) and bool(phase.indices)
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
                if scatters:
                    builders.wait(tag(other, _STORE_TAG))
                self._start(loads, other, tag(other, _LOAD_TAG), origins(following))
                scf.YieldOp([])
            builders.wait(tag(copy, _LOAD_TAG))
            builders.wait(tag(copy, _STORE_TAG))
            compute(number, copy)
            self._start(stores, copy, tag(copy, _STORE_TAG), origins(number))
            scf.YieldOp([other])
        for copy_number in range(BUFFER_COPIES):
            builders.wait(_STORE_TAG + copy_number)

    def _refer(self) -> None:
        self._memories = {key: builders.buffer_ref(buffer) for key, buffer in self._buffers.items()}

    def _pointer(self, key: BufferKey, copy: ir.Value, kind: ir.Type) -> ir.Value:
        memory = ir.MemRefType(kind)
        return builders.tile_view(self._memories[key], self._shift(key, copy), memory.shape[0], memory.element_type)

    def _shift(self, key: BufferKey, copy: ir.Value) -> ir.Value:
        """Bytes from a buffer's start to its copy `copy`."""
        buffer = self._buffers[key]
        return arith.muli(copy, builders.index_constant(buffer.bytes_per_copy if buffer.copies > 1 else 0))

    def _start(self, keys: Sequence[BufferKey], copy: ir.Value, tag: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        byte = ir.IntegerType.get_signless(8)
        for key in dict.fromkeys(self._taps[k][0] if isinstance(k, Access) and k in self._taps else k for k in keys):
            operand = self._operands[key]
            kind = ir.MemRefType.get([operand.buffer.bytes_per_copy], byte)
            walked = operand.transfer.axes
            by_axis = {walked.index(axis): origin for axis, origin in origins.items() if axis in walked}
            added = [
                arith.muli(origins[axis], builders.index_constant(stride))
                for axis, stride in operand.transfer.summed
                if axis in origins and stride
            ]
            if added:
                by_axis[len(operand.transfer.descriptor.axes) - 1] = _total(added)
            shifts = {number: self._shift(tile, copy) for number, tile in enumerate(operand.transfer.index_tiles)}
            builders.transfer(operand.descriptor, self._pointer(key, copy, kind), tag, by_axis, index_shifts=shifts)

    def _call(self, function: StagedFunction, copy: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        """Call with copy `copy` of what transfers fill; row-level buffers of streamed rows have only copy 0 in use."""
        kinds = [argument.type for argument in function.function.arguments]
        arguments = [
            self._pointer(key, builders.index_constant(0) if self._once_per_row(key) else copy, kind)
            for key, kind in zip(function.buffers, kinds, strict=False)
        ]
        builders.call_tile(function.function, [*arguments, *(origins[axis] for axis in function.origin_axes)])

    def _once_per_row(self, key: BufferKey) -> bool:
        if isinstance(key, IndexTileKey):
            return key.of_row
        access = key.access if isinstance(key, WindowLoad) else key
        return isinstance(access, Access) and self._streams and self._program.is_row_level(access)

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


def _total(values: Sequence[ir.Value]) -> ir.Value:
    total = values[0]
    for value in values[1:]:
        total = arith.addi(total, value)
    return total


def _when(condition: ir.Value) -> ir.InsertionPoint:
    """An insertion point inside `if condition`."""
    return ir.InsertionPoint(scf.IfOp(condition).then_block)
