"""What a search for a tile of an attention kernel has found.

In: candidates. Out: their order, why others do not fit, or the error of a kernel that has none.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.attention_problem import MOST_BATCH_AXES
from pytorchsim.templates.base import BuiltKernel
from pytorchsim.templates.footprint import BufferNeed, TemplateFootprint, footprint_of

__all__ = ["Candidate", "Tile", "TileSearch", "candidate", "cuts"]


class _Described(Protocol):
    def describe(self) -> dict[str, int]:
        """As a flat record."""


Tile = TypeVar("Tile", bound=_Described)


@dataclass(frozen=True)
class Candidate(Generic[Tile]):
    """A tile, what it takes, its estimated cycles, or why it is refused."""

    tile: Tile
    footprint: TemplateFootprint
    cycles: float
    refusal: str


@dataclass(frozen=True)
class TileSearch(Generic[Tile]):
    """All candidates."""

    all: tuple[Candidate[Tile], ...]

    @property
    def ranked(self) -> tuple[Candidate[Tile], ...]:
        """What fits, the best first."""
        fitting = (candidate for candidate in self.all if not candidate.refusal)
        return tuple(sorted(fitting, key=lambda candidate: (candidate.cycles, candidate.footprint.total_bytes)))

    @property
    def chosen(self) -> Candidate[Tile] | None:
        """The best one; None where nothing fits."""
        return next(iter(self.ranked), None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """What did not fit."""
        refused = Counter(candidate.refusal for candidate in self.all if candidate.refusal)
        return tuple(f"{count} tiles refused: {reason}" for reason, count in sorted(refused.items()))

    def built(self, taken: Candidate[Tile], mlir: str) -> BuiltKernel:
        """What was built with one of the tiles."""
        estimate, fitting = f"{taken.cycles:.0f} cycles", len(self.ranked)
        choice = f"tile chosen of {fitting} that fit: {estimate}"
        return BuiltKernel(mlir, taken.tile.describe(), self.reasons, fitting, estimate, (choice,))

    def taken(self, rank: int, kernel: str, origins: tuple[str, ...]) -> Candidate[Tile]:
        """The candidate of a rank, or the last one.

        Raises:
            SpadOverflowError: nothing fits the scratchpad
            UnsupportedError: what fits cannot be moved
        """
        ranked = self.ranked
        if ranked:
            return ranked[min(rank, len(ranked) - 1)]
        nearest = min(self.all, key=lambda candidate: candidate.footprint.total_bytes)
        if not nearest.footprint.refusal:
            raise UnsupportedError(f"no tile of it can be moved: {nearest.refusal}")
        raise nearest.footprint.overflow(kernel, origins, nearest.tile.describe())


def candidate(
    tile: Tile, needs: Mapping[str, BufferNeed], batch: Sequence[int], config: NpuConfig, cycles: Callable[[], float]
) -> Candidate[Tile]:
    """`tile` with what its buffers take, over so many batch axes; `cycles` is called where nothing refuses it."""
    footprint = footprint_of(needs, config)
    refusal = footprint.refusal
    if len(batch) > MOST_BATCH_AXES:
        refusal = f"more than {MOST_BATCH_AXES} batch axes"
    return Candidate(tile, footprint, math.inf if refusal else cycles(), refusal)


def cuts(extent: int, counts: Iterable[int]) -> list[int]:
    """Sizes that cut `extent` into nearly equal parts: `counts` of them, or so large."""
    tried = list(counts)
    sizes = {extent} | {count for count in tried if count < extent} | {-(-extent // count) for count in tried}
    return sorted(size for size in sizes if size <= max(tried))
