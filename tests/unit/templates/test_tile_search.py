"""Does the tile search cover the space, keep to the budget, and say why it refuses?"""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytorchsim.config.model import CoreConfig, NpuConfig
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.footprint import TemplateFootprint
from pytorchsim.templates.loop_buffers import loop_footprint
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.tile_search import TileSearch, search

TPU = NpuConfig()
TINY = NpuConfig(name="small", core=CoreConfig(lanes=8, scratchpad_bytes_per_lane=4096, stack_reserve_bytes=512))


def _contiguous(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(sizes[axis + 1 :]) for axis in range(len(sizes)))


def _add(sizes: tuple[int, ...], *strides: tuple[int, ...], inputs: int = 2) -> LoopProgram:
    walks = [*strides, *[_contiguous(sizes)] * (inputs - len(strides))]
    loads = tuple(
        Operation("load", (), F32, access=Access(f"in{n}", F32, AffineIndex(walk))) for n, walk in enumerate(walks)
    )
    sums = tuple(Operation("add", (len(loads) + n - 1 if n else 0, n + 1), F32) for n in range(len(loads) - 1))
    out = Access("out", F32, AffineIndex(_contiguous(sizes)))
    return LoopProgram(sizes, loads + sums, (Store(out, len(loads + sums) - 1),))


def _sum(rows: int, length: int) -> LoopProgram:
    load = Operation("load", (), F32, access=Access("x", F32, AffineIndex((length, 1))))
    return LoopProgram(
        (rows, length),
        (load, Operation("reduce", (0,), F32, reduction="sum")),
        (Store(Access("out", F32, AffineIndex((1, 0))), 1),),
        reduced=1,
    )


def _search(program: LoopProgram, config: NpuConfig) -> TileSearch:
    return search(program, plan_stages(program), config)


def _footprint(program: LoopProgram, tile: Tile, config: NpuConfig) -> TemplateFootprint:
    return loop_footprint(program, tile, plan_stages(program), config)


@pytest.mark.parametrize("config", [TPU, TINY], ids=lambda config: config.name)
@pytest.mark.parametrize("sizes", [(1,), (470,), (4071 * 429,), (47, 10), (3, 5, 7, 2), (1, 100000)])
def test_every_shape_has_a_tile_within_budget(config: NpuConfig, sizes: tuple[int, ...]) -> None:
    program = _add(sizes, (0,) * len(sizes))
    tile = _search(program, config).tile
    assert tile is not None
    used = _footprint(program, tile, config)
    assert used.total_bytes <= config.core.scratchpad_bytes_per_lane
    assert used.step_bytes <= config.core.scratchpad_bytes_per_lane // 2
    assert tile.sizes[tile.lane_axis] == tile.lane_run * config.core.lanes
    assert tile.vector_elements >= 2
    assert tile.pitch % tile.vector_elements == 0


def test_footprint_is_a_closed_form() -> None:
    program = _add((470,))
    tile = _search(program, TPU).tile
    assert tile is not None
    # 470 elements over 128 lanes: a run of 4 per lane covers 512. 4 f32 are 16 bytes, a buffer is 64-byte aligned.
    assert tile.lane_run == 4
    used = _footprint(program, tile, TPU)
    assert used.total_bytes == 2 * 3 * 64 + TPU.core.stack_reserve_bytes
    assert set(used.shares) == {"in0", "in1", "out0", "stack"}


def test_refusals_are_counted_and_the_smallest_is_kept() -> None:
    found = _search(_add((1000,), inputs=40), TINY)
    assert found.tile is None
    assert "all copies exceed the slice" in found.rejected
    assert found.smallest_footprint.total_bytes > 4096


def test_transposed_input_is_not_walked_element_by_element() -> None:
    tile = _search(_add((512, 512), (1, 512)), TPU).tile
    assert tile is not None
    assert min(tile.sizes) >= 8  # both walks get runs of whole bursts: 8 f32 are 32 bytes


def test_more_stores_than_operations_are_costed() -> None:
    load = Operation("load", (), F32, access=Access("x", F32, AffineIndex((1,))))
    stores = tuple(Store(Access(f"out{n}", F32, AffineIndex((1,))), 0) for n in range(4))
    found = _search(LoopProgram((500,), (load,), stores), TPU)
    assert found.tile is not None
    assert found.cycles < math.inf


def test_many_rows_stay_whole_and_apart() -> None:
    tile = _search(_sum(2048, 768), TPU).tile
    assert tile is not None
    assert not tile.folds_lanes
    assert not tile.streams((2048, 768))


def test_a_single_row_is_spread_over_the_lanes() -> None:
    tile = _search(_sum(1, 8192), TPU).tile
    assert tile is not None
    assert tile.folds_lanes
    assert not tile.streams((1, 8192))


def test_a_row_longer_than_the_scratchpad_is_streamed() -> None:
    program = _sum(1, 1 << 20)
    tile = _search(program, TINY).tile
    assert tile is not None
    assert tile.streams(program.sizes)
    assert "acc1_0" in _footprint(program, tile, TINY).shares


@settings(max_examples=50)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=4))
def test_the_tiles_cover_the_space(extents: list[int]) -> None:
    tile = _search(_add(tuple(extents)), TINY).tile
    assert tile is not None
    covered = [count * size for count, size in zip(tile.counts(tuple(extents)), tile.sizes, strict=True)]
    assert all(whole >= extent for whole, extent in zip(covered, extents, strict=True))
