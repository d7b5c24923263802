"""Models on device `meta`: timed like the same model with weights, without the memory for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import pytorchsim
from pytorchsim.errors import UnsupportedError

TIMING = {"config": "tpuv3", "strict": True, "mode": "timing"}


def build(width: int, device: str) -> nn.Module:
    with torch.device(device):
        return nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 10))


def run(model: Any, *inputs: torch.Tensor) -> tuple[torch.Tensor, int]:
    torch._dynamo.reset()
    result = torch.compile(model, backend="pytorchsim", options=TIMING)(*inputs)
    return result, pytorchsim.report().to_dict()["totals"]["cycles"]


def test_cycles_are_those_of_the_model_with_weights() -> None:
    with torch.no_grad():
        result, cycles = run(build(64, "meta"), torch.empty(32, 64, device="meta"))
        _, expected = run(build(64, "cpu"), torch.randn(32, 64))
    assert cycles == expected
    assert (result.device.type, result.shape) == ("cpu", (32, 10))
    assert result.isnan().all()


def test_devices_in_the_graph_are_the_cpu() -> None:
    def positions(x: torch.Tensor) -> torch.Tensor:
        return x + torch.arange(8, device=x.device) * torch.ones(8, device="meta")

    assert run(positions, torch.empty(4, 8, device="meta"))[0].shape == (4, 8)


def test_tied_weights_and_views_of_one_storage_share_addresses() -> None:
    def both(x: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return x @ first + x @ second

    weights = [torch.empty(128, 64, device=device) for device in ("meta", "cpu")]
    cycles = [run(both, torch.empty(32, 64, device=w.device), w[:64], w[64:])[1] for w in weights]
    assert cycles[0] == cycles[1]


def test_gradients_of_meta_parameters_are_on_meta() -> None:
    model = build(64, "meta")
    result, _ = run(model, torch.empty(32, 64, device="meta"))
    result.sum().backward()
    for parameter in model.parameters():
        assert parameter.grad is not None
        assert (parameter.grad.device.type, parameter.grad.shape) == ("meta", parameter.shape)


@pytest.mark.parametrize("mode", ["functional", "functional+timing"])
def test_modes_that_compute_refuse(mode: str) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(torch.relu, backend="pytorchsim", options={**TIMING, "mode": mode})
    with pytest.raises(
        UnsupportedError, match=rf"1 input\(s\) are on device 'meta' .*: mode '{re.escape(mode)}' computes"
    ):
        compiled(torch.empty(8, device="meta"))
    assert torch.compile(torch.relu, backend="pytorchsim", options=TIMING)(torch.randn(8)).shape == (8,)


def peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def test_weights_take_no_memory() -> None:
    # Two matrices of 8192 x 8192 floats: 512 MiB, which nobody touches.
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(8192, 8192), nn.Linear(8192, 8192))
    try:
        Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    except OSError:
        pytest.skip("the kernel does not let a process reset its peak of memory")
    before = peak_mib()
    with torch.no_grad():
        run(model, torch.empty(128, 8192, device="meta"))
    assert peak_mib() - before < 256
