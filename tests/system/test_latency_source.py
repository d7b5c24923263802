"""`latency_source`: whose cycles a kernel has, and what the report says, with a program that answers as gem5 does."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import pytorchsim
from pytorchsim.errors import Gem5Error, SetupError
from pytorchsim.simulator.gem5 import gem5_version
from tests.unit.gem5 import fake_gem5

GEM5_CYCLES = 1234


@pytest.fixture
def gem5(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FAKE_GEM5_LOG", str(tmp_path / "log"))
    gem5_version.cache_clear()
    return str(fake_gem5.install(tmp_path, sys.executable))


def run(source: str, gem5: str = "", mode: str = "functional+timing") -> tuple[torch.Tensor, dict[str, Any]]:
    torch._dynamo.reset()
    config = {"base": "tiny", "latency_source": source, "gem5": gem5}
    options = {"config": config, "strict": True, "mode": mode}
    x = torch.linspace(-2, 2, 64).reshape(8, 8)
    result = torch.compile(torch.tanh, backend="pytorchsim", options=options)(x)
    if mode != "timing":
        torch.testing.assert_close(result, torch.tanh(x))
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    return result, kernel


def test_builtin_asks_nobody() -> None:
    assert run("builtin")[1]["tile_latencies"] == []


def test_both_reports_the_difference_and_keeps_our_cycles(gem5: str) -> None:
    ours = run("builtin")[1]
    both = run("both", gem5)[1]
    assert both["cycles"] == ours["cycles"]
    assert both["tile_latencies"]
    for row in both["tile_latencies"]:
        assert row["gem5_cycles"] == GEM5_CYCLES
        assert row["gem5_version"] == row["gem5_pin"] == "24.0.0.1"
        assert 0 < row["builtin_cycles"] <= ours["core_cycles"]["tile"]
    text = " ".join(str(pytorchsim.report()).split())
    assert f"gem5 {GEM5_CYCLES:,}" in text
    assert "gem5 24.0.0.1, pinned 24.0.0.1" in text


@pytest.mark.parametrize("mode", ["functional+timing", "timing"])
def test_gem5s_cycles_are_the_kernels(gem5: str, mode: str) -> None:
    kernel = run("gem5", gem5, mode)[1]
    tiles = kernel["core_cycles"]["tile"]
    assert tiles > 0
    assert tiles % GEM5_CYCLES == 0
    assert {row["gem5_cycles"] for row in kernel["tile_latencies"]} == {GEM5_CYCLES}


def test_functional_mode_needs_no_gem5(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCHSIM_GEM5", raising=False)
    assert run("gem5", mode="functional")[1]["cycles"] is None


def test_errors_reach_the_caller_and_the_next_call_works(gem5: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCHSIM_NO_CACHE", "1")
    monkeypatch.setenv("FAKE_GEM5", "crash")
    with pytest.raises(Gem5Error, match=r"tile function 'npu_tanh_0__\w+'(.|\n)*Unknown instruction"):
        run("both", gem5)
    monkeypatch.delenv("FAKE_GEM5")
    assert run("both", gem5)[1]["tile_latencies"]
    monkeypatch.delenv("PYTORCHSIM_GEM5", raising=False)
    with pytest.raises(SetupError, match="set PYTORCHSIM_GEM5"):
        run("gem5")
    assert run("builtin")[1]["cycles"] > 0
