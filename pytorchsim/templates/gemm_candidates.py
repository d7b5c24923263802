"""The tiles of a matrix product that are tried, and those that a user prescribes.

In: a problem, what is fused, the machine. Out: tiles, whether they fit or not. Pure; it does not depend on the number
of cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import product
from math import prod

from pytorchsim.config.model import NpuConfig
from pytorchsim.errors import ConfigError
from pytorchsim.templates.array_schedule import STEP_LMUL
from pytorchsim.templates.batch_step import batch_vector
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem
from pytorchsim.templates.gemm_tile import ROWS_AT_ONCE, GemmTile, Stationary
from pytorchsim.templates.lane_step import LANE_STEP_LMUL

__all__ = ["SHORT_SUM", "candidates", "prescribed"]

_DEPTHS = (2, 4, 8)

_FEW_RESULTS, _FEW_PRODUCTS, _LEADS = 4, 4, (1, 2, 3, 4, 6)
"""Result tiles and k tiles of those, up to which a smaller first k tile is tried; its matrices."""

_LONG_SUM, SHORT_SUM = 256, 16
"""Matrices whose results are added one after another: more than the first are added in blocks, where it fits each
of at least the second. The error of a sum grows with the additions in a row (Higham, Accuracy and Stability, 4.2)."""

_PARTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024)
"""Into how many tiles a dimension is cut."""


def candidates(problem: GemmProblem, fusion: GemmFusion, config: NpuConfig) -> Iterator[GemmTile]:
    """Every tile that is tried."""
    yield from (_on_arrays if problem.body == "array" else _on_lanes)(problem, fusion, config)


def prescribed(
    problem: GemmProblem, fusion: GemmFusion, config: NpuConfig, sizes: Mapping[str, int]
) -> Iterator[GemmTile]:
    """The tile of the user's file, in both orders of the tile loops."""
    lanes = config.core.lanes
    like = next(candidates(problem, fusion, config))
    m, n, k = (sizes.get(name, whole) for name, whole in (("TILE_M", like.m), ("TILE_N", like.n), ("TILE_K", like.k)))
    most = config.array.count if like.body == "array" else n // lanes
    units = {"TILE_M": (m, like.vector if like.body == "array" else min(ROWS_AT_ONCE, like.m)), "TILE_N": (n, lanes)}
    units["TILE_K"] = (k, lanes if like.body == "array" else like.vector)
    for name, (size, unit) in units.items():
        if size < 1 or size % unit:
            raise ConfigError(
                f"option 'tiles': {name} of {problem.m}_{problem.n}_{problem.k} is a multiple of {unit}, not {size}"
            )
    if n // lanes > most:
        raise ConfigError(f"option 'tiles': TILE_N is at most {most * lanes} ({most} arrays of {lanes} lanes), not {n}")
    for held in _stationary(fusion):
        tile = GemmTile(like.body, (m,), n // lanes, (k,), held, like.vector, lanes, fusion.reduces)
        yield from _depths(_blocked(tile, problem), problem, fusion) if like.body == "array" else (tile,)


def _stationary(fusion: GemmFusion) -> tuple[Stationary, ...]:
    return ("w", "none") if fusion.reduces else ("x", "w", "none")


def _on_arrays(problem: GemmProblem, fusion: GemmFusion, config: NpuConfig) -> Iterator[GemmTile]:
    """Each array has columns of its own or, where there are not enough of them, a part of the products."""
    lanes, vector = config.core.lanes, _row_vector(problem, config)
    columns = -(-problem.n // lanes)
    slots = range(1, min(config.array.count, columns) + 1)
    arrays = [(slot, parts) for slot in slots for parts in dict.fromkeys((1, config.array.count // slot))]
    for slot, parts in arrays:
        if parts > 1 and slot < columns:
            continue
        rows = _row_sizes(problem, vector)
        for m, k, held in product(rows, _product_sizes(problem, lanes), _stationary(fusion)):
            tile = GemmTile("array", m, slot, k, held, vector, lanes, fusion.reduces, parts=parts)
            for whole in _depths(_blocked(tile, problem), problem, fusion):
                yield whole
                yield from _leads(whole, problem, fusion)


def _leads(tile: GemmTile, problem: GemmProblem, fusion: GemmFusion) -> Iterator[GemmTile]:
    """The tile with a smaller first k tile that fills matrices, while the others take what is left in equal parts; or
    with others that fill matrices, while it takes what is left. Many result tiles have no use for it: while one is
    multiplied, the next one's operands load."""
    rows, columns, products = tile.counts(problem)
    few = tile.batches(problem) * rows * columns <= _FEW_RESULTS and 1 < products <= _FEW_PRODUCTS
    cut = [axis for axis, extent in enumerate(problem.k_axes) if tile.k_sizes[axis] < extent]
    if not few or len(cut) > 1 or tile.deep > 1 or tile.blocked or fusion.x is not None or fusion.w is not None:
        return
    (axis,) = cut
    size, extent, unit = tile.k_sizes[axis], problem.k_axes[axis], tile.lanes if len(problem.k_axes) == 1 else 1
    inner = prod(tile.k_sizes) // size

    def led(lead: int, rest: int) -> GemmTile:
        return replace(tile, k_sizes=(*tile.k_sizes[:axis], rest, *tile.k_sizes[axis + 1 :]), lead=lead)

    for matrices in _LEADS:
        lead = matrices * tile.lanes // inner
        if not 0 < lead < size:
            continue
        rest = -(-(extent - lead) // ((products - 1) * unit)) * unit
        yield led(lead, rest)
        filling = rest * inner // tile.lanes * tile.lanes // inner // unit * unit
        longer = extent - (products - 1) * filling
        if lead < longer <= filling and longer % unit == 0:
            yield led(longer, filling)


def _on_lanes(problem: GemmProblem, fusion: GemmFusion, config: NpuConfig) -> Iterator[GemmTile]:
    lanes = config.core.lanes
    if problem.body == "batch":
        rows = vector = min(batch_vector(problem.accumulator, config), max(2, _power_of_two(problem.m)))
        columns, products = problem.n, 1
    else:
        products = vector = _product_vector(problem, config)
        rows = min(ROWS_AT_ONCE, max(2, _power_of_two(problem.m)))
        columns = -(-problem.n // lanes)
    sizes = product(_row_sizes(problem, rows), _cuts(columns, 1), _product_sizes(problem, products))
    for (m, slots, k), held in product(sizes, _stationary(fusion)):
        yield GemmTile(problem.body, m, slots, k, held, vector, lanes, fusion.reduces)


def _row_sizes(problem: GemmProblem, unit: int) -> list[tuple[int, ...]]:
    """Sizes of the row axes: one of them is cut, the outer ones are walked one by one, the inner ones are whole."""
    axes = problem.m_axes
    if len(axes) == 1:
        return [(size,) for size in _cuts(axes[0], unit)]
    return _nested(axes)


def _product_sizes(problem: GemmProblem, unit: int) -> list[tuple[int, ...]]:
    """Sizes of the product axes: those of rows, and one axis cut with all others whole (a slice of the channels under
    the whole window)."""
    axes = problem.k_axes
    if len(axes) == 1:
        return [(size,) for size in _cuts(axes[0], unit)]
    sliced = [(*axes[:axis], size, *axes[axis + 1 :]) for axis, extent in enumerate(axes) for size in _cuts(extent, 1)]
    return list(dict.fromkeys([*sliced, *_nested(axes)]))


def _nested(axes: tuple[int, ...]) -> list[tuple[int, ...]]:
    sizes = []
    for axis, extent in enumerate(axes):
        sizes += [(*(1 for _ in axes[:axis]), size, *axes[axis + 1 :]) for size in _cuts(extent, 1)]
    return list(dict.fromkeys(sizes))


def _blocked(tile: GemmTile, problem: GemmProblem) -> GemmTile:
    """The tile, with partial sums where the sum of a result has more matrices than that is exact enough for."""
    matrices = tile.k_blocks * tile.counts(problem)[2]
    return replace(tile, blocked=matrices > _LONG_SUM and tile.k_blocks < matrices)


def _depths(tile: GemmTile, problem: GemmProblem, fusion: GemmFusion) -> Iterator[GemmTile]:
    """The tile, and deeper ones where a stationary X is used again: while a deep step runs, the first k tile of the
    next X may load, so it covers half of them at most. Copies of X lie as one block; pieces of W would not."""
    yield tile
    _, columns, products = tile.counts(problem)
    if tile.stationary != "x" or columns == 1 or fusion.w is not None or len(problem.k_axes) > 1:
        return
    for deep in _DEPTHS:
        if products % deep == 0 and products >= 2 * deep:
            yield replace(tile, deep=deep)


def _row_vector(problem: GemmProblem, config: NpuConfig) -> int:
    """Rows that are pushed and popped at once."""
    longest = min(STEP_LMUL, config.core.max_lmul) * config.core.vlen_bits // problem.accumulator.bits
    queue = 1 << (config.array.queue_entries.bit_length() - 1)
    return min(longest, queue, max(2, _power_of_two(problem.m)))


def _product_vector(problem: GemmProblem, config: NpuConfig) -> int:
    """Products that are computed at once on the lanes; at least the rows whose sums stand side by side."""
    longest = min(LANE_STEP_LMUL, config.core.max_lmul) * config.core.vlen_bits // problem.accumulator.bits
    return max(min(longest, _power_of_two(problem.k)), 2, min(ROWS_AT_ONCE, _power_of_two(problem.m)))


def _power_of_two(value: int) -> int:
    """The least one from `value` on."""
    return 1 << (value - 1).bit_length()


def _cuts(extent: int, unit: int) -> list[int]:
    """Tile sizes that cut `extent` into equal parts, in whole `unit`s."""
    sizes = []
    for parts in _PARTS:
        part = -(-extent // parts)
        sizes.append(-(-part // unit) * unit)
        if sizes[-1] == unit:
            break
    else:
        sizes.append(unit)
    return list(dict.fromkeys(sizes))
