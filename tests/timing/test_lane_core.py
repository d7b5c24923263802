"""The lane core's scoreboard: short instruction sequences whose cycles are worked out by hand in the comments.

Cycle numbers in comments are issue cycles unless stated. `drain` is the first cycle in which everything is complete.
Figures: 2-wide issue, 1 vector unit, 2 load ports, 1 store port, VLEN = datapath = 256 bits, 32-byte ports; the
latencies are written out below.
"""

from __future__ import annotations

import random

import instructions as i
import pytest

from pytorchsim import _native
from pytorchsim.config import load_config
from pytorchsim.simulator.timing import lane_core_params

LOAD, STORE, FP, ALU, SFU, MUL, XLU, PERMUTE = 2, 1, 4, 2, 8, 3, 8, 2


def make_core(**changes: int | bool) -> _native.LaneCore:
    params = lane_core_params(load_config("tpuv3"))
    for name, value in changes.items():
        assert hasattr(params, name)
        setattr(params, name, value)
    return _native.LaneCore(params)


@pytest.fixture
def core() -> _native.LaneCore:
    return make_core()


def run(core: _native.LaneCore, *words: int, vl: int = 8, sew: int = 32, lmul: float = 1.0, address: int = 0) -> None:
    for word in words:
        core.retire(word, vl, sew, lmul, address)


def test_defaults_are_the_figures_of_this_file() -> None:
    latency = load_config("tpuv3").latency
    assert (latency.scratchpad_load_cycles, latency.scratchpad_store_cycles) == (LOAD, STORE)
    assert (latency.vector_fp_cycles, latency.vector_alu_cycles, latency.sfu_cycles) == (FP, ALU, SFU)
    assert (latency.int_mul_cycles, latency.xlu_cycles, latency.vector_permute_cycles) == (MUL, XLU, PERMUTE)


def test_empty_pipeline_takes_no_time(core: _native.LaneCore) -> None:
    assert (core.elapsed(), core.drain()) == (0, 0)


@pytest.mark.parametrize(("width", "cycles"), [(1, 6), (2, 3), (4, 2)])
def test_independent_instructions_issue_width_at_a_time(width: int, cycles: int) -> None:
    core = make_core(issue_width=width)
    run(core, *[i.addi(register, 0) for register in range(1, 7)])
    assert core.elapsed() == cycles  # ceil(6 / width)


def test_dependent_instructions_issue_one_by_one(core: _native.LaneCore) -> None:
    run(core, *[i.addi(1, 1)] * 5)
    assert core.elapsed() == 5


def test_x0_is_no_dependence(core: _native.LaneCore) -> None:
    run(core, i.div(0, 1, 2), i.addi(3, 0))  # both in cycle 0
    assert core.elapsed() == 1


def test_multiply_latency(core: _native.LaneCore) -> None:
    run(core, i.mul(1, 2, 3), i.addi(4, 1))  # 0, then 0 + MUL
    assert core.elapsed() == MUL + 1
    assert core.drain() == MUL + 1


def test_divider_is_not_pipelined(core: _native.LaneCore) -> None:
    run(core, i.div(1, 2, 3), i.div(4, 5, 6))  # 0 and 20; the second is complete in 40
    assert core.elapsed() == 21
    assert core.drain() == 40


def test_taken_branch_loses_issue_cycles(core: _native.LaneCore) -> None:
    run(core, i.addi(1, 1))  # 0
    run(core, i.bne(1, 0))  # 1: waits for x1
    core.taken_branch()  # target issues in 1 + 1 + taken_branch_cycles = 3
    run(core, i.addi(2, 2))
    assert core.elapsed() == 4


def test_load_add_store(core: _native.LaneCore) -> None:
    # vset 0; both loads 1 (vset's result, two ports); add 1 + LOAD = 3; store 3 + FP = 7, complete in 8.
    run(core, i.vsetvli(5, 6), i.vle(32, 1, 10), i.vle(32, 2, 11), i.vfadd_vv(3, 1, 2), i.vse(32, 3, 12))
    assert core.elapsed() == 8
    assert core.drain() == 8


def test_chaining_overlaps_register_groups(core: _native.LaneCore) -> None:
    # 64 floats = 8 registers = 8 beats. Load 0..7, register k readable in k + LOAD; add starts in 2 and keeps pace,
    # register k readable in 2 + k + FP; store starts in 6, its last beat is 13, complete in 14.
    run(core, i.vle(32, 8, 10), i.vfadd_vv(16, 8, 8), i.vse(32, 16, 12), vl=64, lmul=8)
    assert core.elapsed() == LOAD + FP + 1
    assert core.drain() == LOAD + FP + 8


def test_without_chaining_groups_follow_one_another() -> None:
    # Load's last register readable in 7 + LOAD = 9; add 9, last readable in 9 + 7 + FP = 20; store 20..27, complete 28.
    core = make_core(chaining=False)
    run(core, i.vle(32, 8, 10), i.vfadd_vv(16, 8, 8), i.vse(32, 16, 12), vl=64, lmul=8)
    assert core.elapsed() == 21
    assert core.drain() == 28


def test_a_slow_producer_holds_back_a_fast_consumer(core: _native.LaneCore) -> None:
    # SFU: 16 elements at one per cycle, register 0 complete in 7, register 1 in 15; readable SFU cycles later: 15, 23.
    # The add reads register 1 one beat after register 0, so it starts in 22; results in 22 + 1 + FP = 27.
    run(core, i.sfu_exp(8, 4), i.vfadd_vv(16, 8, 8), vl=16, lmul=2)
    assert core.elapsed() == 23
    assert core.drain() == 27


def test_vector_length_decides_the_beats_not_lmul(core: _native.LaneCore) -> None:
    # 20 floats in a group of 8 registers: 640 bits = 3 beats. Second add waits for the unit: 3, complete 3 + 2 + FP.
    run(core, i.vfadd_vv(8, 0, 0), i.vfadd_vv(16, 0, 0), vl=20, lmul=8)
    assert core.elapsed() == 4
    assert core.drain() == 3 + 2 + FP


def test_narrow_datapath_doubles_the_beats() -> None:
    core = make_core(datapath_bits=128)
    run(core, i.vfadd_vv(1, 0, 0), i.vfadd_vv(2, 0, 0))  # 0 and 2; last beat of the second in 3
    assert core.drain() == 3 + FP


def test_fractional_lmul_is_one_beat(core: _native.LaneCore) -> None:
    run(core, i.vfadd_vv(1, 0, 0), i.vfadd_vv(2, 0, 0), vl=2, sew=16, lmul=0.25)  # 0 and 1
    assert core.drain() == 1 + FP


def test_zero_length_costs_an_issue_slot(core: _native.LaneCore) -> None:
    run(core, i.vfdiv_vv(1, 2, 3), i.vfadd_vv(4, 1, 1), vl=0)
    assert core.elapsed() == 1
    assert core.drain() == 1


def test_two_load_ports(core: _native.LaneCore) -> None:
    run(core, i.vle(32, 1, 10), i.vle(32, 2, 11), i.vle(32, 3, 12))  # 0, 0, 1
    assert core.elapsed() == 2
    assert core.drain() == 1 + LOAD


def test_unaligned_access_takes_another_port_cycle() -> None:
    core = make_core(load_ports=1)
    run(core, i.vle(32, 1, 10), address=4)  # bytes 4..35: two port accesses
    run(core, i.vle(32, 2, 11), address=0)  # 2
    assert core.drain() == 2 + LOAD


def test_strided_access_is_element_by_element() -> None:
    core = make_core(load_ports=1)
    run(core, i.vlse(32, 1, 10, 11), i.vle(32, 2, 12))  # 8 elements: 0..7, then 8
    assert core.drain() == 8 + LOAD


def test_segment_access_counts_every_field() -> None:
    core = make_core(load_ports=1)
    run(core, i.vlseg(3, 32, 4, 10), i.vle(32, 2, 12))  # 8 x 3 elements: 0..23, then 24
    assert core.drain() == 24 + LOAD


def test_whole_register_access_ignores_vl() -> None:
    core = make_core(load_ports=1)
    run(core, i.vlr(4, 32, 8, 10), i.vle(32, 2, 12), vl=1)  # 128 bytes: 0..3, then 4
    assert core.drain() == 4 + LOAD


def test_memory_element_width_is_the_instructions_own() -> None:
    core = make_core(load_ports=1)
    run(core, i.vle(8, 1, 10), i.vle(32, 2, 12), vl=32, sew=8)  # 32 bytes: 0; 32 x 4 bytes: 1..4
    assert core.drain() == 4 + LOAD


def test_mask_is_a_source(core: _native.LaneCore) -> None:
    run(core, i.vmflt_vv(0, 1, 2), i.vfadd_vv(3, 4, 5, masked=True))  # 0, then FP
    assert core.elapsed() == FP + 1


def test_multiply_add_reads_its_destination(core: _native.LaneCore) -> None:
    run(core, *[i.vfmacc_vv(8, 1, 2)] * 3)  # 0, 4, 8
    assert core.drain() == 2 * FP + FP


def test_scalar_operand_of_a_vector_instruction(core: _native.LaneCore) -> None:
    run(core, i.flw(1, 10), i.vfadd_vf(3, 4, 1))  # 0, then 2 (scalar load)
    assert core.elapsed() == 3


def test_divide_occupies_its_unit_per_beat(core: _native.LaneCore) -> None:
    # 8 cycles per beat, 2 beats each: 0 and 16; the second's last result: 16 + 15 + 8.
    run(core, i.vfdiv_vv(8, 2, 2), i.vfdiv_vv(16, 2, 2), i.vadd_vv(24, 2, 2), vl=16, lmul=2)
    assert core.drain() == 16 + 15 + 8


def test_widening_takes_the_beats_of_its_result(core: _native.LaneCore) -> None:
    run(core, i.vfwadd_vv(8, 2, 4), i.vfadd_vv(16, 2, 4))  # 16 x 32 bits = 2 beats: 0, then 2
    assert core.drain() == 2 + FP


def test_narrowing_takes_the_beats_of_its_source(core: _native.LaneCore) -> None:
    run(core, i.vfncvt_f_f_w(8, 2), i.vfadd_vv(16, 2, 4), sew=32)  # source 8 x 64 bits = 2 beats
    assert core.drain() == 2 + FP


def test_ordered_sum_is_one_element_after_another(core: _native.LaneCore) -> None:
    run(core, i.vfredosum_vs(8, 2, 4), i.vfadd_vv(16, 2, 4))  # 8 additions keep the pipe until 8 * FP
    assert core.elapsed() == 8 * FP + 1


def test_indexed_access_is_element_by_element_and_needs_its_indices() -> None:
    # Indices loaded in 0, ready in LOAD; 8 elements from there; the next load after them.
    core = make_core(load_ports=1)
    run(core, i.vle(32, 2, 10), i.vluxei(32, 8, 11, 2), i.vle(32, 3, 12))
    assert core.drain() == LOAD + 8 + LOAD


def test_slide_runs_beside_the_arithmetic_unit(core: _native.LaneCore) -> None:
    run(core, i.vslidedown_vi(8, 2, 1), i.vfadd_vv(16, 2, 2))  # both 0
    assert core.elapsed() == 1
    assert core.drain() == FP


def test_gather_needs_its_whole_source(core: _native.LaneCore) -> None:
    # Load of 2 registers 0..1, both readable in 1 + LOAD = 3; the gather cannot chain: 3, result 3 + 1 + PERMUTE.
    run(core, i.vle(32, 2, 10), i.vrgather_vv(8, 2, 4), vl=16, lmul=2)
    assert core.elapsed() == 4
    assert core.drain() == 3 + 1 + PERMUTE


def test_reduction_is_a_tree_after_the_beats(core: _native.LaneCore) -> None:
    # 16 floats = 2 beats, then 8 partial sums: log2(8) = 3 more passes. Complete: 1 + (1 + 3) * FP.
    run(core, i.vredsum_vs(8, 2, 4), vl=16, lmul=2)
    assert core.drain() == 1 + 4 * FP


def test_write_after_read_waits_for_a_slow_reader(core: _native.LaneCore) -> None:
    # exp reads registers 8..9 over cycles 0..15, register 8 until 7. A load into 8 may write in 8 at the earliest.
    run(core, i.sfu_exp(16, 8), vl=16, lmul=2)
    run(core, i.vle(32, 8, 10))
    assert core.elapsed() == 8 - LOAD + 1


def test_write_after_write_keeps_the_order(core: _native.LaneCore) -> None:
    # exp's result of register 8 comes in 7 + SFU = 15; a load of it must come later: 16 - LOAD = 14.
    run(core, i.sfu_exp(8, 4), i.vle(32, 8, 10))
    assert core.elapsed() == 16 - LOAD + 1


def test_cross_lane_exchange(core: _native.LaneCore) -> None:
    run(core, i.xlu(8, 4, 0), i.vfadd_vv(16, 8, 4))
    assert core.elapsed() == XLU + 1


def test_array_fills_and_drains() -> None:
    # 4 lanes. Weights 4 rows: pushed 0..3, loaded in 0 + 4. Inputs: 2 rows pushed in 4 (their own register read follows
    # the weights' in order), taken by the array in 4, 5; first result 4 + 2 * 4 - 1 = 11, popped 11, 12.
    core = make_core(lanes=4)
    run(core, i.push_weights(0, 1, first=True), vl=4)
    run(core, i.push_inputs(1, 2), i.pop(0, 3), vl=2)
    assert core.elapsed() == 12
    assert core.drain() == 13


def test_weights_load_behind_running_inputs() -> None:
    # Shadow set: the second weights are pushed while inputs flow, and cost nothing when the inputs take longer.
    core = make_core(lanes=4, array_queue_entries=64)
    run(core, i.push_weights(0, 1, first=True), vl=4)
    run(core, i.push_inputs(1, 8), vl=16, lmul=2)  # taken in 4..19
    run(core, i.push_weights(0, 1, first=True), vl=4)
    run(core, i.push_inputs(1, 8), vl=16, lmul=2)  # taken in 20..35; last result 20 + 7 + 15 = 42
    assert core.drain() == 42


def test_one_matrix_at_a_time_waits_in_the_shadow_set() -> None:
    # 4 lanes. Matrix 0 is loaded in 4, its 32 inputs are taken in 4..35. Matrix 1 is loaded behind them and becomes
    # active in 36 with its one input; only then matrix 2 loads, 36..39: its input is taken in 40, result in 47.
    core = make_core(lanes=4, array_queue_entries=64)
    for rows, lmul in ((32, 4.0), (1, 1.0), (1, 1.0)):
        run(core, i.push_weights(0, 1, first=True), vl=4)
        run(core, i.push_inputs(1, 8), vl=rows, lmul=lmul)
    assert core.drain() == 47


def test_one_push_feeds_several_arrays() -> None:
    # 4 lanes. Both weights are pushed in cycle 0 (2-wide issue, a queue per array) and loaded in 4. One push of inputs
    # in 1 goes to both queues; both arrays take the 2 rows in 4, 5: results 4 + 7 = 11, 12. Both pops issue in 11.
    core = make_core(lanes=4)
    run(core, i.push_weights(0, 1, first=True), i.push_weights(1, 2, first=True), vl=4)
    run(core, i.push_inputs(0b11, 3), i.pop(0, 4), i.pop(1, 5), vl=2)
    assert core.elapsed() == 12
    assert core.drain() == 13


def test_any_word_can_be_timed(core: _native.LaneCore) -> None:
    # The engine refuses illegal words; the scoreboard must not care. Time never runs backwards.
    generator = random.Random(0)
    before = 0
    for _ in range(20_000):
        opcode = generator.choice([0x03, 0x07, 0x13, 0x23, 0x27, 0x33, 0x53, 0x57, 0x5B, 0x63, 0x6F, 0x73])
        word = generator.getrandbits(25) << 7 | opcode
        lmul = generator.choice([0.125, 0.5, 1.0, 2.0, 8.0])
        sew = generator.choice([8, 16, 32, 64])
        core.retire(word, generator.randint(0, int(256 * lmul) // sew), sew, lmul, generator.getrandbits(32))
        assert core.drain() >= core.elapsed() >= before
        before = core.elapsed()


def test_full_input_queue_stalls_the_core() -> None:
    # Queue of 8 rows. No weights pushed: the array takes rows from cycle 0. Pushes of 8 rows: 0; 1 has rows 8..15 of
    # which at cycle 8 all earlier rows are taken: waits until 8; the third until 16.
    core = make_core(lanes=4, array_queue_entries=8)
    run(core, *[i.push_inputs(1, 2)] * 3)
    assert core.elapsed() == 17


@pytest.mark.parametrize("name", ["issue_width", "load_ports", "port_bytes"])
def test_impossible_figures_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="LaneCoreParams"):
        make_core(**{name: 0})
