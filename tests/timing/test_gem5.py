"""With a real gem5: the recorded cycles are reproduced, and a model reports both sources. Skipped without one."""

from __future__ import annotations

import csv
from pathlib import Path

import minor_program
import pytest
import torch
from test_gem5_minor import FOLDER, VARIANTS

import pytorchsim
from pytorchsim.config import load_config
from pytorchsim.simulator.gem5 import Gem5
from pytorchsim.simulator.gem5_program import static_executable

pytestmark = pytest.mark.needs_gem5
_READ, _WRITE, _EXECUTE = 4, 2, 1


def reference_program(kernel: Path, repetitions: int) -> bytes:
    """The reference's program: its start code before the kernel, three zeroed buffers."""
    start = minor_program.start_words(repetitions)
    code = b"".join(word.to_bytes(4, "little") for word in [*start, *minor_program.text_of(kernel)])
    base = minor_program.KERNEL_ADDRESS - 4 * len(start)
    buffers = [(address, b"", 16384, _READ | _WRITE) for address in minor_program.BUFFERS]
    return static_executable(base, [(base, code, len(code), _READ | _EXECUTE), *buffers])


@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_cycles_are_reproduced(variant: str) -> None:
    gem5 = Gem5(load_config({"base": "gem5_minor", "minor": VARIANTS[variant]}))
    with (FOLDER / "cycles.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        ticks = [gem5.ticks(row["kernel"], reference_program(FOLDER / f"{row['kernel']}.o", n)) for n in (1, 11)]
        assert round((ticks[1] - ticks[0]) / 10 / 1000) == int(row[variant]), row["kernel"]


def test_a_model_reports_both_sources() -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.GELU(), torch.nn.Linear(32, 10)).requires_grad_(False)
    options = {"config": {"latency_source": "both"}, "mode": "timing"}
    torch.compile(model, backend="pytorchsim", options=options)(torch.randn(16, 64))
    rows = [row for kernel in pytorchsim.report().to_dict()["kernels"] for row in kernel["tile_latencies"]]
    assert rows
    assert all(row["gem5_cycles"] > 0 for row in rows)
