"""Are the taps of a window, loaded by one transfer, the loads that they stand for?"""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

from pytorchsim.config import load_config
from pytorchsim.target.descriptor import MAX_BOUNDS, MAX_RANK
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.loop_program import Access, AffineIndex, Guard, LoopProgram, Operation, Store
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile_loads import joined_loads
from pytorchsim.templates.tile_search import search
from pytorchsim.templates.window_loads import WindowLoad, window_loads


def program_of(sizes: tuple[int, ...], loads: list[Access]) -> LoopProgram:
    operations = tuple(Operation("load", (), F32, access=access) for access in loads)
    store = Store(Access("out", F32, AffineIndex((1,) * len(sizes))), 0)
    return LoopProgram(sizes, operations, (store,))


def pool(generator: random.Random, rank: int) -> LoopProgram:
    """The loads of a pool over `rank` axes, with guards as they are recorded: cut to what windows reach, and only where
    they say something."""
    extents = [generator.randint(4, 9) for _ in range(rank)]
    kernel, stride, dilation, padding = (
        [generator.randint(low, high) for _ in range(rank)] for low, high in ((1, 3), (1, 3), (1, 2), (0, 2))
    )
    windows = [generator.randint(1, 5) for _ in range(rank)]
    strides = [1]
    for extent in reversed(extents[1:]):
        strides.insert(0, strides[0] * extent)
    loads = []
    for tap in itertools.product(*(range(count) for count in kernel)):
        offset, guards = 0, []
        for axis in range(rank):
            shift = tap[axis] * dilation[axis] - padding[axis]
            offset += shift * strides[axis]
            most = stride[axis] * (windows[axis] - 1)
            low, high = max(0, -shift), min(most, extents[axis] - 1 - shift)
            if (low, high) != (0, most):
                moving = tuple(stride[axis] * int(other == axis) for other in range(rank))
                guards.append(Guard(AffineIndex(moving, -low), max(0, high - low + 1)))
        index = AffineIndex(tuple(s * d for s, d in zip(stride, strides, strict=True)), offset)
        loads.append(Access("x", F32, index, tuple(guards), fill=7))
    generator.shuffle(loads)
    return program_of(tuple(windows), loads)


def element(access: Access, point: tuple[int, ...]) -> int | None:
    """The element that is read at a point; None where a guard does not hold."""

    def at(index: AffineIndex) -> int:
        return index.offset + sum(step * number for step, number in zip(index.strides, point, strict=True))

    return at(access.index) if all(0 <= at(guard.position) < guard.extent for guard in access.guards) else None


def moved(window: WindowLoad, tap: tuple[int, ...]) -> Access:
    """What the descriptor reads for one tap."""
    walked = list(zip(tap, window.axes, strict=True))
    guards = tuple(
        replace(
            guard,
            position=replace(
                guard.position,
                offset=guard.position.offset + sum(count * axis.steps[number] for count, axis in walked),
            ),
        )
        for number, guard in enumerate(window.access.guards)
    )
    index = window.access.index
    shift = sum(count * axis.stride for count, axis in walked)
    return replace(window.access, index=replace(index, offset=index.offset + shift), guards=guards)


def test_taps_read_what_the_loads_do() -> None:
    generator, joined = random.Random(3), 0
    for _ in range(400):
        program = pool(generator, generator.choice([1, 2, 3]))
        for window in window_loads(program):
            joined += 1
            assert set(window.taps) == set(program.loads)
            taps = itertools.product(*(range(axis.count) for axis in window.axes))
            for tap, load in zip(taps, window.taps, strict=True):
                for point in itertools.product(*(range(size) for size in program.sizes)):
                    assert element(moved(window, tap), point) == element(load, point)
    assert joined > 200


def test_every_common_pool_is_a_window() -> None:
    """112 x 112, 3 x 3, stride 2, padding 1: of each axis only the first tap has a guard."""
    loads = []
    for row, column in itertools.product(range(3), repeat=2):
        guards = [Guard(AffineIndex(moving, -1), 110) for moving in ((0, 2, 0),) if row == 0]
        guards += [Guard(AffineIndex((0, 0, 2), -1), 110)] if column == 0 else []
        offset = (row - 1) * 112 + column - 1
        loads.append(Access("x", F32, AffineIndex((112 * 112, 224, 2), offset), tuple(guards)))
    program = program_of((64, 56, 56), loads)
    (window,) = window_loads(program)
    assert [(axis.count, axis.stride) for axis in window.axes] == [(3, 112), (3, 1)]
    assert [(guard.position.offset, guard.extent) for guard in window.access.guards] == [(-1, 112), (-1, 112)]
    assert [axis.steps for axis in window.axes] == [(1, 0), (0, 1)]
    config = load_config("tpuv3")
    tile = search(program, plan_stages(program), config).tile
    assert tile is not None
    windows, alone = joined_loads(program, tile, config.dram.burst_bytes)
    assert windows == (window,)
    assert not alone


def test_what_is_no_window_stays_apart() -> None:
    def loads(*offsets: int, buffer: str = "x", strides: tuple[int, ...] = (20, 2)) -> list[Access]:
        return [Access(buffer, F32, AffineIndex(strides, offset)) for offset in offsets]

    assert not window_loads(program_of((4, 5), loads(0, 1, 3)))  # no grid
    assert not window_loads(program_of((4, 5), [*loads(0), *loads(1, buffer="z"), *loads(1, strides=(20, 4))]))
    fills = [replace(access, fill=number) for number, access in enumerate(loads(0, 1))]
    assert not window_loads(program_of((4, 5), fills))
    # Halves of a row: a window, but one whose taps meet nowhere.
    program = program_of((64, 128), loads(0, 128, strides=(256, 1)))
    assert window_loads(program)
    config = load_config("tpuv3")
    tile = search(program, plan_stages(program), config).tile
    assert tile is not None
    assert joined_loads(program, tile, config.dram.burst_bytes)[0] == ()


def test_tiles_whose_window_no_descriptor_moves_load_taps_apart() -> None:
    """Seven axes and three of taps are too many, unless the tile has one element along some."""
    sizes = (2,) * 7
    strides = tuple(4**axis for axis in reversed(range(7)))
    taps = [a * 1000 + b * 100 + c for a, b, c in itertools.product(range(2), repeat=3)]
    program = program_of(sizes, [Access("x", F32, AffineIndex(strides, tap)) for tap in taps])
    (window,) = window_loads(program)
    assert len(sizes) + len(window.axes) > MAX_RANK > MAX_BOUNDS
    config = load_config("tpuv3")
    tile = search(program, plan_stages(program), config).tile
    assert tile is not None
    windows, alone = joined_loads(program, replace(tile, sizes=sizes), config.dram.burst_bytes)
    assert not windows
    assert len(alone) == len(taps)
