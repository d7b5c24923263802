"""`GraphCompilation`: a graph's kernels are compiled while the graph still is, and made again where LLVM's frame is too
large for the stack.

In: kernels as they are defined, and how to build each for shorter vectors. Out: the kernels that had to be replaced.
Only the compiled kernel says how deep its stack is: what does not fit is built with half the registers per vector
(LMUL), down to one. The text that fits is what the module holds, so caches know nothing of this. Assumes:
`build_kernel` gives the same future again when the module is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import SpadOverflowError
from pytorchsim.frontend.graph_definition import KernelDefinition
from pytorchsim.mlir.build import build_kernel, cancel_builds
from pytorchsim.runtime.graph import note_compilation
from pytorchsim.runtime.progress import ProgressLine

if TYPE_CHECKING:
    from pytorchsim.mlir.compiled_kernel import CompiledKernel
    from pytorchsim.templates.base import BuiltKernel

__all__ = ["Build", "GraphCompilation"]

Build = Callable[[NpuConfig], "BuiltKernel"]


class GraphCompilation:
    """Compiles the kernels of a graph for `config` and holds them until the graph's module is loaded."""

    def __init__(self, config: NpuConfig) -> None:
        self._config = config
        self._builds: dict[str, tuple[KernelDefinition, Build]] = {}
        self._futures: dict[str, Future[CompiledKernel]] = {}

    def start(self, kernel: KernelDefinition, build: Build) -> None:
        """Compile `kernel` in the background; one that is known already is not compiled again."""
        if kernel.name not in self._builds:
            self._builds[kernel.name] = kernel, build
            self._futures[kernel.name] = self._compile(kernel)

    def settle(self, graph_name: str) -> Iterator[KernelDefinition]:
        """Wait for all kernels; those that were replaced. Every other failure is left to whoever loads the module."""
        started = time.perf_counter()
        try:
            with ProgressLine(f"compiling {graph_name}", len(self._builds)) as progress:
                for name, (kernel, build) in self._builds.items():
                    progress.start(name)
                    fitting = self._fitting(kernel, build)
                    if fitting is not kernel:
                        yield fitting
        except KeyboardInterrupt:
            cancel_builds()
            raise
        note_compilation(graph_name, time.perf_counter() - started)

    def _fitting(self, kernel: KernelDefinition, build: Build) -> KernelDefinition:
        """The kernel, or the first narrower one whose frame fits."""
        error = self._overflow(kernel)
        tried, machine = kernel, self._config
        while error is not None and machine.core.max_lmul > 1:
            machine = _narrower(machine)
            built = build(machine)
            if built.mlir == tried.text:
                continue
            reason = (
                f"vectors of at most {machine.core.max_lmul} registers, because with longer ones the stack takes"
                f" {error.used_bytes} of {error.budget_bytes} bytes"
            )
            metadata = {**kernel.metadata, "tile": built.tile, "reasons": [*built.all_reasons, reason]}
            tried = replace(kernel, text=built.mlir, metadata=metadata)
            self._futures[kernel.name] = self._compile(tried)
            error = self._overflow(tried)
        return tried

    def _overflow(self, kernel: KernelDefinition) -> SpadOverflowError | None:
        """The error of a kernel whose stack is too deep."""
        error = self._futures[kernel.name].exception()
        deep = isinstance(error, SpadOverflowError) and error.limit == "stack_reserve_bytes"
        return error if deep and isinstance(error, SpadOverflowError) else None

    def _compile(self, kernel: KernelDefinition) -> Future[CompiledKernel]:
        return build_kernel(kernel.name, kernel.module, self._config)


def _narrower(config: NpuConfig) -> NpuConfig:
    """The machine with half as many registers to a vector."""
    return config.model_copy(update={"core": config.core.model_copy(update={"max_lmul": config.core.max_lmul // 2})})
