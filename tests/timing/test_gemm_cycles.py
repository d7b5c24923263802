"""Cycles of matrix products: bounds from bytes and bandwidth, rows and arrays; instruction counts by closed form."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch

import pytorchsim
from pytorchsim.config import load_config
from pytorchsim.target import dtypes
from pytorchsim.templates.array_schedule import instruction_counts
from pytorchsim.templates.gemm_tile import GemmTile


def product(m: int, k: int, n: int, config: Any = "tpuv3", mode: str = "timing") -> dict[str, Any]:
    """The report's row of the kernel; its result is checked where one is computed."""
    torch._dynamo.reset()
    x, w = torch.randn(m, k), torch.randn(k, n)
    compiled = torch.compile(torch.mm, backend="pytorchsim", options={"config": config, "strict": True, "mode": mode})
    result = compiled(x, w)
    if mode != "timing":
        torch.testing.assert_close(result, x @ w, rtol=1e-4, atol=1e-4)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    return dict(kernel)


def floor_cycles(m: int, k: int, n: int) -> float:
    """What neither array nor DRAM of `tpuv3` can beat: each of two 128 x 128 arrays takes a row per cycle for each of
    the k/128 x n/128 blocks of weights; DRAM moves each of three matrices once at 512 bytes per cycle."""
    arrays = m * (k / 128) * (n / 128) / 2
    dram = 4 * (m * k + k * n + m * n) / 512
    return max(arrays, dram)


@pytest.mark.usefixtures("memory")
def test_product_of_512() -> None:
    # Three matrices of 1 MiB at 512 B/cycle: 6144 cycles; the arrays need 512 x 4 x 4 / 2 = 4096.
    # Not hidden: before the first step X and W of half of K and N, 1024 + 512 cycles, with a round trip of 124; after
    # the last step half of Y, 1024 + 124. Between them 4 steps of 512 rows x 2 blocks: 1024 on the arrays, 96 for the
    # weights of the second block (128 less the 32 rows then queued), 383 of fill and drain (128 for the first weights,
    # 255 for the last row): 1503. 1660 + 4 x 1503 + 1148 = 8820. Above that 11 %: control, edges of loops. (A tile that
    # first takes a quarter of K and then half of it starts 768 cycles earlier and fills twice more: about the same.)
    kernel = product(512, 512, 512)
    assert floor_cycles(512, 512, 512) == 6144
    assert 6144 <= kernel["cycles"] <= 9800
    assert kernel["burst_bytes"] == 3 << 20
    assert kernel["tile"]["arrays"] == 2


@pytest.mark.usefixtures("memory")
def test_product_of_2048() -> None:
    # The arrays need 2048 x 16 x 16 / 2 = 262144 cycles, DRAM 98304.
    assert 262_144 <= product(2048, 2048, 2048)["cycles"] <= 1.25 * floor_cycles(2048, 2048, 2048)


@pytest.mark.usefixtures("memory")
def test_product_of_1024() -> None:
    # The arrays need 1024 x 8 x 8 / 2 = 32768 cycles, DRAM 24576.
    assert 32_768 <= product(1024, 1024, 1024)["cycles"] <= 1.4 * floor_cycles(1024, 1024, 1024)


@pytest.mark.parametrize("shape", [(512, 512, 512), (61, 784, 256), (128, 63, 56), (1000, 129, 300)], ids=str)
@pytest.mark.parametrize("config", ["tpuv3", "mobile"])
def test_arrays_do_all_the_multiplying(shape: tuple[int, int, int], config: str) -> None:
    # Executed pushes and pops are those of every step: in each array lanes rows of weights in pieces; of each block of
    # products every vector of rows in once, out once for each slot of columns. Arrays of one slot share what divides
    # (blocks of weights, each in one array) and what is left over (each in all of them).
    m, k, n = shape
    machine = load_config(config)
    kernel = product(m, k, n, config, "functional+timing")
    tile = kernel["tile"]
    vector = min(32, 1 << (m - 1).bit_length())
    lanes = machine.core.lanes
    results = -(-m // tile["m"]) * -(-n // tile["n"])
    pieces = lanes // min(lanes, 32)
    parts, slots = tile["parts"], tile["n"] // lanes

    def of_step(products: int) -> int:
        blocks = products // lanes
        matrices = slots * (blocks // parts * parts + blocks % parts * parts)
        return matrices * pieces + blocks * tile["m"] // vector * (1 + slots)

    first, following = tile["lead"], -(-(k - tile["lead"]) // tile["k"])
    assert kernel["instructions"]["array"] == results * (of_step(first) + following * of_step(tile["k"]))
    step = GemmTile("array", (tile["m"],), slots, (tile["k"],), "x", vector, lanes, parts=parts)
    assert instruction_counts(step, dtypes.F32, machine) == of_step(tile["k"])


def test_the_estimate_is_close() -> None:
    # Tiles are ranked by an estimate; one that is far off ranks wrongly.
    for shape in ((512, 512, 512), (1024, 512, 256), (256, 256, 256), (64, 1024, 1024)):
        kernel = product(*shape)
        chosen = re.match(r"tile chosen .*: (\d+) cycles", kernel["reasons"][0])
        assert chosen, kernel["reasons"]
        estimate = float(chosen[1])
        assert kernel["cycles"] == pytest.approx(estimate, rel=0.05)


def test_few_rows_are_bound_by_their_weights(memory: str) -> None:
    # One row by 1024 x 1024 weights: 4 MiB at 512 B/cycle, 8192 cycles. With banks: a block of weights is a part
    # of each row of W, so that a row of DRAM is opened for eight bursts (docs/memory.md).
    assert 8192 <= product(1, 1024, 1024)["cycles"] <= (1.35 if memory == "banked" else 1.15) * 8192


def test_half_precision_moves_half_the_bytes() -> None:
    torch._dynamo.reset()
    x, w = torch.randn(256, 256).half(), torch.randn(256, 256).half()
    torch.compile(torch.mm, backend="pytorchsim", options={"mode": "timing", "strict": True})(x, w)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    full = product(256, 256, 256)
    assert full["burst_bytes"] == 3 << 18
    assert kernel["burst_bytes"] == 3 << 17
    assert kernel["cycles"] < full["cycles"]
