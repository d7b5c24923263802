"""The generic elementwise kernel: any loop program without reductions, tile by tile, double-buffered.

In: a `LoopProgram` with merged axes, the argument slot of each buffer, the machine. Out: the MLIR text of one kernel and what was
decided. Form: the tile function walks dense per-lane buffers, one vector of every operand at a time; every broadcast, stride and tail is the DMA's
business. The control function starts the loads of the next tile, waits for this one's, computes, and starts its stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import SpadOverflowError
from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import Buffer, KernelBuilder, TileFunction
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, TransferOp
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.tiling import BUFFER_COPIES, Tile, TileSearch, search
from pytorchsim.templates.vector_ops import EMITTERS, Operands, from_memory, to_memory

__all__ = ["PointwiseKernel", "build_pointwise"]

_LOAD_TAG, _STORE_TAG = 0, BUFFER_COPIES
"""Transfers of buffer copy c carry tag `_LOAD_TAG + c` or `_STORE_TAG + c`."""


@dataclass(frozen=True)
class PointwiseKernel:
    """What was built. `reasons` says why other tiles were not taken."""

    mlir: str
    tile: Tile
    reasons: tuple[str, ...]

    @property
    def tile_description(self) -> dict[str, int]:
        """The tile as a flat record for reports."""
        sizes = {f"axis{axis}": size for axis, size in enumerate(self.tile.sizes)}
        return sizes | {
            "lane_axis": self.tile.lane_axis, "lane_run": self.tile.lane_run, "vector": self.tile.vector_elements,
        }


@dataclass(frozen=True)
class _Operand:
    """One access with its scratchpad buffer and its descriptor's symbol."""

    access: Access
    buffer: Buffer
    descriptor: str


def build_pointwise(
    name: str, program: LoopProgram, slots: Mapping[str, int], origins: tuple[str, ...], config: NpuConfig
) -> PointwiseKernel:
    """The kernel `name` of `program`; `slots` gives each buffer's argument number.

    Raises SpadOverflowError where no tile fits.
    """
    found = search(program, config)
    if found.tile is None:
        raise _overflow(name, origins, found, config)
    tile = found.tile
    with KernelBuilder(name, config, origins=origins, tile_shape=_shape(tile)) as kernel:
        loads = [
            _operand(kernel, f"in{number}", access, slots[access.buffer], TransferOp.LOAD, tile, program)
            for number, access in enumerate(program.loads)
        ]
        stores = [
            _operand(kernel, f"out{number}", store.access, slots[store.access.buffer], TransferOp.STORE, tile, program)
            for number, store in enumerate(program.stores)
        ]
        function = _tile_function(kernel, program, tile)
        _control_function(kernel, function, loads, stores, tile, program.sizes)
        text = kernel.text()
    reasons = tuple(f"{count} tiles refused: {reason}" for reason, count in sorted(found.rejected.items()))
    return PointwiseKernel(text, tile, reasons)


def _shape(tile: Tile) -> dict[str, int]:
    return {f"axis{axis}": size for axis, size in enumerate(tile.sizes)}


def _overflow(name: str, origins: tuple[str, ...], found: TileSearch, config: NpuConfig) -> SpadOverflowError:
    if found.smallest is None or found.smallest_footprint is None:
        raise ValueError("a tile search enumerates at least one candidate")
    used = found.smallest_footprint
    return SpadOverflowError(
        kernel=name,
        origins=origins,
        tile=_shape(found.smallest),
        used_bytes=used.total_bytes,
        budget_bytes=config.core.scratchpad_bytes_per_lane,
        shares={key: BUFFER_COPIES * size for key, size in used.shares.items()} | {"stack": used.stack_bytes},
        smallest=_shape(found.smallest),
    )


def _operand(
    kernel: KernelBuilder, name: str, access: Access, slot: int, op: TransferOp, tile: Tile, program: LoopProgram
) -> _Operand:
    """Declare the buffer and the descriptor of one access."""
    walk = zip(tile.sizes, access.index.strides, tile.in_lane_strides(), strict=True)
    axes = tuple(
        Axis(size, stride, in_lane, lane=axis == tile.lane_axis) for axis, (size, stride, in_lane) in enumerate(walk)
    )
    descriptor = Descriptor(
        slot=slot,
        op=op,
        dtype=access.dtype,
        axes=axes,
        offset=access.index.offset,
        lane_stride=tile.lane_run,
        bounds=tuple(
            Bound(0, tuple(int(other == axis) for other in range(len(axes))), extent)
            for axis, extent in enumerate(program.sizes)
            if extent % tile.sizes[axis]
        ),
    )
    buffer = kernel.buffer(name, tile.padded_elements * access.dtype.bytes, copies=BUFFER_COPIES)
    return _Operand(access, buffer, kernel.descriptor(f"transfer_{name}", descriptor))


def _tile_function(kernel: KernelBuilder, program: LoopProgram, tile: Tile) -> TileFunction:
    """All operations on one vector after the other of the tile."""
    step = tile.vector_elements
    accesses = [*program.loads, *(store.access for store in program.stores)]
    tiles = [(tile.padded_elements, builders.element_type(access.dtype)) for access in accesses]
    with kernel.tile_function("body", tiles) as function:
        pointers = dict(zip(program.loads, function.arguments, strict=False))
        outputs = function.arguments[len(program.loads) :]
        bounds = [builders.index_constant(value) for value in (0, tile.padded_elements, step)]
        for position in scf.for_(*bounds):
            values: list[ir.Value] = []
            for operation in program.operations:
                if operation.access is not None:
                    memory = operation.access.dtype
                    kind = ir.VectorType.get([step], builders.element_type(memory))
                    loaded = vector.load(kind, pointers[operation.access], [position])
                    values.append(from_memory(loaded, memory, step))
                    continue
                operands = Operands(
                    operation,
                    tuple(values[number] for number in operation.operands),
                    tuple(program.operations[number].dtype for number in operation.operands),
                    step,
                )
                values.append(EMITTERS[operation.name](operands))
            for store, pointer in zip(program.stores, outputs, strict=True):
                vector.store(to_memory(values[store.value], store.access.dtype, step), pointer, [position])
            scf.yield_([])
    return function


def _control_function(
    kernel: KernelBuilder,
    function: TileFunction,
    loads: list[_Operand],
    stores: list[_Operand],
    tile: Tile,
    extents: tuple[int, ...],
) -> None:
    """Tiles core, core + cores, core + 2 * cores ...: load the next while this one computes and the last one is stored."""
    counts = tile.counts(extents)
    with kernel.control() as (core, cores):
        end = builders.index_constant(prod(counts))
        zero, one = builders.index_constant(0), builders.index_constant(1)
        memories = {operand.buffer: builders.buffer_ref(operand.buffer) for operand in (*loads, *stores)}

        def pointer(operand: _Operand, copy: ir.Value) -> ir.Value:
            shift = arith.muli(copy, builders.index_constant(operand.buffer.bytes_per_copy))
            element = builders.element_type(operand.access.dtype)
            return builders.tile_view(memories[operand.buffer], shift, tile.padded_elements, element)

        def start(operands: list[_Operand], number: ir.Value, copy: ir.Value, first_tag: int) -> None:
            origins = _origins(number, counts, tile)
            tag = arith.addi(copy, builders.index_constant(first_tag))
            for operand in operands:
                builders.transfer(operand.descriptor, pointer(operand, copy), tag, origins)

        with _when(arith.cmpi(arith.CmpIPredicate.ult, core, end)):
            start(loads, core, zero, _LOAD_TAG)
            scf.yield_([])
        for number, copy, _ in scf.for_(core, end, cores, [zero]):
            following = arith.addi(number, cores)
            other = arith.subi(one, copy)
            with _when(arith.cmpi(arith.CmpIPredicate.ult, following, end)):
                start(loads, following, other, _LOAD_TAG)
                scf.yield_([])
            builders.wait(copy)
            builders.wait(arith.addi(copy, builders.index_constant(_STORE_TAG)))
            builders.call_tile(function, [pointer(operand, copy) for operand in (*loads, *stores)])
            start(stores, number, copy, _STORE_TAG)
            scf.yield_([other])
        for copy_number in range(BUFFER_COPIES):
            builders.wait(_STORE_TAG + copy_number)


def _when(condition: ir.Value) -> ir.InsertionPoint:
    """An insertion point inside `if condition`."""
    return ir.InsertionPoint(scf.IfOp(condition).then_block)


def _origins(number: ir.Value, counts: tuple[int, ...], tile: Tile) -> dict[int, ir.Value]:
    """The first element of tile `number` along each axis that has several tiles; the last axis runs fastest."""
    origins: dict[int, ir.Value] = {}
    for axis, count in enumerate(counts):
        if count == 1:
            continue
        inner = prod(counts[axis + 1 :])
        along = arith.divui(number, builders.index_constant(inner)) if inner > 1 else number
        if prod(counts[:axis]) > 1:
            along = arith.remui(along, builders.index_constant(count))
        origins[axis] = arith.muli(along, builders.index_constant(tile.sizes[axis]))
    return origins
