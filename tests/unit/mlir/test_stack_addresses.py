"""Which registers hold stack addresses, along every path."""

from __future__ import annotations

import pytest

from pytorchsim.mlir.stack_addresses import stack_registers

CASES = {
    "near sp": (["addi t0, sp, 256", "ld t0, 32(t0)", "ld t1, 0(t0)"], [{"sp"}, {"sp", "t0"}, {"sp"}]),
    "far from sp": (
        ["lui a0, 1", "add a0, sp, a0", "addi a1, a0, 8", "mv a2, a1", "sd s0, 0(a2)"],
        [{"sp"}, {"sp"}, {"sp", "a0"}, {"sp", "a0", "a1"}, {"sp", "a0", "a1", "a2"}],
    ),
    "a store writes no register": (["mv t0, sp", "sd t0, 0(sp)", "ret"], [{"sp"}, {"sp", "t0"}, {"sp", "t0"}]),
    "the difference of two is none": (["mv t0, sp", "sub t1, t0, sp"], [{"sp"}, {"sp", "t0"}]),
    "on one of two paths": (
        ["mv t0, sp", "beqz a0, .L1", "li t0, 0", ".L1:", "ld a1, 0(t0)"],
        [{"sp"}, {"sp", "t0"}, {"sp", "t0"}, {"sp"}, {"sp"}],
    ),
    "kept around a loop": (
        ["mv t0, sp", ".L1:", "ld a1, 0(t0)", "bnez a1, .L1", "ret"],
        [{"sp"}, {"sp", "t0"}, {"sp", "t0"}, {"sp", "t0"}, {"sp", "t0"}],
    ),
    "lost around a loop": (
        ["mv t0, sp", ".L1:", "ld a1, 0(t0)", "add t0, a1, a2", "bltu a1, a2, .L1"],
        [{"sp"}, {"sp"}, {"sp"}, {"sp"}, {"sp"}],
    ),
    "a call keeps what it must": (["mv s1, sp", "mv t1, sp", "call f", "nop"], [{"sp"}, None, None, {"sp", "s1"}]),
}


@pytest.mark.parametrize("name", CASES)
def test_stack_registers(name: str) -> None:
    lines, expected = CASES[name]
    states = stack_registers(lines)
    for line, state, wanted in zip(lines, states, expected, strict=False):
        assert wanted is None or state == wanted, line
