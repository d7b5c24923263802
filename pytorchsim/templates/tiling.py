"""Tile search for elementwise loop programs: every candidate has a footprint, a cost in cycles, and a reason if refused.

In: a `LoopProgram` and the machine. Out: a `TileSearch` with the chosen `Tile` and what was refused and why. Pure. The choice does not
depend on the number of cores, so results are identical for any of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.descriptor import MAX_BOUNDS, MAX_RANK
from pytorchsim.templates.loop_program import Access, LoopProgram

__all__ = ["BUFFER_COPIES", "Footprint", "Tile", "TileSearch", "search"]

BUFFER_COPIES = 2
"""Each buffer exists twice: one half computes while the other loads."""

_MAX_LMUL = 8
_VECTOR_REGISTERS = 32
_ALIGNMENT_BYTES = 64
_TILE_LOOP_CYCLES = 40
"""Scalar work per tile: origins, `dma.set`s and the call. An estimate, used to rank candidates only."""


@dataclass(frozen=True)
class Tile:
    """A block of the iteration space and how it lies over the lanes.

    `sizes` are elements per axis; axis `lane_axis` is split so that lane l holds elements
    `l * lane_run .. (l + 1) * lane_run - 1` of it. Other axes stay inside the lane, in order.
    """

    sizes: tuple[int, ...]
    lane_axis: int
    lane_run: int
    vector_elements: int

    @property
    def in_lane_sizes(self) -> tuple[int, ...]:
        """Extents of the block inside one lane, in memory order."""
        return tuple(self.lane_run if axis == self.lane_axis else size for axis, size in enumerate(self.sizes))

    @property
    def elements_per_lane(self) -> int:
        """Elements one lane holds of each buffer, without padding."""
        return prod(self.in_lane_sizes)

    @property
    def padded_elements(self) -> int:
        """`elements_per_lane` rounded up to whole vectors: what a buffer has room for."""
        return -(-self.elements_per_lane // self.vector_elements) * self.vector_elements

    def counts(self, extents: tuple[int, ...]) -> tuple[int, ...]:
        """Tiles along each axis of a space of `extents`."""
        return tuple(-(-extent // size) for extent, size in zip(extents, self.sizes, strict=True))

    def in_lane_strides(self) -> tuple[int, ...]:
        """Scratchpad stride of each axis, in elements (of the lane axis: between neighbours in one lane)."""
        sizes = self.in_lane_sizes
        return tuple(prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


@dataclass(frozen=True)
class Footprint:
    """Scratchpad bytes per lane."""

    shares: dict[str, int]
    stack_bytes: int

    @property
    def total_bytes(self) -> int:
        """All copies of all buffers and the stack."""
        return BUFFER_COPIES * sum(self.shares.values()) + self.stack_bytes

    @property
    def one_tile_bytes(self) -> int:
        """What a single tile needs: each buffer once and the stack."""
        return sum(self.shares.values()) + self.stack_bytes


@dataclass(frozen=True)
class TileSearch:
    """The outcome: `tile` is None when nothing fits; `rejected` maps a reason to how many candidates it cost."""

    tile: Tile | None
    footprint: Footprint | None
    cycles: float
    rejected: dict[str, int]
    smallest: Tile | None
    smallest_footprint: Footprint | None


def buffer_bytes(access: Access, tile: Tile) -> int:
    """Bytes per lane of one copy of the buffer of `access`, aligned."""
    return -(-tile.padded_elements * access.dtype.bytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def footprint(program: LoopProgram, tile: Tile, config: NpuConfig) -> Footprint:
    """Bytes per lane by buffer: one for each distinct load, one for each store."""
    shares = {f"in{number}:{access.buffer}": buffer_bytes(access, tile) for number, access in enumerate(program.loads)}
    shares |= {
        f"out{number}:{store.access.buffer}": buffer_bytes(store.access, tile)
        for number, store in enumerate(program.stores)
    }
    return Footprint(shares, config.core.stack_reserve_bytes)


def search(program: LoopProgram, config: NpuConfig, *, max_lmul: int = _MAX_LMUL) -> TileSearch:
    """The cheapest tile that fits."""
    rejected: dict[str, int] = {}
    best: tuple[float, Tile, Footprint] | None = None
    smallest: tuple[int, Tile, Footprint] | None = None
    for tile in _candidates(program, config, max_lmul):
        print_ = footprint(program, tile, config)
        if smallest is None or print_.total_bytes < smallest[0]:
            smallest = (print_.total_bytes, tile, print_)
        reason = _refusal(program, tile, print_, config)
        if reason:
            rejected[reason] = rejected.get(reason, 0) + 1
            continue
        cycles = _cost_cycles(program, tile, config)
        if best is None or (cycles, print_.total_bytes) < (best[0], best[2].total_bytes):
            best = (cycles, tile, print_)
    return TileSearch(
        tile=best[1] if best else None,
        footprint=best[2] if best else None,
        cycles=best[0] if best else math.inf,
        rejected=rejected,
        smallest=smallest[1] if smallest else None,
        smallest_footprint=smallest[2] if smallest else None,
    )


def _refusal(program: LoopProgram, tile: Tile, used: Footprint, config: NpuConfig) -> str:
    slice_bytes = config.core.scratchpad_bytes_per_lane
    if used.total_bytes > slice_bytes:
        return "all copies exceed the slice"
    if used.one_tile_bytes > slice_bytes // 2:
        return "one tile exceeds half the slice"
    ragged = sum(1 for size, extent in zip(tile.sizes, program.sizes, strict=True) if extent % size)
    if ragged > MAX_BOUNDS:
        return f"more than {MAX_BOUNDS} axes end inside a tile"
    if len(tile.sizes) > MAX_RANK:
        return f"more than {MAX_RANK} axes"
    return ""


def _candidates(program: LoopProgram, config: NpuConfig, max_lmul: int) -> Iterator[Tile]:
    """Every lane axis, every power-of-two run, every power-of-two size of the rest filled from the innermost axis out."""
    lanes = config.core.lanes
    widest_bytes = max(
        [access.dtype.bytes for access in program.accesses()] + [op.dtype.bytes for op in program.operations]
    )
    full = max(2, _lmul(program, max_lmul) * config.core.vlen_bits // 8 // widest_bytes)
    limit = config.core.scratchpad_bytes_per_lane // widest_bytes
    seen: set[Tile] = set()
    for lane_axis, extent in enumerate(program.sizes):
        run = 1
        while True:
            room = run
            while room <= limit:
                sizes = _fill(program.sizes, lane_axis, run * lanes, room // run)
                elements = prod(sizes) // lanes
                tile = Tile(sizes, lane_axis, run, min(full, max(2, 1 << (elements - 1).bit_length())))
                if tile not in seen:
                    seen.add(tile)
                    yield tile
                room *= 2
            if run * lanes >= extent or run >= limit:
                break
            run *= 2


def _fill(extents: tuple[int, ...], lane_axis: int, lane_size: int, room: int) -> tuple[int, ...]:
    """Sizes of the other axes: whole extents from the innermost out, then what is left of `room`, then 1."""
    sizes = [1] * len(extents)
    sizes[lane_axis] = lane_size
    for axis in reversed(range(len(extents))):
        if axis == lane_axis:
            continue
        sizes[axis] = min(extents[axis], room)
        room //= sizes[axis]
        if room <= 1:
            break
    return tuple(sizes)


def _lmul(program: LoopProgram, max_lmul: int) -> int:
    """Registers per value so that what is live at once, and one temporary, stays in registers."""
    lmul = max_lmul
    while lmul > 1 and (program.max_live() + 2) * lmul > _VECTOR_REGISTERS - lmul:
        lmul //= 2
    return lmul


def _cost_cycles(program: LoopProgram, tile: Tile, config: NpuConfig) -> float:
    """Estimate: the first load, then the larger of transfer and compute for each tile, then the last store."""
    tiles = prod(tile.counts(program.sizes))
    kept = prod(program.sizes) / (tiles * prod(tile.sizes))
    bytes_per_cycle = config.dram.bandwidth_gb_per_s * 1e3 / config.core.frequency_mhz
    per_access = [
        config.dma.issue_cycles + _dram_bytes(access, tile, config.dram.burst_bytes) * kept / bytes_per_cycle
        for access in program.accesses()
    ]
    loads, stores = sum(per_access[: len(program.loads)]), sum(per_access[len(program.loads) :])
    bits = max([access.dtype.bits for access in program.accesses()])
    beats = max(1.0, tile.vector_elements * bits / config.core.datapath_bits)
    vectors = tile.padded_elements // tile.vector_elements
    compute = (
        vectors * beats * (len(program.operations) + len(program.stores)) / config.core.issue_width + _TILE_LOOP_CYCLES
    )
    return 2 * config.dram.latency_cycles + loads + stores + compute + (tiles - 1) * max(loads + stores, compute)


def _dram_bytes(access: Access, tile: Tile, burst_bytes: int) -> int:
    """Bytes moved for one tile, whole bursts: the block's contiguous runs, each rounded up to bursts."""
    walked = sorted(
        (abs(stride), size)
        for stride, size in zip(access.index.strides, tile.sizes, strict=True)
        if stride and size > 1
    )
    run, rows = 1, 1
    for stride, size in walked:
        if stride == run and rows == 1:
            run *= size
        else:
            rows *= size
    run_bytes = run * access.dtype.bytes
    partial = 1 if rows > 1 and run_bytes % burst_bytes else 0
    return rows * (-(-run_bytes // burst_bytes) + partial) * burst_bytes
