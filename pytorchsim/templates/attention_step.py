"""One step of attention as a tile function.

In: a problem, a tile, buffers as pointers. Out: a tile function in a `KernelBuilder`. For a block of queries (one in
each lane) and a block of keys: scores = K Q^T, with the queries as weights of an array; the highest score so far and
the factor that brings older sums to it; weights exp(score - highest), pushed into an array as they are computed, since
a lane's weights are already its column; sums of values, popped and added to the older ones times the factor (Milakov
and Gimelshein, Online normalizer calculation for softmax, 2018).

Where a tile lets stages of different blocks overlap, `attention_pipeline` writes them; otherwise they follow one
another, as here.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.templates.attention_chunk import Chunk
from pytorchsim.templates.attention_pipeline import Pipeline
from pytorchsim.templates.attention_problem import AttentionProblem
from pytorchsim.templates.attention_stages import LOADED_AT_ONCE, Block, Stages, State
from pytorchsim.templates.attention_tile import AttentionTile
from pytorchsim.templates.attention_vectors import Region, regions, value_of

__all__ = ["STEP_BUFFERS", "step_function"]

STEP_BUFFERS = ("query", "key", "value", "mask", "state", "scratch")
"""The pointer arguments, in order; `mask` only where there is one."""


def step_function(
    kernel: KernelBuilder, name: str, problem: AttentionProblem, tile: AttentionTile, *, limited: bool
) -> TileFunction:
    """`name(pointers..., [first query, first key])`; scalars where `limited`: where positions mask keys."""
    needs = tile.buffers(problem)
    names = [name for name in STEP_BUFFERS if name in needs]
    sizes = [(needs[name].elements, builders.element_type(needs[name].dtype)) for name in names]
    scalars = [ir.IndexType.get()] * 2 if limited else []
    with kernel.tile_function(name, sizes, scalars) as function:
        pointers, first = function.arguments[: len(names)], function.arguments[len(names) :]
        memory = {part: Region(pointer) for part, pointer in zip(names, pointers, strict=True)}
        memory |= regions(memory["state"].memory, tile.state) | regions(memory["scratch"].memory, tile.scratch)
        stages = Stages(problem, tile, memory, first or None, kernel.config.array.count)
        if tile.overlapped:
            Pipeline(tile, stages).emit()
        else:
            _in_order(tile, stages)
    return function


def _in_order(tile: AttentionTile, stages: Stages) -> None:
    """Block by block, stage by stage."""
    if tile.blocks == 1:
        _whole_block(tile, stages, Block(0, 0, 0, 0, 0, 0))
        return
    first = Chunk(tile, 0, 0, 0, 0, 0)
    loop = scf.ForOp(*map(value_of, (0, tile.blocks, 1)), first.carried())
    with ir.InsertionPoint(loop.body):
        chunk = first.with_carried(loop.induction_variable, list(loop.inner_iter_args))
        _whole_block(tile, stages, chunk.block(0))
        scf.YieldOp(chunk.following().carried())


def _whole_block(tile: AttentionTile, stages: Stages, block: Block) -> None:
    """One block from its keys to its sums."""
    state, limit, pieces = State(), stages.limit(block), range(tile.lanes // tile.vector)
    for depth in range(tile.depth):
        stages.push_queries(block, depth)
        for piece in pieces:
            stages.push_keys(stages.keys(block, piece, depth))
        for piece in pieces:
            scores = stages.pop_scores()
            if depth:
                scores = arith.addf(stages.partial_scores(block, piece), scores)
            if depth + 1 < tile.depth:
                stages.keep_scores(scores, block, piece)
            else:
                state.popped = scores
                stages.finish_scores(state, block, piece, limit)
    for part in stages.fold(state, block):
        part()
    stages.begin_total(state, block)
    highest = stages.highest(block)
    for piece in pieces:
        state.weight = math.exp(stages.exponent(stages.partial_scores(block, piece), highest))
        stages.push_weight(state.weight, first=piece == 0)
        stages.add_weight(state)
    stages.end_total(state, block)
    factor, queue = stages.factor(block), max(1, tile.queue // tile.vector)
    count = tile.value_pitch // tile.vector
    for first in range(0, count, queue):
        end = min(first + queue, count)
        for group in range(first, end, LOADED_AT_ONCE):
            stages.push_values(stages.values(block, group, min(group + LOADED_AT_ONCE, end)))
        for piece in range(first, end):
            popped = stages.pop_sums()
            stages.keep_sums(block, piece, math.fma(stages.sums(block, piece), factor, popped))
