"""What a call of a tile function costs. In: nothing. Out: plain values that caches and launches hand on."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["TileCost"]


class TileCost(NamedTuple):
    """Cycles, and what was done in them: the figures of `togsim/work.h`, in their order."""

    cycles: int
    work: tuple[int, ...] = ()
