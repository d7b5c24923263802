"""`load_graph`: what a generated module calls to define its graph, compile and link its kernels, and frame its calls.

In: texts in the generated module (config, options, facts, kernels). Out: a `Graph` whose kernels can be launched.
Assumes: used as `pytorchsim/frontend/wrapper.py` writes it: kernels, `link()`, per call `begin()`, launches, `end()`.
The module may come from a cache, in a process that compiled nothing: everything that is needed is in the texts.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from pytorchsim.config.environment import read_environment
from pytorchsim.config.model import NpuConfig
from pytorchsim.config.session import Mode
from pytorchsim.mlir.build import build_kernel, build_program, cancel_builds
from pytorchsim.mlir.cache import shared_store
from pytorchsim.report.record import GraphRecord
from pytorchsim.runtime.kernel import Kernel, KernelMetadata
from pytorchsim.runtime.prescribed_tiles import note_products
from pytorchsim.runtime.progress import ProgressLine
from pytorchsim.runtime.session import thread_session

if TYPE_CHECKING:
    import torch

    from pytorchsim.mlir.program import Program

__all__ = ["Graph", "load_graph", "note_compilation"]

_compilation_seconds: dict[str, float] = {}
"""What compiling the kernels took so far, by graph; the graph takes it when it is loaded."""

_PHASES = ("inference", "forward", "backward")


class Graph:
    """A graph at run time. Immutable once linked; several threads may run it."""

    def __init__(self, name: str, config: NpuConfig, mode: Mode, facts: Mapping[str, list[Any]]) -> None:
        self.name = name
        self.config = config
        self.config_digest = config.digest()
        self.mode: Mode = mode
        self.facts = facts
        self.store = shared_store()
        self._dump_dir = read_environment().dump_dir
        self._kernels: list[Kernel] = []
        self._program: Program | None = None
        self._build_seconds: dict[str, float] = {"compile": _compilation_seconds.pop(name, 0.0), "link": 0.0}
        self._lock = threading.Lock()  # of _build_seconds, which the first run takes
        self._running = threading.local()

    @property
    def phase(self) -> str:
        """inference, forward or backward: the first part of the name."""
        return self.name.partition("_")[0]

    @property
    def timed(self) -> bool:
        """Whether launches are timed."""
        return self.mode != "functional"

    @property
    def program(self) -> Program:
        """The linked program. RuntimeError: `link()` was not called."""
        if self._program is None:
            raise RuntimeError(f"graph {self.name!r} is not linked: its kernels cannot be launched yet")
        return self._program

    def kernel(self, name: str, mlir_text: str, metadata: str) -> Kernel:
        """Define a kernel; its compilation starts and goes on in the background.

        Args:
            name: unique in the graph.
            mlir_text: its module, as the templates print it.
            metadata: JSON with `origins`, `source_lines`, `shape`, `tile`, `reasons`, and `slots`: one direction per
                argument, `load`, `store` or `load-store`.
        """
        if self._program is not None:
            raise RuntimeError(f"graph {self.name!r} is linked; kernel {name!r} comes too late")
        parsed = KernelMetadata.parse(name, metadata)
        folder = None if self._dump_dir is None else self._dump_dir / self.name / name
        kernel = Kernel(self, parsed, mlir_text, build_kernel(name, mlir_text, self.config, folder))
        self._kernels.append(kernel)
        return kernel

    def link(self) -> None:
        """Wait for all kernels, link them to one program. Kernels and programs come from the store if it has them.

        Raises:
            CompileError and its subclasses, SpadOverflowError, SetupError: of the first kernel that failed.
        """
        if self._program is not None or not self._kernels:
            return
        started = time.perf_counter()
        try:
            with ProgressLine(f"compiling {self.name}", len(self._kernels)) as progress:
                compiled = []
                for kernel in self._kernels:
                    progress.start(kernel.name)
                    compiled.append(kernel.compiled())
                compile_done = time.perf_counter()
                self._program = build_program(compiled, self.config)
        except BaseException as error:  # nobody will ask for the other kernels
            for kernel in self._kernels:
                kernel.cancel()
            if isinstance(error, KeyboardInterrupt):
                cancel_builds()
            raise
        with self._lock:
            self._build_seconds["compile"] += compile_done - started
            self._build_seconds["link"] += time.perf_counter() - compile_done

    def begin(self) -> None:
        """A call of the graph starts in this thread."""
        record = GraphRecord(name=self.name, phase=self.phase, config=self.config, mode=self.mode, facts=self.facts)
        with self._lock:  # what building took is told once, by the first run
            for stage, seconds in self._build_seconds.items():
                record.add_seconds(stage, seconds)
            self._build_seconds = {}
        thread_session().begin(record)
        stack: list[GraphRecord] = self._running.__dict__.setdefault("records", [])
        stack.append(record)

    def verify_against(self, reference: int, inputs: Sequence[Any]) -> None:
        """The call that has begun is compared with FX graph `reference`, launch by launch."""
        from pytorchsim.runtime.verification import Verification

        self._running.verification = Verification(reference, inputs)

    def verify_launch(self, kernel: Kernel, stored: Mapping[str, torch.Tensor]) -> None:
        """`kernel` has stored these results, by FX node. VerificationError: one is not eager's."""
        self._running.verification.check(kernel, stored)

    def end(self) -> None:
        """The call that `begin()` started is over, by an error or not."""
        verification = self._running.__dict__.pop("verification", None)
        if verification is not None:
            verification.finish()
        thread_session().end(self._running.records.pop())


def note_compilation(name: str, seconds: float) -> None:
    """The process waited for kernels of graph `name` before there was a module to load."""
    _compilation_seconds[name] = seconds


def load_graph(*, name: str, config: str, options: str, facts: str) -> Graph:
    """The graph of a generated module.

    Args:
        name: phase (inference, forward, backward), underscore, digest of the content.
        config: canonical JSON of the `NpuConfig`.
        options: JSON with `mode`, `strict` and, where tiles are prescribed, `tiles`.
        facts: JSON with a list per section for the report, among them `host_ops`.

    Raises:
        ValueError: a phase or mode that does not exist.
    """
    given = json.loads(options)
    mode = given["mode"]
    if mode not in get_args(Mode):
        raise ValueError(f"graph {name!r}: mode {mode!r} is none of {', '.join(get_args(Mode))}")
    graph = Graph(name, NpuConfig.model_validate_json(config), mode, json.loads(facts))
    note_products(given, graph.facts)
    if graph.phase not in _PHASES:
        raise ValueError(f"graph {name!r}: its name does not start with one of {', '.join(_PHASES)}")
    return graph
