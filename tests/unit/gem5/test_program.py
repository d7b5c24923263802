"""Stand-alone programs: the executable runs the tile function as often as asked, and stand-ins keep the dependences."""

from __future__ import annotations

import io
import json

import pytest
from elftools.elf.elffile import ELFFile

from pytorchsim.config import load_config
from pytorchsim.simulator.gem5_machine import machine_json
from pytorchsim.simulator.gem5_program import executable, tile_call
from pytorchsim.target import isa
from pytorchsim.target.memory_map import SCRATCHPAD_BASE, TEXT_BASE
from pytorchsim.target.timing_twins import SHARED_PUSH, TWINS, timing_twin
from tests.timing.minor_program import Hart
from tests.unit.engine.assembler import TestProgram

CONFIG = load_config("tiny")
EXP = isa.encode("sfu.exp", rd=8, rs2=4)
RET = 0x00008067


def program(*words: int) -> TestProgram:
    code = b"".join(word.to_bytes(4, "little") for word in (0x13, *words))
    segments = ((TEXT_BASE, code, len(code), 5), (0x80000, b"constants", 9, 4))
    return TestProgram(segments, {"k__body": (TEXT_BASE + 4, 4 * len(words))}, ("k__body",))


def run(image: bytes, entry: int) -> list[dict[int, int]]:
    """Registers at each arrival at `entry`, until the exit call."""
    elf = ELFFile(io.BytesIO(image))
    memory = {
        segment["p_vaddr"] + at: segment.data()[at : at + 4]
        for segment in elf.iter_segments("PT_LOAD")
        if segment["p_flags"] & 1
        for at in range(0, segment["p_filesz"], 4)
    }
    hart, pc, arrivals = Hart(), elf.header["e_entry"], []
    while True:
        word = int.from_bytes(memory[pc], "little")
        if pc == entry:
            arrivals.append(dict(enumerate(hart.x)))
        if word == 0x73:
            assert hart.x[17] == 93
            return arrivals
        pc = hart.step(word, pc)


@pytest.mark.parametrize("repetitions", [1, 11])
def test_the_function_is_called_with_its_arguments_and_stack(repetitions: int) -> None:
    arguments = (SCRATCHPAD_BASE + 64, 0, 7, 0xFFFF_FFFF_FFFF_FFFF, 0x1234_5678_9ABC_DEF0)
    call = tile_call(program(RET), "k__body", arguments, 16, CONFIG)
    arrivals = run(executable(call, repetitions), TEXT_BASE + 4)
    assert len(arrivals) == repetitions
    for registers in arrivals:
        assert tuple(registers[10 + number] for number in range(5)) == arguments
        below = SCRATCHPAD_BASE + CONFIG.core.scratchpad_bytes_per_lane - registers[2]
        assert below % CONFIG.core.scratchpad_port_bytes == 16
        assert below > 0


def test_the_executable_maps_code_constants_and_the_scratchpad() -> None:
    elf = ELFFile(io.BytesIO(executable(tile_call(program(RET), "k__body", (), 0, CONFIG), 1)))
    assert (elf.header["e_machine"], elf.header["e_type"]) == ("EM_RISCV", "ET_EXEC")
    segments = {segment["p_vaddr"]: segment for segment in elf.iter_segments("PT_LOAD")}
    assert segments[SCRATCHPAD_BASE]["p_memsz"] == CONFIG.core.scratchpad_bytes_per_lane
    assert segments[0x80000].data() == b"constants"
    assert segments[TEXT_BASE + 4].data() == RET.to_bytes(4, "little")  # nothing but the function
    for address, segment in segments.items():
        assert (segment["p_offset"] - address) % 4096 == 0


def test_custom_instructions_become_their_stand_ins() -> None:
    vadd = 0x02208057
    call = tile_call(program(vadd, EXP, RET), "k__body", (), 0, CONFIG)
    (code,) = [data for address, data, _, _ in call.segments if address == TEXT_BASE + 4]
    words = [int.from_bytes(code[at : at + 4], "little") for at in range(0, len(code), 4)]
    assert (words[0], words[2]) == (vadd, RET)
    assert words[1] & 0x7F == 0x57
    assert call.custom == {"sfu.exp"}


def test_every_custom_instruction_of_a_tile_function_has_a_stand_in() -> None:
    without = {instruction.name for instruction in isa.CUSTOM} - set(TWINS)
    assert without == {"dma.start", "dma.wait", "dma.set"}
    with pytest.raises(ValueError, match=r"dma\.wait has no stand-in"):
        timing_twin(isa.encode("dma.wait", rs1=10))


@pytest.mark.parametrize(
    ("word", "name", "reads", "writes"),
    [
        (EXP, "sfu.exp", {4, 8}, 8),
        (isa.encode("xlu.exchange", rd=8, rs2=4, rs1=3), "xlu.exchange", {4, 8}, 8),
        (isa.encode("array.push_weights", rd=16, rs2=4), "array.push_weights", {4}, 4),
        (isa.encode("array.push_inputs", rd=1, rs2=4), "array.push_inputs", {4}, 4),
        (isa.encode("array.pop", rd=8, rs2=1), "array.pop", {8}, 8),
        (isa.encode("lane.id", rd=8), "lane.id", {8}, 8),
    ],
)
def test_stand_ins_have_the_same_operands(word: int, name: str, reads: set[int], writes: int) -> None:
    found = timing_twin(word)
    assert found is not None
    assert found[0] == name
    twin = found[1]
    # vd, vs2 and (vector forms) vs1 of the encoding; unary forms keep an operation number in vs1.
    assert twin >> 7 & 31 == writes
    unary = TWINS[name].mnemonic.split()[0] in ("vfrsqrt7.v", "vid.v")
    operands = {twin >> 7 & 31, twin >> 20 & 31} | (set() if unary else {twin >> 15 & 31})
    assert operands - ({0} if name == "lane.id" else set()) == reads
    assert mnemonic(twin) == TWINS[name].mnemonic.split()[0]


def test_a_push_into_several_arrays_is_of_a_class_of_its_own() -> None:
    one, both = (timing_twin(isa.encode("array.push_inputs", rd=mask, rs2=4)) for mask in (2, 3))
    assert one is not None
    assert both is not None
    assert mnemonic(one[1]) == TWINS["array.push_inputs"].mnemonic.split()[0]
    assert mnemonic(both[1]) == SHARED_PUSH.mnemonic.split()[0]
    assert SHARED_PUSH.op_class not in {twin.op_class for twin in TWINS.values()}


@pytest.mark.parametrize(("arrays", "entries"), [(1, 256), (2, 256), (2, 64), (3, 4)])
def test_queues_of_the_arrays_are_units(arrays: int, entries: int) -> None:
    # A unit takes a register's 8 rows. All together take `entries` rows per array at once (at least one register) and
    # are free again after as many cycles: a row per array and cycle.
    machine = json.loads(machine_json(load_config({"array": {"count": arrays, "queue_entries": entries}})))
    units = {name: unit for unit in machine["units"] for name in unit["op_classes"]}
    for twin, number in ((SHARED_PUSH, 1), (TWINS["array.push_inputs"], arrays), (TWINS["array.pop"], arrays)):
        unit = units[twin.op_class]
        assert unit["count"] * 8 == number * max(entries, 8)
        assert unit["count"] * 8 / unit["interval"] == number


def mnemonic(word: int) -> str:
    from pytorchsim.simulator.functional import Machine

    return Machine(CONFIG).disassemble(word).split()[0]


@pytest.mark.parametrize(
    ("word", "name", "half"),
    [
        # Zvfbfmin: v8 from v4, masked; Zfbfmin: f1 from f2. The f16 forms differ in vs1, in rs2.
        (0x484E9457, "vfncvtbf16.f.f.w", "vfncvt.f.f.w v8, v4, v0.t"),
        (0x48469457, "vfwcvtbf16.f.f.v", "vfwcvt.f.f.v v8, v4, v0.t"),
        (0x448170D3, "fcvt.bf16.s", "fcvt.h.s ft1, ft2"),
        (0x406100D3, "fcvt.s.bf16", "fcvt.s.h ft1, ft2"),
    ],
)
def test_conversions_of_bf16_are_timed_as_those_of_f16(word: int, name: str, half: str) -> None:
    from pytorchsim.simulator.functional import Machine

    machine = Machine(CONFIG)
    assert machine.disassemble(word).split()[0] == name
    found = timing_twin(word)
    assert found is not None
    assert found[0] == name
    assert " ".join(machine.disassemble(found[1]).split()) == half


def test_ordinary_words_stay() -> None:
    assert timing_twin(RET) is None
    with pytest.raises(ValueError, match=r"no instruction of docs/isa\.md"):
        timing_twin(0x5B | 7 << 12)
