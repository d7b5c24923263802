"""Launches: modes, latencies, cores, stack, determinism, threads, interruption, loading."""

from __future__ import annotations

import _thread
import threading
import time

import numpy as np
import pytest

from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine
from pytorchsim.simulator.tile_cost import TileCost
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Descriptor, TransferOp
from tests.unit.engine.assembler import A0, A1, A2, RA, SP, ZERO, Assembler, TestProgram, spad
from tests.unit.engine.harness import LANES, SLICE_BYTES, lanes_view, run, slot, small_config, small_machine

ROWS = 4


def add_program(calls: int = 1) -> TestProgram:
    """Kernel `k`: z = x + y by columns, its tile function called `calls` times."""
    a = Assembler()
    axes = (Axis(ROWS, LANES, 1), Axis(LANES, 1, ROWS, lane=True))
    place = (0, 64, 128)
    x, y, z = (
        a.constant(
            Descriptor(
                number,
                TransferOp.STORE if number == 2 else TransferOp.LOAD,
                dtypes.F32,
                axes,
                spad_address=spad(offset),
            ).encode()
        )
        for number, offset in enumerate(place)
    )
    a.label("k")
    a.addi(8, RA, 0)
    a.dma_start(0, x)
    a.dma_start(1, y)
    a.dma_wait(0)
    a.dma_wait(1)
    for register, offset in zip((A0, A1, A2), place, strict=True):
        a.li(register, spad(offset))
    for _ in range(calls):
        a.call("k__add")
    a.dma_start(2, z)
    a.dma_wait(2)
    a.addi(RA, 8, 0)
    a.ret()
    a.label("k__add", tile=True)
    a.vset(ROWS, 32)
    a.vle(32, 8, A0)
    a.vle(32, 9, A1)
    a.vfadd_vv(8, 8, 9)
    a.vse(32, 8, A2)
    a.ret()
    return a.program()


def tensors() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((ROWS, LANES)).astype(np.float32) for _ in range(2))
    return [x, y, np.zeros_like(x)]


def test_pointwise_kernel_in_every_mode() -> None:
    machine = small_machine()
    machine.load(add_program())
    x, y, z = tensors()
    slots = [slot(x, writable=False, dram_address=0), slot(y, dram_address=4096), slot(z, dram_address=8192)]
    timed = machine.launch("k", slots)
    assert (z == x + y).all()
    assert timed.instructions == {"scalar": timed.instructions["scalar"], "vector": 5, "dma": 6, "array": 0}
    kinds = [kind for kind, *_ in timed.trace.operations() if kind != "scalar"]
    assert kinds == ["start", "start", "wait", "wait", "tile", "start", "wait"]
    block = [(0, ROWS * LANES * 4, [])]
    assert timed.trace.transfers()[0] == (False, 128, 128, block)
    assert timed.trace.transfers()[2] == (True, 128, 128, [(8192, 128, [])])

    z[:] = 0
    functional = machine.launch("k", slots, mode="functional")
    assert (z == x + y).all()
    assert len(functional.trace) == 0
    assert not functional.measured

    z[:] = 0
    only_timed = machine.launch("k", slots, mode="timing")
    assert (z == 0).all()
    assert only_timed.trace.operations() == timed.trace.operations()
    assert only_timed.measured == timed.measured


def test_known_latencies_are_used_and_skip_the_function_in_timing_mode() -> None:
    machine = small_machine()
    machine.load(add_program(calls=3))
    slots = [slot(array) for array in tensors()]
    first = machine.launch("k", slots)
    ((arguments, cost),) = first.measured["k__add"].items()
    assert arguments == (spad(0), spad(64), spad(128), 0, 0, 0, 0, 0)
    assert first.trace.tile_totals() == [(0, 3, 3 * cost.cycles)]
    again = machine.launch("k", slots, latencies={"k__add": {arguments: TileCost(1000)}})
    assert again.trace.tile_totals() == [(0, 3, 3000)]
    assert not again.measured
    assert again.instructions["vector"] == 15
    skipped = machine.launch("k", slots, mode="timing", latencies={"k__add": {arguments: TileCost(1000)}})
    assert skipped.trace.operations() == again.trace.operations()
    assert skipped.instructions["vector"] == 0


def test_latency_key_holds_only_arguments_the_function_reads() -> None:
    """a1 is overwritten before it is read, a2 is read after a loop's back edge only."""
    a = Assembler()
    a.label("k")
    a.addi(8, RA, 0)
    for value in (1, 2):
        a.li(A0, 2)
        a.li(A1, value)
        a.li(A2, 7)
        a.li(13, value)
        a.call("k__loop")
    a.addi(RA, 8, 0)
    a.ret()
    a.label("k__loop", tile=True)
    a.addi(A1, ZERO, 5)
    a.label("again")
    a.addi(A0, A0, -1)
    a.bnez(A0, "again")
    a.add(A1, A1, A2)
    a.ret()
    program = a.program()
    start, _ = program.symbols["k__loop"]
    end = max(address + size for address, size in program.symbols.values())
    program = TestProgram(program.segments, dict(program.symbols) | {"k__loop": (start, end - start)}, ("k__loop",))
    machine = small_machine()
    machine.load(program)
    assert list(machine.launch("k", []).measured["k__loop"]) == [(2, 0, 7, 0, 0, 0, 0, 0)]


def test_core_number_and_count_are_passed() -> None:
    machine = small_machine()

    def body(a: Assembler) -> None:
        a.vset(2, 64)
        a.vector(0x17, 4, 8, A0, 0)  # vmv.v.x
        a.vector(0x17, 4, 9, A1, 0)
        a.li(A2, spad(0))
        a.vse(64, 8, A2)
        a.addi(A2, A2, 16)
        a.vse(64, 9, A2)

    a = Assembler()
    a.label("k")
    body(a)
    a.ret()
    machine.load(a.program())
    machine.launch("k", [], core=2, cores=5)
    assert (lanes_view(machine, 0, 4, np.int64) == [2, 2, 5, 5]).all()


def test_stack_is_in_every_slice_and_its_depth_is_measured() -> None:
    machine = small_machine()

    def body(a: Assembler) -> None:
        a.addi(SP, SP, -160)
        a.li(A0, 0x1234567887654321)
        a.sd(A0, SP, 8)
        a.ld(A1, SP, 8)
        a.sd(A1, SP, 16)
        a.addi(SP, SP, 160)

    result = run(machine, body)
    assert result.stack_bytes == 160
    assert (lanes_view(machine, SLICE_BYTES - 160 + 8, 2, np.uint64) == 0x1234567887654321).all()


def test_unwritten_scratchpad_is_the_same_in_every_launch() -> None:
    machine = small_machine()
    for _ in range(2):
        run(machine, lambda a: a.vset(8, 32))
        assert set(machine.slice(3)) == {0xFF}

        def dirty(a: Assembler) -> None:
            a.vset(8, 32)
            a.li(A0, spad(4000))
            a.vse(32, 8, A0)
            a.addi(SP, SP, -16)
            a.sd(ZERO, SP)
            a.addi(SP, SP, 16)

        run(machine, dirty)


def test_two_engines_in_two_threads() -> None:
    program = add_program()
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            machine = small_machine()
            machine.load(program)
            rng = np.random.default_rng(seed)
            for _ in range(50):
                x, y = (rng.standard_normal((ROWS, LANES)).astype(np.float32) for _ in range(2))
                z = np.zeros_like(x)
                machine.launch("k", [slot(x), slot(y), slot(z)])
                assert (z == x + y).all()
        except BaseException as error:  # noqa: BLE001  reported in the main thread
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def endless() -> TestProgram:
    a = Assembler()
    a.label("k")
    a.jump("k")
    return a.program()


def test_interrupt_from_another_thread() -> None:
    machine = small_machine()
    machine.load(endless())
    timer = threading.Timer(0.2, machine.interrupt)
    timer.start()
    with pytest.raises(MachineFault, match="interrupted"):
        machine.launch("k", [])
    timer.join()


def test_ctrl_c_reaches_python() -> None:
    machine = small_machine()
    machine.load(endless())
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    before = time.perf_counter()
    with pytest.raises(KeyboardInterrupt):
        machine.launch("k", [])
    assert time.perf_counter() - before < 5
    timer.join()


def test_host_rounding_and_denormal_modes_do_not_matter() -> None:
    import torch

    machine = small_machine()
    machine.load(add_program())
    x = np.full((ROWS, LANES), np.float32(1e-40))
    z = np.zeros_like(x)
    torch.set_flush_denormal(True)
    try:
        machine.launch("k", [slot(x), slot(x), slot(z)])
        assert not torch.from_numpy(np.full(1, 1e-40, np.float32)).add(0).item()
    finally:
        torch.set_flush_denormal(False)
    assert (z.view(np.uint32) == 2 * x.view(np.uint32)).all()


def test_programs_that_cannot_be_loaded() -> None:
    machine = small_machine()
    with pytest.raises(KeyError, match="no program is loaded"):
        machine.launch("k", [])
    machine.load(add_program())
    with pytest.raises(KeyError, match="'nothing' is not in the loaded program"):
        machine.launch("nothing", [])
    with pytest.raises(ValueError, match="overlaps"):
        machine.load(TestProgram(((0x10000, bytes(8), 8, 5), (0x10004, bytes(8), 8, 4)), {}, ()))
    with pytest.raises(ValueError, match="scratchpad window"):
        machine.load(TestProgram(((0x10000, bytes(8), 8, 5), (spad(0), bytes(8), 8, 4)), {}, ()))
    with pytest.raises(ValueError, match="is not in the code"):
        machine.load(TestProgram(((0x10000, bytes(8), 8, 5),), {"k__t": (0x20000, 4)}, ("k__t",)))
    with pytest.raises(ValueError, match="no code"):
        machine.load(TestProgram(((0x10000, bytes(8), 8, 4),), {}, ()))


def test_a_machine_of_other_lanes_and_vlen() -> None:
    config = small_config()
    core = config.core.model_copy(update={"lanes": 16, "vlen_bits": 512, "datapath_bits": 512})
    machine = Machine(config.model_copy(update={"core": core}))

    def body(a: Assembler) -> None:
        a.vset(16, 32)
        a.custom("lane.id", rd=8)
        a.vid(9)
        a.vadd_vv(8, 8, 9)
        a.li(A0, spad(0))
        a.vse(32, 8, A0)

    run(machine, body)
    for lane in range(16):
        assert (np.frombuffer(machine.slice(lane)[:64], np.int32) == lane + np.arange(16)).all()


def test_a_load_fills_lanes_that_the_axis_does_not_reach() -> None:
    machine = small_machine()
    axes = (Axis(3, 1, 1, lane=True),)
    descriptor = Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, spad_address=spad(0))

    def body(a: Assembler) -> None:
        a.dma_start(0, a.constant(descriptor.encode()))
        a.dma_wait(0)

    run(machine, body, [np.arange(1, 4, dtype=np.float32)])
    assert lanes_view(machine, 0, 1, np.float32)[:, 0].tolist() == [1, 2, 3, 0, 0, 0, 0, 0]
