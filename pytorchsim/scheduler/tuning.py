"""Which of the best tiles of a kernel is the fastest, by measurement.

In: how to build the kernel with each of its tiles. Out: the same for the tile that takes the fewest cycles. Ties go to
the tile that the search prefers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from pytorchsim.config.model import NpuConfig
from pytorchsim.runtime.measurement import Argument, measure
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
    measured = dict(zip(texts, measure(texts, placeholder, arguments, config), strict=True))
    timed = [(result.cycles, ranks[text]) for text, result in measured.items() if result.cycles is not None]
    if not timed:
        return build
    cycles, chosen = min(timed)
    estimated = measured[first.mlir]
    before = f"{estimated.cycles} cycles" if estimated.cycles is not None else estimated.refusal
    reason = (
        f"{len(texts)} tiles measured: tile {chosen + 1} of the search takes {cycles} cycles, its first one {before}"
    )

    def chosen_build(machine: NpuConfig, rank: int = 0) -> BuiltKernel:
        built = build(machine, chosen if rank == 0 else rank)
        return replace(built, reasons=(reason, *built.reasons))

    return chosen_build
