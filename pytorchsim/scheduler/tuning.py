"""Which of the best tiles of a kernel is the fastest, by measurement.

In: how to build the kernel with each of its tiles. Out: the same for the tile that takes the fewest cycles, with what
was measured and estimated as its reasons. Ties go to the tile that the search prefers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from pytorchsim.config.model import NpuConfig
from pytorchsim.runtime.measurement import Argument, Measurement, measure
from pytorchsim.templates.base import BuiltKernel

__all__ = ["RankedBuild", "fastest"]


class RankedBuild(Protocol):
    """Builds a kernel for a machine with one of the tiles that fit; `rank` 0 is the best one by estimate."""

    def __call__(self, machine: NpuConfig, rank: int = 0) -> BuiltKernel: ...


def fastest(
    build: RankedBuild, placeholder: str, arguments: Sequence[Argument], config: NpuConfig, most: int
) -> RankedBuild:
    """`build` with the fastest of at most `most` tiles first."""
    first = build(config)
    kernels = [first, *(build(config, rank) for rank in range(1, min(most, first.fitting)))]
    ranks = {kernel.mlir: rank for rank, kernel in reversed(list(enumerate(kernels)))}
    if len(ranks) == 1:
        return build
    texts = sorted(ranks, key=lambda text: ranks[text])
    measured = measure(texts, placeholder, arguments, config)
    tried = {ranks[text]: _Tried(kernels[ranks[text]], one) for text, one in zip(texts, measured, strict=True)}
    order = sorted((one.measured.cycles, rank) for rank, one in tried.items() if one.measured.cycles is not None)
    if not order:
        return build
    fast = [rank for _, rank in order]
    # Of the others, the one that the estimate prefers is told, or where that won, the next one.
    other = fast[1] if fast[0] == 0 and len(fast) > 1 else 0
    choice = _told(tried, fast[0], None if other == fast[0] else other)

    def chosen_build(machine: NpuConfig, rank: int = 0) -> BuiltKernel:
        return replace(build(machine, fast[0] if rank == 0 else rank), choice=choice)

    return chosen_build


class _Tried(NamedTuple):
    """A kernel with one of the tiles, and what it took."""

    kernel: BuiltKernel
    measured: Measurement

    @property
    def figures(self) -> str:
        """Measured and estimated."""
        cycles = self.measured.cycles
        took = f"{cycles} cycles measured" if cycles is not None else f"cannot run: {self.measured.refusal}"
        return f"{took}, estimated {self.kernel.estimate or 'nothing'}"


def _told(tried: Mapping[int, _Tried], chosen: int, other: int | None) -> tuple[str, ...]:
    """Why the tile of rank `chosen` was taken; `other`: the rank of the one that it is told against."""
    won = tried[chosen]
    place = "also the best by estimate" if chosen == 0 else f"number {chosen + 1} by estimate"
    lines = [f"tile chosen: fastest of {len(tried)} measured, {won.kernel.fitting} fit; {place}: {won.figures}"]
    if other is not None:
        name = "best tile by estimate" if other == 0 else "second fastest tile"
        lines.append(f"{name}, with {_differences(tried[other].kernel.tile, won.kernel.tile)}: {tried[other].figures}")
    return tuple(lines)


def _differences(tile: Mapping[str, int], chosen: Mapping[str, int]) -> str:
    names = dict.fromkeys((*chosen, *tile))
    parts = [f"{name} {tile.get(name, 'none')}" for name in names if tile.get(name) != chosen.get(name)]
    return ", ".join(parts) or "the same sizes"
