"""Is a convolution, written as a product of windows, the convolution? Is every tile tried and the cheapest taken?"""

from __future__ import annotations

import itertools
import math
import random

import numpy as np
import pytest
import torch
from torch.nn import functional

from pytorchsim.config import load_config
from pytorchsim.target.dtypes import F32, F64
from pytorchsim.templates.convolution_problem import Convolution, Direction, TensorPlace, convolution_problems
from pytorchsim.templates.footprint import BUFFER_GRANULE_BYTES
from pytorchsim.templates.gemm_cost import cost_of
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Part
from pytorchsim.templates.gemm_search import search_gemm
from pytorchsim.templates.gemm_tile import GemmTile

DIRECTIONS: tuple[Direction, ...] = ("forward", "input", "weight")


def random_convolution(generator: random.Random, rank: int, extent: int = 6) -> Convolution:
    """Of any legal parameters."""
    kernel, stride, dilation, padding = (
        tuple(generator.randint(low, high) for _ in range(rank)) for low, high in ((1, 3), (1, 4), (1, 4), (0, 2))
    )
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    inputs = tuple(max(generator.randint(1, extent), span - 2 * p) for span, p in zip(spans, padding, strict=True))
    outputs = tuple(
        (size + 2 * p - span) // step + 1 for size, p, span, step in zip(inputs, padding, spans, stride, strict=True)
    )
    sizes = (generator.randint(1, 3) for _ in range(4))
    batch, groups, in_channels, out_channels = sizes
    return Convolution(batch, groups, in_channels, out_channels, inputs, outputs, kernel, stride, padding, dilation)


def shapes_of(sizes: Convolution) -> dict[str, tuple[int, ...]]:
    image = (sizes.batch, sizes.groups * sizes.in_channels, *sizes.inputs)
    weight = (sizes.groups * sizes.out_channels, sizes.in_channels, *sizes.kernel)
    return {"image": image, "weight": weight, "output": (sizes.batch, weight[0], *sizes.outputs)}


def place(shape: tuple[int, ...], generator: random.Random) -> TensorPlace:
    """Dense strides in some order of axes, from some element on."""
    order, strides, step = list(range(len(shape))), [0] * len(shape), 1
    generator.shuffle(order)
    for axis in order:
        strides[axis] = step
        step *= shape[axis]
    return TensorPlace(tuple(strides), generator.randint(0, 5))


def problems_of(
    direction: Direction, sizes: Convolution, generator: random.Random, config: str = "tpuv3"
) -> tuple[tuple[GemmProblem, ...], tuple[TensorPlace, ...], tuple[str, ...]]:
    names = {"forward": ("image", "weight", "output"), "input": ("output", "weight", "image"),
             "weight": ("image", "output", "weight")}[direction]  # fmt: skip
    places = tuple(place(shapes_of(sizes)[name], generator) for name in names)
    dtype = F32 if generator.random() < 0.7 else F64
    first, second, third = places
    problems = convolution_problems(direction, sizes, (first, second, third), (dtype, dtype), load_config(config))
    return problems, places, names


def point_indices(problem: GemmProblem, part: Part) -> tuple[np.ndarray, np.ndarray]:
    """Element numbers over the part's frame, and whether they exist."""
    frame = problem.frame(part)
    guards = {"x": problem.x_guards, "w": problem.w_guards, "y": problem.y_guards}[part]

    def affine(strides: tuple[int, ...], offset: int) -> np.ndarray:
        total = np.full(frame, offset)
        for axis, stride in enumerate(strides):
            shape = [1] * len(frame)
            shape[axis] = frame[axis]
            total = total + stride * np.arange(frame[axis]).reshape(shape)
        return total

    exists = np.ones(frame, bool)
    for guard in guards:
        position = affine(guard.position.strides, guard.position.offset)
        exists &= (position >= 0) & (position < guard.extent)
    index = problem.index(part)
    return affine(index.strides, index.offset), exists


def evaluated(problems: tuple[GemmProblem, ...], x: np.ndarray, w: np.ndarray, size: int) -> np.ndarray:
    """The products by their definition: Y over (b, m, n), scattered to where it lies. Each element is stored once."""
    y, known = np.full(size, np.nan), 0
    for problem in problems:
        groups: dict[str, np.ndarray] = {}
        for part, memory in (("x", x), ("w", w)):
            elements, exists = point_indices(problem, part)  # type: ignore[arg-type]
            values = np.where(exists, memory[np.where(exists, elements, 0)], 0.0)
            sizes = [math.prod(problem.axes(role)) for role in problem.roles(part)]  # type: ignore[arg-type]
            groups[part] = values.reshape(sizes)
        order = problem.roles("x")
        total = np.einsum("bmk,bnk->bnm", groups["x"].transpose([order.index(r) for r in "bmk"]), groups["w"])
        elements, exists = point_indices(problem, "y")
        stored = elements[exists]
        known += len(stored)
        y[stored] = total.reshape(problem.frame("y"))[exists]
        assert np.count_nonzero(~np.isnan(y)) == known
    return y


def in_memory(tensor: torch.Tensor, where: TensorPlace) -> np.ndarray:
    memory = torch.zeros(tensor.numel() + where.offset, dtype=torch.float64)
    memory.as_strided(tensor.shape, where.strides, where.offset).copy_(tensor)
    return memory.numpy()


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_the_product_is_the_convolution(direction: Direction, rank: int) -> None:
    generator = random.Random(f"{direction}{rank}")
    convolve = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[rank]
    for _ in range(40):
        sizes = random_convolution(generator, rank)
        problems, places, names = problems_of(direction, sizes, generator)
        shapes = shapes_of(sizes)
        tensors = {name: torch.randn(shapes[name], dtype=torch.float64) for name in ("image", "weight")}
        image, weight = (tensors[name].requires_grad_() for name in ("image", "weight"))
        output = convolve(image, weight, None, sizes.stride, sizes.padding, sizes.dilation, sizes.groups)
        tensors["output"] = torch.randn_like(output)
        expected = {"forward": output, "input": image, "weight": weight}[direction]
        if direction != "forward":
            (expected,) = torch.autograd.grad(output, [expected], tensors["output"])
        x, w = (in_memory(tensors[name].detach(), where) for name, where in zip(names[:2], places[:2], strict=True))
        y = evaluated(problems, x, w, expected.numel() + places[2].offset)
        actual = torch.from_numpy(y).as_strided(expected.shape, places[2].strides, places[2].offset)
        torch.testing.assert_close(actual, expected.detach())


def test_a_window_of_one_element_is_a_plain_product() -> None:
    """1 x 1, contiguous images with channels last: one axis of rows, one of products, no guards."""
    sizes = Convolution(4, 1, 16, 32, (7, 9), (7, 9), (1, 1), (1, 1), (0, 0), (1, 1))
    images, weights = TensorPlace((16 * 63, 1, 16 * 9, 16), 0), TensorPlace((16, 1, 1, 1), 0)
    outputs = TensorPlace((32 * 63, 1, 32 * 9, 32), 0)
    (problem,) = convolution_problems("forward", sizes, (images, weights, outputs), (F32, F32), load_config("tpuv3"))
    assert problem.simple
    assert (problem.m_axes, problem.n, problem.k_axes) == ((4 * 63,), 32, (16,))


def test_groups_lie_over_the_lanes_where_that_is_faster() -> None:
    def body(groups: int, per_group: int) -> str:
        sizes = Convolution(2, groups, per_group, per_group, (56, 56), (56, 56), (3, 3), (1, 1), (1, 1), (1, 1))
        place_ = TensorPlace((groups * per_group * 56 * 56, 56 * 56, 56, 1), 0)
        weights = TensorPlace((per_group * 9, 9, 3, 1), 0)
        places = place_, weights, place_
        (problem,) = convolution_problems("forward", sizes, places, (F32, F32), load_config("tpuv3"))
        return problem.body

    # Depthwise: 96 x 9 products on lanes of 8 per cycle; on arrays 96 matrices of one column.
    assert body(96, 1) == "batch"
    # 2 groups of 64 channels: lanes would multiply 64 x 64 x 9 per position, arrays 5 rows.
    assert body(2, 64) == "array"


def cut(extent: int) -> set[int]:
    parts = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
    return {-(-extent // part) for part in parts} | {1}


def tuples(axes: tuple[int, ...], unit: int, *, sliced: bool) -> set[tuple[int, ...]]:
    """Outer axes one by one, one axis cut, inner ones whole; `sliced`: or one axis cut and all others whole."""
    if len(axes) == 1:
        return {(-(-size // unit) * unit,) for size in cut(axes[0])}
    found = set()
    for sizes in itertools.product(*(sorted(cut(extent)) for extent in axes)):
        nested = any(
            all(size == 1 for size in sizes[:at]) and sizes[at + 1 :] == axes[at + 1 :] for at in range(len(axes))
        )
        others = sum(size != extent for size, extent in zip(sizes, axes, strict=True))
        if nested or (sliced and others <= 1):
            found.add(sizes)
    return found


def bytes_by_hand(tile: GemmTile, problem: GemmProblem, lanes: int) -> tuple[int, int]:
    """All copies, and what one step needs, from the shapes in the lanes alone."""

    def rounded(elements: int, size: int) -> int:
        return -(-elements * size // BUFFER_GRANULE_BYTES) * BUFFER_GRANULE_BYTES

    size, rows, products = problem.dtype.bytes, math.prod(tile.m_sizes), math.prod(tile.k_sizes)
    slots = tile.n_slots
    if problem.body == "array":
        rows, matrices = -(-rows // tile.vector) * tile.vector, -(-products // lanes)
        x, w = rows * matrices, slots * matrices * lanes
    elif problem.body == "batch":
        vectors = -(-rows // tile.vector)
        rows = -(-vectors // min(4, vectors)) * min(4, vectors) * tile.vector
        x, w = rows * products, slots * products * tile.vector
    else:
        unit = min(8, max(2, 1 << (rows - 1).bit_length()))
        rows, products = -(-rows // unit) * unit, -(-products // tile.vector) * tile.vector
        x, w = rows * products, slots * products
    k_tiles = math.prod(  # of the same size
        -(-(extent - tile.lead) // part) if part < extent else 1
        for extent, part in zip(problem.k_axes, tile.k_sizes, strict=True)
    )
    copies = {part: max(1 if tile.lead else 2, k_tiles) if tile.stationary == part else 2 for part in ("x", "w")}
    first = 0
    if tile.lead:  # a smaller first k tile: once, in buffers of its own
        inner = math.prod(part for part, extent in zip(tile.k_sizes, problem.k_axes, strict=True) if part == extent)
        matrices = -(-tile.lead * inner // lanes)
        first = rounded(rows * matrices, size) + rounded(slots * matrices * lanes, size)
    y = rounded(slots * rows, problem.accumulator.bytes)
    partial = y if tile.blocked else 0
    total = copies["x"] * rounded(x, size) + copies["w"] * rounded(w, size) + 2 * y + partial + first
    return total, rounded(x, size) + rounded(w, size) + y + partial + first


@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
def test_every_tile_is_tried_and_the_cheapest_taken(config: str) -> None:
    machine = load_config(config)
    core, generator = machine.core, random.Random(5)
    for _ in range(25):
        sizes = random_convolution(generator, generator.choice([1, 2, 2, 3]), extent=20)
        direction = generator.choice(DIRECTIONS)
        problems, _, _ = problems_of(direction, sizes, generator, config)
        problem = generator.choice(problems)
        found = search_gemm(problem, GemmFusion(), machine)
        fitting = []
        for candidate in found.all:
            tile = candidate.tile
            total, step = (part + core.stack_reserve_bytes for part in bytes_by_hand(tile, problem, core.lanes))
            if tile.deep == 1:
                assert candidate.footprint.total_bytes == total
            small = total <= core.scratchpad_bytes_per_lane and step <= core.scratchpad_bytes_per_lane // 2
            assert small or candidate.refusal
            assert not small or not candidate.refusal or "transfers have more than" in candidate.refusal
            if not candidate.refusal:
                fitting.append((cost_of(problem, GemmFusion(), tile, machine).total, total))
        units = {"array": core.lanes, "lanes": 0, "batch": 1}
        vector = found.all[0].tile.vector
        expected = set(
            itertools.product(tuples(problem.k_axes, units[problem.body] or vector, sliced=True), ("x", "w", "none"))
        )
        assert {(c.tile.k_sizes, c.tile.stationary) for c in found.all if not c.tile.lead} == expected
        for tile in (c.tile for c in found.all if c.tile.lead):
            (extent,) = (extent for size, extent in zip(tile.k_sizes, problem.k_axes, strict=True) if size < extent)
            assert 0 < tile.lead < extent
            assert tile.leading(problem).k_blocks <= tile.k_blocks
        if len(problem.m_axes) > 1:
            assert {c.tile.m_sizes for c in found.all} == tuples(problem.m_axes, 1, sliced=False)
        if found.chosen is not None and found.chosen.cost is not None:
            assert (found.chosen.cost.total, found.chosen.footprint.total_bytes) == min(fitting)
        else:
            assert not fitting


def test_the_smallest_tile_is_named_where_none_fits() -> None:
    machine = load_config({"base": "tiny", "core": {"stack_reserve_bytes": 2016}})
    generator = random.Random(1)
    sizes = Convolution(1, 1, 8, 8, (9, 9), (9, 9), (3, 3), (1, 1), (1, 1), (1, 1))
    (problem,), _, _ = problems_of("forward", sizes, generator)
    found = search_gemm(problem, GemmFusion(), machine)
    assert found.chosen is None
    assert found.nearest.footprint.total_bytes == min(c.footprint.total_bytes for c in found.all)
    assert not found.inexpressible


def test_depthwise_windows_are_all_that_a_lane_holds() -> None:
    """7 x 7 over 96 channels, padding 3: windows as taps by positions, each tap's weight along a vector, sums. No table
    of positions or indices (at most a vector and one element of a predecessor's lane)."""
    sizes = Convolution(2, 96, 1, 1, (56, 56), (56, 56), (7, 7), (1, 1), (3, 3), (1, 1))
    images, weights = TensorPlace((96 * 3136, 3136, 56, 1), 0), TensorPlace((49, 49, 7, 1), 0)
    machine = load_config("tpuv3")
    (problem,) = convolution_problems("forward", sizes, (images, weights, images), (F32, F32), machine)
    chosen = search_gemm(problem, GemmFusion(), machine).chosen
    assert chosen is not None
    tile, shares = chosen.tile, dict(chosen.footprint.shares)
    assert tile.body == "batch"
    assert shares.pop("stack") == machine.core.stack_reserve_bytes
    assert shares["x"] == 2 * 4 * tile.k * tile.m
    assert shares["w"] <= max(2, 49 // tile.k) * 4 * (tile.k * 16 + 16)
    assert shares["y"] == 2 * 4 * tile.m
    assert set(shares) == {"x", "w", "y"}
