"""Transfers against the element-by-element model, over generated descriptors; and what the trace says of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from pytorchsim.errors import MachineFault
from pytorchsim.simulator.functional import Machine, Slot
from pytorchsim.target import dtypes
from pytorchsim.target.descriptor import (
    SET_INDEX_TILE,
    SET_SPAD_ADDRESS,
    SET_TAG,
    Axis,
    Bound,
    Descriptor,
    DescriptorFlag,
    IndexTile,
    TransferOp,
)
from pytorchsim.target.dtypes import ALL_DTYPES, Dtype, Kind
from tests.unit.engine.assembler import Assembler, spad
from tests.unit.engine.dma_model import Model
from tests.unit.engine.harness import LANES, SLICE_BYTES, slot, small_machine

REGION = 4096  # bytes of every slice that the tests look at
INDEX_OFFSET = 2048  # index tiles lie in its upper half
DRAM_ELEMENTS = 512
NUMPY_KINDS = {Kind.FLOAT: "f", Kind.SIGNED: "i", Kind.UNSIGNED: "u", Kind.BOOL: "?"}
# The model combines with NumPy, which knows these.
COMBINED = [d for d in ALL_DTYPES if not (d.kind is Kind.FLOAT and (d.bits == 8 or d is dtypes.BF16))]


@dataclass(frozen=True)
class Case:
    """A transfer, the values set for it, and where element 0 lies in the tensor's storage."""

    descriptor: Descriptor
    origins: dict[int, int]
    spad_add: int
    index_add: tuple[int, int]
    first_element: int
    seed: int


@st.composite
def cases(draw: st.DrawFn) -> Case:
    op = draw(st.sampled_from([TransferOp.LOAD] * 3 + list(TransferOp)))
    combining = op not in (TransferOp.LOAD, TransferOp.STORE)
    dtype: Dtype = draw(st.sampled_from(COMBINED if combining else list(ALL_DTYPES)))
    rank = draw(st.integers(1, 5))
    sizes = [draw(st.sampled_from([1, 1, 2, 3, 4, 9, 0] if rank < 3 else [1, 2, 3, 4])) for _ in range(rank)]
    lane_axes = draw(st.sets(st.integers(0, rank - 1), max_size=2))
    if lane_axes:  # long enough to go round the lanes sometimes
        widest = draw(st.sampled_from(sorted(lane_axes)))
        sizes[widest] = draw(st.sampled_from([1, 5, 8, 11, 20]))
    lane_stride = draw(st.sampled_from([1, 1, 2, 3]))
    axes, cells = place(draw, sizes, lane_axes, lane_stride)
    assume(cells * dtype.bytes <= INDEX_OFFSET - 64)
    bounds = tuple(draw(bound(rank)) for _ in range(draw(st.integers(0, 2))))
    tiles = index_tiles(draw, axes, lane_axes) if draw(st.booleans()) and 0 not in sizes else ()
    descriptor = Descriptor(
        slot=0,
        op=op,
        dtype=dtype,
        axes=axes,
        offset=draw(st.integers(-4, 4)),
        spad_address=spad(0),
        lane_stride=lane_stride,
        fill=draw(st.integers(0, 2**64 - 1)),
        bounds=bounds,
        index_tiles=tiles,
    )
    return Case(
        descriptor,
        {axis: draw(st.integers(-3, 3)) for axis in range(rank) if draw(st.booleans())},
        draw(st.sampled_from([0, 32, 64])),
        (draw(st.sampled_from([0, 16])), draw(st.sampled_from([0, 16]))),
        draw(st.sampled_from([0, 100, 256])),
        draw(st.integers(0, 1000)),
    )


def place(draw: st.DrawFn, sizes: list[int], lane_axes: set[int], lane_stride: int) -> tuple[tuple[Axis, ...], int]:
    """Axes with random DRAM strides whose cells do not overlap in the slice, and the elements that they span there."""
    count = int(np.prod([sizes[axis] for axis in lane_axes], dtype=int))
    slots = max((c // (lane_stride * LANES) * lane_stride + c % lane_stride for c in range(count)), default=0) + 1
    order = draw(st.permutations([*(axis for axis in range(len(sizes)) if axis not in lane_axes), -1]))
    strides, step = {}, 1
    for axis in order:
        strides[axis] = step
        step *= (slots if axis == -1 else max(1, sizes[axis])) + draw(st.sampled_from([0, 0, 1]))
    dram_strides = st.sampled_from([0, 1, 1, 2, 5, 9, -1, -3, 17])
    axes = [
        Axis(size, draw(dram_strides), strides[-1 if axis in lane_axes else axis], axis in lane_axes)
        for axis, size in enumerate(sizes)
    ]
    return tuple(axes), step


def bound(rank: int) -> st.SearchStrategy[Bound]:
    steps = st.lists(st.sampled_from([0, 0, 1, 1, 2, -1, 3]), min_size=rank, max_size=rank).map(tuple)
    return st.builds(Bound, st.integers(-4, 4), steps, st.sampled_from([0, 1, 4, 7, 12, 100]))


def index_tiles(draw: st.DrawFn, axes: tuple[Axis, ...], lane_axes: set[int]) -> tuple[IndexTile, ...]:
    tiles = []
    for number in range(draw(st.integers(1, 2))):
        chosen = {axis for axis in range(len(axes)) if axis not in lane_axes and draw(st.booleans())}
        if draw(st.booleans()):
            chosen |= lane_axes
        if chosen:
            extent = draw(st.sampled_from([3, 8, 20]))
            address = spad(INDEX_OFFSET + 1024 * number)
            stride = draw(st.sampled_from([1, 4, -2]))
            tiles.append(
                IndexTile(address, draw(st.booleans()), tuple(sorted(chosen)), stride, extent, draw(st.booleans()))
            )
    return tuple(tiles)


def scratchpad_contents(case: Case, rng: np.random.Generator) -> np.ndarray:
    """[lanes, REGION]: numbers of the dtype, and in the upper half indices that are mostly in range."""
    contents = np.zeros((LANES, REGION), np.uint8)
    contents[:, :INDEX_OFFSET] = random_elements(case.descriptor.dtype, (LANES, INDEX_OFFSET), rng)
    if case.seed % 2:  # for transfers without a lane axis
        contents[:] = contents[0]
    low = -1 if case.seed % 7 == 0 else 0
    for number, tile in enumerate(case.descriptor.index_tiles):
        start = INDEX_OFFSET + 1024 * number
        dtype = np.dtype(np.int64 if tile.wide else np.int32)
        count = 1024 // dtype.itemsize
        low_index = -tile.extent if tile.wrap else low
        lanes_share = not any(case.descriptor.axes[axis].lane for axis in tile.axes)
        values = rng.integers(low_index, tile.extent, (1 if lanes_share else LANES, count), dtype=dtype)
        contents[:, start : start + 1024] = np.broadcast_to(values, (LANES, count)).copy().view(np.uint8)
    return contents


def random_elements(dtype: Dtype, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    lanes, size = shape
    count = size // dtype.bytes
    if dtype.kind is Kind.BOOL:
        return rng.integers(0, 2, shape, dtype=np.uint8)
    if dtype.kind is Kind.FLOAT and dtype in COMBINED:
        return rng.standard_normal((lanes, count)).astype(f"f{dtype.bytes}").view(np.uint8)
    return rng.integers(0, 256, shape, dtype=np.uint8)


def preload(a: Assembler) -> None:
    """Slot 1 into the region of every slice."""
    words = REGION // 8
    axes = (Axis(LANES, words, words, lane=True), Axis(words, 1, 1))
    a.dma_start(31, a.constant(Descriptor(1, TransferOp.LOAD, dtypes.I64, axes, spad_address=spad(0)).encode()))
    a.dma_wait(31)


def transfer(a: Assembler, case: Case) -> None:
    for axis, origin in case.origins.items():
        a.dma_set(axis, origin)
    a.dma_set(SET_SPAD_ADDRESS, case.spad_add)
    for number in range(2):
        a.dma_set(SET_INDEX_TILE + number, case.index_add[number])
    a.dma_set(SET_TAG, 2)
    a.dma_start(3, a.constant(case.descriptor.encode()))
    a.dma_wait(5)


def storage_slot(dram: np.ndarray, case: Case) -> Slot:
    skip = case.first_element * case.descriptor.dtype.bytes
    return Slot(dram.ctypes.data + skip, -skip, dram.nbytes - skip, 0x4000 + skip, case.descriptor.dtype.bytes)


def play(machine: Machine, case: Case, dram: np.ndarray, contents: np.ndarray, mode: Any = "functional+timing") -> Any:
    a = Assembler()
    a.label("k")
    preload(a)
    transfer(a, case)
    a.ret()
    machine.load(a.program())
    words = np.ascontiguousarray(contents).view(np.int64)
    return machine.launch("k", [storage_slot(dram, case), slot(words, dram_address=1 << 20)], mode=mode)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return small_machine()


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(case=cases())
def test_transfers_do_what_the_model_does(machine: Machine, case: Case) -> None:
    rng = np.random.default_rng(case.seed)
    contents = scratchpad_contents(case, rng)
    dram = random_elements(case.descriptor.dtype, (1, DRAM_ELEMENTS * case.descriptor.dtype.bytes), rng)[0].copy()
    start = dram.copy()
    scratchpad = np.full((LANES, SLICE_BYTES), 0xFF, np.uint8)
    scratchpad[:, :REGION] = contents
    model = Model(scratchpad, dram.copy(), case.first_element * case.descriptor.dtype.bytes)
    model.run(case.descriptor, case.origins, case.spad_add, case.index_add)
    if model.faults:
        with pytest.raises(MachineFault) as caught:
            play(machine, case, dram, contents)
        assert caught.value.site.kind in model.faults
        return
    result = play(machine, case, dram, contents)
    assert (dram == model.dram).all()
    for lane in range(LANES):
        assert machine.slice(lane)[:REGION] == model.scratchpad[lane, :REGION].tobytes()
    check_trace(result, case, start, dram)


PATTERNS = {
    "lane-holds-a-row": (1, 40),
    "lanes-along-a-row": (40, 1),
    "both-strided": (50, 2),
    "backwards": (-40, 1),
    "dense-columns": (1, 19),
}


@pytest.mark.parametrize("op", [TransferOp.LOAD, TransferOp.STORE, TransferOp.STORE_ADD], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.I8, dtypes.I16, dtypes.I32, dtypes.F32, dtypes.I64], ids=lambda d: d.name)
@pytest.mark.parametrize("pattern", list(PATTERNS))
def test_tiles_of_usual_shape(machine: Machine, pattern: str, dtype: Dtype, op: TransferOp) -> None:
    """19 rows by 20 positions over 8 lanes, twice, clipped: large enough for the ways that move whole blocks."""
    row_stride, lane_stride = PATTERNS[pattern]
    axes = (Axis(2, 1000, 128), Axis(19, row_stride, 1), Axis(20, lane_stride, 20, lane=True))
    bounds = (Bound(0, (0, 1, 0), 18), Bound(-1, (0, 0, 1), 17))
    offset = 800 if row_stride < 0 else 0
    descriptor = Descriptor(0, op, dtype, axes, offset, spad(0), fill=7, bounds=bounds)
    for lane_run in (1, 2):
        check_tile(machine, replace(descriptor, lane_stride=lane_run))


@pytest.mark.parametrize("op", [TransferOp.LOAD, TransferOp.STORE, TransferOp.STORE_ADD], ids=lambda op: op.name)
@pytest.mark.parametrize("dtype", [dtypes.I8, dtypes.I16, dtypes.F32, dtypes.I64], ids=lambda d: d.name)
@pytest.mark.parametrize("stride", [1, 3, -1])
@pytest.mark.parametrize("first", [-3, -1, 0, -7])
def test_runs_that_are_dense_in_the_lane(
    machine: Machine, stride: int, first: int, dtype: Dtype, op: TransferOp
) -> None:
    """57 positions in runs of 3 over 8 lanes, twice, clipped in the middle of runs: three turns over the lanes."""
    axes = (Axis(2, 500, 16), Axis(57, stride, 1, lane=True))
    bounds = (Bound(first, (0, 1), 50),)
    descriptor = Descriptor(0, op, dtype, axes, 200, spad(0), fill=7, bounds=bounds, lane_stride=3)
    check_tile(machine, descriptor)


def check_tile(machine: Machine, descriptor: Descriptor) -> None:
    """A transfer of random elements against the model."""
    dtype = descriptor.dtype
    case = Case(descriptor, {}, 32, (0, 0), 0, 2)
    rng = np.random.default_rng(len(descriptor.axes))
    contents = np.zeros((LANES, REGION), np.uint8)
    contents[:, :3072] = random_elements(dtype, (LANES, 3072), rng)
    dram = random_elements(dtype, (1, 2048 * dtype.bytes), rng)[0].copy()
    scratchpad = np.full((LANES, SLICE_BYTES), 0xFF, np.uint8)
    scratchpad[:, :REGION] = contents
    model = Model(scratchpad, dram.copy(), 0)
    model.run(case.descriptor, {}, 32)
    play(machine, case, dram, contents)
    assert (dram == model.dram).all()
    for lane in range(LANES):
        assert machine.slice(lane)[:REGION] == model.scratchpad[lane, :REGION].tobytes()


def check_trace(result: Any, case: Case, before: np.ndarray, after: np.ndarray) -> None:
    """The runs of the trace cover what the transfer touched, inside the tensor, and their bytes add up."""
    _, (store, dram_bytes, _, runs) = result.trace.transfers()
    assert store == (case.descriptor.op is not TransferOp.LOAD)
    touched = np.zeros(len(before), bool)
    total = 0
    for base, run_bytes, dims in runs:
        starts = np.array([base - 0x4000])
        for count, stride in dims:
            starts = (starts[:, None] + np.arange(count) * stride).ravel()
        total += run_bytes * len(starts)
        for start in starts:
            assert start >= 0
            assert start + run_bytes <= len(before)
            touched[start : start + run_bytes] = True
    assert total == dram_bytes
    if not store and not case.descriptor.index_tiles:
        assert total == touched.sum()  # what is read several times is fetched once
    assert touched[before != after].all()


def tile(**overrides: Any) -> Descriptor:
    axes = (Axis(4, LANES, 1), Axis(LANES, 1, 4, lane=True))
    return replace(Descriptor(0, TransferOp.LOAD, dtypes.F32, axes, spad_address=spad(0)), **overrides)


def runs_of(machine: Machine, descriptor: Descriptor, **case: Any) -> tuple[int, list[Any]]:
    defaults = {"origins": {}, "spad_add": 0, "index_add": (0, 0), "first_element": 0, "seed": 0}
    dram = np.zeros(DRAM_ELEMENTS * 4, np.uint8)
    result = play(machine, Case(descriptor, **(defaults | case)), dram, np.zeros((LANES, REGION), np.uint8))
    _, (_, dram_bytes, _, runs) = result.trace.transfers()
    return dram_bytes, runs


def test_a_contiguous_tile_is_one_run(machine: Machine) -> None:
    assert runs_of(machine, tile()) == (128, [(0x4000, 128, [])])


def test_a_row_block_is_runs_of_rows(machine: Machine) -> None:
    axes = (Axis(4, 100, 1), Axis(LANES, 1, 4, lane=True))
    assert runs_of(machine, tile(axes=axes)) == (128, [(0x4000, 32, [(4, 400)])])


def test_clipping_shortens_runs(machine: Machine) -> None:
    axes = (Axis(4, 100, 1), Axis(LANES, 1, 4, lane=True))
    bounds = (Bound(0, (1, 0), 3), Bound(0, (0, 1), 5))
    assert runs_of(machine, tile(axes=axes, bounds=bounds)) == (60, [(0x4000, 20, [(3, 400)])])


def test_multicast_is_read_once(machine: Machine) -> None:
    axes = (Axis(4, 0, 1), Axis(LANES, 1, 4, lane=True))
    assert runs_of(machine, tile(axes=axes)) == (32, [(0x4000, 32, [])])


def test_a_negative_stride_runs_upwards(machine: Machine) -> None:
    axes = (Axis(4, -LANES, 1), Axis(LANES, -1, 4, lane=True))
    assert runs_of(machine, tile(axes=axes, offset=31)) == (128, [(0x4000, 128, [])])


def test_windows_are_fetched_once(machine: Machine) -> None:
    """Three window rows over eight positions each meet in the same rows, with padding cut off by a bound or without."""
    axes = (Axis(3, 8, LANES), Axis(LANES, 8, 1), Axis(8, 1, 24, lane=True))
    bounds = (Bound(-1, (1, 1, 0), LANES),)
    assert runs_of(machine, tile(axes=axes, bounds=bounds, offset=-8)) == (8 * 32, [(0x4000, 8 * 32, [])])
    assert runs_of(machine, tile(axes=axes)) == (10 * 32, [(0x4000, 10 * 32, [])])


def test_strided_windows_are_fetched_once(machine: Machine) -> None:
    """Windows of three rows at every other row meet in one row each; of one row they do not meet. Rows of 8 of 40
    elements: 2 * 3 + 1 + 2 = 9 rows, or 4."""
    windows = (Axis(3, 40, 32), Axis(4, 80, 8), Axis(8, 1, 1, lane=True))
    assert runs_of(machine, tile(axes=windows)) == (9 * 32, [(0x4000, 32, [(9, 160)])])
    assert runs_of(machine, tile(axes=windows[1:])) == (4 * 32, [(0x4000, 32, [(4, 320)])])


def test_scatter_add_of_duplicates_adds_in_order(machine: Machine) -> None:
    """1e8 + 1 - 1e8 depends on the order of additions."""
    axes = (Axis(3, 0, 1), Axis(LANES, 1, 3, lane=True))
    tiles = (IndexTile(spad(INDEX_OFFSET), False, (0,), LANES, 4),)
    scatter = tile(op=TransferOp.STORE_ADD, axes=axes, index_tiles=tiles)
    contents = np.zeros((LANES, REGION), np.uint8)
    contents[:, :12] = np.array([1e8, 1, -1e8], np.float32).view(np.uint8)
    contents[:, INDEX_OFFSET : INDEX_OFFSET + 12] = np.array([2, 2, 2], np.int32).view(np.uint8)
    dram = np.zeros(4 * LANES, np.float32)
    play(machine, Case(scatter, {}, 0, (0, 0), 0, 0), dram.view(np.uint8), contents, "functional")
    expected = np.float32(np.float32(1e8) + np.float32(1)) - np.float32(1e8)
    assert (dram[2 * LANES : 3 * LANES] == expected).all()
    assert not dram[: 2 * LANES].any()


def test_local_transpose(machine: Machine) -> None:
    """X[m in the lane, k over lanes] to X[k in the lane, m over lanes]."""
    per_lane = SLICE_BYTES // 4
    axes = (Axis(LANES, per_lane, 1), Axis(LANES, 1, LANES, lane=True))
    local = tile(axes=axes, offset=spad(0), spad_address=spad(512), flags=DescriptorFlag.LOCAL)
    contents = np.zeros((LANES, REGION), np.uint8)
    matrix = np.arange(LANES * LANES, dtype=np.float32).reshape(LANES, LANES)  # [k, m]
    contents[:, : 4 * LANES] = matrix.view(np.uint8)
    scratchpad = np.full((LANES, SLICE_BYTES), 0xFF, np.uint8)
    scratchpad[:, :REGION] = contents
    model = Model(scratchpad, np.zeros(4, np.uint8), 0)
    model.run(local, {})
    result = play(machine, Case(local, {}, 0, (0, 0), 0, 0), np.zeros(64, np.uint8), contents)
    got = np.stack([np.frombuffer(machine.slice(lane)[512 : 512 + 4 * LANES], np.float32) for lane in range(LANES)])
    assert (got == matrix.T).all()
    assert (model.scratchpad[:, 512 : 512 + 4 * LANES] == got.view(np.uint8)).all()
    assert result.trace.transfers()[1][1] == 0


def test_local_transfer_onto_itself_is_refused(machine: Machine) -> None:
    axes = (Axis(LANES, SLICE_BYTES // 4, 1), Axis(LANES, 1, LANES, lane=True))
    local = tile(axes=axes, offset=spad(0), spad_address=spad(0), flags=DescriptorFlag.LOCAL)
    with pytest.raises(MachineFault, match="overlaps its own source"):
        play(machine, Case(local, {}, 0, (0, 0), 0, 0), np.zeros(64, np.uint8), np.zeros((LANES, REGION), np.uint8))


def test_timing_mode_makes_up_indices_and_says_so(machine: Machine) -> None:
    axes = (Axis(4, 0, 1), Axis(LANES, 1, 4, lane=True))
    tiles = (IndexTile(spad(INDEX_OFFSET), False, (0,), LANES, 3),)
    case = Case(tile(axes=axes, index_tiles=tiles), {}, 0, (0, 0), 0, 0)
    contents = np.full((LANES, REGION), 0x77, np.uint8)
    result = play(machine, case, np.zeros(64 * LANES, np.uint8), contents, "timing")
    assert result.assumed_indices == 4
    assert [base for base, _, _ in result.trace.transfers()[1][3]] == [0x4000 + 32 * row for row in (0, 1, 2, 0)]
