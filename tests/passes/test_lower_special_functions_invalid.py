"""lower-special-functions refuses what would become a call of libm, with these words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytorchsim.errors import IRVerificationError


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            "%y = math.powf %x, %x : vector<16xf32>",
            "'math.powf' in @k__body at .*: no instruction computes it; decompose it",
        ),
        ("%y = math.exp2 %x : vector<16xf32>", "'math.exp2' .*decompose it into math.atan, math.cos, math.erf"),
        ("%y = math.exp %h : vector<16xf16>", "'math.exp' .*the SFU computes vectors of f32, not vector<16xf16>"),
        ("%y = math.tanh %s : f32", "'math.tanh' .*the SFU computes vectors of f32, not f32"),
        ("%y = math.log1p %x : vector<16xf32>", "'math.log1p'"),
    ],
)
def test_functions_without_an_instruction_are_refused(run_pass: Callable[..., str], body: str, words: str) -> None:
    text = f"""
module attributes {{npu.kernel = "k"}} {{
  func.func @k__body(%x: vector<16xf32>, %h: vector<16xf16>, %s: f32) {{
    {body}
    return
  }}
}}"""
    with pytest.raises(IRVerificationError, match=words):
        run_pass("lower-special-functions", text)
