"""Whole programs of random scalar and vector instructions, on the engine and on Spike's own step(): equal registers.

And bytes that are no program: whatever code and descriptors hold, the machine answers with a typed fault.
"""

from __future__ import annotations

import contextlib
import os
import time

import numpy as np
import pytest

from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine
from pytorchsim.simulator.native import _native
from pytorchsim.target import isa
from pytorchsim.target.descriptor import DESCRIPTOR_BYTES, MAGIC, Axis, Bound, Descriptor, IndexTile, TransferOp
from pytorchsim.target.dtypes import ALL_DTYPES
from tests.unit.engine.assembler import A0, Assembler, spad
from tests.unit.engine.harness import LANES, slot, small_machine
from tests.unit.engine.spike_comparison import (
    SLICE_BYTES,
    differences,
    make_machine,
    on_engine,
    on_spike,
    program,
    without_illegal_words,
)
from tests.unit.engine.test_native_bodies import ARITHMETIC, legal
from tests.unit.engine.test_vector_instructions import (
    configurations,
    random_state,
    random_word,
    scalar_operands,
    vset,
)

FUZZ_SECONDS = float(os.environ.get("FUZZ_SECONDS", "2"))
PROGRAMS = 60
WORDS = 60
# x10-x12 hold values, x5 is vset's; results go to the others. ra and sp are left alone.
SOURCES = [0, 10, 11, 12, 13, 14, 15, 16]
RESULTS = [13, 14, 15, 16]

# (match, what is free) of scalar instructions: register-register, register-immediate, upper immediates, floats.
REGISTER = [0x33 | f3 << 12 | f7 << 25 for f7 in (0, 1) for f3 in range(8)] + [0x40000033, 0x40005033]
REGISTER += [0x3B, 0x4000003B, 0x103B, 0x503B, 0x4000503B, *(0x0200003B | f3 << 12 for f3 in (0, 4, 5, 6, 7))]
IMMEDIATE = [0x13 | f3 << 12 for f3 in (0, 2, 3, 4, 6, 7)] + [0x1B]
SHIFT = [0x1013, 0x5013, 0x40005013]
FLOAT = [0x53 | f7 << 25 for f7 in (0, 1, 2, 4, 5, 8, 9, 12, 13, 16, 17, 20, 21)]
FLOAT += [0xC0000053, 0xC2000053, 0xC0200053, 0xD0000053, 0xD2200053, 0xA0002053, 0xA2001053, 0xE0001053]


def scalar_word(rng: np.random.Generator) -> int:
    rd, rs1, rs2 = int(rng.choice(RESULTS)) << 7, int(rng.choice(SOURCES)) << 15, int(rng.choice(SOURCES)) << 20
    kind = rng.integers(0, 5)
    if kind == 0:
        return int(rng.choice(REGISTER)) | rd | rs1 | rs2
    if kind == 1:
        return int(rng.choice(IMMEDIATE)) | rd | rs1 | int(rng.integers(0, 4096)) << 20
    if kind == 2:
        return int(rng.choice(SHIFT)) | rd | rs1 | int(rng.integers(0, 64)) << 20
    if kind == 3:
        return int(rng.choice([0x37, 0x17])) | rd | int(rng.integers(0, 1 << 20)) << 12
    match = int(rng.choice(FLOAT))
    registers = int(rng.integers(10, 14)) << 7 | int(rng.integers(10, 14)) << 15
    second = 0 if match >> 28 >= 0xC or match >> 25 in (0x2C, 0x2D) else int(rng.integers(10, 14)) << 20
    to_integer = match >> 25 in (0x60, 0x61, 0x50, 0x51, 0x70)
    registers = registers & ~(31 << 7) | rd if to_integer else registers
    return match | registers | second


def show_scalars() -> list[int]:
    """a3-a6 and fa0-fa3 into v0-v7 by vmv.s.x and vfmv.s.f."""
    words = vset(4, 64, 1)
    words += [0x42006057 | number << 7 | register << 15 for number, register in enumerate(RESULTS)]
    return words + [0x42005057 | (4 + number) << 7 | (10 + number) << 15 for number in range(4)]


def branch_over(rng: np.random.Generator) -> int:
    """A branch that skips the next word or not."""
    funct3 = int(rng.choice([0, 1, 4, 5, 6, 7]))
    return 0x63 | 8 << 7 | funct3 << 12 | int(rng.choice(SOURCES)) << 15 | int(rng.choice(SOURCES)) << 20


@pytest.fixture(scope="module")
def reference() -> _native.ReferenceProcessor:
    return _native.ReferenceProcessor(256, SLICE_BYTES)


@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_programs_end_like_on_spike(reference: _native.ReferenceProcessor, seed: int) -> None:
    machine = make_machine()
    rng = np.random.default_rng(seed)
    sew, lmul, vl = configurations(rng)
    words = vset(vl, sew, lmul)
    for _ in range(WORDS):
        if rng.random() < 0.1:
            words.append(branch_over(rng))
        if rng.random() < 0.5:
            words.append(scalar_word(rng))
            continue
        name = str(rng.choice(ARITHMETIC))
        word = scalar_operands(random_word(name, rng, lmul))
        words.append(word if legal(word, name, lmul) else 0x13)
    state = random_state(rng, sew)
    words, _ = without_illegal_words(machine, [*words, *show_scalars()], state)
    assert len(words) > WORDS // 2
    assembler = program(words, state)
    engine, spike = on_engine(machine, assembler, state), on_spike(reference, assembler, state)
    shown = [machine.disassemble(word) for word in words]
    assert not spike.trap_pc, shown
    assert not differences(engine, spike), shown


def random_bytes(rng: np.random.Generator) -> list[int]:
    """Words of which many are almost instructions."""
    words = []
    opcodes = [
        0x03,
        0x07,
        0x0F,
        0x13,
        0x17,
        0x23,
        0x27,
        0x2F,
        0x33,
        0x37,
        0x53,
        0x57,
        0x57,
        0x57,
        0x5B,
        0x5B,
        0x63,
        0x67,
        0x6F,
        0x73,
        0x77,
    ]
    customs = [match for i in isa.CUSTOM for _, match in i.words()]
    for _ in range(40):
        word = int(rng.integers(0, 1 << 32))
        choice = rng.random()
        if choice < 0.4:
            word = word & ~0x7F | int(rng.choice(opcodes))
        elif choice < 0.6:
            word = int(rng.choice(customs)) | word & (31 << 7 | 31 << 15 | 31 << 20)
        elif choice < 0.8:
            word = vset(int(rng.integers(0, 64)), int(rng.choice([8, 16, 32, 64])), 1)[int(rng.integers(0, 2))]
        words.append(word)
    return words


def random_descriptor(rng: np.random.Generator) -> bytes:
    """A plausible descriptor, then some bytes of it changed."""
    rank = int(rng.integers(1, 9))
    number = lambda: int(rng.choice([0, 1, 2, 3, 8, -1, 100, 1 << 31, -(1 << 40), (1 << 63) - 1]))  # noqa: E731
    axes = tuple(
        Axis(int(rng.choice([0, 1, 2, 4, 9, 1 << 31])), number(), 1, bool(rng.integers(0, 2))) for _ in range(rank)
    )
    descriptor = Descriptor(
        slot=int(rng.integers(0, 3)),
        op=TransferOp(int(rng.integers(0, 5))),
        dtype=ALL_DTYPES[int(rng.integers(0, len(ALL_DTYPES)))],
        axes=axes,
        offset=number(),
        spad_address=spad(int(rng.integers(0, 9000))),
        lane_stride=int(rng.integers(1, 5)),
        bounds=tuple(Bound(number(), tuple(number() for _ in axes), number()) for _ in range(int(rng.integers(0, 5)))),
        index_tiles=tuple(
            IndexTile(
                spad(int(rng.integers(0, 9000))),
                bool(rng.integers(0, 2)),
                (int(rng.integers(0, rank)),),
                number(),
                number(),
            )
            for _ in range(int(rng.integers(0, 3)))
        ),
    )
    data = bytearray(descriptor.encode())
    for _ in range(int(rng.integers(0, 4))):
        data[int(rng.integers(2, DESCRIPTOR_BYTES))] = int(rng.integers(0, 256))
    assert int.from_bytes(data[:2], "little") == MAGIC
    return bytes(data)


def fuzz_once(machine: Machine, seed: int) -> None:
    rng = np.random.default_rng(seed)
    a = Assembler()
    descriptors = [a.constant(random_descriptor(rng)) for _ in range(4)]
    a.label("k")
    a.vset(8, 32)
    for register in range(6, 32):
        a.li(register, int(rng.choice([*descriptors, 0, 1, 8, -4, spad(0), spad(64), spad(8000), 0x10000, 1 << 40])))
    if rng.random() < 0.5:
        for number, descriptor in enumerate(descriptors):
            a.li(A0, descriptor)
            a.custom("dma.start", rd=number, rs1=A0)
            a.dma_wait(number)
    for word in random_bytes(rng):
        a.emit(word)
    a.ret()
    machine.load(a.program())
    tensors = [np.zeros((64, LANES), np.float32), np.zeros(100, np.int8)]
    mode = ("functional", "functional+timing", "timing")[seed % 3]
    with contextlib.suppress(MachineFault):
        machine.launch("k", [slot(t) for t in tensors], mode=mode)


def test_any_bytes_give_typed_faults() -> None:
    """FUZZ_SECONDS sets how long; the sanitizer build runs it for a minute."""
    machine = small_machine(instruction_budget=3000)
    end = time.monotonic() + FUZZ_SECONDS
    seed = 0
    while time.monotonic() < end:
        fuzz_once(machine, seed)
        seed += 1
    print(f"\n{seed} programs")
    assert seed > 20
