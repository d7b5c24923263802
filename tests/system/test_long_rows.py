"""Do all cores share the reduction of a single long row, with the same bits whatever their number?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pytorchsim
from pytorchsim.config import load_config
from pytorchsim.target.dtypes import F32, I64
from pytorchsim.templates.long_rows import plan_long_rows
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store

Function = Callable[[torch.Tensor], torch.Tensor]

LENGTH = 64 * 1024 + 7
"""Not a multiple of anything: the last chunk is a short one."""


def run(function: Function, x: torch.Tensor, machine: dict[str, Any]) -> tuple[torch.Tensor, dict[str, Any]]:
    torch._dynamo.reset()
    options = {"config": machine, "strict": True}
    result = torch.compile(function, backend="pytorchsim", fullgraph=True, options=options)(x)
    return result, pytorchsim.report().to_dict()


def machine(cores: int, **others: Any) -> dict[str, Any]:
    """Memory so fast that computing decides, as with HBM."""
    dram = {"bandwidth_gb_per_s": 200.0}
    return {"base": "mobile", "cores": cores, "dram": dram, **others}


def ties(x: torch.Tensor) -> torch.Tensor:
    return (x * 2).round()


FUNCTIONS: dict[str, Function] = {
    "sum": lambda x: (x.sin() + x.cos()).sum(),
    "largest": lambda x: torch.tanh(x).amax(),
    "softmax": lambda x: x.view(1, -1).softmax(1),
    "log softmax": lambda x: x.log_softmax(0),
    "variance": lambda x: torch.tanh(x).var(),
    "argmax": lambda x: x.argmax(),
    "argmin with ties": lambda x: ties(x).argmin(),
    "two rows": lambda x: x[:-1].view(2, -1).argmax(1),
    "transposed": lambda x: x[:16000].view(125, 128).t().argmax(),
    "product": lambda x: (torch.tanh(x) * 1e-3 + 1).prod(),
    "any": lambda x: (x.sin() > 2).any(),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_bits_are_those_of_one_core(name: str) -> None:
    function, x = FUNCTIONS[name], torch.randn(LENGTH)
    results, cycles = [], []
    for cores in (1, 2, 8):
        result, report = run(function, x, machine(cores))
        results.append(result)
        cycles.append(report["totals"]["cycles"])
    torch.testing.assert_close(results[0], function(x), rtol=1e-4, atol=1e-5)
    for result in results[1:]:
        assert torch.equal(result, results[0])
    if name in {"argmax", "argmin with ties", "two rows", "softmax", "log softmax", "variance", "sum"}:
        # Computing takes most of the time on one core and is shared; loads, which share the DRAM, and the kernels that
        # fold 33 partial results stay.
        assert cycles[2] < cycles[0] / 2, cycles
        assert cycles[1] < cycles[0] / 1.4, cycles


def test_nan_and_the_first_of_equals_win() -> None:
    for places in ([5000, 50000], [LENGTH - 1], [0, LENGTH - 1]):
        x = torch.zeros(LENGTH)
        x[places] = float("nan")
        assert int(run(torch.argmax, x, machine(2))[0]) == places[0]
        assert int(run(torch.argmin, -x, machine(2))[0]) == places[0]
    same = torch.full((LENGTH,), float("-inf"))
    assert int(run(torch.argmax, same, machine(2))[0]) == 0
    assert int(run(torch.argmax, torch.full((LENGTH,), -7, dtype=torch.int32), machine(2))[0]) == 0


def test_a_changed_input_is_not_read_again() -> None:
    """Rows longer than the scratchpad are walked once per stage: what the first walk stored in `x` must not be what the
    second one loads."""

    def double_and_normalise(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x.view(1, -1).softmax(1)

    x = torch.randn(LENGTH)
    expected, ours = x.clone(), x.clone()
    result, _ = run(double_and_normalise, ours, machine(4))
    torch.testing.assert_close(result, double_and_normalise(expected), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(ours, expected, rtol=0, atol=0)


def row_argmax(length: int) -> LoopProgram:
    load = Operation("load", (), F32, access=Access("x", F32, AffineIndex((0, 1))))
    reduce = Operation("reduce", (0,), I64, reduction="argmax")
    return LoopProgram((1, length), (load, reduce), (Store(Access("y", I64, AffineIndex((0, 0))), 1),), 1)


def test_the_decision_knows_no_cores_and_says_why() -> None:
    plans = [plan_long_rows(row_argmax(1 << 16), load_config(machine(cores))) for cores in (1, 8)]
    assert plans[0] == plans[1]
    assert plans[0] is not None
    assert [part.program.reduced for part in plans[0].parts] == [1, 1]
    assert "cycles on one core" in plans[0].reason
    assert {workspace.name for workspace in plans[0].workspaces} >= {"value1", "position1"}


@pytest.mark.parametrize("length", [1, 8, 100])
def test_short_rows_stay_one_kernel(length: int) -> None:
    assert plan_long_rows(row_argmax(length), load_config("tpuv3")) is None
    assert plan_long_rows(row_argmax(length), load_config("mobile")) is None


def test_what_memory_bounds_stays_one_kernel() -> None:
    """A sum reads 4 bytes per addition; the DRAM is shared, so cores add nothing."""
    x = torch.randn(1 << 16)
    _, report = run(torch.sum, x, {"base": "mobile", "cores": 8})
    assert len(report["kernels"]) == 1
