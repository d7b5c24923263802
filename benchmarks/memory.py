"""The timing simulator's memory alone: `python -m benchmarks.memory` prints tables in Markdown.

*Bandwidth and latency*: one engine reads 4 MiB, in order or one burst at random addresses after another, with so many
bursts on their way at most (`dma.max_outstanding`); the mean latency is from an engine's request to its answer, network
and controller included. Every burst is simulated; the figures are the same on every machine (docs/memory.md has them).
*Speed*: bursts per second of this computer, on one core, best of three.
*Length*: the host's peak memory and time in timing mode for models of 2, 8 and 32 encoder blocks on device `meta`.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable
from typing import Any

from benchmarks.length import in_fresh_process
from pytorchsim import _native
from pytorchsim.config import NpuConfig, load_config
from pytorchsim.simulator.timing import LaunchTiming, simulate

SIZE_BYTES = 1 << 22
MACHINES: dict[str, dict[str, Any]] = {
    "HBM2, 940 MHz": {"base": "tpuv3"},
    "DDR4-3200, 1000 MHz": {"base": "mobile"},
    "LPDDR5-6400, 1000 MHz": {"base": "mobile", "dram": {"base": "lpddr5-6400"}},
}
OUTSTANDING = (1, 4, 16, 64, 256, 1024, 4096)


def machine(values: dict[str, Any], fidelity: str = "exact", **dma: int) -> NpuConfig:
    """A machine whose memory has banks."""
    dram = {**values.get("dram", {}), "kind": "banked"}
    return load_config({**values, "dram": dram, "fidelity": fidelity, "dma": dma})


def reads(config: NpuConfig, size_bytes: int, at_random: bool) -> _native.Trace:
    """One transfer that reads so many bytes, in order or burst by burst from 1 GiB."""
    trace = _native.Trace()
    burst = config.dram.burst_bytes
    runs: list[Any] = [(0, size_bytes, [])]
    if at_random:
        numbers = random.Random(0)
        runs = [(numbers.randrange((1 << 30) // burst) * burst, burst, []) for _ in range(size_bytes // burst)]
    trace.start(0, False, runs)
    trace.wait(0)
    return trace


def _latency(timing: LaunchTiming) -> float:
    dma = timing.statistics["dma 0"]
    return dma["read_latency_sum"] / dma["read_bursts"]


def curve() -> str:
    """Bandwidth and mean latency by bursts on their way."""
    lines = [
        "| memory | order | on their way | bytes per cycle | GB/s | share of peak | mean latency, cycles |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, values in MACHINES.items():
        for at_random in (False, True):
            for outstanding in OUTSTANDING:
                config = machine(values, max_outstanding=outstanding)
                size = SIZE_BYTES >> (4 if outstanding < 64 else 2)  # few on their way: the same, and slow
                timing = simulate([reads(config, size, at_random)], config)
                rate = timing.burst_bytes_read / timing.cycles
                share = rate / config.dram_bytes_per_cycle
                lines.append(
                    f"| {name} | {'random' if at_random else 'in order'} | {outstanding} | {rate:.1f} |"
                    f" {rate * config.core.frequency_mhz / 1e3:.1f} | {100 * share:.0f} % |"
                    f" {_latency(timing):.0f} |"
                )
    return "\n".join(lines)


def speed() -> str:
    """Bursts per second, exact and fast."""
    lines = ["| transfers on tpuv3 | exact, million bursts/s | fast, million bursts/s |", "|---|---|---|"]
    for name, at_random, size in (("in order", False, 1 << 25), ("random", True, 1 << 21)):
        rates = []
        for fidelity in ("exact", "fast"):
            config = machine({}, fidelity, max_outstanding=2048)
            trace = reads(config, size, at_random)
            seconds = []
            for _ in range(3):
                started = time.process_time()
                timing = simulate([trace], config)
                seconds.append(time.process_time() - started)
            rates.append(timing.burst_bytes_read / config.dram.burst_bytes / min(seconds) / 1e6)
        lines.append(f"| {name} | {rates[0]:.2f} | {rates[1]:.1f} |")
    return "\n".join(lines)


def length() -> str:
    """Peak host memory and time by number of encoder blocks."""
    columns = {
        "weights, MiB": "weights_mib",
        "FX nodes": "nodes",
        "peak before the model, MiB": "before_mib",
        "when Inductor has its nodes": "inductor_mib",
        "after the first call": "peak_mib",
        "after the second": "after_mib",
        "cycles": "cycles",
    }
    lines = [f"| blocks | {' | '.join(columns)} | second call, seconds |", "|---|" + "---|" * (len(columns) + 1)]
    for count in (2, 8, 32):
        figures = in_fresh_process("blocks", str(count))
        cells = [f"{figures[name]:,.0f}" for name in columns.values()]
        lines.append(f"| {count} | {' | '.join(cells)} | {figures['seconds']:.3f} |")
    return "\n".join(lines)


TABLES: dict[str, Callable[[], str]] = {"curve": curve, "speed": speed, "length": length}


def main() -> None:
    """Print the tables, or the one asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=[*TABLES, "all"], nargs="?", default="all")
    chosen = parser.parse_args().table
    print("\n\n".join(table() for name, table in TABLES.items() if chosen in (name, "all")))


if __name__ == "__main__":
    main()
