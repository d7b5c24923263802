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
TEXT = 0x10000
"""Where the reference's program begins."""


def start_code(repetitions: int) -> bytes:
    """The reference's start code as it is assembled there, for rv64gc: a compressed `li s0`; then per call three
    addresses (auipc, addi) and the kernel's (auipc, jalr), a compressed count-down and branch; exit."""
    code = bytearray(_half(0x4401 | repetitions << 2))
    for register, buffer in zip((10, 11, 12), minor_program.BUFFERS, strict=True):
        offset = buffer - (TEXT + len(code))
        high = (offset + 0x800) & 0xFFFFF000
        code += _word(high | register << 7 | 0x17)
        code += _word((offset & 0xFFF) << 20 | register << 15 | register << 7 | 0x13)
    offset = minor_program.KERNEL_ADDRESS - (TEXT + len(code))
    code += _word(1 << 7 | 0x17) + _word(offset << 20 | 1 << 15 | 1 << 7 | 0x67)
    return bytes(code) + _half(0x147D) + _half(0xFC79) + _half(0x4501) + _word(93 << 20 | 17 << 7 | 0x13) + _word(0x73)


def _half(value: int) -> bytes:
    return value.to_bytes(2, "little")


def _word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def reference_program(kernel: Path, repetitions: int) -> bytes:
    """The reference's program: its start code before the kernel, three zeroed buffers."""
    code = start_code(repetitions) + b"".join(_word(word) for word in minor_program.text_of(kernel))
    buffers = [(address, b"", 16384, _READ | _WRITE) for address in minor_program.BUFFERS]
    return static_executable(TEXT, [(TEXT, code, len(code), _READ | _EXECUTE), *buffers])


@pytest.mark.parametrize("variant", VARIANTS)
def test_recorded_cycles_are_reproduced(variant: str) -> None:
    gem5 = Gem5(load_config({"base": "gem5_minor", "minor": VARIANTS[variant]}))
    with (FOLDER / "cycles.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        ticks = [gem5.ticks(row["kernel"], reference_program(FOLDER / f"{row['kernel']}.o", n)) for n in (1, 11)]
        assert (ticks[1] - ticks[0]) // 10 // 1000 == int(row[variant]), row["kernel"]  # the reference rounds down


def test_a_model_reports_both_sources() -> None:
    torch._dynamo.reset()
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.GELU(), torch.nn.Linear(32, 10)).requires_grad_(False)
    options = {"config": {"latency_source": "both"}, "mode": "timing"}
    torch.compile(model, backend="pytorchsim", options=options)(torch.randn(16, 64))
    rows = [row for kernel in pytorchsim.report().to_dict()["kernels"] for row in kernel["tile_latencies"]]
    assert rows
    assert all(row["gem5_cycles"] > 0 for row in rows)
