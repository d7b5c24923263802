"""Footprints of transfers against an enumeration of every element (docs/kernel_abi.md, DMA descriptor)."""

from __future__ import annotations

from itertools import product
from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytorchsim.mlir.passes.transfer_footprint import footprint_bytes, index_tile_bytes, slots_per_lane
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import Axis, Descriptor, IndexTile, TransferOp


def touched(descriptor: Descriptor, lanes: int) -> set[int]:
    """Bytes from the pointer that any lane touches, element by element."""
    found: set[int] = set()
    for index in product(*(range(axis.size) for axis in descriptor.axes)):
        position, element, stride = 0, 0, 0
        for axis, at in zip(descriptor.axes, index, strict=True):
            if axis.lane:
                position, stride = position * axis.size + at, axis.spad_stride
            else:
                element += axis.spad_stride * at
        run = descriptor.lane_stride
        slot = position // (run * lanes) * run + position % run
        start = descriptor.spad_address + descriptor.dtype.bytes * (slot * stride + element)
        found.update(range(start, start + descriptor.dtype.bytes))
    return found


@st.composite
def descriptors(draw: st.DrawFn) -> Descriptor:
    group = draw(st.integers(0, 12))
    axes = []
    for _ in range(draw(st.integers(1, 3))):
        lane = draw(st.booleans())
        axes.append(Axis(draw(st.integers(0, 7)), 1, group if lane else draw(st.integers(-3, 9)), lane))
    return Descriptor(
        slot=0,
        op=TransferOp.LOAD,
        dtype=draw(st.sampled_from([dtypes.I8, dtypes.F32, dtypes.I64])),
        axes=tuple(axes),
        spad_address=draw(st.sampled_from([0, 64])),
        lane_stride=draw(st.integers(1, 4)),
    )


@settings(deadline=None, max_examples=200)
@given(descriptors(), st.sampled_from([2, 4, 8]))
def test_footprint(descriptor: Descriptor, lanes: int) -> None:
    elements = touched(descriptor, lanes)
    expected = (min(elements), max(elements) + 1) if elements else (0, 0)
    assert footprint_bytes(descriptor, lanes) == expected


@pytest.mark.parametrize(
    ("size", "run", "slots"),
    [
        (8, 1, 1),  # one each
        (9, 1, 2),  # lane 0 has two
        (16, 2, 2),
        (17, 2, 3),  # a second block of 16 begins
        (3, 4, 3),  # not even one run
        (32, 4, 4),
    ],
)
def test_slots_per_lane(size: int, run: int, slots: int) -> None:
    descriptor = Descriptor(0, TransferOp.LOAD, dtypes.F32, (Axis(size, 1, 1, lane=True),), lane_stride=run)
    assert slots_per_lane(descriptor, 8) == slots


def test_index_tile() -> None:
    tiles = (IndexTile(0, True, (0,), 1, 4), IndexTile(0, False, (0, 1), 1, 4))
    axes = (Axis(5, 1, 1), Axis(20, 1, 5, lane=True))
    descriptor = Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, index_tiles=tiles)
    assert index_tile_bytes(descriptor, 0, 8) == prod((5, 8))
    assert index_tile_bytes(descriptor, 1, 8) == prod((5, 3, 4))  # 20 over 8 lanes: 3 slots
