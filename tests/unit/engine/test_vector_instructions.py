"""Every vector instruction of Spike on the engine, from random states, against Spike alone: bit for bit."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest

from pytorchsim.simulator.functional import Machine
from pytorchsim.simulator.native import _native
from tests.unit.engine.assembler import A0, A1, SEW, spad
from tests.unit.engine.spike_comparison import (
    DATA_BYTES,
    DATA_OFFSET,
    FILE_BYTES,
    LANES,
    SLICE_BYTES,
    Outcome,
    State,
    differences,
    make_machine,
    on_engine,
    on_spike,
    program,
    random_file,
)

TRIALS = 6
ROWS = {name: (match, mask) for name, match, mask in _native.vector_instructions()}
MEMORY = {name for name, (match, _) in ROWS.items() if match & 0x7F in (0x07, 0x27)}
CONFIGURATION = {"vsetvli", "vsetivli", "vsetvl"}
TO_SCALAR = {"vmv_x_s", "vfmv_f_s", "vcpop_m", "vfirst_m"}
FAULT_ONLY_FIRST = {name for name in MEMORY if name.endswith("ff_v")}
LMULS = (0.125, 0.25, 0.5, 1, 2, 4, 8)
LMUL_BITS = {0.125: 5, 0.25: 6, 0.5: 7, 1: 0, 2: 1, 4: 2, 8: 3}
# Draft extensions that the machine's processor does not have (spike_isa.cc says why).
DRAFTS = {
    *("vqdot_vv", "vqdot_vx", "vqdotu_vv", "vqdotu_vx", "vqdotsu_vv", "vqdotsu_vx", "vqdotus_vx"),
    *("vqbdots_vv", "vqbdotu_vv", "vqldots_vv", "vqldotu_vv", "vfbdot_vv", "vfwbdot_vv", "vfwldot_vv"),
    *("vfqbdot_vv", "vfqbdot_alt_vv", "vfqldot_vv", "vfqldot_alt_vv"),
    *("vfext_vf2", "vfncvt_f_f_q", "vfncvt_sat_f_f_q", "vfncvtbf16_sat_f_f_w"),
}


@pytest.fixture(scope="module")
def machine() -> Iterator[Machine]:
    made = make_machine()
    yield made
    executed = made.executed_vector_instructions()
    missing = set(ROWS) - executed - DRAFTS - FAULT_ONLY_FIRST
    print(f"\n{len(executed)} of {len(ROWS)} vector instructions executed; not by this run: {sorted(missing)}")


@pytest.fixture(scope="module")
def reference() -> _native.ReferenceProcessor:
    return _native.ReferenceProcessor(256, SLICE_BYTES)


def vset(vl: int, sew: int, lmul: float) -> list[int]:
    """li t0, vl; vsetvli zero, t0."""
    return [0x13 | 5 << 7 | vl << 20, 0x57 | 7 << 12 | 5 << 15 | (0xC0 | SEW[sew] << 3 | LMUL_BITS[lmul]) << 20]


def random_word(name: str, rng: np.random.Generator, lmul: float) -> int:
    """Random operands, register numbers often aligned to the group so that many words are legal."""
    match, mask = ROWS[name]
    step = max(1, int(lmul))
    register = lambda: int(rng.integers(0, 32 // step) * step) if rng.random() < 0.9 else int(rng.integers(0, 32))  # noqa: E731
    fields = register() << 7 | register() << 20 | int(rng.random() < 0.6) << 25
    fields |= (register() if rng.random() < 0.7 else int(rng.integers(10, 13))) << 15
    free = int(rng.integers(0, 1 << 32)) & ~(31 << 7 | 31 << 20 | 31 << 15 | 1 << 25)
    return match | ((fields | free) & ~mask & 0xFFFFFFFF)


def scalar_operands(word: int) -> int:
    """Vector-scalar forms read rs1: make it one of the registers that hold something (a0-a2, fa0-fa1)."""
    funct3 = word >> 12 & 7
    if funct3 in (4, 5, 6):
        word = word & ~(31 << 15) | (10 + (word >> 15) % (2 if funct3 == 5 else 3)) << 15
    return word


def random_state(rng: np.random.Generator, sew: int, *, same: bool = False) -> State:
    floats = tuple(
        (~0 << 32 | 0x3F9D0000) & (1 << 64) - 1 if sew == 32 else int(rng.integers(0, 1 << 63)) for _ in range(2)
    )
    if sew == 16:
        floats = tuple(0xFFFFFFFFFFFF0000 | int(rng.integers(0, 1 << 16)) for _ in range(2))
    if sew == 32:
        floats = tuple(
            0xFFFFFFFF00000000 | int(bits) for bits in np.array(rng.standard_normal(2), np.float32).view(np.uint32)
        )
    integers = (int(rng.integers(0, 40)), int(rng.integers(-(1 << 63), 1 << 63)), int(rng.integers(-100, 100)))
    data = rng.integers(0, 256, (LANES, DATA_BYTES), dtype=np.uint8)
    return State(random_file(rng, sew, same=same), data, integers, floats)


def compare(machine: Machine, reference: _native.ReferenceProcessor, words: list[int], state: State) -> Outcome:
    assembler = program(words, state)
    engine, spike = on_engine(machine, assembler, state), on_spike(reference, assembler, state)
    shown = [machine.disassemble(word) for word in words]
    assert engine.trap_pc == spike.trap_pc, (shown, engine.kind)
    assert engine.kind in ("", "illegal-instruction"), shown
    if not engine.trap_pc:
        assert not differences(engine, spike), shown
    return engine


def configurations(rng: np.random.Generator) -> tuple[int, float, int]:
    sew = int(rng.choice([8, 16, 32, 64]))
    lmul = float(rng.choice([lmul for lmul in LMULS if lmul * 64 >= sew]))
    most = int(256 / sew * lmul)
    return sew, lmul, int(rng.choice([0, 1, most, most, most, rng.integers(0, most + 1)]))


@pytest.mark.parametrize("name", sorted(set(ROWS) - MEMORY - CONFIGURATION - TO_SCALAR))
def test_arithmetic(machine: Machine, reference: _native.ReferenceProcessor, name: str) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    ran = 0
    for _ in range(TRIALS if name in DRAFTS else TRIALS * 10):
        sew, lmul, vl = configurations(rng)
        word = scalar_operands(random_word(name, rng, lmul))
        outcome = compare(machine, reference, [*vset(vl, sew, lmul), word], random_state(rng, sew))
        ran += not outcome.trap_pc
        if ran == TRIALS:
            break
    assert (ran == 0) == (name in DRAFTS)


@pytest.mark.parametrize("name", sorted(TO_SCALAR))
def test_to_scalar(machine: Machine, reference: _native.ReferenceProcessor, name: str) -> None:
    """Lanes agree, so the value may pass; it comes back by vmv.v.x or vfmv.v.f."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    match, _ = ROWS[name]
    back = 0x42005057 if name == "vfmv_f_s" else 0x42004057 | 0x1C000000
    for _ in range(TRIALS):
        sew, lmul, vl = configurations(rng)
        sew = max(sew, 16)
        if lmul * 64 < sew:
            lmul = 1.0
        word = match | A0 << 7 | int(rng.integers(0, 4)) * 8 << 20 | 1 << 25
        back = (0x5E005057 if name == "vfmv_f_s" else 0x5E004057) | A0 << 15
        compare(machine, reference, [*vset(vl, sew, lmul), word, back], random_state(rng, sew, same=True))


def memory_word(name: str, rng: np.random.Generator, lmul: float) -> int:
    match, mask = ROWS[name]
    step = max(1, int(lmul))
    fields = int(rng.integers(0, 32 // step) * step) << 7 | A0 << 15 | int(rng.random() < 0.6) << 25
    indexed = match >> 26 & 1
    fields |= (int(rng.integers(0, 32 // step) * step) if indexed else A1) << 20
    fields |= int(rng.choice([0, 0, 0, 1, 2, 7])) << 29
    return match | (fields & ~mask)


@pytest.mark.parametrize("name", sorted(MEMORY - FAULT_ONLY_FIRST))
def test_loads_and_stores_give_what_the_reference_gives(
    machine: Machine, reference: _native.ReferenceProcessor, name: str
) -> None:
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for _ in range(TRIALS * 2):
        sew, lmul, vl = configurations(rng)
        file = rng.integers(0, 128, (LANES, FILE_BYTES // 8), dtype=np.uint64)  # small as indices of any width
        data = rng.integers(0, 256, (LANES, DATA_BYTES), dtype=np.uint8)
        base = spad(DATA_OFFSET + 512 + int(rng.integers(0, 2)) * int(rng.integers(0, 64)))
        stride = int(rng.choice([0, 1, 8, -1, 3, 2]))
        state = State(file.view(np.uint8), data, (base, stride, 0))
        compare(machine, reference, [*vset(vl, sew, lmul), memory_word(name, rng, lmul)], state)


def test_configuration(machine: Machine, reference: _native.ReferenceProcessor) -> None:
    """vl and vtype after each form come back by csrr and vmv.v.x."""
    rng = np.random.default_rng(1)
    read = [0xC2002573, 0xC21025F3]  # csrr a0, vl; csrr a1, vtype
    show = [*vset(4, 64, 1), 0x5E004057 | 8 << 7 | A0 << 15, 0x5E004057 | 9 << 7 | A1 << 15]
    for name in sorted(CONFIGURATION):
        for _ in range(20):
            registers = int(rng.integers(10, 13)) << 7 | int(rng.choice([0, 10, 11, 12])) << 15
            word = random_word(name, rng, 1) & ~(31 << 7 | 31 << 15) | registers
            compare(machine, reference, [word, *read, *show], random_state(rng, 32))


def test_the_table_is_whole() -> None:
    assert len(ROWS) == 442
    for name, (match, mask) in ROWS.items():
        for other, (other_match, other_mask) in ROWS.items():
            assert name == other or match & other_mask & mask != other_match & mask & other_mask, (name, other)
