"""The parameter set `gem5_minor` against cycles of an unmodified gem5 for the same objects (tests/timing/gem5)."""

from __future__ import annotations

import csv
from pathlib import Path

import instructions as i
import minor_program
import pytest

from pytorchsim import _native
from pytorchsim.config import load_config
from pytorchsim.simulator.timing import lane_core_params

FOLDER = Path(__file__).parent / "gem5"

WIDE = {
    "fetches_in_flight": 4,
    "fetch_buffer_lines": 4,
    "decode_width": 8,
    "decode_buffer_entries": 8,
    "issue_buffer_entries": 16,
    "issue_width": 8,
    "memory_issue_width": 2,
    "commit_width": 8,
    "memory_commit_width": 2,
    "int_units": 4,
    "int_cycles": 1,
    "int_early_cycles": 0,
    "vector_units": 4,
    "vector_early_cycles": 0,
    "memory_units": 2,
    "memory_early_cycles": 0,
    "load_assumed_cycles": 0,
    "memory_width_bytes": 32,
    "accesses_in_memory": 8,
    "transfer_entries": 8,
}
"""The reference's second machine: its script gives the units no timing of sources and results, so nothing is early."""

VARIANTS: dict[str, dict[str, int]] = {
    "default": {},
    "wide_lat1": {**WIDE, "vector_cycles": 1},
    "wide_lat4": {**WIDE, "vector_cycles": 4},
}


def make_core(variant: str = "default", **changes: int) -> _native.LaneCore:
    config = load_config({"base": "gem5_minor", "minor": {**VARIANTS[variant], **changes}})
    return _native.LaneCore(lane_core_params(config))


def errors(variant: str) -> dict[str, float]:
    with (FOLDER / "cycles.csv").open() as file:
        rows = list(csv.DictReader(file))
    core = make_core(variant)
    result = {}
    for row in rows:
        code = minor_program.text_of(FOLDER / f"{row['kernel']}.o")
        result[row["kernel"]] = minor_program.cycles_per_call(core, code) / int(row[variant]) - 1
    return result


@pytest.mark.parametrize("variant", VARIANTS)
def test_cycles_of_gem5_are_reproduced(variant: str) -> None:
    found = errors(variant)
    assert len(found) == 13
    assert sum(map(abs, found.values())) / len(found) <= 0.03
    assert max(map(abs, found.values())) <= 0.11
    # One register per vector instruction, one vector configuration: what is modelled is all there is.
    simple = {name: error for name, error in found.items() if "_m1" in name or name == "scalar_loop"}
    assert max(map(abs, simple.values())) <= 0.005


def run(core: _native.LaneCore, *words: int, vl: int = 8, lmul: float = 1.0, sew: int = 32) -> int:
    core.begin()
    for number, word in enumerate(words):
        core.retire(word, vl, sew, lmul, 4096 + 64 * number, 0x1000 + 4 * number)
    return core.drain()


EMPTY = 7
"""Commit of a first integer instruction: line sent 0, in fetch2 2, decode 3, issue 4, three stages of its unit."""


def test_first_instruction_walks_the_pipeline() -> None:
    assert run(make_core(), i.addi(1, 0)) == EMPTY


def test_commit_width_bounds_independent_instructions() -> None:
    # 16 in one line, two per cycle through every stage: the last pair is seven cycles behind the first.
    assert run(make_core(), *[i.addi(register, 0) for register in range(1, 17)]) == EMPTY + 7


def test_dependent_integers_follow_each_other_in_consecutive_cycles() -> None:
    # A source may come two cycles after issue and the unit has three stages: one cycle apart.
    assert run(make_core(), *[i.addi(1, 1)] * 5) == EMPTY + 4


def test_vector_instructions_are_one_micro_operation_per_register() -> None:
    # Vector unit: six stages, so the first commits three cycles after an integer would; one unit, one per cycle.
    one = run(make_core(), i.vadd_vv(8, 16, 24))
    assert one == EMPTY + 3
    assert run(make_core(), i.vadd_vv(8, 16, 24), vl=64, lmul=8) == one + 7


def test_slides_and_gathers_take_a_pass_per_pair_of_registers() -> None:
    # Two registers. Slide: 1 + 2 passes over one destination register after the other, in a chain of 4 cycles for the
    # second one; gather: 2 x 2.
    one = EMPTY + 3
    assert run(make_core(), i.vslidedown_vi(8, 16, 1), vl=16, lmul=2) == one + 1 + 4
    assert run(make_core(), i.vrgather_vv(8, 16, 24), vl=16, lmul=2) == one + 4 + 1 + 4


def test_accumulation_waits_for_the_register_not_for_the_group() -> None:
    # Dependent vector adds are 6 - 2 = 4 cycles apart.
    assert run(make_core(), *[i.vadd_vv(8, 8, 9)] * 3) == EMPTY + 3 + 2 * 4


def test_loads_commit_once_they_are_answered() -> None:
    # Issue 4, at the end of its unit and sent 5, answered and committed 6.
    assert run(make_core(), i.vle(32, 8, 10)) == 6
    # One port, one answer a cycle.
    assert run(make_core(), *[i.vle(32, 8 + n, 10) for n in range(4)]) == 6 + 3


def loop(core: _native.LaneCore, iterations: int) -> int:
    core.begin()
    for _ in range(iterations):
        core.retire(i.addi(1, 1), pc=0x1000)
        core.retire(i.bne(1, 0), pc=0x1004)
    core.retire(i.addi(2, 2), pc=0x1008)
    return core.drain()


@pytest.mark.parametrize(("fetches", "cycles"), [(1, 4), (4, 3)])
def test_a_predicted_branch_costs_the_way_through_fetch(fetches: int, cycles: int) -> None:
    # Branch leaves fetch2 in 0; target requested in 1, answered in 2, cut in 3. With one fetch at a time the next line
    # is under way in 1 and the target is requested in 2.
    core = make_core(fetches_in_flight=fetches, fetch_buffer_lines=4)
    assert loop(core, 64) - loop(core, 32) == cycles * 32


def test_a_misprediction_costs_a_refill() -> None:
    # The first taken branch is not in the target buffer: all of the pipeline after its commit.
    assert loop(make_core(), 2) - loop(make_core(), 1) > EMPTY


def test_impossible_figures_are_refused() -> None:
    params = lane_core_params(load_config("gem5_minor"))
    minor = params.minor
    minor.commit_width = 0
    params.minor = minor
    with pytest.raises(ValueError, match="at least 1"):
        _native.LaneCore(params)
