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
from pytorchsim.mlir.kernel_builder import Buffer, KernelBuilder
from pytorchsim.target.descriptor import TransferOp
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand, Part
from pytorchsim.templates.gemm_tile import Block, GemmTile, fused_tile
from pytorchsim.templates.gemm_transfers import block_transfer, clearing_transfer
from pytorchsim.templates.loop_program import Access, LoopProgram

__all__ = ["DEEP", "GemmBuffers", "Moved"]

DEEP = "deep_"
"""Of names: what serves steps that take several k tiles."""


Origins = tuple[tuple[tuple[int, int], ...], ...]

_NO_ORIGINS: Origins = ()


@dataclass(frozen=True)
class Moved:
    """A buffer, what one copy of it holds, and the descriptor that fills or empties a copy, if any does, with the
    frame's axes whose origins it takes (`BlockTransfer.origins`)."""

    buffer: Buffer
    elements: int
    dtype: Dtype
    descriptor: str = ""
    origins: Origins = _NO_ORIGINS


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
        self._clearing: dict[str, str] = {}
        self.moved: dict[str, Moved] = {}

    def refer(self) -> None:
        """Get the addresses, at the start of the control function."""
        self._memories = {name: builders.buffer_ref(moved.buffer) for name, moved in self.moved.items()}

    def declare_deep(self, operand: Operand, access: Access) -> None:
        """The descriptor that loads a streamed operand for a deep step, into the same buffer."""
        wide = self._tile.deepened().block(operand, self._problem)
        symbol, origins = self._descriptor(DEEP + operand, operand, access, TransferOp.LOAD, wide, 0)
        self.moved[DEEP + operand] = replace(self.moved[operand], descriptor=symbol, origins=origins)

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
        access. A program's access that does not change along the walked axes has one value per slot."""
        need = self._needs[name]
        buffer = self._kernel.buffer(name, need.bytes_per_copy, copies=need.copies)
        symbol, origins = "", _NO_ORIGINS
        if access is not None:
            vector = 0
            if program is not None and program.is_row_level(access):
                vector = fused_tile(program, block, self._kernel.config).vector_elements
            symbol, origins = self._descriptor(name, part, access, op, block, vector)
        self.moved[name] = Moved(buffer, need.elements, need.dtype, symbol, origins)
        if op is TransferOp.LOAD and access is not None and self._problem.roles(part)[-1] == "k" and block.padded:
            clearing = clearing_transfer(access, block, self._slots[access.buffer])
            self._clearing[name] = self._kernel.descriptor(f"clear_{name}", clearing)

    def _descriptor(
        self, name: str, part: Part, access: Access, op: TransferOp, block: Block, row_level: int
    ) -> tuple[str, Origins]:
        slot = self._slots[access.buffer]
        move = block_transfer(access, self._problem.frame(part), block, slot, op, row_level=row_level)
        if move.descriptor is None:
            raise AssertionError(f"{name}: {move.refusal}; the search lets no such tile through")
        return self._kernel.descriptor(f"transfer_{name}", move.descriptor), move.origins

    def clear(self, tag: int) -> None:
        """Zeros where no load writes and products are summed; waits."""
        for name, descriptor in self._clearing.items():
            for copy in range(self.moved[name].buffer.copies):
                builders.transfer(descriptor, self.pointer(name, _index(copy)), tag)
        if self._clearing:
            builders.wait(tag)

    def transfer(self, name: str, copy: ir.Value, tag: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        """Start it. `origins`: by axis of the frame; absent ones are 0."""
        moved = self.moved[name]
        used: dict[int, ir.Value] = {}
        for number, terms in enumerate(moved.origins):
            for axis, factor in terms:
                if axis not in origins:
                    continue
                term = origins[axis] if factor == 1 else arith.muli(origins[axis], _index(factor))
                used[number] = arith.addi(used[number], term) if number in used else term
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
