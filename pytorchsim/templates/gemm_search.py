"""Tile search of matrix products: candidates, what each takes and costs, and why it was not taken.

In: a problem, what is fused, the machine, optionally tiles that a user prescribes. Out: a `GemmSearch`. Pure, and
remembered: fusion asks again and again. It does not depend on the number of cores.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache

from pytorchsim.config.model import NpuConfig
from pytorchsim.config.tiles import NO_CHOICES, TileChoices
from pytorchsim.target.descriptor import TransferOp
from pytorchsim.templates.footprint import TemplateFootprint, footprint_of
from pytorchsim.templates.gemm_candidates import SHORT_SUM, candidates, prescribed
from pytorchsim.templates.gemm_cost import GemmCost, cost_of
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Part
from pytorchsim.templates.gemm_tile import RESULT, Block, GemmTile
from pytorchsim.templates.gemm_transfers import block_transfer
from pytorchsim.templates.loop_program import without_buffer_names

__all__ = ["Candidate", "GemmSearch", "search_gemm", "some_tile_fits"]

_PARTS: tuple[Part, ...] = ("x", "w", "y")


@dataclass(frozen=True)
class Candidate:
    """A tile with what it takes, and its cost or why it was refused (`refusal`, empty where it fits)."""

    tile: GemmTile
    footprint: TemplateFootprint
    cost: GemmCost | None
    refusal: str

    def rank(self) -> tuple[int, float, int]:
        """Exact sums first: of long ones those with longer partial sums; then cheaper ones, then smaller ones."""
        missing = max(0, SHORT_SUM - self.tile.k_blocks) if self.tile.blocked else 0
        return missing, (self.cost.total if self.cost else math.inf), self.footprint.total_bytes


@dataclass(frozen=True)
class GemmSearch:
    """`chosen` is None when nothing fits; `all` is everything enumerated, `nearest` the smallest of it."""

    chosen: Candidate | None
    all: tuple[Candidate, ...]

    @property
    def ranked(self) -> tuple[Candidate, ...]:
        """What fits, the best first."""
        return tuple(sorted((candidate for candidate in self.all if not candidate.refusal), key=Candidate.rank))

    @property
    def fitting(self) -> int:
        """How many tiles fit."""
        return sum(not candidate.refusal for candidate in self.all)

    @property
    def nearest(self) -> Candidate:
        """The candidate that takes the least scratchpad."""
        return min(self.all, key=lambda candidate: candidate.footprint.total_bytes)

    @property
    def inexpressible(self) -> str:
        """Why tiles that would fit the scratchpad cannot be moved, where that leaves none."""
        kept = [candidate.refusal for candidate in self.all if not candidate.footprint.refusal]
        return kept[0] if kept and self.chosen is None else ""

    @property
    def reasons(self) -> tuple[str, ...]:
        """What did not fit."""
        refused = Counter(candidate.refusal for candidate in self.all if candidate.refusal)
        return tuple(f"{count} tiles refused: {reason}" for reason, count in sorted(refused.items()))

    @property
    def choice(self) -> tuple[str, ...]:
        """Why the best tile by estimate is the best, and what it beat."""
        chosen = self.chosen
        if chosen is None or chosen.cost is None:
            return ()
        fitting = self.ranked
        best = [f"tile chosen of {len(fitting)} that fit: {chosen.tile.label()}: {chosen.cost.describe()}"]
        if len(fitting) > 1 and fitting[1].cost:
            best.append(f"next best tile {fitting[1].tile.label()}: {fitting[1].cost.describe()}")
        return tuple(best)


def search_gemm(
    problem: GemmProblem, fusion: GemmFusion, config: NpuConfig, choices: TileChoices = NO_CHOICES
) -> GemmSearch:
    """The cheapest step that fits, or the prescribed one if it fits. ConfigError: a prescribed tile is impossible."""
    return _search(problem, _unnamed(fusion), config, choices)


@lru_cache(maxsize=128)
def _search(problem: GemmProblem, fusion: GemmFusion, config: NpuConfig, choices: TileChoices) -> GemmSearch:
    sizes = choices.of(problem.m, problem.n, problem.k) if problem.simple else ()
    tiles = prescribed(problem, fusion, config, dict(sizes)) if sizes else candidates(problem, fusion, config)
    found, cheapest, moves = [], math.inf, _Moves(problem)
    for tile in dict.fromkeys(tiles):
        footprint = footprint_of(tile.buffers(problem, fusion, config), config)
        refusal = footprint.refusal or moves.refusal(tile)
        cost = None if refusal else cost_of(problem, fusion, tile, config, cheapest)
        # A bound must not hide a cheaper one of those with exact sums, nor rank what is to be measured.
        if cost is not None and not tile.blocked and choices.measured == 1:
            cheapest = min(cheapest, cost.total)
        found.append(Candidate(tile, footprint, cost, refusal))
    fitting = [candidate for candidate in found if not candidate.refusal]
    return GemmSearch(min(fitting, key=Candidate.rank, default=None), tuple(found))


def some_tile_fits(
    problem: GemmProblem, fusion: GemmFusion, config: NpuConfig, choices: TileChoices = NO_CHOICES
) -> bool:
    """Whether `search_gemm` would find a tile: what fusion asks, again and again, without ranking anything."""
    return _some_tile_fits(problem, _unnamed(fusion), config, choices)


@lru_cache(maxsize=1024)
def _some_tile_fits(problem: GemmProblem, fusion: GemmFusion, config: NpuConfig, choices: TileChoices) -> bool:
    if problem.simple and choices.of(problem.m, problem.n, problem.k):
        return search_gemm(problem, fusion, config, choices).chosen is not None
    moves = _Moves(problem)
    return any(
        not footprint_of(tile.buffers(problem, fusion, config), config).refusal and not moves.refusal(tile)
        for tile in candidates(problem, fusion, config)
    )


def _unnamed(fusion: GemmFusion) -> GemmFusion:
    """What a search is remembered by: layers of a model differ in names only."""
    return GemmFusion(*without_buffer_names((fusion.tail, fusion.x, fusion.w), keep=(RESULT,)))


class _Moves:
    """Why descriptors do not move a tile's operands or result, remembered: tiles differ in more than what is moved."""

    def __init__(self, problem: GemmProblem) -> None:
        self._problem, self._simple = problem, problem.simple
        self._known: dict[Block, dict[Part, str]] = {}

    def refusal(self, tile: GemmTile) -> str:
        """Empty where descriptors move all of it."""
        return next(filter(None, (self._of(part, tile.block(part, self._problem)) for part in _PARTS)), "")

    def _of(self, part: Part, block: Block) -> str:
        if self._simple:
            return ""
        known = self._known.setdefault(block, {})
        if part not in known:
            access, frame = self._problem.access(part, part, self._problem.dtype), self._problem.frame(part)
            ops = (TransferOp.LOAD, TransferOp.STORE) if part == "y" else (TransferOp.LOAD,)
            refusals = [block_transfer(access, frame, block, 0, op).refusal for op in ops]
            known[part] = next(filter(None, refusals), "")
        return known[part]
