"""predicate-short-accesses: only vectors that fit a scalar register change."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def text(kind: str) -> str:
    return f"""
module {{
  module @k__body {{
    llvm.func @k__body(%p: !llvm.ptr) {{
      %v = llvm.load %p : !llvm.ptr -> {kind}
      llvm.store %v, %p : {kind}, !llvm.ptr
      llvm.return
    }}
  }}
}}"""


@pytest.mark.parametrize(
    ("kind", "count"), [("vector<2xf32>", 2), ("vector<8xi8>", 8), ("vector<4xbf16>", 4), ("vector<2xi8>", 2)]
)
def test_short_accesses_get_a_length(
    run_pass: Callable[..., str], check: Callable[..., None], kind: str, count: int
) -> None:
    check(
        run_pass("predicate-short-accesses", text(kind)),
        f"dense<true> : vector<{count}xi1>",
        f"llvm.mlir.constant({count} : i32)",
        '"llvm.intr.vp.load"(%arg0',
        f"(!llvm.ptr, vector<{count}xi1>, i32) -> {kind}",
        '"llvm.intr.vp.store"(',
        f"({kind}, !llvm.ptr, vector<{count}xi1>, i32) -> ()",
    )


@pytest.mark.parametrize("kind", ["vector<4xf32>", "vector<2xf64>", "vector<16xi8>", "i64", "f32"])
def test_longer_accesses_stay(run_pass: Callable[..., str], check: Callable[..., None], kind: str) -> None:
    output = run_pass("predicate-short-accesses", text(kind))
    check(output, "llvm.load", "llvm.store")
    assert "llvm.intr.vp" not in output
