"""Tile search of matrix products: candidates, what each takes and costs, and why it was not taken.

In: a problem, what is fused, the machine, optionally tiles that a user prescribes. Out: a `GemmSearch`. Pure, and
remembered: fusion asks again and again. It does not depend on the number of cores.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from pytorchsim.config.model import NpuConfig
from pytorchsim.config.tiles import NO_CHOICES, TileChoices
from pytorchsim.errors import ConfigError
from pytorchsim.templates.array_step import STEP_LMUL
from pytorchsim.templates.footprint import TemplateFootprint, footprint_of
from pytorchsim.templates.gemm_cost import GemmCost, cost_of
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem
from pytorchsim.templates.gemm_tile import GemmTile, Stationary
from pytorchsim.templates.lane_step import LANE_STEP_LMUL, ROWS_AT_ONCE

__all__ = ["Candidate", "GemmSearch", "candidates", "search_gemm"]

_STATIONARY: tuple[Stationary, ...] = ("x", "w", "none")
_STATIONARY_OF_COLUMNS: tuple[Stationary, ...] = ("w", "none")
_DEPTHS = (2, 4, 8)

_LONG_SUM, _SHORT_SUM = 256, 16
"""Matrices whose results are added one after another: more than the first are added in blocks, where it fits each
of at least the second. The error of a sum grows with the additions in a row (Higham, Accuracy and Stability, 4.2)."""

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
"""Into how many tiles a dimension is cut."""


@dataclass(frozen=True)
class Candidate:
    """A tile with what it takes, and its cost or why it was refused (`refusal`, empty where it fits)."""

    tile: GemmTile
    footprint: TemplateFootprint
    cost: GemmCost | None
    refusal: str

    def rank(self) -> tuple[int, float, int]:
        """Exact sums first: of long ones those with longer partial sums; then cheaper ones, then smaller ones."""
        missing = max(0, _SHORT_SUM - self.tile.k_blocks) if self.tile.blocked else 0
        return missing, (self.cost.total if self.cost else math.inf), self.footprint.total_bytes


@dataclass(frozen=True)
class GemmSearch:
    """`chosen` is None when nothing fits; `all` is everything enumerated, `nearest` the smallest of it."""

    chosen: Candidate | None
    all: tuple[Candidate, ...]

    @property
    def nearest(self) -> Candidate:
        """The candidate that takes the least scratchpad."""
        return min(self.all, key=lambda candidate: candidate.footprint.total_bytes)

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why this tile, what it beat, what did not fit."""
        refused = Counter(candidate.refusal for candidate in self.all if candidate.refusal)
        lines = [f"{count} tiles refused: {reason}" for reason, count in sorted(refused.items())]
        if self.chosen is None or self.chosen.cost is None:
            return tuple(lines)
        fitting = sorted((c for c in self.all if c.cost), key=Candidate.rank)
        best = [f"tile chosen of {len(fitting)} that fit: {self.chosen.cost.describe()}"]
        if len(fitting) > 1 and fitting[1].cost:
            best.append(f"next best tile {fitting[1].tile.label()}: {fitting[1].cost.describe()}")
        return (*best, *lines)


@lru_cache(maxsize=512)
def search_gemm(
    problem: GemmProblem, fusion: GemmFusion, config: NpuConfig, choices: TileChoices = NO_CHOICES
) -> GemmSearch:
    """The cheapest step that fits, or the prescribed one if it fits. ConfigError: a prescribed tile is impossible."""
    prescribed = choices.of(problem.m, problem.n, problem.k)
    tiles = dict.fromkeys(candidates(problem, fusion, config))
    if prescribed:
        tiles = dict.fromkeys(_prescribed(problem, fusion, config, dict(prescribed)))
    found, cheapest = [], math.inf
    for tile in tiles:
        footprint = footprint_of(tile.buffers(problem, fusion, config), config)
        refusal = footprint.refusal
        cost = None if refusal else cost_of(problem, fusion, tile, config, cheapest)
        if cost is not None and not tile.blocked:  # a bound must not hide a cheaper one of those with exact sums
            cheapest = min(cheapest, cost.total)
        found.append(Candidate(tile, footprint, cost, refusal))
    fitting = [candidate for candidate in found if not candidate.refusal]
    return GemmSearch(min(fitting, key=Candidate.rank, default=None), tuple(found))


def candidates(problem: GemmProblem, fusion: GemmFusion, config: NpuConfig) -> Iterator[GemmTile]:
    """Every tile that is tried."""
    core = config.core
    columns = -(-problem.n // core.lanes)
    stationary = _STATIONARY_OF_COLUMNS if fusion.reduces else _STATIONARY
    if problem.on_arrays:
        vector = _row_vector(problem, config)
        for m in _cuts(problem.m, vector):
            for slots in range(1, min(config.array.count, columns) + 1):
                for k in _cuts(problem.k, core.lanes):
                    for held in stationary:
                        tile = GemmTile("array", m, slots, k, held, vector, core.lanes, fusion.reduces)
                        yield from _depths(_blocked(tile, problem), problem, fusion)
        return
    vector = _product_vector(problem, config)
    rows = min(ROWS_AT_ONCE, max(2, _power_of_two(problem.m)))
    for m in _cuts(problem.m, rows):
        for slots in _cuts(columns, 1):
            for k in _cuts(problem.k, vector):
                for held in stationary:
                    yield GemmTile("lanes", m, slots, k, held, vector, core.lanes, fusion.reduces)


def _blocked(tile: GemmTile, problem: GemmProblem) -> GemmTile:
    """The tile, with partial sums where the sum of a result has more matrices than that is exact enough for."""
    matrices = -(-problem.k // tile.lanes)
    return replace(tile, blocked=matrices > _LONG_SUM and tile.k_blocks < matrices)


def _depths(tile: GemmTile, problem: GemmProblem, fusion: GemmFusion) -> Iterator[GemmTile]:
    """The tile, and deeper ones where a stationary X is used again: while a deep step runs, the first k tile of the
    next X may load, so it covers half of them at most. Copies of X lie as one block; pieces of W would not."""
    yield tile
    _, columns, products = tile.counts(problem)
    if tile.stationary != "x" or columns == 1 or fusion.w is not None:
        return
    for deep in _DEPTHS:
        if products % deep == 0 and products >= 2 * deep:
            yield replace(tile, deep=deep)


def _row_vector(problem: GemmProblem, config: NpuConfig) -> int:
    """Rows that are pushed and popped at once."""
    longest = STEP_LMUL * config.core.vlen_bits // problem.accumulator.bits
    queue = 1 << (config.array.queue_entries.bit_length() - 1)
    return min(longest, queue, max(2, _power_of_two(problem.m)))


def _product_vector(problem: GemmProblem, config: NpuConfig) -> int:
    """Products that are computed at once on the lanes; at least the rows whose sums stand side by side."""
    longest = LANE_STEP_LMUL * config.core.vlen_bits // problem.accumulator.bits
    return max(min(longest, _power_of_two(problem.k)), 2, min(ROWS_AT_ONCE, _power_of_two(problem.m)))


def _power_of_two(value: int) -> int:
    """The least one from `value` on."""
    return 1 << (value - 1).bit_length()


def _cuts(extent: int, unit: int) -> list[int]:
    """Tile sizes that cut `extent` into equal parts, in whole `unit`s."""
    sizes = []
    for parts in _PARTS:
        part = -(-extent // parts)
        sizes.append(-(-part // unit) * unit)
        if sizes[-1] == unit:
            break
    else:
        sizes.append(unit)
    return list(dict.fromkeys(sizes))


def _prescribed(
    problem: GemmProblem, fusion: GemmFusion, config: NpuConfig, sizes: dict[str, int]
) -> Iterator[GemmTile]:
    """The tile of the user's file, in both orders of the tile loops."""
    lanes = config.core.lanes
    like = next(iter(candidates(problem, fusion, config)))
    m, n, k = (sizes.get(name, whole) for name, whole in (("TILE_M", like.m), ("TILE_N", like.n), ("TILE_K", like.k)))
    most = config.array.count if like.body == "array" else n // lanes
    units = {"TILE_M": (m, like.vector if like.body == "array" else min(ROWS_AT_ONCE, like.m)), "TILE_N": (n, lanes)}
    units["TILE_K"] = (k, lanes if like.body == "array" else like.vector)
    for name, (size, unit) in units.items():
        if size < 1 or size % unit:
            raise ConfigError(
                f"tile file: {name} of {problem.m}_{problem.n}_{problem.k} is a multiple of {unit}, not {size}"
            )
    if n // lanes > most:
        raise ConfigError(f"tile file: TILE_N is at most {most * lanes} ({most} arrays of {lanes} lanes), not {n}")
    for held in _STATIONARY_OF_COLUMNS if fusion.reduces else _STATIONARY:
        tile = GemmTile(like.body, m, n // lanes, k, held, like.vector, lanes, fusion.reduces)
        yield from _depths(_blocked(tile, problem), problem, fusion) if like.body == "array" else (tile,)
