"""What happened in a call, as the runtime notes it down: plain data, no tensors.

In: the runtime (`pytorchsim/runtime/`) adds graphs and launches. Out: `thread_record()`, of which reports are made.
Assumes: one top-level call at a time per thread. A backward pass belongs to the forward call before it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig
    from pytorchsim.simulator.timing import LaunchTiming

__all__ = [
    "CallRecord",
    "GraphRecord",
    "KernelFacts",
    "KernelRecord",
    "LaunchRecord",
    "TileLatency",
    "set_thread_record",
    "thread_record",
]


@dataclass(frozen=True)
class KernelFacts:
    """What was decided about a kernel when it was generated."""

    name: str
    origins: tuple[str, ...] = ()
    source_lines: tuple[str, ...] = ()
    shape: tuple[int, ...] = ()
    tile: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class TileLatency:
    """Cycles of a tile function called with `arguments` (a0 to a7) on the built-in model and on gem5.

    `gem5_version`: of the binary that ran. `gem5_pin`: the version that the comparison was written for.
    """

    tile: str
    arguments: tuple[int, ...]
    builtin_cycles: int
    gem5_cycles: int
    gem5_version: str
    gem5_pin: str


@dataclass(frozen=True)
class LaunchRecord:
    """One launch of a kernel on all cores. `timing` is None in functional mode.

    `instructions`: executed by kind, over all cores. `assumed_indices`: indices that timing mode had to make up.
    `tile_latencies`: where the config's `latency_source` asks for gem5.
    """

    kernel: KernelFacts
    timing: LaunchTiming | None
    instructions: Mapping[str, int]
    stack_bytes: int
    assumed_indices: int = 0
    tile_latencies: tuple[TileLatency, ...] = ()


@dataclass
class KernelRecord:
    """All launches of a kernel, summed: a model of many equal layers needs no more memory.

    `timing` is None in functional mode; `stack_bytes` is the deepest stack.
    """

    facts: KernelFacts
    launches: int = 0
    timing: LaunchTiming | None = None
    instructions: dict[str, int] = field(default_factory=dict)
    stack_bytes: int = 0
    assumed_indices: int = 0
    tile_latencies: tuple[TileLatency, ...] = ()

    def add(self, launch: LaunchRecord) -> None:
        """One more launch."""
        self._add(1, launch)

    def merge(self, other: KernelRecord) -> None:
        """The launches of another run."""
        self._add(other.launches, other)

    def _add(self, launches: int, other: LaunchRecord | KernelRecord) -> None:
        self.launches += launches
        if other.timing is not None:
            self.timing = other.timing if self.timing is None else self.timing.plus(other.timing)
        for kind, count in other.instructions.items():
            self.instructions[kind] = self.instructions.get(kind, 0) + count
        self.stack_bytes = max(self.stack_bytes, other.stack_bytes)
        self.assumed_indices += other.assumed_indices
        self.tile_latencies = tuple(dict.fromkeys((*self.tile_latencies, *other.tile_latencies)))


@dataclass
class GraphRecord:
    """A run of a graph, or all of them in a call (`runs`). `facts`: sections of JSON entries from the frontend and
    scheduler, among them `host_ops`; the same object in every run of one graph.

    `kernels` by name, in order of first launch. `wall_seconds`: host time by stage (compile, link, functional, timing,
    host).
    """

    name: str
    phase: str
    config: NpuConfig
    mode: str
    facts: Mapping[str, list[Any]]
    runs: int = 1
    kernels: dict[str, KernelRecord] = field(default_factory=dict)
    wall_seconds: dict[str, float] = field(default_factory=dict)

    def add_launch(self, launch: LaunchRecord) -> None:
        """A kernel was launched."""
        self.kernels.setdefault(launch.kernel.name, KernelRecord(launch.kernel)).add(launch)

    def merge(self, other: GraphRecord) -> None:
        """Another run of the same graph."""
        self.runs += other.runs
        for name, kernel in other.kernels.items():
            self.kernels.setdefault(name, KernelRecord(kernel.facts)).merge(kernel)
        for stage, seconds in other.wall_seconds.items():
            self.add_seconds(stage, seconds)

    def add_seconds(self, stage: str, seconds: float) -> None:
        """Adds host time to a stage."""
        self.wall_seconds[stage] = self.wall_seconds.get(stage, 0.0) + seconds


@dataclass
class CallRecord:
    """A top-level call: every graph, in the order in which they began first; the last backward pass included.

    `error`: type and message of what kept a graph from being compiled or run to its end; empty where nothing did.
    """

    graphs: list[GraphRecord] = field(default_factory=list)
    error: str = ""


class _ThreadState(threading.local):
    record: CallRecord | None = None


_STATE = _ThreadState()


def thread_record() -> CallRecord | None:
    """The last top-level call of this thread, or None before the first."""
    return _STATE.record


def set_thread_record(record: CallRecord | None) -> None:
    """A new top-level call begins in this thread."""
    _STATE.record = record
