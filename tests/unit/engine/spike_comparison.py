"""The engine against Spike alone: the same words from the same state, lane by lane, every register compared.

A program loads all vector registers from the slice, sets scalar registers, runs the words under test. The engine's
slices are filled by a transfer; Spike alone gets each lane's slice as its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine
from pytorchsim.simulator.native import _native
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Descriptor, TransferOp
from tests.unit.engine.assembler import A0, A1, A2, Assembler, spad
from tests.unit.engine.harness import slot

LANES = 4
SLICE_BYTES = 8192
FILE_BYTES = 32 * 32  # the vector registers at VLEN 256
DATA_OFFSET = 2048  # memory instructions work from here on
DATA_BYTES = 2048
REGION = DATA_OFFSET + DATA_BYTES

SPECIAL = {
    16: [0x0000, 0x8000, 0x3C00, 0x0001, 0x83FF, 0x7BFF, 0x7C00, 0xFC00, 0x7E00, 0x7D01, 0xFE55, 0x4248],
    32: [0, 1 << 31, 0x3F800000, 1, 0x807FFFFF, 0x7F7FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345],
    64: [0, 1 << 63, 0x3FF0000000000000, 1, 0x7FEFFFFFFFFFFFFF, 0x7FF0000000000000, 0xFFF0000000000000, 0x7FF8 << 48],
}


def make_machine(*, reference_lanes: bool = False, body_level: int = 0) -> Machine:
    core = CoreConfig(lanes=LANES, scratchpad_bytes_per_lane=SLICE_BYTES, stack_reserve_bytes=1024)
    config = NpuConfig(name="comparison", core=core)
    return Machine(config, reference_lanes=reference_lanes, body_level=body_level)


def body_levels() -> list[int]:
    """The x86-64 levels that this computer has."""
    levels = []
    for level in (2, 3, 4):
        try:
            make_machine(body_level=level)
        except ValueError:
            continue
        levels.append(level)
    return levels


def random_file(rng: np.random.Generator, sew: int, *, same: bool = False) -> np.ndarray:
    """[lanes, FILE_BYTES]: random bits, a third of the elements special values of the width."""
    contents = rng.integers(0, 256, (LANES, FILE_BYTES), dtype=np.uint8)
    width = max(sew, 16)
    view = contents.view(f"u{width // 8}")
    chosen = rng.random(view.shape) < 0.35
    view[chosen] = rng.choice(np.array(SPECIAL[width], dtype=view.dtype), int(chosen.sum()))
    if sew > 8:  # and numbers of ordinary size, where sums round
        ordinary = rng.random(view.shape) < 0.3
        numbers = rng.standard_normal(view.shape).astype(f"f{width // 8}").view(view.dtype)
        view[ordinary] = numbers[ordinary]
    if same:
        contents[:] = contents[0]
    return contents


@dataclass(frozen=True)
class State:
    """What the comparison starts from."""

    file: np.ndarray  # [LANES, FILE_BYTES]
    data: np.ndarray  # [LANES, DATA_BYTES]
    integers: tuple[int, ...] = (0, 0, 0)  # a0, a1, a2
    floats: tuple[int, ...] = (0, 0)  # bits of fa0, fa1


@dataclass(frozen=True)
class Outcome:
    """`trap_pc` 0: none. `kind`: of the engine's fault."""

    trap_pc: int
    kind: str
    file: np.ndarray
    data: np.ndarray


def program(words: Sequence[int], state: State) -> Assembler:
    a = Assembler()
    a.label("k")
    axes = (Axis(LANES, REGION // 8, REGION // 8, lane=True), Axis(REGION // 8, 1, 1))
    a.dma_start(0, a.constant(Descriptor(0, TransferOp.LOAD, dtypes.I64, axes, spad_address=spad(0)).encode()))
    a.dma_wait(0)
    a.label("start")
    a.li(A0, spad(0))
    for first in range(0, 32, 8):
        a.memory(store=False, width=8, register=first, base=A0, other=8, fields=8)  # vl8re8.v
        a.addi(A0, A0, 256)
    for number, bits in enumerate(state.floats):
        a.li(A0, bits)
        a.emit(0xF2000053 | (10 + number) << 7 | A0 << 15)  # fmv.d.x
    for register, value in zip((A0, A1, A2), state.integers, strict=True):
        a.li(register, value)
    a.label("words")
    for word in words:
        a.emit(word)
    a.ret()
    return a


def on_engine(machine: Machine, assembler: Assembler, state: State) -> Outcome:
    contents = np.zeros((LANES, REGION), np.uint8)
    contents[:, :FILE_BYTES] = state.file
    contents[:, DATA_OFFSET:] = state.data
    words = contents.view(np.int64)
    machine.load(assembler.program())
    pc, kind = 0, ""
    try:
        machine.launch("k", [slot(words)], mode="functional")
    except MachineFault as fault:
        pc, kind = fault.site.pc, fault.site.kind
    file = np.stack([np.frombuffer(machine.vector_registers(lane), np.uint8) for lane in range(LANES)])
    data = np.stack([np.frombuffer(machine.slice(lane)[DATA_OFFSET:REGION], np.uint8) for lane in range(LANES)])
    return Outcome(pc, kind, file, data)


def without_illegal_words(machine: Machine, words: Sequence[int], state: State) -> tuple[list[int], list[int]]:
    """The words that are left when every one that faults is taken out, and those taken out (with what they follow)."""
    kept, refused = list(words), []
    while True:
        assembler = program(kept, state)
        outcome = on_engine(machine, assembler, state)
        if not outcome.trap_pc:
            return kept, refused
        assert outcome.kind == "illegal-instruction", outcome.kind
        refused.append(kept.pop((outcome.trap_pc - assembler.labels["words"]) // 4))


def on_spike(reference: _native.ReferenceProcessor, assembler: Assembler, state: State) -> Outcome:
    program = assembler.program()
    segments = [(address, data, size, flags & 1 == 1) for address, data, size, flags in program.segments]
    files, datas, traps = [], [], set()
    for lane in range(LANES):
        slice_bytes = np.full(SLICE_BYTES, 0xFF, np.uint8)
        slice_bytes[:REGION] = 0
        slice_bytes[:FILE_BYTES] = state.file[lane]
        slice_bytes[DATA_OFFSET:REGION] = state.data[lane]
        finished, trap_pc, after = reference.run(segments, program.symbols["start"][0], slice_bytes.tobytes(), 10000)
        assert finished == (trap_pc == 0)
        traps.add(trap_pc)
        files.append(np.frombuffer(reference.vector_registers(), np.uint8))
        datas.append(np.frombuffer(after[DATA_OFFSET:REGION], np.uint8))
    assert len(traps) == 1
    return Outcome(traps.pop(), "", np.stack(files), np.stack(datas))


def differences(first: Outcome, second: Outcome) -> list[str]:
    """What is not equal, for people; at most eight."""
    pairs = [
        (f"lane {lane} v{offset // 32} byte {offset % 32}", first.file[lane, offset], second.file[lane, offset])
        for lane, offset in np.argwhere(first.file != second.file)[:8]
    ]
    pairs += [
        (f"lane {lane} memory byte {offset}", first.data[lane, offset], second.data[lane, offset])
        for lane, offset in np.argwhere(first.data != second.data)[:8]
    ]
    return [f"{place}: {a:#x} != {b:#x}" for place, a, b in pairs[:8]]
