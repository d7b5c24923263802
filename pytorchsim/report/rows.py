"""From a `CallRecord` to the rows of a report.

In: launches in the order in which they ran. Out: one `KernelRow` per kernel of a graph (its launches summed), host
operations, totals, host time by stage. Everything but `wall_seconds` is deterministic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pytorchsim.report.bound import BoundBy, CycleShares, bound_by
from pytorchsim.report.energy import energy_picojoules
from pytorchsim.report.memory_path import L2Traffic, NetworkTraffic
from pytorchsim.report.record import CallRecord, GraphRecord, KernelFacts, KernelRecord, TileLatency

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
    instructions: Mapping[str, int]
    stack_bytes: int
    assumed_indices: int
    tile_latencies: tuple[TileLatency, ...] = ()
    cycles: int | None = None
    shares: CycleShares = field(default_factory=CycleShares)
    bytes_read: int | None = None
    bytes_written: int | None = None
    burst_bytes: int | None = None
    transfers: int | None = None
    bound_by: BoundBy | None = None
    energy_picojoules: Mapping[str, float] | None = None
    network: NetworkTraffic | None = None
    l2: L2Traffic | None = None
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
            "network": None if self.network is None else self.network.to_dict(),
            "l2": None if self.l2 is None else self.l2.to_dict(),
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
        kernels: dict[str, KernelRecord] = {}
        for graph in runs:
            for name, kernel in graph.kernels.items():
                kernels.setdefault(name, KernelRecord(kernel.facts)).merge(kernel)
        rows.extend(_kernel_row(runs[0], kernel) for kernel in kernels.values())
    return tuple(rows)


def _kernel_row(graph: GraphRecord, kernel: KernelRecord) -> KernelRow:
    untimed = KernelRow(
        graph=graph.name,
        phase=graph.phase,
        facts=kernel.facts,
        launches=kernel.launches,
        instructions=kernel.instructions,
        stack_bytes=kernel.stack_bytes,
        assumed_indices=kernel.assumed_indices,
        tile_latencies=kernel.tile_latencies,
    )
    timing = kernel.timing
    if timing is None:
        return untimed
    shares, network, l2 = CycleShares.of(timing), NetworkTraffic.of(timing), L2Traffic.of(timing, graph.config)
    return replace(
        untimed,
        cycles=timing.cycles,
        shares=shares,
        bytes_read=timing.bytes_read,
        bytes_written=timing.bytes_written,
        burst_bytes=timing.burst_bytes_read + timing.burst_bytes_written,
        transfers=timing.transfers,
        bound_by=bound_by(shares, network, l2),
        energy_picojoules=energy_picojoules(timing, graph.config),
        network=network,
        l2=l2,
        statistics=timing.statistics,
    )


def graph_rows(record: CallRecord) -> tuple[GraphRow, ...]:
    """One row per graph and machine, in order of first run."""
    return tuple(
        GraphRow(
            name=runs[0].name,
            phase=runs[0].phase,
            runs=sum(graph.runs for graph in runs),
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
        HostOpRow(runs[0].name, sum(graph.runs for graph in runs), facts)
        for runs in _runs(record).values()
        for facts in runs[0].facts.get("host_ops", ())
    )


def wall_seconds(record: CallRecord) -> dict[str, float]:
    """Host time by stage over all graphs."""
    return {stage: sum(graph.wall_seconds.get(stage, 0.0) for graph in record.graphs) for stage in STAGES}
