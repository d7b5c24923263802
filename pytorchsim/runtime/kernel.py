"""A kernel of a graph at run time: tensors in, launches on every core, one entry in the record.

In: what the generated module says about the kernel (text, metadata), later the linked program. Out: results in the
tensors' memory (functional modes) and a `LaunchRecord`.
Assumes: arguments are CPU tensors in the order of the slots. In timing mode no data moves: outputs keep what their
memory held before (NaN or zeros in buffers of the graph, see `timing_buffers`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from pytorchsim.mlir.build import build_kernel
from pytorchsim.report.record import KernelFacts, LaunchRecord
from pytorchsim.runtime.latencies import TILE_LATENCIES, TileKey
from pytorchsim.runtime.minor_limits import refuse_what_minor_does_not_model
from pytorchsim.runtime.session import ThreadSession, thread_session

if TYPE_CHECKING:
    from pathlib import Path

    from pytorchsim.mlir.compiled_kernel import CompiledKernel
    from pytorchsim.mlir.program import Program
    from pytorchsim.runtime.gem5_latencies import Latencies, SecondSource
    from pytorchsim.runtime.graph import Graph
    from pytorchsim.simulator.functional import LaunchResult, Machine, Slot
    from pytorchsim.simulator.timing import LaunchTiming

__all__ = ["Kernel", "KernelMetadata"]

_DIRECTIONS = {"load": False, "store": True, "load-store": True}
"""What a slot's direction in the metadata says about whether the kernel writes it."""


@dataclass(frozen=True)
class KernelMetadata:
    """What a generated module says about a kernel. `writes`: per slot, whether the kernel writes the tensor."""

    facts: KernelFacts
    writes: tuple[bool, ...]

    @classmethod
    def parse(cls, name: str, text: str) -> KernelMetadata:
        """From JSON. ValueError: a slot's direction is unknown."""
        values: Mapping[str, Any] = json.loads(text)
        directions = list(values["slots"])
        unknown = sorted({str(direction) for direction in directions} - _DIRECTIONS.keys())
        if unknown:
            raise ValueError(f"kernel {name!r}: unknown slot directions {unknown}; known: {', '.join(_DIRECTIONS)}")
        facts = KernelFacts(
            name=name,
            origins=tuple(values.get("origins", ())),
            source_lines=tuple(values.get("source_lines", ())),
            shape=tuple(values.get("shape", ())),
            tile=dict(values.get("tile", {})),
            reasons=tuple(values.get("reasons", ())),
        )
        return cls(facts, tuple(_DIRECTIONS[direction] for direction in directions))


class Kernel:
    """A kernel as the generated module holds it: `kernel.run(arg0_1, buf0)`."""

    def __init__(
        self, graph: Graph, metadata: KernelMetadata, mlir_text: str, compiled: Future[CompiledKernel]
    ) -> None:
        self._graph = graph
        self._metadata = metadata
        self._mlir_text = mlir_text
        self._compiled = compiled
        self._tiles: dict[str, TileKey] | None = None  # of the graph's one program
        self._second_sources: dict[int, SecondSource] = {}  # by core

    @property
    def name(self) -> str:
        """The kernel's name, unique in its graph."""
        return self._metadata.facts.name

    def compiled(self) -> CompiledKernel:
        """The compiled kernel; waits for it. Raises what the compiler raised."""
        return self._compiled.result()

    def cancel(self) -> None:
        """The compiled kernel is not needed any more: if its compilation has not begun, it does not begin."""
        self._compiled.cancel()

    def dump(self, folder: Path) -> None:
        """Compile the kernel anew and write every stage to `folder`."""
        build_kernel(self.name, self._mlir_text, self._graph.config, folder).result()

    def run(self, *tensors: torch.Tensor) -> None:
        """Launch the kernel on all cores of the machine.

        Args:
            tensors: one CPU tensor per slot, in order.

        Raises:
            MachineFault: the machine refused an instruction; the message has kernel, function, instruction and address.
            TypeError, ValueError: not the arguments of this kernel.
        """
        self._check(tensors)
        session = thread_session()
        session.start_launch(self.name)
        slots = [_slot(session, tensor, writes) for tensor, writes in zip(tensors, self._metadata.writes, strict=True)]
        started = time.perf_counter()
        results = self._launch(session, slots)
        functional_done = time.perf_counter()
        session.account("functional", functional_done - started)
        self._record(session, slots, results)
        if self._graph.timed:
            session.account("timing", time.perf_counter() - functional_done)

    def _check(self, tensors: Sequence[torch.Tensor]) -> None:
        expected = len(self._metadata.writes)
        if len(tensors) != expected:
            raise TypeError(f"kernel {self.name!r} takes {expected} tensors, got {len(tensors)}")
        for number, tensor in enumerate(tensors):
            if not isinstance(tensor, torch.Tensor) or tensor.device.type != "cpu" or tensor.layout != torch.strided:
                kind = f"{tensor.device} {tensor.layout}" if isinstance(tensor, torch.Tensor) else type(tensor).__name__
                raise TypeError(f"kernel {self.name!r}: argument {number} is {kind}, expected a strided CPU tensor")

    def _launch(self, session: ThreadSession, slots: Sequence[Slot]) -> list[LaunchResult]:
        """One result per core, in order of cores."""
        config = self._graph.config
        program = self._graph.program
        machine: Machine = session.machine(config, self._graph.config_digest)
        machine.load(program)
        digest, store = self._graph.config_digest, self._graph.store
        tiles = self._tile_keys(program)
        results = []
        for core in range(config.cores):
            known: Latencies = {}
            if config.latency_source == "gem5" and self._graph.timed:
                known = self._second_source(machine, slots, core).latencies
            elif store is not None:  # without caches everything is measured anew
                known = {name: TILE_LATENCIES.known(digest, key, store) for name, key in tiles.items()}
            result = machine.launch(
                self.name, slots, core=core, cores=config.cores, mode=self._graph.mode, latencies=known
            )
            if config.latency_source == "both" and self._graph.timed:
                self._second_source(machine, slots, core)
            for name, measured in result.measured.items():
                TILE_LATENCIES.add(digest, tiles[name], measured, store)
            results.append(result)
        return results

    def _second_source(self, machine: Machine, slots: Sequence[Slot], core: int) -> SecondSource:
        """The tile functions of a launch on gem5. A launch that moves no data finds the calls."""
        from pytorchsim.runtime.gem5_latencies import second_source

        if core not in self._second_sources:
            config, program = self._graph.config, self._graph.program
            probe = machine.launch(self.name, slots, core=core, cores=config.cores, mode="timing")
            self._second_sources[core] = second_source(
                program, probe.measured, self._tile_keys(program), config, self._graph.store
            )
        return self._second_sources[core]

    def _tile_keys(self, program: Program) -> dict[str, TileKey]:
        """What each tile function's latency depends on, besides arguments and machine."""
        if self._tiles is not None:
            return self._tiles
        # Spills of vector registers are faster at addresses aligned to a port; the caller's frame decides.
        frame_bytes = self.compiled().frame_bytes[self.name]
        alignment = frame_bytes % self._graph.config.core.scratchpad_port_bytes
        self._tiles = {
            name: TileKey(program.tile_digests[name], alignment)
            for name in program.tile_functions
            if name.startswith(f"{self.name}__")
        }
        return self._tiles

    def _timing(self, session: ThreadSession, slots: Sequence[Slot], results: Sequence[LaunchResult]) -> LaunchTiming:
        from pytorchsim.simulator.timing import simulate

        config = self._graph.config
        traces = [result.trace for result in results]
        if config.l2.kind == "none":
            timing = simulate(traces, config)
        else:
            residency = session.residency(config, self._graph.config_digest)
            timing = simulate(traces, config, residency.state, residency.next_launch(slots))
        refuse_what_minor_does_not_model(self.name, timing, config)
        return timing

    def _record(self, session: ThreadSession, slots: Sequence[Slot], results: Sequence[LaunchResult]) -> None:
        timing = self._timing(session, slots, results) if self._graph.timed else None
        instructions: dict[str, int] = {}
        for result in results:
            for kind, count in result.instructions.items():
                instructions[kind] = instructions.get(kind, 0) + count
        session.current_graph.add_launch(
            LaunchRecord(
                kernel=self._metadata.facts,
                timing=timing,
                instructions=instructions,
                stack_bytes=max(result.stack_bytes for result in results),
                assumed_indices=sum(result.assumed_indices for result in results),
                tile_latencies=tuple(
                    dict.fromkeys(row for source in self._second_sources.values() for row in source.rows)
                ),
            )
        )


def _slot(session: ThreadSession, tensor: torch.Tensor, writes: bool) -> Slot:
    """The tensor as the machine sees it. Accesses may go anywhere in its storage, as views of it may."""
    from pytorchsim.simulator.functional import Slot

    storage = tensor.untyped_storage()
    offset_bytes = int(tensor.storage_offset()) * tensor.element_size()
    return Slot(
        data=tensor.data_ptr(),
        lowest_byte=-offset_bytes,
        end_byte=int(storage.nbytes()) - offset_bytes,
        dram_address=session.allocator.address(tensor),
        element_bytes=tensor.element_size(),
        writable=writes,
    )
