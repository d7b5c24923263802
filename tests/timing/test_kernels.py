"""Cycles of whole kernels: bounds from bytes and bandwidth, and what they must not depend on."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest
import torch

import pytorchsim


def add_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a + b)


def measure(*tensors: torch.Tensor, config: Any = "tpuv3", mode: str = "functional+timing") -> dict[str, Any]:
    torch._dynamo.reset()
    options = {"config": config, "mode": mode, "strict": True}
    result = torch.compile(add_relu, backend="pytorchsim", options=options)(*tensors)
    if mode != "timing":
        torch.testing.assert_close(result, add_relu(*tensors), rtol=0, atol=0)
    return pytorchsim.report().to_dict()


def inputs(rows: int = 1024, columns: int = 429) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(rows, columns), torch.randn(rows, columns)


def test_a_large_elementwise_kernel_streams_at_dram_bandwidth(memory: str) -> None:
    # 1024 x 429 floats: two tensors in, one out, 1757184 bytes each, all aligned: 5271552 / 512 = 10296 cycles of data.
    # Around it: one descriptor and round trip before the first tile and one behind the last store (2 x 124), the last
    # tile's computation; nothing else may show. With banks rows are opened and the bus is turned, too (docs/memory.md).
    report = measure(*inputs())
    (kernel,) = report["kernels"]
    assert (kernel["bytes_read"], kernel["bytes_written"]) == (2 * 1_757_184, 1_757_184)
    assert kernel["burst_bytes"] == 3 * 1_757_184
    assert 10_296 <= kernel["cycles"] <= (1.15 if memory == "banked" else 1.03) * (10_296 + 2 * 124)
    assert kernel["bound_by"] == "dram"
    assert kernel["dram_utilisation"] == pytest.approx(10_296 / kernel["cycles"], abs=1e-3)


@pytest.mark.usefixtures("memory")
def test_a_small_kernel_is_bound_by_latency() -> None:
    # 4 KiB per tensor: 24 cycles of data, at least two round trips of 124 (loads, then the store).
    report = measure(*inputs(32, 32))
    (kernel,) = report["kernels"]
    assert 2 * 124 <= kernel["cycles"] <= 2 * 124 + 150
    assert kernel["bound_by"] == "latency"


@pytest.mark.parametrize("config", [{}, {"base": "mobile"}, {"base": "tiny"}, {"cores": 3}])
def test_modes_agree_on_cycles(config: dict[str, Any]) -> None:
    tensors = inputs(123, 57)
    # A machine of its own: timing mode comes first and knows no tile function yet.
    config = {"name": "modes-agree", **config}
    timing = measure(*tensors, config=config, mode="timing")
    both = measure(*tensors, config=config)
    functional = measure(*tensors, config=config, mode="functional")
    strip = ("graph", "instructions", "stack_bytes")  # the mode is part of a graph's name; known tiles are skipped
    for row in (*both["kernels"], *timing["kernels"]):
        for name in strip:
            del row[name]
    assert both["kernels"] == timing["kernels"]
    assert functional["totals"]["cycles"] is None


def test_cycles_do_not_depend_on_history() -> None:
    tensors = inputs(200, 300)
    first = measure(*tensors)["totals"]["cycles"]
    measure(*inputs(64, 64))
    copies = [tensor.clone() for tensor in tensors]  # other host addresses
    assert measure(*copies)["totals"]["cycles"] == first


def test_same_cycles_in_two_processes() -> None:
    program = (
        "import torch, pytorchsim\n"
        "a, b = torch.ones(101, 67), torch.ones(101, 67)\n"
        "f = torch.compile(lambda a, b: torch.relu(a + b), backend='pytorchsim', options={'config': 'mobile'})\n"
        "f(a, b); print(pytorchsim.report().to_dict()['kernels'])\n"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            capture_output=True,
            text=True,
            check=True,
            env=os.environ | {"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
    assert "cycles" in outputs.pop()


@pytest.mark.usefixtures("memory")
def test_cores_share_one_memory() -> None:
    # Bound by DRAM: more cores cannot be faster than its 10296 cycles, and move the same bytes.
    tensors = inputs()
    one = measure(*tensors)
    for cores in (2, 4):
        report = measure(*tensors, config={"cores": cores})
        assert report["totals"]["bytes_read"] == one["totals"]["bytes_read"]
        assert 10_296 <= report["totals"]["cycles"] <= 1.05 * one["totals"]["cycles"]


def test_cores_divide_the_computation() -> None:
    # A memory 64 times as fast: the cores compute. 1757184 elements are 7 tiles of 262144: one of four cores has 2.
    dma = {"scratchpad_bytes_per_cycle": 65_536, "max_outstanding": 1 << 20}
    fast = {"dram": {"bandwidth_gb_per_s": 64 * 481.28}, "dma": dma}
    tensors = inputs(4096, 429)
    one = measure(*tensors, config=fast)
    four = measure(*tensors, config=fast | {"cores": 4})
    assert one["kernels"][0]["bound_by"] == "compute"
    assert four["kernels"][0]["core_cycles"]["tile"] == one["kernels"][0]["core_cycles"]["tile"]
    assert four["totals"]["cycles"] < 0.35 * one["totals"]["cycles"]  # 2/7 = 0.286, and a latency that is not divided


@pytest.mark.parametrize("change", [{"bandwidth_gb_per_s": 962.56}, {"latency_cycles": 50}])
def test_a_better_memory_is_not_slower(change: dict[str, Any]) -> None:
    tensors = inputs(300, 500)
    assert measure(*tensors, config={"dram": change})["totals"]["cycles"] <= measure(*tensors)["totals"]["cycles"]


def test_launch_cost_is_added_per_kernel() -> None:
    tensors = inputs(32, 32)
    free = measure(*tensors)["totals"]["cycles"]
    assert measure(*tensors, config={"core": {"launch_cycles": 1000}})["totals"]["cycles"] == free + 1000
