"""Cycles of a kernel's tile functions from gem5, beside the built-in model's.

In: a program, what tile functions of a kernel are called with and take on the built-in model. Out: the same table from
gem5, and rows for the report. Assumes: tile calls do not depend on data, so those of one launch are those of all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytorchsim.config.model import NpuConfig
from pytorchsim.mlir.cache import ContentStore
from pytorchsim.report.record import TileLatency
from pytorchsim.runtime.latencies import Arguments, TileKey
from pytorchsim.simulator.functional import LoadableProgram
from pytorchsim.simulator.gem5 import Gem5, read_pin
from pytorchsim.simulator.gem5_program import tile_call
from pytorchsim.simulator.tile_cost import TileCost

__all__ = ["Latencies", "SecondSource", "second_source"]

Latencies = Mapping[str, Mapping[Arguments, TileCost]]
"""Tile function -> integer arguments -> cost."""


@dataclass(frozen=True)
class SecondSource:
    """gem5's table, and a row for the report per tile function and arguments, in their order."""

    latencies: Latencies
    rows: tuple[TileLatency, ...]


def second_source(
    program: LoadableProgram,
    builtin: Latencies,
    keys: Mapping[str, TileKey],
    config: NpuConfig,
    store: ContentStore | None,
) -> SecondSource:
    """What gem5 says of every call in `builtin`.

    Raises:
        SetupError: no gem5 is named.
        Gem5Error: gem5 failed; the message names the tile function and has its last lines.
    """
    gem5, pin = Gem5(config, store), read_pin().version
    table = {
        name: {
            arguments: TileCost(
                gem5.cycles(tile_call(program, name, arguments, keys[name].stack_alignment_bytes, config)), cost.work
            )
            for arguments, cost in calls.items()
        }
        for name, calls in builtin.items()
    }
    rows = tuple(
        TileLatency(name, arguments, builtin[name][arguments].cycles, table[name][arguments].cycles, gem5.version, pin)
        for name in sorted(table)
        for arguments in sorted(table[name])
    )
    return SecondSource(table, rows)
