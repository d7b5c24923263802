"""verify-kernel leaves a valid module as it is."""

from __future__ import annotations

from collections.abc import Callable

import pytest


def test_a_valid_kernel_passes_unchanged(
    run_pass: Callable[..., str], kernel_text: Callable[..., str], check: Callable[..., None]
) -> None:
    check(
        run_pass("verify-kernel", kernel_text()), "npu.buffer", "npu.descriptor", "vector.load", "npu.transfer", "call"
    )


@pytest.mark.parametrize(
    "body",
    [
        # Loops over the tile, in every allowed element type.
        """
    %c0 = arith.constant 0 : index
    %c64 = arith.constant 64 : index
    %c16 = arith.constant 16 : index
    scf.for %i = %c0 to %c64 step %c16 {
      %v = vector.load %x[%i] : memref<64xf32>, vector<16xf32>
      vector.store %v, %x[%i] : memref<64xf32>, vector<16xf32>
    }""",
        '%v = "npu.lane_id"() : () -> vector<8xi32>',
        "%v = arith.constant dense<1.0> : vector<64xf32>",  # LMUL 8
        "%v = vector.step : vector<8xindex>\n    %w = arith.index_cast %v : vector<8xindex> to vector<8xi32>",
        "%c = arith.constant dense<true> : vector<256xi1>",
    ],
)
def test_allowed_tile_bodies(run_pass: Callable[..., str], kernel_text: Callable[..., str], body: str) -> None:
    run_pass("verify-kernel", kernel_text(tile=body))
