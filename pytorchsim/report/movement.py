"""What moved in launches, and what that costs: counters of the timing simulator summed, energy of data movement.

In: `LaunchTiming`s of one kernel and the machine. Out: plain numbers, deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig
    from pytorchsim.simulator.timing import LaunchTiming

__all__ = ["energy_picojoules", "summed_statistics"]


def summed_statistics(timings: Sequence[LaunchTiming]) -> dict[str, dict[str, int]]:
    """Counters by component, summed over launches; components and counters in order of appearance."""
    sums: dict[str, dict[str, int]] = {}
    for timing in timings:
        for component, counters in timing.statistics.items():
            of_component = sums.setdefault(component, {})
            for name, value in counters.items():
                of_component[name] = of_component.get(name, 0) + value
    return sums


def energy_picojoules(timings: Sequence[LaunchTiming], config: NpuConfig) -> Mapping[str, float]:
    """Energy of data movement by place: bytes x figure of the config."""
    bursts = sum(timing.burst_bytes_read + timing.burst_bytes_written for timing in timings)
    scratchpad = sum(timing.scratchpad_bytes for timing in timings)
    return {
        "dram": bursts * config.energy.dram_pj_per_byte,
        "network": bursts * config.energy.network_pj_per_byte,
        "scratchpad": scratchpad * config.energy.scratchpad_pj_per_byte,
    }
