"""From a `CallRecord` to the rows of a report.

In: launches in the order in which they ran. Out: one `KernelRow` per kernel of a graph (its launches summed), host
operations, totals, host time by stage. Everything but `wall_seconds` is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pytorchsim.report.bound import BoundBy, CycleShares, bound_by
from pytorchsim.report.energy import energy_picojoules, summed_statistics
from pytorchsim.report.record import CallRecord, GraphRecord, KernelFacts, LaunchRecord, TileLatency

__all__ = ["STAGES", "GraphRow", "HostOpRow", "KernelRow", "graph_rows", "host_op_rows", "kernel_rows", "wall_seconds"]

STAGES = ("compile", "link", "functional", "timing", "host")
"""Stages of host time. `host`: between a graph's begin and end, outside of launches."""


@dataclass(frozen=True)
class KernelRow:
    """A kernel with all its launches in the call. Timing fields are None in functional mode."""

    graph: str
    phase: str
    facts: KernelFacts
    launches: int
    cycles: int | None
    shares: CycleShares
    bytes_read: int | None
    bytes_written: int | None
    burst_bytes: int | None
    transfers: int | None
    bound_by: BoundBy | None
    instructions: Mapping[str, int]
    stack_bytes: int
    assumed_indices: int
    tile_latencies: tuple[TileLatency, ...] = ()
    energy_picojoules: Mapping[str, float] | None = None
    statistics: Mapping[str, Mapping[str, int]] | None = None

    def to_dict(self) -> dict[str, Any]:
        """JSON types, as report.schema.json says."""
        timed = self.cycles is not None
        shares = self.shares
        return {
            "name": self.facts.name,
            "graph": self.graph,
            "phase": self.phase,
            "origins": list(self.facts.origins),
            "source_lines": list(self.facts.source_lines),
            "shape": list(self.facts.shape),
            "tile": dict(self.facts.tile),
            "launches": self.launches,
            "cycles": self.cycles,
            "bytes_read": self.bytes_read,
            "bytes_written": self.bytes_written,
            "burst_bytes": self.burst_bytes,
            "transfers": self.transfers,
            "bound_by": self.bound_by,
            "utilisation": shares.compute_utilisation if timed else None,
            "dram_utilisation": shares.dram_utilisation if timed else None,
            "core_cycles": {
                "tile": shares.tile_cycles,
                "scalar": shares.scalar_cycles,
                "load_wait": shares.load_wait_cycles,
                "store_wait": shares.store_wait_cycles,
                "idle": shares.idle_cycles,
            }
            if timed
            else None,
            "energy_picojoules": None if self.energy_picojoules is None else dict(self.energy_picojoules),
            "statistics": None if self.statistics is None else {k: dict(v) for k, v in self.statistics.items()},
            "instructions": dict(self.instructions),
            "stack_bytes": self.stack_bytes,
            "assumed_indices": self.assumed_indices,
            "reasons": list(self.facts.reasons),
            "tile_latencies": [
                {
                    "tile": row.tile,
                    "arguments": list(row.arguments),
                    "builtin_cycles": row.builtin_cycles,
                    "gem5_cycles": row.gem5_cycles,
                    "gem5_version": row.gem5_version,
                    "gem5_pin": row.gem5_pin,
                }
                for row in self.tile_latencies
            ],
        }


@dataclass(frozen=True)
class HostOpRow:
    """An operation on the host, and how often its graph ran in the call."""

    graph: str
    runs: int
    facts: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {"graph": self.graph, "runs": self.runs, **self.facts}


@dataclass(frozen=True)
class GraphRow:
    """A graph of the call. `facts`: what frontend and scheduler noted, such as refused fusions; without host ops."""

    name: str
    phase: str
    runs: int
    config: str
    config_digest: str
    mode: str
    facts: Mapping[str, list[Any]]

    def to_dict(self) -> dict[str, Any]:
        """JSON types."""
        return {
            "name": self.name,
            "phase": self.phase,
            "runs": self.runs,
            "config": self.config,
            "config_digest": self.config_digest,
            "mode": self.mode,
            "facts": {section: list(entries) for section, entries in self.facts.items()},
        }


def _runs(record: CallRecord) -> dict[tuple[str, str], list[GraphRecord]]:
    """Runs by graph and machine, in order of the first."""
    runs: dict[tuple[str, str], list[GraphRecord]] = {}
    for graph in record.graphs:
        runs.setdefault((graph.name, graph.config.digest()), []).append(graph)
    return runs


def kernel_rows(record: CallRecord) -> tuple[KernelRow, ...]:
    """One row per kernel of a graph, in order of first launch."""
    rows: list[KernelRow] = []
    for runs in _runs(record).values():
        launches: dict[str, list[LaunchRecord]] = {}
        for graph in runs:
            for launch in graph.launches:
                launches.setdefault(launch.kernel.name, []).append(launch)
        rows.extend(_kernel_row(runs[0], of_kernel) for of_kernel in launches.values())
    return tuple(rows)


def _kernel_row(graph: GraphRecord, launches: list[LaunchRecord]) -> KernelRow:
    timings = [launch.timing for launch in launches if launch.timing is not None]
    timed = len(timings) == len(launches)
    shares = CycleShares.of(timings)
    instructions: dict[str, int] = {}
    for launch in launches:
        for kind, count in launch.instructions.items():
            instructions[kind] = instructions.get(kind, 0) + count
    return KernelRow(
        graph=graph.name,
        phase=graph.phase,
        facts=launches[0].kernel,
        launches=len(launches),
        cycles=sum(timing.cycles for timing in timings) if timed else None,
        shares=shares,
        bytes_read=sum(timing.bytes_read for timing in timings) if timed else None,
        bytes_written=sum(timing.bytes_written for timing in timings) if timed else None,
        burst_bytes=sum(timing.burst_bytes_read + timing.burst_bytes_written for timing in timings) if timed else None,
        transfers=sum(timing.transfers for timing in timings) if timed else None,
        bound_by=bound_by(shares) if timed else None,
        energy_picojoules=energy_picojoules(timings, graph.config) if timed else None,
        statistics=summed_statistics(timings) if timed else None,
        instructions=instructions,
        stack_bytes=max(launch.stack_bytes for launch in launches),
        assumed_indices=sum(launch.assumed_indices for launch in launches),
        tile_latencies=tuple(dict.fromkeys(row for launch in launches for row in launch.tile_latencies)),
    )


def graph_rows(record: CallRecord) -> tuple[GraphRow, ...]:
    """One row per graph and machine, in order of first run."""
    return tuple(
        GraphRow(
            name=runs[0].name,
            phase=runs[0].phase,
            runs=len(runs),
            config=runs[0].config.name,
            config_digest=runs[0].config.digest(),
            mode=runs[0].mode,
            facts={section: entries for section, entries in runs[0].facts.items() if section != "host_ops"},
        )
        for runs in _runs(record).values()
    )


def host_op_rows(record: CallRecord) -> tuple[HostOpRow, ...]:
    """One row per operation on the host, by graph."""
    return tuple(
        HostOpRow(runs[0].name, len(runs), facts)
        for runs in _runs(record).values()
        for facts in runs[0].facts.get("host_ops", ())
    )


def wall_seconds(record: CallRecord) -> dict[str, float]:
    """Host time by stage over all graphs."""
    return {stage: sum(graph.wall_seconds.get(stage, 0.0) for graph in record.graphs) for stage in STAGES}
