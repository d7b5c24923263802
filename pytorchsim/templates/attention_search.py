"""What a search for a tile of an attention kernel has found.

In: candidates. Out: their order, why others do not fit, or the error of a kernel that has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.footprint import TemplateFootprint

__all__ = ["Candidate", "Tile", "TileSearch", "cuts"]


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
        """Why this tile, what did not fit."""
        refused = Counter(candidate.refusal for candidate in self.all if candidate.refusal)
        lines = [f"{count} tiles refused: {reason}" for reason, count in sorted(refused.items())]
        if self.chosen is None:
            return tuple(lines)
        return (f"tile chosen of {len(self.ranked)} that fit: {self.chosen.cycles:.0f} cycles", *lines)

    def tile(self, rank: int, kernel: str, origins: tuple[str, ...]) -> Tile:
        """The tile of a rank, or the last one.

        Raises:
            SpadOverflowError: nothing fits the scratchpad
            UnsupportedError: what fits cannot be moved
        """
        ranked = self.ranked
        if ranked:
            return ranked[min(rank, len(ranked) - 1)].tile
        nearest = min(self.all, key=lambda candidate: candidate.footprint.total_bytes)
        if not nearest.footprint.refusal:
            raise UnsupportedError(f"no tile of it can be moved: {nearest.refusal}")
        raise nearest.footprint.overflow(kernel, origins, nearest.tile.describe())


def cuts(extent: int, counts: Iterable[int]) -> list[int]:
    """Sizes that cut `extent` into nearly equal parts: `counts` of them, or so large."""
    tried = list(counts)
    sizes = {extent} | {count for count in tried if count < extent} | {-(-extent // count) for count in tried}
    return sorted(size for size in sizes if size <= max(tried))
