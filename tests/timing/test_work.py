"""What instructions did and where their cycles went: counts by hand, and that cycles by cause add up."""

from __future__ import annotations

import random
from typing import Any

import instructions as i
import pytest
import torch
from test_lane_core import FP, MUL, make_core, run

import pytorchsim

CAUSES = ("issue", "scalar_wait", "vector_wait", "unit_wait", "array_wait", "branch", "drain")


def causes(core: Any, *, drained: bool = True) -> dict[str, int]:
    work = dict(core.work(drained))
    return {cause: work[f"{cause}_cycles"] for cause in CAUSES if work[f"{cause}_cycles"]}


def test_elements_are_counted_over_all_lanes() -> None:
    core = make_core(lanes=128)
    run(core, i.vfadd_vv(8, 16, 24), i.vfdiv_vv(8, 16, 24), i.vadd_vv(8, 16, 24), i.addi(1, 0), vl=5)
    work = dict(core.work())
    assert (work["vector_floats"], work["vector_divides"], work["vector_integers"]) == (5 * 128, 5 * 128, 5 * 128)
    assert work["scalar_instructions"] == 1


def test_bytes_of_the_scratchpad() -> None:
    core = make_core(lanes=128)
    # 7 elements of 4 bytes, 7 strided ones of 4 bytes, 7 of 1 byte whatever SEW is
    run(core, i.vle(32, 8, 1), i.vlse(32, 8, 1, 2), i.vle(8, 8, 1), vl=7)
    assert dict(core.work())["scratchpad_bytes"] == (28 + 28 + 7) * 128


def test_products_of_the_arrays() -> None:
    core = make_core(lanes=128, array_count=2)
    run(core, i.push_weights(0, 8, first=True), i.push_inputs(0b11, 8), vl=8)
    work = dict(core.work())
    # 8 rows into two arrays of 128 x 128 cells
    assert work["macs_float32"] == 2 * 8 * 128 * 128
    assert (work["array_0_weight_rows"], work["array_0_input_rows"], work["array_1_input_rows"]) == (8, 8, 8)


def test_cycles_of_independent_instructions_are_issue() -> None:
    core = make_core(issue_width=2)
    run(core, *[i.addi(register, 0) for register in range(1, 7)])
    assert causes(core) == {"issue": 3}


def test_wait_for_a_scalar() -> None:
    core = make_core()
    run(core, i.mul(1, 2, 3), i.addi(4, 1))  # issue in 0 and MUL
    assert causes(core) == {"issue": 2, "scalar_wait": MUL - 1}


def test_wait_for_a_vector_and_the_drain() -> None:
    core = make_core()
    run(core, i.vfadd_vv(8, 16, 24), i.vfadd_vv(9, 8, 24))  # issue in 0 and FP; complete in 2 FP
    assert causes(core, drained=False) == {"issue": 2, "vector_wait": FP - 1}
    assert causes(core) == {"issue": 2, "vector_wait": FP - 1, "drain": FP - 1}


def test_wait_for_a_unit() -> None:
    core = make_core()
    run(core, i.div(1, 2, 3), i.div(4, 5, 6))  # 0 and 20, complete in 40
    assert causes(core) == {"issue": 2, "unit_wait": 19, "drain": 19}


def test_branch() -> None:
    core = make_core(taken_branch_cycles=3)
    run(core, i.bne(1, 2))
    core.taken_branch()
    run(core, i.addi(3, 0))  # 0, then 4
    assert causes(core) == {"issue": 2, "branch": 3}


def test_wait_for_an_array() -> None:
    core = make_core(lanes=128)
    run(core, i.push_weights(0, 8, first=True), i.push_inputs(1, 16), i.pop(0, 24), vl=8)
    found = causes(core)
    assert found["array_wait"] > 128  # the matrix loads, then a row walks through 2 x 128 - 1 cells
    assert sum(found.values()) == core.drain()


@pytest.mark.parametrize("seed", range(20))
def test_causes_add_up(seed: int) -> None:
    numbers, core = random.Random(seed), make_core(issue_width=1 + seed % 3)
    register = lambda: numbers.randrange(1, 31)  # noqa: E731
    for _ in range(200):
        words = [
            i.addi(register(), register()), i.mul(register(), register(), register()),
            i.div(register(), register(), register()), i.vfadd_vv(register(), register(), register()),
            i.vfdiv_vv(register(), register(), register()), i.vle(32, register(), 1), i.vsetvli(0, 1),
        ]  # fmt: skip
        run(core, numbers.choice(words), vl=numbers.choice([0, 1, 8]))
        if numbers.random() < 0.1:
            run(core, i.bne(1, 2))
            core.taken_branch()
    assert sum(causes(core, drained=False).values()) == core.elapsed()
    assert sum(causes(core).values()) == core.drain()


def test_causes_of_kernels_add_up_to_their_busy_cycles_however_they_are_known() -> None:
    """Measured, known, and skipped calls of tile functions count the same."""

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ w, -1)

    x, w = torch.randn(70, 300), torch.randn(300, 40)
    seen = []
    for mode in ("functional+timing", "functional+timing", "timing"):
        torch._dynamo.reset()
        compiled = torch.compile(program, backend="pytorchsim", options={"config": "tpuv3", "mode": mode})
        compiled(x, w)
        kernels = pytorchsim.report().to_dict()["kernels"]
        seen.append([kernel["statistics"]["lane core 0"] for kernel in kernels])
        for kernel, work in zip(kernels, seen[-1], strict=True):
            assert sum(work[f"{cause}_cycles"] for cause in CAUSES) == sum(
                kernel["core_cycles"][part] for part in ("tile", "scalar")
            )
    assert seen[0] == seen[1] == seen[2]
    # Each of 70 rows meets ceil(300 / 128) matrices of one array at least, each of which has lanes x lanes cells.
    assert sum(work["macs_float32"] for work in seen[0]) >= 70 * 3 * 128 * 128
    assert sum(work["special_functions"] for work in seen[0]) >= 70 * 40
