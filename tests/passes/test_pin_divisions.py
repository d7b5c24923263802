"""pin-divisions: divisions of two vectors become calls that LLVM does not move; those by constants stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    ("kind", "group"), [("vector<32xf32>", "vector<[8]xf32>"), ("vector<2xf64>", "vector<[1]xf64>")]
)
def test_divisions_of_two_vectors_are_pinned(
    run_pass: Callable[..., str], check: Callable[..., None], kind: str, group: str
) -> None:
    text = f"""
func.func @k__body(%x: {kind}, %y: {kind}) -> {kind} {{
  %z = arith.divf %x, %y : {kind}
  return %z : {kind}
}}"""
    output = run_pass("pin-divisions", text)
    check(
        output, "llvm.intr.vector.insert", 'llvm.call_intrinsic "llvm.riscv.vfdiv"', group, "llvm.intr.vector.extract"
    )
    assert "divf" not in output


@pytest.mark.parametrize("operands", ["%x, %c", "%c, %x"])
def test_constants_stay(run_pass: Callable[..., str], operands: str) -> None:
    text = f"""
func.func @k__body(%x: vector<8xf32>) -> vector<8xf32> {{
  %c = arith.constant dense<3.0> : vector<8xf32>
  %z = arith.divf {operands} : vector<8xf32>
  return %z : vector<8xf32>
}}"""
    assert "arith.divf" in run_pass("pin-divisions", text)


@pytest.mark.parametrize("kind", ["vector<32xbf16>", "vector<128xf32>", "f32"])
def test_what_is_not_one_instruction_stays(run_pass: Callable[..., str], kind: str) -> None:
    """RVV does not divide bf16, and a register group has eight registers of 256 bits."""
    text = f"""
func.func @k__body(%x: {kind}, %y: {kind}) -> {kind} {{
  %z = arith.divf %x, %y : {kind}
  return %z : {kind}
}}"""
    assert "arith.divf" in run_pass("pin-divisions", text)
