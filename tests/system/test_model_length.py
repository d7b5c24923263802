"""A model of many equal layers: kernels, searches and buffers are those of one layer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import pytorchsim
from pytorchsim.templates import gemm_search

OPTIONS = {"config": "tpuv3", "strict": True, "mode": "timing"}


class Layer(nn.Module):
    """Norm, product, activation, product, shortcut."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, width) to the same."""
        y: torch.Tensor = x + self.down(torch.relu(self.up(self.norm(x))))
        return y


def layers(count: int, width: int) -> nn.Module:
    with torch.device("meta"):
        return nn.Sequential(*(Layer(width) for _ in range(count))).eval().requires_grad_(False)


@pytest.mark.usefixtures("fresh_caches")
def test_kernels_and_searches_are_shared_and_cycles_grow_in_proportion() -> None:
    figures = []
    for count in (8, 12, 16):  # Inductor writes the sum of shortcuts to memory in every fourth layer
        torch._dynamo.reset()
        before = gemm_search._search.cache_info().misses
        with torch.no_grad():
            torch.compile(layers(count, 96), backend="pytorchsim", options=OPTIONS)(torch.empty(64, 96, device="meta"))
        totals = pytorchsim.report().to_dict()["totals"]
        kernels = len(pytorchsim.report().kernels)
        searches = gemm_search._search.cache_info().misses - before
        figures.append((kernels, totals["launches"], totals["cycles"], searches))
    (kernels, *_), _, _ = figures
    assert [row[0] for row in figures] == [kernels] * 3
    assert figures[0][3] > 0
    assert figures[1][3] == figures[2][3] == 0  # no tile is searched again for more layers
    for column in (1, 2):  # launches and cycles: four layers more are four layers more
        assert figures[2][column] - figures[1][column] == figures[1][column] - figures[0][column]


def peak_mib() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def test_a_call_needs_no_memory_for_what_its_layers_hand_on() -> None:
    # 8 layers with 3 buffers of 4096 x 1024 floats each, 16 MiB: 384 MiB in all.
    compiled = torch.compile(layers(8, 1024), backend="pytorchsim", options=OPTIONS)
    tokens = torch.empty(4096, 1024, device="meta")
    with torch.no_grad():
        compiled(tokens)
        try:
            Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
        except OSError:
            pytest.skip("the kernel does not let a process reset its peak of memory")
        before = peak_mib()
        result = compiled(tokens)
    assert peak_mib() - before < 16
    assert result.isnan().all()
