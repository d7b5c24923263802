"""What `core.pipeline: minor` cannot time: gem5's MinorCPU has no systolic arrays, no SFU and no XLU.

In: the timing of a launch. Out: nothing, or a TimingError where the launch used any of them: the pipeline has no
figures for their instructions, so the sum would be no machine's cycles. Assumes: `latency_source: gem5` has its own
stand-ins for them (docs/timing_model.md).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytorchsim.errors import TimingError

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig
    from pytorchsim.simulator.timing import LaunchTiming

__all__ = ["refuse_what_minor_does_not_model"]

_UNITS = {
    "systolic arrays": ("macs_float32", "macs_float16", "macs_bfloat16", "macs_float8", "macs_int8"),
    "SFU": ("special_functions",),
    "XLU": ("lane_exchanges",),
}
"""Counters of a lane core's work (`togsim/work.h`) by unit."""


def refuse_what_minor_does_not_model(kernel: str, timing: LaunchTiming, config: NpuConfig) -> None:
    """Raise where a launch on `core.pipeline: minor` used a unit that it does not model.

    Raises:
        TimingError: it names the kernel, the units, how much they did, and what to do.
    """
    if config.core.pipeline != "minor" or config.latency_source == "gem5":
        return
    work = [counts for component, counts in timing.statistics.items() if component.startswith("lane core ")]
    used = {unit: sum(counts[name] for counts in work for name in names) for unit, names in _UNITS.items()}
    parts = [f"{unit} ({count:,} operations)" for unit, count in used.items() if count]
    if parts:
        raise TimingError(
            f"kernel {kernel!r} uses {' and '.join(parts)}, which core.pipeline 'minor' of config {config.name!r} does"
            " not model: gem5's MinorCPU has none, so its cycles would be no machine's. Use a config with"
            " core.pipeline 'lanes', latency_source 'gem5', or options={'mode': 'functional'}."
        )
