"""The state of a thread: the record of its last top-level call, the DRAM addresses of that call, its machines.

In: graphs that begin and end. Out: `GraphRecord`s in the thread's `CallRecord`, which `pytorchsim.report()` shows.
Assumes: graphs of one thread nest (a graph may call another one), they do not overlap.
"""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytorchsim.report.record import CallRecord, GraphRecord, set_thread_record, thread_record
from pytorchsim.runtime.allocator import DramAllocator
from pytorchsim.runtime.calls import CallToken, backward_pass, enclosing_call
from pytorchsim.runtime.progress import ProgressLine

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig
    from pytorchsim.runtime.residency import Residency
    from pytorchsim.simulator.functional import Machine

__all__ = ["ThreadSession", "error_text", "thread_session"]

_MAX_MACHINES = 4
"""Machines a thread keeps: each holds a scratchpad (16 MiB on tpuv3). The one unused for longest goes first."""


@dataclass
class _ActiveGraph:
    record: GraphRecord
    began: float
    handled: BaseException | None  # what the caller is handling, which is no error of this graph
    accounted: float = 0.0  # seconds of launches and of graphs called from this one


@dataclass
class ThreadSession:
    """What one thread knows about its calls."""

    allocator: DramAllocator = field(default_factory=DramAllocator)
    _active: list[_ActiveGraph] = field(default_factory=list)
    _call: CallToken | None = None
    _backward: int | None = None
    _forward_graphs: int = 0
    _machines: dict[str, Machine] = field(default_factory=dict)
    _residencies: dict[str, Residency] = field(default_factory=dict)  # of the running call, by config
    _progress: ProgressLine | None = None  # of the outermost graph that runs

    def begin(self, record: GraphRecord) -> None:
        """A graph starts to run; outside of any other one it may start a new call."""
        if not self._active:
            self._enter_call()
            self._progress = ProgressLine(f"running {record.name}").__enter__()
        current = thread_record()
        if current is None:  # cleared by the user between two graphs
            current = CallRecord()
            set_thread_record(current)
        current.graphs.append(record)
        self._active.append(_ActiveGraph(record, time.perf_counter(), sys.exc_info()[1]))

    def end(self, record: GraphRecord) -> None:
        """The graph is done, or an error ended it. Graphs that it left running end with it."""
        while self._active:
            active = self._active.pop()
            if not self._active and self._progress is not None:
                self._progress.__exit__(None, None, None)
                self._progress = None
            seconds = time.perf_counter() - active.began
            active.record.add_seconds("host", max(0.0, seconds - active.accounted))
            error = sys.exc_info()[1]  # the generated module ends its graph in a `finally`
            if error is not None and error is not active.handled:
                self._note_error(error_text(error))
            self._join_earlier_run(active.record)
            if self._active:
                self._active[-1].accounted += seconds
            if active.record is record:
                return

    def _join_earlier_run(self, ended: GraphRecord) -> None:
        """A call that runs a graph again and again, as a loop with graph breaks does, keeps one record of it."""
        current = thread_record()
        first = 0 if self._backward is None else self._forward_graphs
        if current is None or all(graph is not ended for graph in current.graphs[first:]):
            return
        for known in current.graphs[first:]:
            if known is not ended and known.name == ended.name and known.facts is ended.facts:
                known.merge(ended)
                current.graphs = [graph for graph in current.graphs if graph is not ended]
                return

    def fail(self, error: str) -> None:
        """A graph could not be compiled: the report is about this call, not about the one before."""
        if not self._active:
            self._enter_call()
        self._note_error(error)

    @staticmethod
    def _note_error(error: str) -> None:
        record = thread_record()
        if record is not None:
            record.error = error

    @property
    def current_graph(self) -> GraphRecord:
        """The graph that runs. RuntimeError: none does."""
        if not self._active:
            raise RuntimeError("a kernel was launched outside of begin() and end() of its graph")
        return self._active[-1].record

    def start_launch(self, kernel: str) -> None:
        """A kernel is about to be launched. RuntimeError: no graph runs."""
        if not self._active or self._progress is None:
            raise RuntimeError("a kernel was launched outside of begin() and end() of its graph")
        self._progress.start(kernel)

    def account(self, stage: str, seconds: float) -> None:
        """Host seconds that the running graph spent in a stage."""
        active = self._active[-1]
        active.record.add_seconds(stage, seconds)
        active.accounted += seconds

    def machine(self, config: NpuConfig, digest: str) -> Machine:
        """The thread's machine of this config (`digest` is its digest), made at first use."""
        machine = self._machines.pop(digest, None)
        if machine is None:
            from pytorchsim.simulator.functional import Machine

            machine = Machine(config)
        self._machines[digest] = machine  # now the last one used
        if len(self._machines) > _MAX_MACHINES:
            del self._machines[next(iter(self._machines))]
        return machine

    def residency(self, config: NpuConfig, digest: str) -> Residency:
        """The call's L2 of this config (`digest` is its digest), empty when the call begins."""
        if digest not in self._residencies:
            from pytorchsim.runtime.residency import Residency

            self._residencies[digest] = Residency(config)
        return self._residencies[digest]

    def _enter_call(self) -> None:
        """Decide whether a graph that begins now continues the last call, is its backward pass, or starts another."""
        backward = backward_pass()
        record = thread_record()
        if backward is not None:
            if record is None:
                self._start_call(None)
            elif self._backward is None:
                self._forward_graphs = len(record.graphs)
            elif self._backward != backward:  # only the last backward pass counts
                set_thread_record(CallRecord(record.graphs[: self._forward_graphs]))
            self._backward = backward
            return
        call = enclosing_call()
        if record is None or call is not self._call:
            self._start_call(call)

    def _start_call(self, call: CallToken | None) -> None:
        set_thread_record(CallRecord())
        self.allocator = DramAllocator()
        self._residencies = {}
        self._call, self._backward, self._forward_graphs = call, None, 0


def error_text(error: BaseException) -> str:
    """Type and message, for the report."""
    return f"{type(error).__name__}: {error}"


class _Threads(threading.local):
    session: ThreadSession | None = None


_THREADS = _Threads()


def thread_session() -> ThreadSession:
    """The calling thread's session."""
    if _THREADS.session is None:
        _THREADS.session = ThreadSession()
    return _THREADS.session
