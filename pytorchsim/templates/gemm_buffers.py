"""Buffers and descriptors of a matrix product's kernel, by name: what each holds, and what moves it.

In: the tile's buffer table (`GemmTile.buffers`), accesses over frames. Out: declarations in the kernel, pointers and
transfers at the insertion point of the control function.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import Buffer, KernelBuilder
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, TransferOp
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand, Part
from pytorchsim.templates.gemm_tile import Block, GemmTile, fused_tile
from pytorchsim.templates.loop_program import Access, LoopProgram

__all__ = ["DEEP", "GemmBuffers", "Moved"]

DEEP = "deep_"
"""Of names: what serves steps that take several k tiles."""


@dataclass(frozen=True)
class Moved:
    """A buffer, what one copy of it holds, and the descriptor that fills or empties a copy, if any does."""

    buffer: Buffer
    elements: int
    dtype: Dtype
    descriptor: str = ""
    walks: bool = True


class GemmBuffers:
    """Declares, points to and moves buffers. `slots`: argument number by tensor."""

    def __init__(
        self,
        kernel: KernelBuilder,
        problem: GemmProblem,
        fusion: GemmFusion,
        tile: GemmTile,
        slots: Mapping[str, int],
    ) -> None:
        self._kernel, self._problem, self._tile, self._slots = kernel, problem, tile, slots
        self._needs = tile.buffers(problem, fusion, kernel.config)
        self._memories: dict[str, ir.Value] = {}
        self.moved: dict[str, Moved] = {}

    def refer(self) -> None:
        """Get the addresses, at the start of the control function."""
        self._memories = {name: builders.buffer_ref(moved.buffer) for name, moved in self.moved.items()}

    def declare_deep(self, operand: Operand, access: Access) -> None:
        """The descriptor that loads a streamed operand for a deep step, into the same buffer."""
        wide = self._tile.deepened().block(operand, self._problem)
        descriptor = self._descriptor(operand, access, TransferOp.LOAD, wide, 0)
        symbol = self._kernel.descriptor(f"transfer_{DEEP}{operand}", descriptor)
        self.moved[DEEP + operand] = replace(self.moved[operand], descriptor=symbol)

    def declare(
        self,
        name: str,
        part: Part,
        access: Access | None,
        op: TransferOp,
        block: Block,
        program: LoopProgram | None = None,
    ) -> None:
        """A buffer of `block`'s shape over the frame of `part`, and the descriptor that moves it where it has an
        access. A program's access that does not change along the walked axis has one value per slot."""
        need = self._needs[name]
        buffer = self._kernel.buffer(name, need.bytes_per_copy, copies=need.copies)
        symbol, row_level = "", False
        if access is not None:
            vector = 0
            if program is not None and program.is_row_level(access):
                row_level, vector = True, fused_tile(program, block, self._kernel.config).vector_elements
            symbol = self._kernel.descriptor(f"transfer_{name}", self._descriptor(part, access, op, block, vector))
        self.moved[name] = Moved(buffer, need.elements, need.dtype, symbol, not row_level)

    def _descriptor(self, part: Part, access: Access, op: TransferOp, block: Block, vector: int) -> Descriptor:
        """Axes (batch, walked, lane), or (batch, element of a vector, lane) where there is one value per slot, in every
        element of its `vector`."""
        index, frame = access.index, self._problem.frame(part)
        batch = Axis(1, index.strides[0], 0)
        if vector:
            walked = Axis(vector if op is TransferOp.LOAD else 1, 0, 1)
            lane = Axis(block.lane_size, index.strides[1], vector, lane=block.spread)
        else:
            walked = Axis(block.walked_size, index.strides[2], 1)
            lane = Axis(block.lane_size, index.strides[1], block.pitch, lane=block.spread)
        bounds = []
        if frame[1] % block.lane_size:
            bounds.append(Bound(0, (0, 0, 1), frame[1]))
        if frame[2] % block.walked_size and not vector:
            bounds.append(Bound(0, (0, 1, 0), frame[2]))
        return Descriptor(
            slot=self._slots[access.buffer],
            op=op,
            dtype=access.dtype,
            axes=(batch, walked, lane),
            offset=index.offset,
            bounds=tuple(bounds),
        )

    def transfer(self, name: str, copy: ir.Value, tag: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        moved = self.moved[name]
        used = {axis: origin for axis, origin in origins.items() if axis != 1 or moved.walks}
        builders.transfer(moved.descriptor, self.pointer(name, copy), tag, used)

    def result_pointer(self, copy: ir.Value, m_tile: ir.Value) -> ir.Value:
        """Where the step adds: the result's copy, from the step's rows on."""
        moved, tile = self.moved["y"], self._tile
        pitch = tile.block("y", self._problem).pitch
        elements = (tile.n_slots - 1) * pitch + tile.m
        shift = arith.muli(copy, _index(moved.buffer.bytes_per_copy))
        if tile.column and tile.counts(self._problem)[0] > 1:
            shift = arith.addi(shift, arith.muli(m_tile, _index(tile.m * moved.dtype.bytes)))
        return builders.tile_view(self._memories["y"], shift, elements, builders.element_type(moved.dtype))

    def pointer(self, name: str, copy: ir.Value, elements: int = 0) -> ir.Value:
        """A copy of a buffer, or `elements` from its start on."""
        moved = self.moved[name]
        shift = arith.muli(copy, _index(moved.buffer.bytes_per_copy))
        kind = builders.element_type(moved.dtype)
        return builders.tile_view(self._memories[name], shift, elements or moved.elements, kind)


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
