"""Faults of transfers: message, place, and that the machine works afterwards."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, IndexTile, TransferOp
from tests.unit.engine.assembler import A0, Assembler, spad
from tests.unit.engine.faults import check_works, fault_of, store_lane_numbers
from tests.unit.engine.harness import LANES, SLICE_BYTES, STACK_BYTES, run, slot, small_machine

COLUMN = (Axis(4, LANES, 1), Axis(LANES, 1, 4, lane=True))
TILES_END = SLICE_BYTES - STACK_BYTES


def load(**overrides: object) -> Descriptor:
    fields: dict[str, object] = {"slot": 0, "op": TransferOp.LOAD, "dtype": dtypes.F32, "axes": COLUMN}
    fields |= {"spad_address": spad(0)} | overrides
    return Descriptor(**fields)  # type: ignore[arg-type]


def start(descriptor: Descriptor, *, wait: bool = True) -> Callable[[Assembler], None]:
    def body(a: Assembler) -> None:
        a.dma_start(3, a.constant(descriptor.encode()))
        if wait:
            a.dma_wait(3)

    return body


@pytest.fixture(scope="module")
def machine() -> Machine:
    return small_machine(instruction_budget=5000)


@pytest.fixture(autouse=True)
def _machine_works_afterwards(machine: Machine) -> object:
    yield
    check_works(machine)


def test_touching_a_loads_target(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.vset(4, 32)
        a.li(A0, spad(0))
        a.dma_start(3, a.constant(load().encode()))
        a.label("touch")
        a.vle(32, 8, A0)
        a.dma_wait(3)

    fault = fault_of(machine, body)
    assert fault.site.kind == "in-flight"
    assert fault.site.function == "touch"
    assert fault.site.other_pc == fault.site.pc - 4
    assert "target of the load" in str(fault)
    assert "other instruction: k+" in str(fault)


def test_overwriting_a_stores_source_faults_and_reading_it_does_not(machine: Machine) -> None:
    store = load(op=TransferOp.STORE)

    def body(a: Assembler, *, write: bool) -> None:
        a.vset(4, 32)
        a.li(A0, spad(0))
        a.vmv_v_i(8, 1)
        a.vse(32, 8, A0)
        a.dma_start(3, a.constant(store.encode()))
        a.vle(32, 9, A0)
        if write:
            a.vse(32, 8, A0)
        a.dma_wait(3)

    fault = fault_of(machine, lambda a: body(a, write=True))
    assert fault.site.kind == "in-flight"
    assert "source of the transfer" in str(fault)
    run(machine, lambda a: body(a, write=False), [np.zeros((4, LANES), np.float32)])


def test_two_loads_into_one_place(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        descriptor = a.constant(load().encode())
        a.dma_start(1, descriptor)
        a.dma_start(2, descriptor)

    assert fault_of(machine, body).site.kind == "in-flight"


def test_missing_wait(machine: Machine) -> None:
    fault = fault_of(machine, start(load(), wait=False))
    assert fault.site.kind == "pending-transfer"
    assert "tag 3" in str(fault)
    assert fault.site.instruction.startswith("dma.start")


def test_not_a_descriptor(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.dma_start(0, a.constant(bytes(1000)))

    fault = fault_of(machine, body)
    assert fault.site.kind == "bad-descriptor"
    assert "magic" in str(fault)


def test_descriptor_outside_of_constants(machine: Machine) -> None:
    fault = fault_of(machine, lambda a: a.dma_start(0, spad(0)))
    assert fault.site.kind == "bad-descriptor"


def test_descriptor_of_another_element_size(machine: Machine) -> None:
    fault = fault_of(machine, start(load(dtype=dtypes.F16)))
    assert fault.site.kind == "bad-descriptor"
    assert "float16" in str(fault)


def test_tag_out_of_range(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        a.dma_set(9, 40)
        a.dma_start(0, a.constant(load().encode()))

    assert fault_of(machine, body).site.kind == "bad-descriptor"


@pytest.mark.parametrize("offset", [1, -1])
def test_outside_of_the_tensor(machine: Machine, offset: int) -> None:
    fault = fault_of(machine, start(load(offset=offset)))
    assert fault.site.kind == "slot-bounds"
    assert ("element 32" if offset > 0 else "element -1") in str(fault)


def test_no_such_slot(machine: Machine) -> None:
    assert fault_of(machine, start(load(slot=1))).site.kind == "slot-bounds"


def test_a_bound_keeps_a_transfer_inside(machine: Machine) -> None:
    rows = Bound(0, (1, 0), 3)
    inside = load(offset=LANES, bounds=(rows,))
    run(machine, start(inside), [np.zeros((4, LANES), np.float32)])


def test_store_to_an_input(machine: Machine) -> None:
    a = Assembler()
    a.label("k")
    start(load(op=TransferOp.STORE))(a)
    a.ret()
    machine.load(a.program())
    with pytest.raises(MachineFault, match="read-only: slot 0 may not be written") as caught:
        machine.launch("k", [slot(np.zeros((4, LANES), np.float32), writable=False)])
    assert caught.value.site.kind == "read-only"


@pytest.mark.parametrize("offset", [TILES_END - 12, SLICE_BYTES, -4])
def test_tile_outside_of_the_slice(machine: Machine, offset: int) -> None:
    fault = fault_of(machine, start(load(spad_address=spad(offset))))
    assert fault.site.kind == "out-of-slice"
    assert fault.site.address == spad(offset)


def test_store_without_lane_axis_needs_equal_lanes(machine: Machine) -> None:
    def body(a: Assembler) -> None:
        store_lane_numbers(a)
        row = Descriptor(0, TransferOp.STORE, dtypes.F32, (Axis(8, 1, 1),), spad_address=spad(0))
        a.dma_start(0, a.constant(row.encode()))
        a.dma_wait(0)

    fault = fault_of(machine, body)
    assert (fault.site.kind, fault.site.lane) == ("lanes-disagree", 1)


@pytest.mark.parametrize(("index", "bad"), [(3, False), (4, True), (-1, True)])
def test_index_out_of_range(machine: Machine, index: int, *, bad: bool) -> None:
    gather = load(
        axes=(Axis(1, 0, 1), Axis(LANES, 1, 1, lane=True)),
        spad_address=spad(256),
        index_tiles=(IndexTile(spad(0), False, (0,), LANES, 4),),
    )

    def body(a: Assembler) -> None:
        a.vset(1, 32)
        a.vmv_v_i(8, index)
        a.li(A0, spad(0))
        a.vse(32, 8, A0)
        start(gather)(a)

    if not bad:
        run(machine, body, [np.zeros((4, LANES), np.float32)])
        return
    fault = fault_of(machine, body)
    assert fault.site.kind == "index-out-of-range"
    assert f"index {index} is out of range for an extent of 4" in str(fault)
