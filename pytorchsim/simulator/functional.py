"""The functional run: one core's machine, programs loaded into it, kernels launched on it.

In: a linked program and the tensors of a launch as `Slot`s. Out: the tensors written, and a `LaunchResult` with the
trace for the timing simulator, the measured latencies and counts. What the machine refuses is a `MachineFault` that
names kernel, function, instruction, lane and address; the machine can be used again afterwards. Assumes: a machine is
used by one thread at a time. Rules of the machine: docs/kernel_abi.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NoReturn, Protocol, TypeAlias

from pytorchsim.errors import FaultSite, MachineFault
from pytorchsim.simulator.native import _native
from pytorchsim.simulator.tile_cost import TileCost
from pytorchsim.simulator.timing import lane_core_params
from pytorchsim.target.memory_map import SCRATCHPAD_BASE

if TYPE_CHECKING:
    from pytorchsim.config.model import NpuConfig

__all__ = ["Arguments", "LaunchMode", "LaunchResult", "LoadableProgram", "Machine", "Slot"]

LaunchMode: TypeAlias = Literal["functional+timing", "functional", "timing"]
Arguments: TypeAlias = tuple[int, ...]
"""The integer arguments a0..a7 of a tile function's call, 0 for those it does not read."""

_EXECUTABLE = 1

_MODES: Mapping[LaunchMode, _native.EngineMode] = {
    "functional+timing": _native.EngineMode.FUNCTIONAL_TIMING,
    "functional": _native.EngineMode.FUNCTIONAL,
    "timing": _native.EngineMode.TIMING,
}


class LoadableProgram(Protocol):
    """What `Machine.load` needs of a program (`pytorchsim.mlir.program.Program` is one)."""

    @property
    def segments(self) -> Sequence[tuple[int, bytes, int, int]]:
        """(address, bytes, size in memory, ELF flags: 1 execute, 2 write, 4 read)."""

    @property
    def symbols(self) -> Mapping[str, tuple[int, int]]:
        """Name -> (address, size in bytes)."""

    @property
    def tile_functions(self) -> Sequence[str]:
        """Names of the functions that are timed as a unit."""


@dataclass(frozen=True)
class Slot:
    """A tensor as the machine sees it.

    data: host address of element 0; 0 is allowed in timing mode. lowest_byte, end_byte: valid bytes relative to it (0
    or negative; one past the last). dram_address: of element 0, for the trace. A store to a slot that is not
    `writable` faults.
    """

    data: int
    lowest_byte: int
    end_byte: int
    dram_address: int
    element_bytes: int
    writable: bool = True


@dataclass(frozen=True)
class LaunchResult:
    """What one core did in a launch.

    trace: for `simulator.timing`; empty in functional mode. stack_bytes: peak depth per lane. instructions: executed
    ones by class (scalar, vector, dma, array). measured: costs of tile functions that were not known, by name and
    arguments. assumed_indices: entries of index tiles that timing mode had to make up (it took consecutive ones).
    """

    trace: _native.Trace
    stack_bytes: int
    instructions: Mapping[str, int]
    measured: Mapping[str, Mapping[Arguments, TileCost]]
    assumed_indices: int = 0


@dataclass
class _Loaded:
    program: LoadableProgram
    tile_numbers: dict[str, int] = field(default_factory=dict)


class Machine:
    """One core of the NPU: scratchpad, registers, arrays, DMA. Cores of a launch run on it one after another."""

    def __init__(self, config: NpuConfig, *, reference_lanes: bool = False, body_level: int = 0) -> None:
        """A machine of this config.

        Args:
            config: the hardware.
            reference_lanes: run every vector instruction through Spike's own handler, lane by lane. Slow; what the
                fast bodies are tested against.
            body_level: x86-64 level of the fast bodies (2, 3 or 4); 0 is the best of this computer.

        Raises:
            ValueError: the figures are no machine's, or this computer does not have the level.
        """
        params = _native.EngineParams()
        params.reference_lanes = reference_lanes
        params.body_level = body_level
        params.lanes = config.core.lanes
        params.vlen_bits = config.core.vlen_bits
        params.slice_bytes = config.core.scratchpad_bytes_per_lane
        params.stack_reserve_bytes = config.core.stack_reserve_bytes
        params.array_count = config.array.count
        params.array_queue_entries = config.array.queue_entries
        params.instruction_budget = config.instruction_budget
        params.timing = lane_core_params(config)
        self._engine = _native.Engine(params)
        self._loaded: _Loaded | None = None

    def load(self, program: LoadableProgram) -> None:
        """Make `program` the one whose kernels `launch` runs. Loading the program that is loaded costs nothing.

        Raises:
            ValueError: segments overlap or lie in the scratchpad window, or a tile function is not in the code.
        """
        if self._loaded is not None and self._loaded.program is program:
            return
        self._loaded = None
        self._engine.load(
            [(address, data, size, bool(flags & _EXECUTABLE)) for address, data, size, flags in program.segments],
            [(name, *program.symbols[name]) for name in program.tile_functions],
        )
        self._loaded = _Loaded(program, {name: number for number, name in enumerate(program.tile_functions)})

    def launch(
        self,
        kernel: str,
        slots: Sequence[Slot],
        *,
        core: int = 0,
        cores: int = 1,
        mode: LaunchMode = "functional+timing",
        latencies: Mapping[str, Mapping[Arguments, TileCost]] | None = None,
    ) -> LaunchResult:
        """Run a kernel's control function to its end, as core `core` of `cores`.

        Args:
            kernel: a symbol of the loaded program.
            slots: the kernel's tensors, in the order of slot numbers. They must stay alive and unmoved.
            core: this core's number.
            cores: cores that share the kernel.
            mode: `functional` computes, `timing` only traces, `functional+timing` does both.
            latencies: known costs of tile functions, by name and arguments (as `LaunchResult.measured` gives them).

        Raises:
            MachineFault: the machine refused an instruction.
            KeyError: no such kernel, or no program is loaded.
            KeyboardInterrupt: Ctrl-C (seen within about 50 ms).
        """
        loaded = self._loaded
        if loaded is None or kernel not in loaded.program.symbols:
            raise KeyError(f"kernel {kernel!r} is not in the loaded program" if loaded else "no program is loaded")
        known = [
            (loaded.tile_numbers[name], list(arguments), cost.cycles, list(cost.work))
            for name, calls in (latencies or {}).items()
            for arguments, cost in calls.items()
        ]
        native_slots = [
            _native.EngineSlot(s.data, s.lowest_byte, s.end_byte, s.dram_address, s.element_bytes, s.writable)
            for s in slots
        ]
        entry = loaded.program.symbols[kernel][0]
        try:
            result = self._engine.launch(entry, core, cores, _MODES[mode], native_slots, known)
        except _native.EngineFault as error:
            self._raise_fault(loaded.program, kernel, error)
        names = list(loaded.program.tile_functions)
        measured: dict[str, dict[Arguments, TileCost]] = {}
        for tile, arguments, cycles, work in result.measured:
            measured.setdefault(names[tile], {})[tuple(arguments)] = TileCost(cycles, tuple(work))
        instructions = {
            "scalar": result.scalar_instructions,
            "vector": result.vector_instructions,
            "dma": result.dma_instructions,
            "array": result.array_instructions,
        }
        return LaunchResult(result.trace, result.stack_bytes, instructions, measured, result.assumed_indices)

    def interrupt(self) -> None:
        """Stop the launch that runs in another thread; it ends with an `interrupted` fault."""
        self._engine.interrupt()

    def disassemble(self, word: int) -> str:
        """Assembly text of an instruction word."""
        return self._engine.disassemble(word)

    def slice(self, lane: int) -> bytes:
        """A copy of a lane's scratchpad slice, as the last launch left it."""
        return self._engine.slice(lane)

    def vector_registers(self, lane: int) -> bytes:
        """A copy of a lane's 32 vector registers, as the last launch left them."""
        return b"".join(self._engine.vector_register(number, lane) for number in range(32))

    def executed_vector_instructions(self) -> frozenset[str]:
        """Names of the vector instructions that launches on this machine have executed."""
        return frozenset(self._engine.executed_vector_instructions())

    def _raise_fault(self, program: LoadableProgram, kernel: str, error: BaseException) -> NoReturn:
        kind, text, pc, bits, lane, address, other_pc = error.args
        instruction = self._engine.disassemble(bits) if bits else "no instruction"
        site = FaultSite(
            kind=kind,
            kernel=kernel,
            function=_function_at(program, pc),
            instruction=instruction,
            pc=pc,
            lane=lane,
            address=address,
            other_pc=other_pc,
            notes={"other": _place_at(program, other_pc)} if other_pc else {},
        )
        where = f"kernel {kernel!r}, {_place_at(program, pc)}, pc {pc:#x}: {instruction}"
        at_lane = f" (lane {lane})" if lane >= 0 else ""
        symbol = _buffer_at(program, address)
        at_symbol = f"\n  address {address:#x} is in {symbol}" if symbol else ""
        other = f"\n  other instruction: {_place_at(program, other_pc)}, pc {other_pc:#x}" if other_pc else ""
        raise MachineFault(f"{kind}: {text}{at_lane}\n  at {where}{at_symbol}{other}", site) from None


def _symbol_at(program: LoadableProgram, address: int) -> tuple[str, int] | None:
    best: tuple[int, str] | None = None
    for name, (start, size) in program.symbols.items():
        if start <= address < start + max(size, 1) and (best is None or start >= best[0]):
            best = (start, name)
    return None if best is None else (best[1], address - best[0])


def _function_at(program: LoadableProgram, pc: int) -> str:
    found = _symbol_at(program, pc)
    return found[0] if found else ""


def _place_at(program: LoadableProgram, pc: int) -> str:
    found = _symbol_at(program, pc)
    if found is None:
        return "outside of any function"
    name, offset = found
    return f"{name}+{offset:#x}" if offset else name


def _buffer_at(program: LoadableProgram, address: int) -> str:
    """The scratchpad buffer or constant that holds `address`; the linker's buffer symbols have no size."""
    found = _symbol_at(program, address) if address else None
    if found is None and address >= SCRATCHPAD_BASE:
        before = [(start, name) for name, (start, _) in program.symbols.items() if SCRATCHPAD_BASE <= start <= address]
        found = (max(before)[1], address - max(before)[0]) if before else None
    return f"{found[0]}+{found[1]:#x}" if found else ""
