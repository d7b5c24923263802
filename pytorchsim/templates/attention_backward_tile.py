"""One step of attention's backward: its sizes, the buffers it needs, what it costs.

In: a problem, the machine. Out: values, and the cheapest tile that fits. A step has `queries` blocks of queries and
`keys` blocks of keys of one head, a block being as many as there are lanes. Keys lie over the lanes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.attention_backward_problem import BackwardProblem
from pytorchsim.templates.attention_search import TileSearch, candidate, cuts
from pytorchsim.templates.footprint import BufferNeed

__all__ = ["BackwardTile", "search_backward"]

_VECTOR_LMUL = 2
"""Registers per vector: sixteen groups hold what the stages have in flight."""

_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Blocks of queries and keys that are tried."""

_STEP, _BLOCK, _PAIR = 400, 100, 555
"""Cycles of a step, of a block of keys in it and of a pair of blocks, times lanes / 128: measured."""

_LIMITED = 1.1
"""What a step takes where positions mask keys, times one where they do not: measured."""


@dataclass(frozen=True)
class BackwardTile:
    """`queries` blocks x `keys` blocks; `all_queries`: blocks in tiles of the whole head. In whole vectors of
    `vector`: `size_pitch` elements of a query, `value_pitch` of a value. `depth`, `value_depth`: blocks of the
    contractions along either. `queue`: results that an array holds."""

    queries: int
    keys: int
    all_queries: int
    size_pitch: int
    value_pitch: int
    depth: int
    value_depth: int
    vector: int
    lanes: int
    arrays: int
    queue: int

    def describe(self) -> dict[str, int]:
        """The tile as a flat record for reports."""
        return {"queries": self.queries * self.lanes, "keys": self.keys * self.lanes}

    @property
    def state(self) -> dict[str, int]:
        """Elements of the gradients of keys and values that grow while queries pass."""
        return {"key_sums": self.keys * self.size_pitch, "value_sums": self.keys * self.value_pitch}

    @property
    def scratch(self) -> dict[str, int]:
        """Elements of the weights of a block of keys, and of their gradients."""
        return {"weights": self.queries * self.lanes, "of_scores": self.queries * self.lanes}

    @property
    def query_sums(self) -> int:
        """Elements of the gradient of all queries."""
        return self.depth * self.all_queries * self.lanes

    def counts(self, problem: BackwardProblem) -> tuple[int, int]:
        """Tiles along queries and keys."""
        return (
            -(-problem.queries // (self.queries * self.lanes)),
            -(-problem.keys // (self.keys * self.lanes)),
        )

    def first_query_tile(self, problem: BackwardProblem, key_tile: int) -> int:
        """`causal` leaves out queries before the first key of a tile; one tile remains."""
        count, _ = self.counts(problem)
        blocks = max(0, key_tile * self.keys - problem.first // self.lanes)
        return min(blocks // self.queries, count - 1) if problem.causal else 0

    def buffers(self, problem: BackwardProblem) -> dict[str, BufferNeed]:
        """Every buffer of the kernel by name. Of a matrix `columns` have its columns over the lanes."""
        dtype, queries, keys = problem.dtype, self.queries * self.lanes, self.keys * self.lanes
        needs = {
            "query": BufferNeed(self.queries * self.size_pitch, dtype, 2),
            "query_columns": BufferNeed(self.depth * queries, dtype, 2),
            "gradient": BufferNeed(self.queries * self.value_pitch, dtype, 2),
            "gradient_columns": BufferNeed(self.value_depth * queries, dtype, 2),
            "statistics": BufferNeed(queries, F32, 2),
            "delta": BufferNeed(queries, F32, 2),
            "key": BufferNeed(self.keys * self.size_pitch, dtype, 2),
            "key_columns": BufferNeed(self.depth * keys, dtype, 2),
            "value": BufferNeed(self.keys * self.value_pitch, dtype, 2),
            "of_key": BufferNeed(self.keys * self.size_pitch, problem.place("of_key").dtype, 2),
            "of_value": BufferNeed(self.keys * self.value_pitch, problem.place("of_value").dtype, 2),
            "of_query": BufferNeed(self.query_sums, dtype, 1),
            "query_sums": BufferNeed(self.query_sums, F32, 1),
            "state": BufferNeed(sum(self.state.values()), F32, 1),
            "scratch": BufferNeed(sum(self.scratch.values()), F32, 1),
        }
        if problem.mask is not None:
            needs["mask"] = BufferNeed(self.keys * queries, problem.mask.dtype, 2)
        return needs


@lru_cache(maxsize=512)
def search_backward(problem: BackwardProblem, config: NpuConfig) -> TileSearch[BackwardTile]:
    """The cheapest step that fits."""
    lanes = config.core.lanes
    lmul = min(_VECTOR_LMUL, config.core.max_lmul)
    vector = min(lmul * config.core.vlen_bits // F32.bits, lanes)
    size_pitch, value_pitch = (-(-size // vector) * vector for size in (problem.size, problem.value_size))
    depth, value_depth = (-(-size // lanes) for size in (problem.size, problem.value_size))
    query_blocks = -(-problem.queries // lanes)
    found = []
    for queries in cuts(query_blocks, _COUNTS):
        for keys in cuts(-(-problem.keys // lanes), _COUNTS):
            tile = BackwardTile(
                queries,
                keys,
                -(-query_blocks // queries) * queries,
                size_pitch,
                value_pitch,
                depth,
                value_depth,
                vector,
                lanes,
                min(2, config.array.count),
                config.array.queue_entries,
            )
            cycles = partial(_cycles, problem, tile, config)
            found.append(candidate(tile, tile.buffers(problem), problem.batch, config, cycles))
    return TileSearch(tuple(found))


def _cycles(problem: BackwardProblem, tile: BackwardTile, config: NpuConfig) -> float:
    """Compute and DRAM overlap but for the first loads and the last stores."""
    query_tiles, key_tiles = tile.counts(problem)
    heads, lanes = math.prod(problem.batch), tile.lanes
    queries, keys = tile.queries * lanes, tile.keys * lanes
    steps = whole = 0
    for key_tile in range(key_tiles):
        first = tile.first_query_tile(problem, key_tile)
        steps += query_tiles - first
        clear = -(-max(0, (key_tile + 1) * keys - 1 - problem.first) // queries) if problem.causal else 0
        if (key_tile + 1) * keys <= problem.keys:
            whole += max(0, query_tiles - max(first, clear))
    parts = (tile.depth + tile.value_depth) / 2 * 2 / tile.arrays
    step = (_STEP + tile.keys * (_BLOCK + _PAIR * tile.queries) * parts) * lanes / 128
    item, sizes = problem.dtype.bytes, problem.size + problem.value_size
    load_queries = queries * (2 * item * sizes + 2 * F32.bytes)
    load_keys = keys * item * (problem.size + sizes)
    load_step = queries * keys * problem.mask.dtype.bytes if problem.mask is not None else 0
    query_loads = 1 if query_tiles == 1 else steps
    store = item * (problem.keys * sizes + problem.queries * problem.size)
    moved = query_loads * load_queries + key_tiles * load_keys + steps * load_step + store
    bandwidth = config.dram_bytes_per_cycle
    latency = config.dram.latency_cycles + 2.0 * config.network.latency_cycles
    ends = tile.query_sums / tile.vector * 6 + sum(tile.state.values()) / tile.vector * 8 * key_tiles
    compute = heads * (step * (whole + _LIMITED * (steps - whole)) + ends)
    dram = heads * moved / bandwidth
    first_loads, last_stores = (load_queries + load_keys + load_step) / bandwidth + latency, store / bandwidth + latency
    return max(compute, dram) + first_loads + last_stores
