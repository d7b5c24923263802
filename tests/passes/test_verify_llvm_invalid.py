"""verify-llvm refuses what no pass lowered, with these words. (A valid module is the pipeline's own test.)"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pytorchsim.errors import IRVerificationError


def test_what_is_left_is_named(run_pass: Callable[..., str]) -> None:
    text = """
module attributes {npu.kernel = "k"} {
  module @k__body {
    llvm.func @k__body(%x: vector<8xf32>) {
      %y = math.powf %x, %x : vector<8xf32>
      llvm.return
    }
  }
}"""
    with pytest.raises(IRVerificationError, match=r"'math.powf' in @k__body at .*: no pass lowers it") as caught:
        run_pass("verify-llvm", text)
    assert caught.value.stage == "verify-llvm"


def test_llvm_operations_are_accepted(run_pass: Callable[..., str]) -> None:
    run_pass("verify-llvm", "module { module @k { llvm.func @k() { llvm.return } } }")
