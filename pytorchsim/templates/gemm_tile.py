"""Tile search of the GEMM template: what a step of the product takes, costs, and why a candidate is refused.

In: a `GemmProblem`, the elementwise tail behind it, the machine. Out: a `GemmSearch`. Pure; it does not depend on the
number of cores.

A step multiplies X[tile_m, tile_k] by W[tile_k, tile_n]. X lies along k over the lanes, W and the result along n.
Steps run k innermost; of the two operands the one that the inner tile loop does not index stays in the scratchpad
over that loop (`stationary`), with a copy for each k tile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.loop_program import AffineIndex, LoopProgram

__all__ = ["GemmProblem", "GemmSearch", "GemmTile", "search_gemm"]

_ALIGNMENT_BYTES = 64
_STEP_CYCLES = 40
"""Scalar work per step: origins, `dma.set`s, calls. An estimate, used to rank candidates only."""


@dataclass(frozen=True)
class GemmProblem:
    """Y[b, m, n] = sum over k of X[b, m, k] * W[b, k, n]. Indices are over (b, m, k), (b, k, n) and (b, m, n), in
    elements."""

    batch: int
    m: int
    n: int
    k: int
    x: AffineIndex
    w: AffineIndex
    y: AffineIndex
    dtype: Dtype

    @property
    def frame(self) -> tuple[int, int, int]:
        """The space of the result."""
        return self.batch, self.m, self.n


@dataclass(frozen=True)
class GemmTile:
    """One step. `k_blocks` of `lanes` rows of W each; `arrays` of `lanes` columns each; `stationary`: X or W."""

    m: int
    arrays: int
    k_blocks: int
    stationary: Literal["x", "w"]
    vector_elements: int
    block_rows: int
    lanes: int

    @property
    def n(self) -> int:
        """Columns of the result."""
        return self.arrays * self.lanes

    @property
    def k(self) -> int:
        """Products summed."""
        return self.k_blocks * self.lanes

    def counts(self, problem: GemmProblem) -> tuple[int, int, int]:
        """Tiles along m, n, k."""
        return -(-problem.m // self.m), -(-problem.n // self.n), -(-problem.k // self.k)

    def copies(self, operand: Literal["x", "w"], problem: GemmProblem) -> int:
        """Buffers of an operand: one per k tile where it is stationary, else one to use and one to fill."""
        return max(2, self.counts(problem)[2]) if operand == self.stationary else 2

    def describe(self) -> dict[str, int]:
        """The tile as a flat record for reports."""
        return {"m": self.m, "n": self.n, "k": self.k, "arrays": self.arrays, "stationary_w": self.stationary == "w"}

    def x_elements(self) -> int:
        """Per lane and copy."""
        return self.m * self.k_blocks

    def w_elements(self) -> int:
        """Per lane and copy."""
        return self.arrays * self.k

    def y_elements(self) -> int:
        """Per lane and copy."""
        return self.arrays * self.m


@dataclass(frozen=True)
class GemmSearch:
    """The outcome; `tile` is None when nothing fits. `shares` are bytes per lane of the chosen or else of the
    smallest tile."""

    tile: GemmTile | None
    cycles: float
    rejected: dict[str, int]
    smallest: GemmTile
    shares: dict[str, int]

    @property
    def reasons(self) -> tuple[str, ...]:
        """Refusals in words, sorted."""
        return tuple(f"{count} tiles refused: {reason}" for reason, count in sorted(self.rejected.items()))


def search_gemm(problem: GemmProblem, tail: LoopProgram | None, config: NpuConfig) -> GemmSearch:
    """The cheapest step that fits. `tail` is what runs on a finished tile of the result, if anything does."""
    budget = config.core.scratchpad_bytes_per_lane
    rejected: dict[str, int] = {}
    best: tuple[float, int, GemmTile, dict[str, int]] | None = None
    smallest: tuple[int, GemmTile, dict[str, int]] | None = None
    for tile in _candidates(problem, config):
        once, shares = footprint(problem, tail, tile, config)
        total = sum(shares.values())
        if smallest is None or total < smallest[0]:
            smallest = (total, tile, shares)
        reason = ""
        if total > budget:
            reason = "all copies exceed the slice"
        elif once > budget // 2:
            reason = "one step exceeds half the slice"
        if reason:
            rejected[reason] = rejected.get(reason, 0) + 1
            continue
        cost = (cost_cycles(problem, tail, tile, config), total, tile, shares)
        if best is None or cost[:2] < best[:2]:
            best = cost
    if smallest is None:
        raise ValueError(f"no tile was enumerated for {problem}")
    return GemmSearch(
        tile=best[2] if best else None,
        cycles=best[0] if best else math.inf,
        rejected=rejected,
        smallest=smallest[1],
        shares=best[3] if best else smallest[2],
    )


def footprint(
    problem: GemmProblem, tail: LoopProgram | None, tile: GemmTile, config: NpuConfig
) -> tuple[int, dict[str, int]]:
    """(bytes of one step, bytes of each buffer with all copies), per lane, stack included in both."""
    size = problem.dtype.bytes
    one = {
        "x": _aligned(tile.x_elements() * size),
        "w": _aligned(tile.w_elements() * size),
        "y": _aligned(tile.y_elements() * 4),
    }
    copies = {"x": tile.copies("x", problem), "w": tile.copies("w", problem), "y": 2}
    for number, access in enumerate(tail.loads if tail else ()):
        one[f"in{number}"] = _aligned(tile.y_elements() * access.dtype.bytes)
        copies[f"in{number}"] = 1
    for number, store in enumerate(tail.stores if tail else ()):
        one[f"out{number}"] = _aligned(tile.y_elements() * store.access.dtype.bytes)
        copies[f"out{number}"] = 2
    stack = config.core.stack_reserve_bytes
    shares = {name: copies[name] * share for name, share in one.items()}
    return sum(one.values()) + stack, shares | {"stack": stack}


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES


def _candidates(problem: GemmProblem, config: NpuConfig) -> Iterator[GemmTile]:
    lanes, queue = config.core.lanes, config.array.queue_entries
    longest = 8 * config.core.vlen_bits // problem.dtype.bits
    seen: set[GemmTile] = set()
    for m in _row_counts(problem.m, longest, queue):
        vector = min(longest, max(2, 1 << (m - 1).bit_length()))
        block = m if m <= queue else queue
        for arrays in range(1, min(config.array.count, -(-problem.n // lanes)) + 1):
            for k_blocks in _doublings(-(-problem.k // lanes)):
                for stationary in ("x", "w"):
                    tile = GemmTile(m, arrays, k_blocks, stationary, vector, block, lanes)
                    if tile not in seen:
                        seen.add(tile)
                        yield tile


def _row_counts(m: int, longest: int, queue: int) -> list[int]:
    """Rows of a tile: m cut into equal parts, in whole vectors; above the queues' depth a multiple of it."""
    counts = []
    for parts in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024):
        rows = max(2, -(-m // parts))
        vector = min(longest, 1 << (rows - 1).bit_length())
        rows = -(-rows // vector) * vector
        if rows > queue:
            rows = -(-rows // queue) * queue
        counts.append(rows)
        if parts >= m:
            break
    return list(dict.fromkeys(counts))


def _doublings(limit: int) -> list[int]:
    values = [1]
    while values[-1] < limit:
        values.append(min(limit, values[-1] * 2))
    return values


def cost_cycles(problem: GemmProblem, tail: LoopProgram | None, tile: GemmTile, config: NpuConfig) -> float:
    """Estimate: the first step's loads, then the larger of all transfers and all computation, then the last tile's
    end.

    Arrays: a block of rows takes one cycle each, at least the `lanes` cycles in which the next weights load; each
    call fills and drains them (2 * lanes - 1, and lanes for the first weights: 383 at 128 lanes). Vector lanes: each
    result is popped, added and written.
    """
    counts_m, counts_n, counts_k = tile.counts(problem)
    outputs = problem.batch * counts_m * counts_n
    per_cycle = config.dram.bandwidth_gb_per_s * 1e3 / config.core.frequency_mhz
    size = problem.dtype.bytes
    x_bytes = problem.batch * problem.m * problem.k * size * (1 if tile.stationary == "x" else counts_n)
    w_bytes = problem.batch * problem.k * problem.n * size * (1 if tile.stationary == "w" else counts_m)
    tail_loads = len(tail.loads) if tail else 0
    stores = len(tail.stores) if tail else 1
    y_bytes = problem.batch * problem.m * problem.n * 4
    transfers = (x_bytes + w_bytes + y_bytes * (tail_loads + stores)) / per_cycle

    blocks = tile.m // tile.block_rows
    array = tile.k_blocks * blocks * max(tile.block_rows, tile.lanes) + 3 * tile.lanes - 1
    beats = tile.y_elements() * 32 / config.core.datapath_bits
    vector = tile.k_blocks * 3 * beats
    tail_cycles = beats * (len(tail.operations) + stores) if tail else 0.0
    step = max(array, vector) + _STEP_CYCLES
    compute = outputs * (counts_k * step + tail_cycles)

    first = (tile.m * tile.k + tile.k * tile.n) * size / per_cycle
    last = min(1.0, 1 / outputs) * y_bytes * stores / per_cycle
    latency = config.dram.latency_cycles
    starts = 2 * latency + outputs * config.dma.issue_cycles * (2 * counts_k + stores + tail_loads)
    return (
        starts
        + first
        + last
        + max(transfers - first - last, compute)
        + min(transfers, compute) / max(2, outputs * counts_k)
    )
