"""Attributes and descriptors are one to one."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from mlir import ir

from pytorchsim.mlir.descriptor_attributes import DescriptorBuffers, descriptor_attributes, descriptor_of
from pytorchsim.mlir.dialect import npu_context
from pytorchsim.target.descriptor import (
    MAX_BOUNDS,
    MAX_INDEX_TILES,
    MAX_RANK,
    Axis,
    Bound,
    Descriptor,
    DescriptorFlag,
    IndexTile,
    TransferOp,
)
from pytorchsim.target.dtypes import ALL_DTYPES

CONTEXT = npu_context()
I64 = st.integers(-(2**63), 2**63 - 1)


@st.composite
def descriptors(draw: st.DrawFn) -> tuple[Descriptor, DescriptorBuffers]:
    rank = draw(st.integers(1, MAX_RANK))
    group_stride = draw(I64)
    axes = []
    for _ in range(rank):
        lane = draw(st.booleans())
        axes.append(Axis(draw(st.integers(0, 2**32 - 1)), draw(I64), group_stride if lane else draw(I64), lane))
    bounds = draw(st.lists(st.builds(Bound, I64, st.tuples(*[I64] * rank), I64), max_size=MAX_BOUNDS))
    tiles = draw(
        st.lists(
            st.builds(
                IndexTile,
                st.integers(0, 2**31),
                st.booleans(),
                st.lists(st.integers(0, rank - 1), unique=True, max_size=rank).map(tuple),
                I64,
                I64,
                st.booleans(),
            ),
            max_size=MAX_INDEX_TILES,
        )
    )
    local = draw(st.booleans())
    descriptor = Descriptor(
        slot=draw(st.integers(0, 65535)),
        op=draw(st.sampled_from(TransferOp)),
        dtype=draw(st.sampled_from(ALL_DTYPES)),
        axes=tuple(axes),
        offset=draw(I64),
        spad_address=draw(st.integers(0, 2**62)),
        lane_stride=draw(st.integers(1, 2**32 - 1)),
        fill=draw(st.integers(0, 2**64 - 1)),
        bounds=tuple(bounds),
        index_tiles=tuple(tiles),
        flags=DescriptorFlag.LOCAL if local else DescriptorFlag.NONE,
    )
    names = st.sampled_from([None, "k.a", "k.b"])
    buffers = DescriptorBuffers(tuple(draw(names) for _ in tiles), draw(names) if local else None)
    return descriptor, buffers


@settings(deadline=None, max_examples=60)
@given(descriptors())
def test_round_trip_through_text(case: tuple[Descriptor, DescriptorBuffers]) -> None:
    descriptor, buffers = case
    with CONTEXT, ir.Location.unknown():
        attributes = descriptor_attributes(descriptor, buffers)
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            ir.Operation.create("npu.descriptor", attributes={"sym_name": ir.StringAttr.get("k.d"), **attributes})
        parsed = ir.Module.parse(str(module)).body.operations[0].operation.attributes
        assert descriptor_of({name: parsed[name] for name in parsed}) == (descriptor, buffers)
