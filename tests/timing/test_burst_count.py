"""Bursts touched by a strided block, against a count of every byte."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytorchsim import _native

Dims = list[tuple[int, int]]


def brute_force(base: int, run_bytes: int, dims: Dims, burst_bytes: int) -> int:
    bursts = set()
    for position in itertools.product(*[range(count) for count, _ in dims]):
        start = base + sum(index * stride for index, (_, stride) in zip(position, dims, strict=True))
        bursts.update(byte // burst_bytes for byte in range(start, start + run_bytes))
    return len(bursts)


@pytest.mark.parametrize(
    ("base", "run_bytes", "dims", "bursts"),
    [
        (0, 128, [], 4),
        (31, 2, [], 2),  # across an edge
        (0, 4, [(64, 8)], 16),  # every other float: 508 bytes are spanned
        (0, 4, [(8, 64)], 8),  # one float per 64 bytes
        (100, 4, [(8, 0)], 1),  # one address again and again
        (0, 4, [(3, 0), (16, 4)], 2),  # a row, three times
        (60, 4, [(16, -4)], 2),  # backwards
        (0, 40, [(47, 40)], 59),  # rows that touch: 1880 bytes
        (0, 12, [(47, 1716)], 59),  # offsets 0 20 8 28 16 4 24 12 mod 32; 28 and 24 cross an edge: 47 + 6 + 6
        (0, 0, [(4, 64)], 0),
        (0, 4, [(0, 64)], 0),
    ],
)
def test_known_counts(base: int, run_bytes: int, dims: Dims, bursts: int) -> None:
    assert _native.count_bursts((base, run_bytes, dims), 32) == bursts


@settings(max_examples=300, deadline=None)
@given(
    base=st.integers(1000, 1200),
    run_bytes=st.integers(1, 70),
    inner=st.tuples(st.integers(1, 9), st.integers(-150, 150)),
    outer=st.tuples(st.integers(1, 5), st.integers(-9, 9)),
    burst_bytes=st.sampled_from([16, 32, 64]),
)
def test_nested_strides(
    base: int, run_bytes: int, inner: tuple[int, int], outer: tuple[int, int], burst_bytes: int
) -> None:
    # The outer stride clears the inner block, as rows of a tensor do: the count is exact.
    block = abs(inner[1]) * (inner[0] - 1) + run_bytes
    dims = [(outer[0], outer[1] * (block + burst_bytes)), inner]
    base += 100_000  # strides may be negative
    assert _native.count_bursts((base, run_bytes, dims), burst_bytes) == brute_force(base, run_bytes, dims, burst_bytes)


@settings(max_examples=300, deadline=None)
@given(
    base=st.integers(100_000, 100_100),
    run_bytes=st.integers(1, 70),
    dims=st.lists(st.tuples(st.integers(1, 6), st.integers(-200, 200)), max_size=3),
)
def test_interleaved_strides_are_never_undercounted(base: int, run_bytes: int, dims: Dims) -> None:
    assert _native.count_bursts((base, run_bytes, dims), 32) >= brute_force(base, run_bytes, dims, 32)


def test_blocks_that_meet_in_a_burst_share_it() -> None:
    trace = _native.Trace()
    trace.start(0, False, [(0, 48, []), (48, 16, []), (64, 4, [])])  # bursts 0 1 | 1 | 2
    trace.wait(0)
    params = _native.TimingParams()
    assert _native.simulate(params, [trace]).dma[0].bursts_read == 3
