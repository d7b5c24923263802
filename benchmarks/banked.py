"""What a memory with banks does to the recorded kernels: `python -m benchmarks.banked` prints a table in Markdown.

The kernels of `benchmarks.cycles` and the workloads of `benchmarks.accuracy` are compiled once; the traces of their
launches are then timed with ideal DRAM, with banks burst by burst, and with banks and fast fidelity. Programs, tiles
and transfers are the same.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from functools import partial

from benchmarks import accuracy
from benchmarks.cycles import CASES, cycles
from benchmarks.workloads import workload
from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.simulator import timing

Launch = tuple[list[_native.Trace], NpuConfig]


def calls() -> dict[str, Callable[[], object]]:
    """What is timed, by name."""
    rows: dict[str, Callable[[], object]] = {name: partial(cycles, case) for name, case in CASES.items()}
    for name, *_ in accuracy.figures()[1]:
        rows[name] = partial(_workload, name)
    return rows


def _workload(name: str) -> None:
    accuracy.timed(workload(name), load_config())


def launches(call: Callable[[], object]) -> list[Launch]:
    """Traces of every launch of `call`, with the machine that they were recorded on."""
    recorded: list[Launch] = []
    simulate = timing.simulate

    def record(traces: Sequence[_native.Trace], config: NpuConfig) -> timing.LaunchTiming:
        recorded.append((list(traces), config))
        return simulate(traces, config)

    timing.simulate = record
    try:
        call()
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
    """Print the table, or some of its rows."""
    rows = calls()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", metavar="KERNEL", help="only this row; may be given several times")
    chosen = parser.parse_args().case or list(rows)
    if unknown := [name for name in chosen if name not in rows]:
        parser.error(f"no kernel is called {unknown[0]!r}; known: {', '.join(rows)}")
    print("| kernel | ideal | banked | banked / ideal | fast / exact |")
    print("|---|---|---|---|---|")
    for name in chosen:
        recorded = launches(rows[name])
        ideal, exact, fast = (total(recorded, fidelity) for fidelity in (None, "exact", "fast"))
        print(f"| {name} | {ideal:,} | {exact:,} | {exact / ideal:.3f} | {fast / exact:.3f} |", flush=True)


if __name__ == "__main__":
    main()
