"""The scratchpad buffers of a loop program's kernel: the table that the tile search judges and the kernel declares.

In: a program, its stages, a tile. Out: `LoopBuffer`s by key: one for each distinct load (all taps of a window), index
tile and store, twice, since one half computes while the other loads or stores; one for each part of a reduction or a
scan that outlives a tile, and one for each value that outlives a walk.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.block import Accumulator, BufferKey, Kept, StoreBuffer, accumulators, partial_dtypes
from pytorchsim.templates.footprint import BufferNeed, TemplateFootprint, footprint_of
from pytorchsim.templates.gathers import IndexForm, IndexTileKey
from pytorchsim.templates.loop_program import LoopProgram
from pytorchsim.templates.stages import Stage
from pytorchsim.templates.tile import BUFFER_COPIES, Tile
from pytorchsim.templates.tile_loads import window_taps
from pytorchsim.templates.window_loads import WindowLoad

__all__ = ["LoopBuffer", "buffer_shape", "loop_buffers", "loop_footprint"]


@dataclass(frozen=True)
class LoopBuffer:
    """A buffer's name in its kernel, and what it takes."""

    name: str
    need: BufferNeed


def loop_buffers(
    program: LoopProgram, tile: Tile, stages: tuple[Stage, ...], burst_bytes: int
) -> dict[BufferKey, LoopBuffer]:
    """Every buffer: index tiles first, since transfers refer to them."""
    plan = tile.plan(program, stages)
    taps = window_taps(program, tile, burst_bytes)
    loads = dict.fromkeys(taps[access][0] if access in taps else access for access in plan.loads)
    names: dict[BufferKey, str] = {key: f"index{number}" for number, key in enumerate(plan.index_tiles)}
    names |= {load: f"in{number}" for number, load in enumerate(loads)}
    names |= {StoreBuffer(number): f"out{number}" for number in range(len(program.stores))}
    if tile.streams(program.sizes):
        carried = [number for stage in stages for number in stage.carried]
        names |= {part: f"acc{part.operation}_{part.part}" for part in accumulators(program, carried)}
    names |= {Kept(number): f"kept{number}" for stage in stages for number in stage.kept}
    table: dict[BufferKey, LoopBuffer] = {}
    for key, name in names.items():
        elements, dtype = buffer_shape(program, tile, key)
        if isinstance(key, IndexTileKey) and key.form is IndexForm.DIRECT:
            elements = tile.index_tile_elements(program, key)
        copies = 1 if isinstance(key, Accumulator | Kept) else BUFFER_COPIES
        table[key] = LoopBuffer(name, BufferNeed(elements, dtype, copies))
    return table


def buffer_shape(program: LoopProgram, tile: Tile, key: BufferKey) -> tuple[int, Dtype]:
    """Elements per lane of one copy, as tile functions see it, and type of the buffer behind a key; a window's taps
    stand one after another."""
    if isinstance(key, WindowLoad):
        elements, dtype = buffer_shape(program, tile, key.access)
        return len(key.taps) * elements, dtype
    if isinstance(key, Accumulator):
        return tile.elements(row_level=True), partial_dtypes(program, key.operation)[key.part]
    if isinstance(key, Kept):
        return tile.elements(row_level=False), program.operations[key.operation].dtype
    if isinstance(key, IndexTileKey):
        return tile.elements(row_level=key.form is IndexForm.ROW), program.operations[key.value].dtype
    access = program.stores[key.number].access if isinstance(key, StoreBuffer) else key
    return tile.elements(row_level=program.is_row_level(access)), access.dtype


def loop_footprint(program: LoopProgram, tile: Tile, stages: tuple[Stage, ...], config: NpuConfig) -> TemplateFootprint:
    """What the buffers take on this machine."""
    table = loop_buffers(program, tile, stages, config.dram.burst_bytes)
    needs = {buffer.name: buffer.need for buffer in table.values()}
    return footprint_of(needs, config)
