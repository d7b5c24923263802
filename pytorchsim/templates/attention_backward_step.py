"""One step of attention's backward as a tile function: the gradients that queries and a tile of keys give each other.

In: a problem, a tile, buffers as pointers. Out: a tile function in a `KernelBuilder`. Keys lie over the lanes. For each
block of keys (one in each lane) and all blocks of queries (Dao et al., FlashAttention, 2022, B.4):

    scores and the gradients of weights    inputs: queries, and gradients of the result; weights: keys, and values
    weights = exp(scores - statistics), gradients of scores = weights x (gradients of weights - delta)
    gradients of queries                   inputs: gradients of scores; weights: keys
    gradients of values and of keys        inputs: gradients of the result, and queries; weights: the weights, and the
                                           gradients of scores, which are columns of an array as they lie in their lanes

Scores are multiplied and scaled as in the forward, so they are the forward's to the last bit. With two arrays the two
products of a line run side by side. The core issues in order, so the order below is the schedule: results are popped as
many rows behind their inputs as the queues hold, and while the last ones of a line are, the next line begins.
"""

from __future__ import annotations

from itertools import pairwise

from mlir import ir
from mlir.dialects import arith

from pytorchsim.mlir import builders
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.templates.attention_backward_code import StepCode
from pytorchsim.templates.attention_backward_problem import BackwardProblem
from pytorchsim.templates.attention_backward_scores import ScoreLines
from pytorchsim.templates.attention_backward_sums import SumLines
from pytorchsim.templates.attention_backward_tile import BackwardTile
from pytorchsim.templates.attention_vectors import Index, Region, plus, regions, value_of

__all__ = ["BACKWARD_BUFFERS", "backward_step"]

BACKWARD_BUFFERS = (
    "query",
    "query_columns",
    "gradient",
    "gradient_columns",
    "statistics",
    "delta",
    "key",
    "key_columns",
    "value",
    "mask",
    "query_sums",
    "state",
    "scratch",
)
"""The pointer arguments, in order; `mask` only where there is one."""


def backward_step(
    kernel: KernelBuilder, name: str, problem: BackwardProblem, tile: BackwardTile, *, limited: bool
) -> TileFunction:
    """`name(pointers..., [first query, first key])`; scalars where `limited`: where positions mask keys. `query_sums`
    begins at the step's queries."""
    needs = tile.buffers(problem)
    names = [name for name in BACKWARD_BUFFERS if name in needs]
    elements = {name: needs[name].elements for name in names}
    elements["query_sums"] -= (tile.all_queries - tile.queries) * tile.lanes
    sizes = [(elements[name], builders.element_type(needs[name].dtype)) for name in names]
    with kernel.tile_function(name, sizes, [ir.IndexType.get()] * 2 if limited else []) as function:
        pointers, first = function.arguments[: len(names)], function.arguments[len(names) :]
        memory = {part: Region(pointer) for part, pointer in zip(names, pointers, strict=True)}
        memory |= regions(memory["state"].memory, tile.state) | regions(memory["scratch"].memory, tile.scratch)
        code = StepCode(problem, tile, memory)
        _emit(code, ScoreLines(code, first or None), SumLines(code))
    return function


def _emit(code: StepCode, scores: ScoreLines, sums: SumLines) -> None:
    """Block of keys by block of keys; the last line of each is drained while the first one of the next begins."""
    last = code.tile.keys - 1
    code.overlap([], scores.lines(0)[0])

    def block(keys: Index) -> None:
        lines = [*scores.lines(keys), *sums.lines(keys)]
        for line, following in pairwise(lines):
            line.middle()
            code.overlap(line.drain(), following)
        end = lines[-1]
        end.middle()
        if not last:
            code.overlap(end.drain(), None)
            return
        more = arith.cmpi(arith.CmpIPredicate.ult, value_of(keys), value_of(last))
        following = arith.minui(value_of(plus(keys, 1)), value_of(last))  # it exists, for those who check addresses
        code.either(
            more,
            lambda: code.overlap(end.drain(), scores.lines(following)[0]),
            lambda: code.overlap(end.drain(), None),
        )

    code.repeat(range(last + 1), block)
