"""Buffers of timing mode: no result, of any size and dtype, and no memory for what nobody touches."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from pytorchsim.runtime.timing_buffers import unwritten_strided_cpu

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2)
OTHERS = (torch.int8, torch.int64, torch.bool, torch.uint8)

SHAPES = [((0, 4), (4, 1)), ((), ()), ((3, 4), (4, 1)), ((300, 1000), (1000, 1)), ((300, 1000), (1, 304))]
"""Sizes and strides; the last two are large enough to be mapped."""


@pytest.mark.parametrize(("size", "stride"), SHAPES)
@pytest.mark.parametrize("dtype", [*FLOATS, *OTHERS, torch.complex64])
def test_nothing_that_could_be_a_result(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> None:
    buffer, plain = unwritten_strided_cpu(size, stride, dtype), torch.empty_strided(size, stride, dtype=dtype)
    assert (buffer.shape, buffer.stride(), buffer.dtype) == (plain.shape, plain.stride(), dtype)
    assert buffer.untyped_storage().nbytes() == plain.untyped_storage().nbytes()  # what DRAM addresses depend on
    values = buffer if dtype.is_complex else buffer.double()
    assert values.isnan().all() if dtype in FLOATS or dtype.is_complex else not values.any()


def test_what_is_written_is_the_buffers_own() -> None:
    one, two = (unwritten_strided_cpu((512, 1024), (1024, 1), torch.float32) for _ in range(2))
    one.fill_(3)
    assert (one == 3).all()
    assert two.isnan().all()
    assert unwritten_strided_cpu((512, 1024), (1024, 1), torch.float32).isnan().all()


def test_many_buffers_need_one_ones_memory_and_no_descriptors() -> None:
    def now() -> tuple[int, int]:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE"), len(os.listdir("/proc/self/fd"))

    unwritten_strided_cpu((2048, 1024), (1024, 1), torch.float32)
    bytes_before, descriptors_before = now()
    buffers = [unwritten_strided_cpu((2048, 1024), (1024, 1), torch.float32) for _ in range(200)]
    bytes_after, descriptors_after = now()
    assert bytes_after - bytes_before < 8 << 20  # 200 x 8 MiB, of which nobody touches any
    assert descriptors_after == descriptors_before
    assert buffers[199][2047].isnan().all()
