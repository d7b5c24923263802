"""Whole kernels on several cores: the same bits, contention for one memory, imbalance as idle cycles."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import pytorchsim

SEVERAL = (2, 4, 8)


def product_and_softmax(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.relu(x @ w).sum(1, keepdim=True) + x, -1)


def run(cores: int, inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, dict[str, Any]]:
    torch._dynamo.reset()
    config = {
        "base": "mobile", "cores": cores, "fidelity": "exact",
        "network": {"kind": "crossbar"}, "dram": {"kind": "banked"},
    }  # fmt: skip
    compiled = torch.compile(product_and_softmax, backend="pytorchsim", options={"config": config, "strict": True})
    return compiled(*inputs), pytorchsim.report().to_dict()


@pytest.fixture(scope="module")
def inputs() -> tuple[torch.Tensor, ...]:
    numbers = torch.Generator().manual_seed(0)
    return torch.randn(96, 65, generator=numbers), torch.randn(65, 96, generator=numbers)


@pytest.fixture(scope="module")
def one(inputs: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, dict[str, Any]]:
    return run(1, inputs)


@pytest.mark.parametrize("cores", SEVERAL)
def test_cores_share_kernels_and_memory(
    cores: int, inputs: tuple[torch.Tensor, ...], one: tuple[torch.Tensor, dict[str, Any]]
) -> None:
    alone, single = one
    result, report = run(cores, inputs)
    assert torch.equal(result, alone)
    assert report["totals"]["bytes_written"] == single["totals"]["bytes_written"]
    for kernel, before in zip(report["kernels"], single["kernels"], strict=True):
        parts = kernel["core_cycles"]
        assert sum(parts.values()) == cores * kernel["cycles"]
        assert parts["tile"] == before["core_cycles"]["tile"]  # the same tiles, divided
        # The core with most tiles is never idle for as long as the others wait for it.
        assert kernel["cycles"] >= parts["tile"] / cores
        statistics = kernel["statistics"]
        assert sum(statistics[f"dma {core}"]["transfers"] for core in range(cores)) == kernel["transfers"]
        channel = statistics["dram channel 0"]
        assert (channel["read_bursts"] + channel["written_bursts"]) * 64 == kernel["burst_bytes"]


def test_more_cores_than_tiles_stand_idle(inputs: tuple[torch.Tensor, ...]) -> None:
    _, report = run(8, (inputs[0][:8], inputs[1]))
    assert any(kernel["core_cycles"]["idle"] > 0 for kernel in report["kernels"])
