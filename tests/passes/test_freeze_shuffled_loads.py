"""freeze-shuffled-loads: only loads that a shuffle or a bitcast sees are frozen, for all their users."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def text(use: str) -> str:
    return f"""
module {{
  module @k__body {{
    llvm.func @k__body(%p: !llvm.ptr, %q: !llvm.ptr) {{
      %v = llvm.load %p : !llvm.ptr -> vector<4xf32>
      {use}
      llvm.store %v, %q : vector<4xf32>, !llvm.ptr
      llvm.return
    }}
  }}
}}"""


@pytest.mark.parametrize(
    "use",
    [
        "%w = llvm.shufflevector %v, %v [1, 0, 1, 2] : vector<4xf32>",
        "%w = llvm.bitcast %v : vector<4xf32> to vector<4xi32>",
    ],
)
def test_a_load_that_is_shuffled_is_frozen(run_pass: Callable[..., str], check: Callable[..., None], use: str) -> None:
    output = run_pass("freeze-shuffled-loads", text(use))
    name = use.split(" = ")[1].split()[0]
    check(output, "%0 = llvm.load", "%1 = llvm.freeze %0 : vector<4xf32>", f"{name} %1", "llvm.store %1")


def test_other_loads_are_not_frozen(run_pass: Callable[..., str]) -> None:
    assert "freeze" not in run_pass("freeze-shuffled-loads", text("%w = llvm.fadd %v, %v : vector<4xf32>"))
