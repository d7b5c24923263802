"""One step of attention: its sizes, the buffers it needs, what it costs.

In: a problem, the machine. Out: values. A step has `heads` heads of `queries` blocks of queries and `keys` blocks of
keys, a block being as many as there are lanes. Queries lie over the lanes. Where there are two arrays and their queues
hold what is in flight, one multiplies queries by keys while the other multiplies weights by values (`overlapped`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import F32
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_search import TileSearch, candidate, cuts
from pytorchsim.templates.footprint import BufferNeed

__all__ = ["COPIES", "AttentionTile", "search_attention"]

COPIES = 8
"""Blocks whose scores and factors are kept while they pass the pipeline."""

_LONGEST_UNROLL = 4
"""Blocks of keys that a loop's body holds: so many copies, and no place in them is computed at run time."""

_VECTOR_LMUL = 2
"""Registers per vector: sixteen groups hold what the stages have in flight."""

_OVERLAPPED = 1.85
"""What a pair of blocks takes, times its exponentials: measured, mostly the issue of its instructions."""

_LIMITED = 1.8
"""What a step takes where positions mask keys, times one where they do not: measured."""

_COUNTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32)
"""Heads of a step, and blocks of queries and keys, that are tried."""


@dataclass(frozen=True)
class AttentionTile:
    """`heads` heads x `queries` blocks x `keys` blocks. In whole vectors of `vector`: `size_pitch` elements of a query,
    `value_pitch` of a value. `depth`: blocks of the contraction of queries and keys. `value_lag`: blocks that sums are
    popped behind their weights. `queue`: results that an array holds."""

    heads: int
    queries: int
    keys: int
    size_pitch: int
    value_pitch: int
    depth: int
    vector: int
    lanes: int
    overlapped: bool
    value_lag: int
    queue: int

    @property
    def unroll(self) -> int:
        """Blocks of one row that the overlapped stages are written out for: a divisor of `keys`."""
        if not self.overlapped:
            return 1
        return max(count for count in range(1, _LONGEST_UNROLL + 1) if self.keys % count == 0)

    @property
    def rows(self) -> int:
        """Blocks of queries of a step, over all heads."""
        return self.heads * self.queries

    @property
    def blocks(self) -> int:
        """Pairs of a block of queries and a block of keys."""
        return self.rows * self.keys

    def describe(self) -> dict[str, int]:
        """The tile as a flat record for reports."""
        return {
            "heads": self.heads,
            "queries": self.queries * self.lanes,
            "keys": self.keys * self.lanes,
            "overlapped": int(self.overlapped),
        }

    @property
    def state(self) -> dict[str, int]:
        """Elements of what is kept per block of queries: sums of weighted values; the highest score and the total of
        the weights, a vector each."""
        vectors = self.rows * self.vector
        return {"sums": self.rows * self.value_pitch, "highest": vectors, "total": vectors}

    @property
    def scratch(self) -> dict[str, int]:
        """Elements of what passes the pipeline: scores, the factors of older sums."""
        return {
            "scores": COPIES * self.lanes,
            "factors": COPIES * self.vector,
        }

    def counts(self, problem: AttentionProblem) -> tuple[int, int, int]:
        """Tiles along heads, queries, keys."""
        return (
            -(-problem.heads // self.heads),
            -(-problem.queries // (self.queries * self.lanes)),
            -(-problem.keys // (self.keys * self.lanes)),
        )

    def opens_rows(self, problem: AttentionProblem) -> bool:
        """Whether the first block of a row is known as such where the code is written: nothing is older than it, and
        its state needs no beginning."""
        return self.overlapped and self.unroll == self.keys and self.counts(problem)[2] == 1

    def key_tiles(self, problem: AttentionProblem, query_tile: int) -> int:
        """Tiles of keys that a tile of queries attends to: `causal` leaves out those behind its last query."""
        _, _, count = self.counts(problem)
        if not problem.causal:
            return count
        end = min((query_tile + 1) * self.queries * self.lanes, problem.queries)
        return min(count, (end - 1) // (self.keys * self.lanes) + 1)

    def whole_key_tiles(self, problem: AttentionProblem, query_tile: int) -> int:
        """Those of them where no position masks a key."""
        keys = self.keys * self.lanes
        count = self.key_tiles(problem, query_tile)
        whole = min(count, problem.keys // keys)
        return min(whole, (query_tile * self.queries * self.lanes + 1) // keys) if problem.causal else whole

    def buffers(self, problem: AttentionProblem) -> dict[str, BufferNeed]:
        """Every buffer of the kernel by name."""
        dtype, vectors = problem.dtype, self.rows * self.vector
        needs = {
            "query": BufferNeed(self.rows * self.size_pitch, dtype, 2),
            "key": BufferNeed(self.heads * self.depth * self.keys * self.lanes, dtype, 2),
            "value": BufferNeed(self.heads * self.keys * self.value_pitch, dtype, 2),
            "result": BufferNeed(self.rows * self.value_pitch, dtype, 2),
            "state": BufferNeed(sum(self.state.values()), F32, 1),
            "scratch": BufferNeed(sum(self.scratch.values()), F32, 1),
        }
        if problem.mask is not None:
            needs["mask"] = BufferNeed(self.rows * self.keys * self.lanes, problem.mask.dtype, 2)
        if problem.statistics is not None:
            needs["statistics"] = BufferNeed(vectors, F32, 2)
        return needs


@lru_cache(maxsize=512)
def search_attention(problem: AttentionProblem, config: NpuConfig) -> TileSearch[AttentionTile]:
    """The cheapest step that fits."""
    lanes = config.core.lanes
    vector = min(_VECTOR_LMUL * config.core.vlen_bits // F32.bits, lanes)
    size_pitch, value_pitch = (-(-size // vector) * vector for size in (problem.size, problem.value_size))
    depth, queue = -(-problem.size // lanes), config.array.queue_entries
    lag = 3 if 3 * value_pitch <= queue else 2
    overlapped = config.array.count > 1 and depth == 1 and 2 * lanes <= queue and lag * value_pitch <= queue
    found = []
    for heads in cuts(problem.heads, _COUNTS):
        for queries in cuts(-(-problem.queries // lanes), _COUNTS):
            for keys in cuts(-(-problem.keys // lanes), _COUNTS):
                tile = AttentionTile(
                    heads, queries, keys, size_pitch, value_pitch, depth, vector, lanes, overlapped, lag, queue
                )
                cycles = partial(_cycles, problem, tile, config)
                found.append(candidate(tile, tile.buffers(problem), problem.batch, config, cycles))
    return TileSearch(tuple(found))


def _cycles(problem: AttentionProblem, tile: AttentionTile, config: NpuConfig) -> float:
    """Compute and DRAM overlap but for the first loads and the last stores."""
    lanes, vector = tile.lanes, tile.vector
    heads, queries, _ = tile.counts(problem)
    outer = math.prod(problem.batch[:-1])
    steps = outer * heads * sum(tile.key_tiles(problem, number) for number in range(queries))
    whole = outer * heads * sum(tile.whole_key_tiles(problem, number) for number in range(queries))
    pieces = lanes / vector
    beats = vector * F32.bits / config.core.datapath_bits
    exponentials = vector / config.core.sfu_elements_per_cycle
    if tile.overlapped:
        block = max(_OVERLAPPED * pieces * exponentials, 1.4 * tile.value_pitch)
        step = tile.blocks * block + tile.rows * lanes / 2 + 7 * lanes
    else:
        scores = tile.depth * (lanes + 3 * lanes)
        outputs = 3 * lanes + tile.value_pitch * (1 + 2 * beats / vector)
        step = tile.blocks * (scores + pieces * (exponentials + 6 * beats) + outputs)
    ends = tile.rows * tile.value_pitch / vector * 4 * beats + 60 * tile.rows + 300
    item = problem.dtype.bytes
    per_head = item * lanes
    load_query = tile.rows * per_head * problem.size
    load_step = tile.heads * tile.keys * per_head * (problem.size + problem.value_size)
    if problem.mask is not None:
        load_step += tile.rows * tile.keys * lanes * lanes * problem.mask.dtype.bytes
    store = tile.rows * per_head * problem.value_size
    bandwidth = config.dram_bytes_per_cycle
    latency = config.dram.latency_cycles + 2.0 * config.network.latency_cycles
    units = outer * heads * queries
    compute = (whole + _LIMITED * (steps - whole)) * (step + 60) + units * ends
    dram = (steps * load_step + units * (load_query + store)) / bandwidth
    first, last = (load_query + load_step) / bandwidth + latency, store / bandwidth + latency
    return max(compute, dram) + first + last
