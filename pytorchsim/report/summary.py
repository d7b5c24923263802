"""`Report`: the last top-level call of a thread, to print, to store, to compute with.

In: a `CallRecord`, or None when nothing ran. Out: a table, a dict (report.schema.json next to this file), a CSV file.
Assumes: made when asked for; later calls do not change it.
"""

from __future__ import annotations

import csv
import os
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from typing import Any

from pytorchsim.errors import ReportError
from pytorchsim.report.energy import PLACES
from pytorchsim.report.memory_path import L2_COUNTERS, L2Traffic, NetworkTraffic
from pytorchsim.report.record import CallRecord, thread_record
from pytorchsim.report.rows import (
    STAGES,
    GraphRow,
    HostOpRow,
    KernelRow,
    graph_rows,
    host_op_rows,
    kernel_rows,
    wall_seconds,
)

__all__ = ["NOTHING_RAN", "SCHEMA_VERSION", "Report", "report_of", "report_of_this_thread"]

SCHEMA_VERSION = 1

_TEXT_WIDTH = 160

NOTHING_RAN = (
    "Nothing ran on the simulated NPU in this thread yet. Call a model compiled with"
    ' torch.compile(model, backend="pytorchsim"), then ask for the report in the same thread.'
)


@dataclass(frozen=True)
class Report:
    """Cycles, traffic and host operations of one top-level call with all its graphs.

    `kernels` are in order of first launch. `cycles` is None in functional mode, where nothing is timed. `error` says
    what kept a graph from being compiled or run to its end: then the figures are of what ran before.
    """

    kernels: tuple[KernelRow, ...] = ()
    graphs: tuple[GraphRow, ...] = ()
    host_ops: tuple[HostOpRow, ...] = ()
    config: dict[str, Any] | None = None
    frequency_mhz: int | None = None
    wall_seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    error: str = ""

    @property
    def cycles(self) -> int | None:
        """Cycles of all launches: kernels run one after another."""
        return _total([row.cycles for row in self.kernels]) if self.timed else None

    @property
    def energy_picojoules(self) -> dict[str, float] | None:
        """Energy by place (dram, network, scratchpad, array, vector). None where nothing was timed."""
        if not self.timed:
            return None
        total = dict.fromkeys(PLACES, 0.0)
        for row in self.kernels:
            for place, picojoules in (row.energy_picojoules or {}).items():
                total[place] += picojoules
        return total

    @property
    def network(self) -> NetworkTraffic | None:
        """What all kernels moved over the network. None where nothing was timed."""
        parts = [row.network for row in self.kernels if row.network is not None]
        return reduce(NetworkTraffic.plus, parts, NetworkTraffic()) if self.timed else None

    @property
    def l2(self) -> L2Traffic | None:
        """What all kernels found in the L2. None where nothing was timed or there is no L2."""
        parts = [row.l2 for row in self.kernels if row.l2 is not None]
        return reduce(L2Traffic.plus, parts) if parts else None

    @property
    def timed(self) -> bool:
        """Whether cycles were counted: false in functional mode and when nothing ran."""
        return bool(self.graphs) and all(graph.mode != "functional" for graph in self.graphs)

    def to_dict(self) -> dict[str, Any]:
        """Everything as JSON types; valid against report.schema.json next to this file."""
        cycles, network, l2 = self.cycles, self.network, self.l2
        timed = self.timed
        return {
            "schema_version": SCHEMA_VERSION,
            "error": self.error or None,
            "config": self.config,
            "totals": {
                "cycles": cycles,
                "microseconds": cycles / self.frequency_mhz if cycles is not None and self.frequency_mhz else None,
                "launches": sum(row.launches for row in self.kernels),
                "bytes_read": _total([row.bytes_read for row in self.kernels]) if timed else None,
                "bytes_written": _total([row.bytes_written for row in self.kernels]) if timed else None,
                "energy_picojoules": self.energy_picojoules,
                "network": None if network is None else network.to_dict(),
                "l2": None if l2 is None else l2.to_dict(),
                "host_ops": len(self.host_ops),
            },
            "kernels": [row.to_dict() for row in self.kernels],
            "graphs": [row.to_dict() for row in self.graphs],
            "host_ops": [row.to_dict() for row in self.host_ops],
            "wall_seconds": dict(self.wall_seconds),
        }

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write one line per kernel, with a header. Lists are joined by `;`, sizes by `x`.

        Raises:
            ReportError: the file cannot be written.
        """
        try:
            with Path(path).open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, fieldnames=_CSV_COLUMNS, lineterminator="\n")
                writer.writeheader()
                writer.writerows(_csv_row(row.to_dict()) for row in self.kernels)
        except OSError as error:
            raise ReportError(
                f"the report cannot be written to {os.fspath(path)!r}: {error.strerror or error}; name a file in a"
                " folder that exists and can be written to"
            ) from error

    def print(self) -> None:
        """Print the table on stdout, as wide as the terminal; where there is none, 160 columns wide."""
        from rich.console import Console

        from pytorchsim.report.table import tables

        console = Console(highlight=False)
        if not console.is_terminal:
            console = Console(highlight=False, width=_TEXT_WIDTH)
        for part in tables(self, console.width):
            console.print(part)

    def __str__(self) -> str:
        """The table as plain text."""
        import io

        from rich.console import Console

        from pytorchsim.report.table import tables

        text = io.StringIO()
        console = Console(file=text, width=_TEXT_WIDTH, color_system=None, highlight=False, legacy_windows=False)
        for part in tables(self, console.width):
            console.print(part)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())


_CSV_COLUMNS = (
    "graph", "phase", "name", "origins", "shape", "launches", "cycles", "bytes_read", "bytes_written", "burst_bytes",
    "transfers", "bound_by", "utilisation", "dram_utilisation", "tile_cycles", "scalar_cycles", "load_wait_cycles",
    "store_wait_cycles", "idle_cycles", "stack_bytes", *(f"{place}_picojoules" for place in PLACES),
    "network_bytes", "network_busiest_link", "network_utilisation",
    *(f"l2_{name}" for name in ("hits", "misses", "hit_rate", "utilisation", *L2_COUNTERS)),
)  # fmt: skip


def _csv_row(kernel: dict[str, Any]) -> dict[str, Any]:
    parts = {f"{part}_cycles": cycles for part, cycles in (kernel["core_cycles"] or {}).items()}
    energy = {f"{place}_picojoules": value for place, value in (kernel["energy_picojoules"] or {}).items()}
    path = {f"{part}_{name}": value for part in ("network", "l2") for name, value in (kernel[part] or {}).items()}
    flat = kernel | parts | energy | path
    flat["origins"] = ";".join(kernel["origins"])
    flat["shape"] = "x".join(map(str, kernel["shape"]))
    return {column: flat.get(column) for column in _CSV_COLUMNS}


def _total(values: list[int | None]) -> int:
    return sum(value for value in values if value is not None)


def report_of(record: CallRecord | None) -> Report:
    """The report of a call; the config is that of its first graph."""
    if record is None or not record.graphs:
        return Report(error=record.error if record else "")
    config = record.graphs[0].config
    return Report(
        kernels=kernel_rows(record),
        graphs=graph_rows(record),
        host_ops=host_op_rows(record),
        config={**config.model_dump(mode="json"), "digest": config.digest()},
        frequency_mhz=config.core.frequency_mhz,
        wall_seconds=wall_seconds(record),
        error=record.error,
    )


def report_of_this_thread() -> Report:
    """The report of the last top-level call of the calling thread; an empty one, which says so, before the first."""
    return report_of(thread_record())
