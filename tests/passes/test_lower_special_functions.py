"""lower-special-functions: the SFU's functions become VCIX intrinsics with the encodings of docs/kernel_abi.md."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.parametrize(
    ("function", "opcode", "immediate"),
    [("erf", 0, 0), ("tanh", 1, 0), ("sin", 2, 0), ("cos", 2, 1), ("log", 2, 2), ("atan", 2, 3), ("exp", 3, 0)],
)
def test_special_function(
    run_pass: Callable[..., str], check: Callable[..., None], function: str, opcode: int, immediate: int
) -> None:
    text = f"""
func.func @k__body(%x: vector<16xf32>) -> vector<16xf32> {{
  %y = math.{function} %x : vector<16xf32>
  return %y : vector<16xf32>
}}"""
    output = run_pass("lower-special-functions", text)
    check(
        output,
        f"arith.constant {opcode} : i64",
        f"arith.constant {immediate} : i64",
        "arith.constant 16 : i64",
        'llvm.call_intrinsic "llvm.riscv.sf.vc.v.iv"',
        "(i64, vector<16xf32>, i64, i64) -> vector<16xf32>",
    )
    assert "math." not in output


def test_native_functions_stay(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    text = """
func.func @k__body(%x: vector<16xf32>) {
  %a = math.sqrt %x : vector<16xf32>
  %b = math.fma %a, %x, %x : vector<16xf32>
  %c = math.floor %b : vector<16xf32>
  return
}"""
    check(run_pass("lower-special-functions", text), "math.sqrt", "math.fma", "math.floor")
