"""Tile search for loop programs: every candidate has a footprint, a cost in cycles, and a reason if refused.

In: a `LoopProgram`, its stages, the machine. Out: a `TileSearch` with the chosen `Tile` and what was refused and why.
Pure. The choice does not depend on the number of cores, so results are identical for any of them. Tiles that hold
whole rows are preferred: only where none fits are rows streamed, stage by stage.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from typing import NamedTuple

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.descriptor import MAX_BOUNDS, MAX_RANK
from pytorchsim.target.dtypes import I32
from pytorchsim.templates.footprint import TemplateFootprint
from pytorchsim.templates.loop_buffers import loop_footprint
from pytorchsim.templates.loop_program import Access, LoopProgram, without_buffer_names
from pytorchsim.templates.operation_costs import unit_cycles
from pytorchsim.templates.reductions import REDUCTIONS
from pytorchsim.templates.stages import Stage, plan_stages
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.tile_descriptors import listed_rank
from pytorchsim.templates.tile_loads import joined_loads, moved_bytes
from pytorchsim.templates.vector_shape import LARGEST_GROUP, VectorShape, vector_shape
from pytorchsim.templates.window_loads import WindowAxis

__all__ = ["BEST_TILE", "RankedTile", "TileSearch", "WantedTile", "cheapest", "estimated_cycles", "search"]

_TILE_LOOP_CYCLES = 40
"""Scalar work per tile: origins, `dma.set`s and the call. An estimate, used to rank candidates only."""

_ROTATION_CYCLES = 12
"""One step of folding a vector or the lanes: a rotation and an operation, each with its latency. An estimate."""

_STEP_CYCLES = 1
"""Loop overhead of a step. An estimate."""

_STEP_LATENCY_CYCLES = 12
"""What a step of a walk takes at least, however short its vectors: its loads, operations and the branch follow one
another. An estimate."""

_WALK_CYCLES = 20
"""Latencies at the start and the end of a walk. An estimate."""


class RankedTile(NamedTuple):
    """A tile that fits; they rank by estimated cycles, then by scratchpad bytes, then as they were enumerated."""

    cycles: float
    total_bytes: int
    number: int
    tile: Tile
    stages: tuple[Stage, ...]


class WantedTile(NamedTuple):
    """Rows are cut into at least `row_tiles` tiles; of the tiles that fit, the one of rank `rank`, 0 is the best."""

    row_tiles: int = 1
    rank: int = 0


BEST_TILE = WantedTile()
"""Nothing in particular."""


@dataclass(frozen=True)
class TileSearch:
    """The outcome: `ranked` are the tiles that fit with their estimates, the best first; `rejected` maps a reason to
    how many candidates it cost; `inexpressible`: the reason of one that the scratchpad would hold."""

    ranked: tuple[RankedTile, ...]
    rejected: dict[str, int]
    smallest: Tile
    smallest_footprint: TemplateFootprint
    inexpressible: str = ""

    @property
    def tile(self) -> Tile | None:
        """The best tile; None when nothing fits."""
        return self.ranked[0].tile if self.ranked else None

    @property
    def cycles(self) -> float:
        """What the best tile is estimated to take."""
        return self.ranked[0].cycles if self.ranked else math.inf

    @property
    def reasons(self) -> tuple[str, ...]:
        """Refusals in words, sorted."""
        return tuple(f"{count} tiles refused: {reason}" for reason, count in sorted(self.rejected.items()))


def search(program: LoopProgram, stages: Sequence[Stage], config: NpuConfig, *, row_tiles: int = 1) -> TileSearch:
    """The cheapest tile that fits and cuts the rows into at least `row_tiles` tiles."""
    rejected: dict[str, int] = {}
    fitting: list[RankedTile] = []
    smallest: tuple[int, Tile, TemplateFootprint] | None = None
    inexpressible = ""
    for stream in (False, True):
        for tile in _candidates(program, stages, config, stream=stream):
            used = loop_footprint(program, tile, tuple(stages), config)
            if smallest is None or used.total_bytes < smallest[0]:
                smallest = (used.total_bytes, tile, used)
            reason = used.refusal or _refusal(program, tuple(stages), tile)
            if not reason and prod(tile.counts(program.sizes)[: program.row_rank]) < row_tiles:
                reason = f"fewer than {row_tiles} tiles of rows for the cores to share"
            if reason:
                inexpressible = inexpressible or ("" if used.refusal else reason)
                rejected[reason] = rejected.get(reason, 0) + 1
                continue
            cycles = estimated_cycles(program, stages, tile, config)
            fitting.append(RankedTile(cycles, used.total_bytes, len(fitting), tile, tuple(stages)))
        if fitting or not program.reduced or any(stage.kept for stage in stages):
            break  # rows that are streamed keep nothing
    if smallest is None:
        raise ValueError(f"no tile was enumerated for a space of {program.sizes}")
    return TileSearch(
        ranked=tuple(sorted(fitting, key=lambda ranked: ranked[:3])),
        rejected=rejected,
        smallest=smallest[1],
        smallest_footprint=smallest[2],
        inexpressible="" if fitting else inexpressible,
    )


def cheapest(program: LoopProgram, config: NpuConfig, *, row_tiles: int = 1) -> TileSearch:
    """The tiles of stages that compute values again in each walk and of stages that keep them from walk to walk.

    Pure, and remembered: long rows and the kernel itself ask, and equal layers of a model.
    """
    unnamed = without_buffer_names((program,))[0]
    assert unnamed is not None
    return _cheapest(unnamed, config, row_tiles)


@lru_cache(maxsize=256)
def _cheapest(program: LoopProgram, config: NpuConfig, row_tiles: int) -> TileSearch:
    plans = [plan_stages(program), plan_stages(program, keep=True)]
    found = [search(program, stages, config, row_tiles=row_tiles) for stages in dict.fromkeys(plans)]
    best = min(found, key=lambda each: each.cycles)
    both = sorted((ranked for each in found for ranked in each.ranked), key=lambda ranked: ranked.cycles)
    return replace(best, ranked=tuple(both))


def _refusal(program: LoopProgram, stages: tuple[Stage, ...], tile: Tile) -> str:
    """What the machine cannot do with a tile that fits; empty where there is nothing."""
    if tile.vector_elements < 2 or (program.computes_indices and tile.pitch != tile.inner_elements):
        return "index tiles would not be dense"
    plan = tile.plan(program, stages)
    scattered = {store.access for store in program.stores if store.access.gathers}
    for access in (*plan.loads, *(store.access for store in program.stores)):
        walked = [axis for axis in range(len(tile.sizes)) if axis in tile.row_axes or not program.is_row_level(access)]
        ragged = sum(1 for axis in walked if program.sizes[axis] % tile.sizes[axis])
        of_rows = access in scattered and program.is_row_level(access) and not tile.rows_inner  # takes one itself
        if ragged + len(access.guards) + of_rows > MAX_BOUNDS:
            return f"more than {MAX_BOUNDS} bounds"
        if listed_rank(program, tile, access) > MAX_RANK:
            return f"more than {MAX_RANK} axes"
    return ""


def _candidates(program: LoopProgram, stages: Sequence[Stage], config: NpuConfig, *, stream: bool) -> Iterator[Tile]:
    """Every lane axis, power-of-two run, order in the lane, and power-of-two room for the rest, filled from the
    innermost axis out. A scan runs along a walk, in different rows at once."""
    lanes, limit = config.core.lanes, config.core.scratchpad_bytes_per_lane // _widest_bytes(program)
    rank, rows = len(program.sizes), range(program.row_rank)
    shape = vector_shape(program, stages, config.core.vlen_bits, config.core.max_lmul)
    seen: set[Tile] = set()
    for lane_axis in range(rank):
        longest = max(-(-program.sizes[lane_axis] // lanes), 2 if program.computes_indices else 1)  # whole vectors
        folds = lane_axis not in rows
        # A row over the lanes is covered exactly: else the last lanes would have nothing to do.
        runs = sorted({*_powers(min(limit, longest)), *([longest] if folds and longest <= limit else [])})
        for run in runs:
            if folds and (program.scans or (not stream and run * lanes < program.sizes[lane_axis])):
                continue
            for rows_inner in (
                (False,) if folds else (True, False) if program.reduced and not program.scans else (True,)
            ):
                reduced_rooms = _powers(limit // run) if stream else [prod(program.sizes[program.row_rank :])]
                for room in _powers(max(1, limit // run)):
                    for reduced_room in reduced_rooms:
                        sizes = [1] * rank
                        sizes[lane_axis] = run * lanes
                        _fill(sizes, program.sizes, [axis for axis in rows if axis != lane_axis], room)
                        reduced = [axis for axis in range(program.row_rank, rank) if axis != lane_axis]
                        _fill(sizes, program.sizes, reduced, reduced_room)
                        tile = Tile(tuple(sizes), program.reduced, lane_axis, run, rows_inner, 1)
                        if tile not in seen:
                            seen.add(tile)
                            yield _with_vector(tile, program, shape, config)


def _powers(limit: int) -> list[int]:
    """1, 2, 4 ... up to the first that is at least `limit`."""
    return [1 << exponent for exponent in range(max(1, limit - 1).bit_length() + 1)] if limit > 1 else [1]


def _fill(sizes: list[int], extents: Sequence[int], axes: Sequence[int], room: int) -> None:
    """Whole extents from the innermost of `axes` out, then what is left of `room`, then 1."""
    for axis in reversed(axes):
        sizes[axis] = min(extents[axis], max(1, room))
        room //= sizes[axis]


def _with_vector(tile: Tile, program: LoopProgram, shape: VectorShape, config: NpuConfig) -> Tile:
    """The tile with the longest vector that its inner axes fill, and none that leaves much of the pitch empty."""
    if program.computes_indices:  # index tiles are dense, so no pitch may be padded
        dense = tile.inner_elements & -tile.inner_elements
        return replace(tile, vector_elements=min(shape.elements, dense), unroll=shape.unroll, phases=shape.phases)
    elements = min(shape.elements, 1 << (tile.inner_elements - 1).bit_length())
    while elements > 8 and -tile.inner_elements % elements > tile.inner_elements // 8:
        elements //= 2
    longest = replace(tile, vector_elements=max(2, elements), unroll=shape.unroll, phases=shape.phases)
    if any(op.reduction for op in program.operations) and longest.walks_past_rows(program.sizes):
        lmul = min(LARGEST_GROUP // 2, config.core.max_lmul)
        of_positions = max(2, lmul * config.core.vlen_bits // I32.bits)  # by which rows' ends are masked
        return replace(longest, vector_elements=min(longest.vector_elements, of_positions))
    return longest


def _widest_bytes(program: LoopProgram) -> int:
    return max([access.dtype.bytes for access in program.accesses()] + [op.dtype.bytes for op in program.operations])


def estimated_cycles(
    program: LoopProgram, stages: Sequence[Stage], tile: Tile, config: NpuConfig, cores: int = 1
) -> float:
    """Estimate: the first load, then the larger of transfer and compute for each tile, then the last store. Several
    cores share the tiles of rows and the DRAM."""
    counts = tile.counts(program.sizes)
    tiles, row_tiles = prod(counts), prod(counts[: program.row_rank])
    kept = prod(program.sizes) / (tiles * prod(tile.sizes))
    bytes_per_cycle = config.dram.bandwidth_gb_per_s * 1e3 / config.core.frequency_mhz

    def moved(access: Access, taps: Sequence[WindowAxis] = ()) -> float:
        fetched = moved_bytes(program, access, tile, config.dram.burst_bytes, taps)
        return config.dma.issue_cycles + fetched * kept / bytes_per_cycle

    times = sum(stage.walks for stage in stages) if tile.streams(program.sizes) else 1
    windows, alone = joined_loads(program, tile, config.dram.burst_bytes)
    loaded = sum(map(moved, alone)) + sum(moved(window.access, window.axes) for window in windows)
    transfers = times * loaded + sum(moved(store.access) for store in program.stores)
    compute = _compute_cycles(program, stages, tile, config) + _TILE_LOOP_CYCLES
    busy = min(cores, row_tiles)
    of_one_core = -(-row_tiles // busy) * (tiles // row_tiles)
    walked = max(tiles * transfers + compute, busy * transfers + of_one_core * compute)
    return 2 * config.dram.latency_cycles + walked


def _compute_cycles(program: LoopProgram, stages: Sequence[Stage], tile: Tile, config: NpuConfig) -> float:
    """Units are busy side by side; each step costs a little more, each fold and each function's end its latencies."""
    beats = max(1.0, tile.vector_elements * 8 * _widest_bytes(program) / config.core.datapath_bits)

    def cycles(numbers: Sequence[int], stores: Sequence[int], overhead: float, least: float = 0) -> float:
        units = unit_cycles(program, numbers, tile.vector_elements, config)
        units.pipe += sum(_fold_beats(program, number) * beats for number in numbers)
        units.store_port += len(stores) * beats / config.core.scratchpad_store_ports
        return max(units.longest, least) + overhead

    rows = sum(cycles(stage.row_operations, stage.row_stores, 0) for stage in stages)
    walks = sum(
        cycles(
            (*stage.walk_operations, *stage.reductions),
            (*stage.walk_stores, *stage.kept),
            _STEP_CYCLES,
            _STEP_LATENCY_CYCLES,
        )
        for stage in stages
        if stage.walks
    )
    folds = 0
    if not tile.rows_inner:
        folds += tile.vector_elements.bit_length() - 1
    if tile.folds_lanes:
        folds += config.core.lanes.bit_length() - 1
    reductions = sum(len(stage.reductions) for stage in stages)
    ends = sum(stage.walks for stage in stages) * _WALK_CYCLES
    return tile.blocks * (rows + tile.walk_count * walks + ends + folds * reductions * _ROTATION_CYCLES)


def _fold_beats(program: LoopProgram, number: int) -> float:
    """Instructions of folding one vector, beyond the one that every operation has."""
    reduction = program.operations[number].reduction
    if reduction is None:
        return 0
    return 4 if REDUCTIONS[reduction].with_position else 1.5 if reduction in ("max", "min") else 0
