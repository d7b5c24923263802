"""`tiles="autotune"`: the best tiles are measured in other processes, the fastest is taken, and it is remembered."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from loky import get_reusable_executor
from torch._inductor.utils import clear_caches

import pytorchsim
from pytorchsim.runtime import measurement

pytestmark = pytest.mark.usefixtures("fresh_caches")  # Inductor's has the whole graph


def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x @ w, -1)


def run(tiles: str, config: str = "mobile") -> tuple[torch.Tensor, dict[str, Any]]:
    torch._dynamo.reset()
    numbers = torch.Generator().manual_seed(0)
    x, w = torch.randn(70, 90, generator=numbers), torch.randn(90, 130, generator=numbers)
    options = {"config": config, "tiles": tiles, "strict": True}
    result = torch.compile(program, backend="pytorchsim", options=options)(x, w)
    torch.testing.assert_close(result, program(x, w), rtol=1e-5, atol=1e-5)
    return result, pytorchsim.report().to_dict()


def test_no_kernel_is_slower_than_with_the_estimate_and_measurements_are_launches(
    monkeypatch: pytest.MonkeyPatch, fresh_caches: Path
) -> None:
    _, estimated = run("heuristic")
    _, tuned = run("autotune")
    assert len(tuned["kernels"]) == len(estimated["kernels"])
    for kernel, before in zip(tuned["kernels"], estimated["kernels"], strict=True):
        # One story: what was chosen and what it was chosen against, each measured and estimated; nothing else.
        told = [reason for reason in kernel["reasons"] if "refused" not in reason]
        assert 1 <= len(told) <= 2
        # What was measured for the chosen tile is what the kernel takes in the call.
        assert told[0].startswith("tile chosen: fastest of ")
        assert f"{kernel['cycles']} cycles measured, estimated " in told[0]
        estimates = told[-1] if "best tile by estimate, with" in told[-1] else told[0]
        assert "best by estimate" in told[0] or "best tile by estimate" in told[-1]
        assert f"{before['cycles']} cycles measured, estimated " in estimates
        assert kernel["cycles"] <= before["cycles"]
    # A second compile finds every measurement.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(fresh_caches / "another"))
    clear_caches()
    monkeypatch.setattr(measurement, "_submit", lambda *_: pytest.fail("measured again"))
    assert run("autotune")[1]["totals"] == tuned["totals"]


def test_a_worker_that_dies_is_an_error_and_the_next_call_works(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(measurement, "_submit", _submit_exit)
        with pytest.raises(Exception, match="a process that measured tiles ended") as caught:
            run("autotune")
        assert isinstance(caught.value, pytorchsim.errors.PyTorchSimError)
    run("autotune")


def _submit_exit(*_: object) -> Any:
    return get_reusable_executor(max_workers=1).submit(os._exit, 1)


@pytest.mark.parametrize("value", ["autotune:", "autotune:1", "autotune:x", "autotune:-2"])
def test_numbers_that_measure_nothing(value: str) -> None:
    with pytest.raises(pytorchsim.errors.ConfigError, match="measures how many tiles"):
        torch.compile(program, backend="pytorchsim", options={"tiles": value})(torch.ones(2, 2), torch.ones(2, 2))
