"""What launches cost in energy, by place.

In: the `LaunchTiming` of a kernel and the machine. Out: plain numbers, deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig
    from pytorchsim.simulator.timing import LaunchTiming

__all__ = ["PLACES", "energy_picojoules"]

PLACES = ("dram", "network", "scratchpad", "array", "vector")
"""Where energy is spent; `vector` includes special functions and exchanges between lanes."""

_ARRAY = ("float32", "float16", "bfloat16", "float8", "int8")


def energy_picojoules(timing: LaunchTiming, config: NpuConfig) -> Mapping[str, float]:
    """Energy by place (`PLACES`): bytes and operations x figures of the config."""
    bursts = timing.burst_bytes_read + timing.burst_bytes_written
    work: dict[str, int] = {}
    for component, counters in timing.statistics.items():
        if component.startswith("lane core "):
            for name, count in counters.items():
                work[name] = work.get(name, 0) + count
    figures = config.energy
    operations = {
        "vector_floats": figures.vector_float_pj,
        "vector_integers": figures.vector_integer_pj,
        "vector_permutes": figures.vector_integer_pj,
        "vector_divides": figures.vector_divide_pj,
        "special_functions": figures.special_function_pj,
        "lane_exchanges": figures.lane_exchange_pj,
    }
    return {
        "dram": bursts * figures.dram_pj_per_byte,
        "network": timing.network_bytes * figures.network_pj_per_byte,
        "scratchpad": (timing.scratchpad_bytes + work.get("scratchpad_bytes", 0)) * figures.scratchpad_pj_per_byte,
        "array": sum(work.get(f"macs_{kind}", 0) * float(getattr(figures, f"mac_{kind}_pj")) for kind in _ARRAY),
        "vector": sum(work.get(name, 0) * picojoules for name, picojoules in operations.items()),
    }
