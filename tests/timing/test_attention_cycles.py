"""Cycles and traffic of attention: bounds from bytes, rows, weights and exponentials."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.nn import functional

import pytorchsim

pytestmark = pytest.mark.usefixtures("memory")


def attention(heads: int, queries: int, keys: int, size: int, groups: int = 0, **options: Any) -> dict[str, Any]:
    """The report's row of the only kernel. `groups`: heads of keys and values, in float16."""
    torch._dynamo.reset()
    dtype = torch.float16 if groups else torch.float32
    shapes = [(heads, queries), (groups or heads, keys), (groups or heads, keys)]
    tensors = [torch.randn(1, count, length, size, dtype=dtype) for count, length in shapes]

    def attend(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return functional.scaled_dot_product_attention(q, k, v, enable_gqa=groups > 0, **options)

    compiled = torch.compile(
        attend, backend="pytorchsim", fullgraph=True, options={"config": "tpuv3", "strict": True, "mode": "timing"}
    )
    compiled(*tensors)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    return dict(kernel)


def test_bytes_are_operands_and_result_once() -> None:
    # Q, K, V and O: 4 x 12 x 512 x 64 floats.
    minimum = 4 * 12 * 512 * 64 * 4
    assert minimum <= attention(12, 512, 512, 64)["burst_bytes"] <= 1.1 * minimum


def test_attention_of_12_heads_of_512() -> None:
    # Per head 4 blocks of 128 queries. One array: 512 rows of keys per block and 128 cycles for the block's weights,
    # which cannot load while 256 results in flight fill the queue: 640. The other: weights of 4 blocks of keys, 128
    # cycles each (their 64 rows of values pass meanwhile): 512. Shared by two arrays: (640 + 512) / 2 = 576 per block.
    # Exponentials: 512 per lane and block. DRAM: 6 MiB / 512 B = 12288 cycles in all.
    floor = 12 * 4 * 576
    assert floor == 27_648
    # Where the cycles go: a pair of blocks takes 145 (128 exponentials, 4 for the factor, 13 more in the piece that
    # also pushes values), 192 x 145 = 27840; before a block of queries the array waits for 128 + 255 cycles of its
    # weights and results, of which two pairs hide 290: 48 x 93 = 4464. Filling and draining the pipeline 3 x 880,
    # dividing by totals 3 x 680, first loads and last stores 4400. In all 41384.
    assert floor <= attention(12, 512, 512, 64)["cycles"] <= 1.5 * floor


def test_causal_leaves_out_tiles_of_keys() -> None:
    # Of 4 x 4 tiles of 512 x 512 the 6 above the diagonal are neither loaded nor computed: 10 / 16 of the steps; the 4
    # on the diagonal, where positions are compared, take about twice as long: 14 / 16.
    full, causal = attention(2, 2048, 2048, 64), attention(2, 2048, 2048, 64, is_causal=True)
    assert causal["tile"]["queries"] == causal["tile"]["keys"] == 512
    assert causal["cycles"] <= 0.9 * full["cycles"]


def test_decode_reads_the_cache_once() -> None:
    minimum = 2 * 4 * 4096 * 64 * 4
    assert minimum <= attention(4, 1, 4096, 64)["burst_bytes"] <= 1.1 * minimum


def test_a_token_of_grouped_heads() -> None:
    # The floor is the DRAM's: keys and values of 8 heads, 2 x 8 x 4096 x 128 halves at 512 B per cycle. A group's four
    # heads are queries of one step: 8 x 32 pairs of blocks. A pair takes 340 cycles instead of the 128 that its bytes
    # take: 4 of 128 lanes are used, but weights load for all, and sums of 128 elements wait for their array.
    floor = 2 * 8 * 4096 * 128 * 2 // 512
    kernel = attention(32, 1, 4096, 128, groups=8)
    assert kernel["burst_bytes"] <= 1.01 * floor * 512
    assert floor <= kernel["cycles"] <= 2.95 * floor
