"""What a memory with banks does to the recorded kernels: `python -m benchmarks.banked` prints a table in Markdown.

The kernels of `benchmarks.cycles` are compiled once; the traces of their launches are then timed with ideal DRAM, with
banks burst by burst, and with banks and fast fidelity. Programs, tiles and transfers are the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.cycles import CASES, Case, cycles
from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.simulator import timing

Launch = tuple[list[_native.Trace], NpuConfig]


def launches(case: Case) -> list[Launch]:
    """Traces of every launch of one call, with the machine that they were recorded on."""
    recorded: list[Launch] = []
    simulate = timing.simulate

    def record(traces: Sequence[_native.Trace], config: NpuConfig) -> timing.LaunchTiming:
        recorded.append((list(traces), config))
        return simulate(traces, config)

    timing.simulate = record
    try:
        cycles(case)
    finally:
        timing.simulate = simulate
    return recorded


def with_banks(config: NpuConfig, fidelity: str) -> NpuConfig:
    """The same machine, its memory with banks."""
    values = config.model_dump()
    values["dram"]["kind"] = "banked"
    return load_config(values | {"fidelity": fidelity})


def total(recorded: list[Launch], fidelity: str | None) -> int:
    """Cycles of all launches; None: as they were recorded."""
    return sum(
        timing.simulate(traces, config if fidelity is None else with_banks(config, fidelity)).cycles
        for traces, config in recorded
    )


def main() -> None:
    """Print the table."""
    print("| kernel | ideal | banked | banked / ideal | fast / exact |")
    print("|---|---|---|---|---|")
    for name, case in CASES.items():
        recorded = launches(case)
        ideal, exact, fast = (total(recorded, fidelity) for fidelity in (None, "exact", "fast"))
        print(f"| {name} | {ideal:,} | {exact:,} | {exact / ideal:.3f} | {fast / exact:.3f} |", flush=True)


if __name__ == "__main__":
    main()
