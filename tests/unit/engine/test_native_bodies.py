"""Native all-lane bodies against Spike's handlers, bit for bit, at every x86-64 level that this computer has.

Programs of many random legal instructions on registers full of special values: all SEW and LMUL, masked and not, every
vl, operands that overlap, other rounding modes. One wrong bit anywhere shows in the registers at the end.
"""

from __future__ import annotations

import numpy as np
import pytest

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine
from pytorchsim.simulator.native import _native
from tests.unit.engine.assembler import A0, A1, A2, Assembler
from tests.unit.engine.spike_comparison import (
    body_levels,
    differences,
    make_machine,
    on_engine,
    program,
    without_illegal_words,
)
from tests.unit.engine.test_vector_instructions import (
    CONFIGURATION,
    DRAFTS,
    MEMORY,
    ROWS,
    TO_SCALAR,
    configurations,
    random_state,
    random_word,
    scalar_operands,
    vset,
)

PROGRAMS = 150
WORDS = 40
ARITHMETIC = sorted(set(ROWS) - MEMORY - CONFIGURATION - TO_SCALAR - DRAFTS)
FRM = 0x002


@pytest.fixture(scope="module")
def reference() -> Machine:
    return make_machine(reference_lanes=True)


def legal(word: int, name: str, lmul: float) -> bool:
    """Most illegal words are left out, so that programs run long; those that remain must fault on both machines."""
    step = max(1, int(lmul))
    registers = [word >> 7 & 31, word >> 20 & 31] + ([word >> 15 & 31] if word >> 12 & 7 <= 2 else [])
    aligned = all(register % step == 0 for register in registers)
    masked_to_v0 = not word >> 25 & 1 and word >> 7 & 31 == 0
    return aligned and not masked_to_v0 and not name.startswith(("vaes", "vsha", "vsm", "vgh", "vgm"))


def random_program(rng: np.random.Generator, names: list[str]) -> tuple[list[int], int]:
    words: list[int] = []
    sew, lmul, vl = configurations(rng)
    words += vset(vl, sew, lmul)
    first_sew = sew
    for _ in range(WORDS):
        if rng.random() < 0.15:
            sew, lmul, vl = configurations(rng)
            words += vset(vl, sew, lmul)
        if rng.random() < 0.02:  # csrwi frm; now and then another rounding mode for a while
            words.append(0x73 | 5 << 12 | int(rng.choice([0, 0, 0, 1, 2, 3, 4])) << 15 | FRM << 20)
        name = str(rng.choice(names))
        word = scalar_operands(random_word(name, rng, lmul))
        if rng.random() < 0.3:  # the destination is a source
            word = word & ~(31 << 7) | (word >> 20 & 31) << 7
        if legal(word, name, lmul):
            words.append(word)
    return words, first_sew


def run_both(machine: Machine, reference: Machine, seed: int, names: list[str]) -> int:
    rng = np.random.default_rng(seed)
    words, sew = random_program(rng, names)
    state = random_state(rng, sew)
    for both in (machine, reference):  # what one refuses, the other must refuse too
        words, refused = without_illegal_words(both, words, state)
        assert both is machine or not refused, [machine.disassemble(word) for word in refused]
    assembler = program(words, state)
    fast, slow = on_engine(machine, assembler, state), on_engine(reference, assembler, state)
    assert not differences(fast, slow), [machine.disassemble(word) for word in words]
    return len(words)


@pytest.mark.parametrize("level", body_levels())
def test_random_programs(reference: Machine, level: int) -> None:
    machine = make_machine(body_level=level)
    words = sum(run_both(machine, reference, seed, ARITHMETIC) for seed in range(PROGRAMS))
    assert words > PROGRAMS * WORDS / 4


GROUPS = {
    "float": ("vf",),
    "integer": (
        "vadd",
        "vsub",
        "vrsub",
        "vmul",
        "vdiv",
        "vrem",
        "vmin",
        "vmax",
        "vand",
        "vor",
        "vxor",
        "vmacc",
        "vnms",
        "vmadd",
    ),
    "compare": ("vms", "vmf", "vmand", "vmor", "vmx", "vmn", "vmerge", "vfmerge"),
    "shift-and-move": ("vsll", "vsr", "vslide", "vrgather", "vid", "vmv", "vzext", "vsext", "vfncvt", "vfwcvt"),
}


@pytest.mark.parametrize("level", body_levels())
@pytest.mark.parametrize("group", list(GROUPS))
def test_random_programs_of_one_group_of_instructions(reference: Machine, level: int, group: str) -> None:
    """Each group on its own, so that its instructions meet often."""
    machine = make_machine(body_level=level)
    names = [name for name in ARITHMETIC if name.startswith(GROUPS[group])]
    words = sum(run_both(machine, reference, 1000 + seed, names) for seed in range(PROGRAMS // 2))
    assert words > PROGRAMS * WORDS / 8


def run_from_constants(machine: Machine, words: list[int], numbers: bytes, vlen_bits: int) -> int:
    """Words from registers full of `numbers`, to which each lane adds its own. Returns a fault's word, or -1."""
    a = Assembler()
    a.label("k")
    constants = a.constant(numbers)
    for first in range(0, 32, 8):
        a.li(A0, constants + 80 * first)
        a.memory(store=False, width=8, register=first, base=A0, other=8, fields=8)
    a.vset(vlen_bits, 8, 8)
    a.custom("lane.id", rd=24)
    for first in range(0, 24, 8):
        a.vadd_vv(first, first, 24)
    a.li(A1, 77)
    a.li(A2, -3)
    a.label("words")
    for word in words:
        a.emit(word)
    a.ret()
    machine.load(a.program())
    try:
        machine.launch("k", [], mode="functional")
    except MachineFault as fault:
        return (fault.site.pc - a.labels["words"]) // 4
    return -1


@pytest.mark.parametrize("vlen_bits", [128, 512, 1024])
def test_other_register_lengths(vlen_bits: int) -> None:
    core = CoreConfig(
        lanes=4, vlen_bits=vlen_bits, datapath_bits=128, scratchpad_bytes_per_lane=8192, stack_reserve_bytes=1024
    )
    config = NpuConfig(name="comparison", core=core)
    fast, slow = Machine(config), Machine(config, reference_lanes=True)
    rng = np.random.default_rng(vlen_bits)
    total = 0
    for _ in range(PROGRAMS // 5):
        words, _ = random_program(rng, ARITHMETIC)
        numbers = rng.integers(0, 256, 4096, dtype=np.uint8).tobytes()
        for machine in (fast, slow):
            while (at := run_from_constants(machine, words, numbers, vlen_bits)) >= 0:
                assert machine is fast, machine.disassemble(words[at])
                words.pop(at)
        total += len(words)
        for lane in range(4):
            assert fast.vector_registers(lane) == slow.vector_registers(lane)
    assert total > PROGRAMS / 5 * WORDS / 4


@pytest.mark.parametrize("level", body_levels())
def test_special_functions_give_the_same_bits_at_every_level(level: int) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate(
        [
            rng.integers(0, 1 << 32, 20000, dtype=np.uint32).view(np.float32),
            (rng.standard_normal(20000) * 5).astype(np.float32),
        ]
    )
    for function in range(7):
        first, second = np.empty_like(values), np.empty_like(values)
        _native.special_function(function, values, first, level)
        _native.special_function(function, values, second, 2)
        assert (first.view(np.uint32) == second.view(np.uint32)).all()
