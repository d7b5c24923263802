"""widen-bf16-conversions: bf16 to integer through the bits of an f32; other conversions stay."""

from __future__ import annotations

from collections.abc import Callable

import pytest


@pytest.mark.parametrize("conversion", ["fptosi", "fptoui"])
def test_bf16(run_pass: Callable[..., str], check: Callable[..., None], conversion: str) -> None:
    text = f"""
func.func @k__body(%x: vector<16xbf16>) -> vector<16xi32> {{
  %y = arith.{conversion} %x : vector<16xbf16> to vector<16xi32>
  return %y : vector<16xi32>
}}"""
    check(
        run_pass("widen-bf16-conversions", text),
        "arith.bitcast %arg0 : vector<16xbf16> to vector<16xi16>",
        "arith.extui",
        "arith.constant dense<16> : vector<16xi32>",
        "arith.shli",
        "vector<16xi32> to vector<16xf32>",
        f"arith.{conversion}",
        "vector<16xf32> to vector<16xi32>",
    )


def test_an_extension_does_not_hide_it(run_pass: Callable[..., str], check: Callable[..., None]) -> None:
    text = """
func.func @k__body(%x: vector<16xbf16>) -> vector<16xi64> {
  %a = arith.extf %x : vector<16xbf16> to vector<16xf32>
  %b = arith.extf %a : vector<16xf32> to vector<16xf64>
  %y = arith.fptosi %b : vector<16xf64> to vector<16xi64>
  return %y : vector<16xi64>
}"""
    check(run_pass("widen-bf16-conversions", text), "arith.bitcast %arg0", "vector<16xf32> to vector<16xi64>")


@pytest.mark.parametrize("source", ["vector<16xf16>", "vector<16xf32>", "f32"])
def test_others_stay(run_pass: Callable[..., str], source: str) -> None:
    target = source.replace("f16", "i16").replace("f32", "i32")
    text = f"func.func @k__body(%x: {source}) {{\n %y = arith.fptosi %x : {source} to {target}\n return\n}}"
    assert "bitcast" not in run_pass("widen-bf16-conversions", text)
