"""Faults of instructions, accesses, stack and arrays: message, place, and that the machine works afterwards."""

from __future__ import annotations

import pytest

from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine
from pytorchsim.target.memory_map import RETURN_ADDRESS, SCRATCHPAD_BASE, TEXT_BASE
from tests.unit.engine.assembler import A0, A1, A2, SP, ZERO, Assembler, spad
from tests.unit.engine.faults import check_works, fault_of
from tests.unit.engine.harness import SLICE_BYTES, STACK_BYTES, small_machine


@pytest.fixture(scope="module")
def machine() -> Machine:
    return small_machine(instruction_budget=5000)


@pytest.fixture(autouse=True)
def _machine_works_afterwards(machine: Machine) -> object:
    yield
    check_works(machine)


def test_illegal_instruction(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.addi(A0, ZERO, 1)
        a.emit(0xFFFFFFFF)

    fault = fault_of(machine, body)
    assert fault.site.kind == "illegal-instruction"
    assert fault.site.pc == TEXT_BASE + 4
    assert fault.site.function == "k"
    assert "no instruction has this encoding" in str(fault)


@pytest.mark.parametrize(
    ("word", "text"),
    [
        (0x00000073, "system instructions"),  # ecall
        (0x30200073, "system instructions"),  # mret
        (0x30052573, "CSR 0x300"),  # csrrs a0, mstatus, a0
        (0x0005252F | 2 << 27, "atomic"),  # lr.w
        (0x03050407 | 0x01000000, "fault-only-first"),  # vle8ff.v
        (0x0200405B | 1 << 20, "no custom instruction"),  # dma.start with rs2 != 0
        (0x0000100F, "only plain fences"),  # fence.i
        (0x00000001, "no instruction has this encoding"),  # compressed
    ],
)
def test_instructions_a_kernel_may_not_contain(machine: Machine, word: int, text: str) -> None:
    fault = fault_of(machine, lambda a: a.emit(word))
    assert fault.site.kind == "illegal-instruction"
    assert text in str(fault)


def test_vector_instruction_before_vtype(machine: Machine) -> None:
    fault = fault_of(machine, lambda a: a.vadd_vv(8, 8, 8))
    assert fault.site.kind == "illegal-instruction"
    assert "vadd.vv" in str(fault)
    assert "vtype" in str(fault)


def test_unaligned_register_group(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(32, 32, 4)
        a.vadd_vv(6, 8, 12)

    assert fault_of(machine, body).site.kind == "illegal-instruction"


def test_special_function_needs_sew_32(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 16)
        a.custom("sfu.exp", rd=8, rs2=9)

    fault = fault_of(machine, body)
    assert fault.site.kind == "illegal-instruction"
    assert "SEW 32 only, not 16" in str(fault)


def test_jump_out_of_code(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.li(A0, 0x70000)
        a.jalr(ZERO, A0)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.pc) == ("unmapped", 0x70000)
    assert "not in the program's code" in str(fault)


def test_scalar_access_to_a_tile(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.li(A0, spad(64))
        a.lw(A1, A0, 4)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.address) == ("scalar-access", spad(68))
    assert "would see one lane only" in str(fault)
    assert fault.site.instruction.startswith("lw")


def test_scalar_load_of_code(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.li(A0, TEXT_BASE)
        a.lw(A1, A0)

    assert fault_of(machine, body).site.kind == "scalar-access"


@pytest.mark.parametrize("address", [0, RETURN_ADDRESS, 0x1000, SCRATCHPAD_BASE - 4, 1 << 40, -8])
def test_scalar_access_to_nothing(machine: Machine, address: int) -> None:
    def body(a: Assembler) -> None:
        a.li(A0, address)
        a.lw(A1, A0)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.address) == ("unmapped", address % (1 << 64))


def test_scalar_store_to_constants(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.li(A0, a.constant(bytes(8)))
        a.sd(A0, A0)

    assert fault_of(machine, body).site.kind == "read-only"


def test_scalar_load_from_a_stack_that_differs(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.addi(SP, SP, -64)
        a.vset(8, 32)
        a.custom("lane.id", rd=8)
        a.vse(32, 8, SP)
        a.ld(A0, SP, 8)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.lane) == ("lanes-disagree", 1)
    assert fault.site.address == spad(SLICE_BYTES - 64 + 8)


def test_vector_element_to_scalar_register(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.custom("lane.id", rd=8)
        a.vmv_x_s(A0, 8)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.lane) == ("lanes-disagree", 1)
    assert "vmv.x.s" in str(fault)


def test_reading_flags_that_collect_over_lanes(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.vadd_vv(8, 8, 8)
        a.csrr(A0, 0x009)

    assert fault_of(machine, body).site.kind == "lanes-disagree"


@pytest.mark.parametrize("offset", [SLICE_BYTES - 4, SLICE_BYTES, SLICE_BYTES + 4096])
def test_vector_load_past_the_slice(machine: Machine, offset: int) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.li(A0, spad(offset))
        a.vle(32, 8, A0)

    fault = fault_of(machine, body)
    assert fault.site.kind == ("unmapped" if offset > SLICE_BYTES else "out-of-slice")
    assert fault.site.address == spad(max(offset, SLICE_BYTES))


def test_one_lanes_wild_index(machine: Machine) -> None:
    """The gather's indices are right in every lane but the last."""

    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.custom("lane.id", rd=8)
        a.li(A1, 10)
        a.vector(0x25, 4, 8, A1, 8)  # vsll.vx: 1024 bytes per lane
        a.li(A1, spad(1088))
        a.memory(store=False, width=32, register=9, base=A1, other=8, mop=1)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.lane) == ("out-of-slice", 7)
    assert fault.site.address == spad(1088 + 7 * 1024)


def test_unmapped_vector_access(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.li(A0, 0x40000000)
        a.vle(32, 8, A0)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.address) == ("unmapped", 0x40000000)


def test_vector_store_to_constants(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.li(A0, a.constant(bytes(32)))
        a.vse(32, 8, A0)

    assert fault_of(machine, body).site.kind == "read-only"


def test_stack_overflow(machine: Machine) -> None:
    fault = fault_of(machine, lambda a: a.addi(SP, SP, -STACK_BYTES - 16))
    assert fault.site.kind == "stack-overflow"
    assert f"needs {STACK_BYTES + 16} bytes" in str(fault)


def test_access_below_the_stack(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.addi(SP, SP, -STACK_BYTES)
        a.sd(ZERO, SP, -8)

    assert fault_of(machine, body).site.kind == "stack-overflow"


def test_pop_of_an_empty_array(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(4, 32)
        a.custom("array.pop", rd=8, rs2=1)

    fault = fault_of(machine, body)
    assert fault.site.kind == "array-empty"
    assert "array 1 has 0 results, 4 are asked for" in str(fault)


def test_array_queue_overflow(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        for _ in range(3):
            a.custom("array.push_inputs", rd=1, rs2=8)

    fault = fault_of(machine, body)
    assert fault.site.kind == "array-overflow"
    assert "16 of 16" in str(fault)


def test_too_many_weight_rows(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.custom("array.push_weights", rd=16, rs2=8)
        a.custom("array.push_weights", rd=0, rs2=8)

    assert fault_of(machine, body).site.kind == "array-overflow"


def test_array_that_does_not_exist(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(8, 32)
        a.custom("array.push_inputs", rd=4, rs2=8)

    assert fault_of(machine, body).site.kind == "illegal-instruction"


def test_endless_loop_stops_at_the_budget(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.label("loop")
        a.jump("loop")

    fault = fault_of(machine, body)
    assert fault.site.kind == "instruction-budget"
    assert "5000 instructions" in str(fault)
    assert fault.site.function == "loop"


def test_fault_in_a_tile_function_names_it(machine: Machine) -> None:
    a = Assembler()
    a.label("k")
    a.addi(8, 1, 0)
    a.call("k__tile")
    a.addi(1, 8, 0)
    a.ret()
    a.label("k__tile", tile=True)
    a.vset(8, 32)
    a.li(A2, spad(SLICE_BYTES))
    a.vse(32, 8, A2)
    a.ret()
    machine.load(a.program())
    with pytest.raises(
        MachineFault, match=r"out-of-slice: .*\n  at kernel 'k', k__tile\+0x\w+, pc 0x\w+: vse32\.v"
    ) as caught:
        machine.launch("k", [])
    assert caught.value.site.function == "k__tile"
