"""Scheduler nodes of one iteration space as one recorded program, and whether it is worth being one kernel. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import sympy
from torch._inductor.scheduler import SchedulerNode
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.gathers import check_indices
from pytorchsim.templates.iteration_space import IterationSpace
from pytorchsim.templates.loop_program import LoopProgram, direct_load
from pytorchsim.templates.recorder import LoopRecorder

__all__ = ["fusion_refusal", "record_loops"]


def record_loops(nodes: Sequence[SchedulerNode]) -> LoopRecorder:
    """A recorder that has replayed `nodes` in order, over axes in which as many indices as possible are affine.

    Raises UnsupportedError where the loop kernel cannot express them.
    """
    rows, reduced = max((node.group[1] for node in nodes), key=lambda space: len(space[1]))
    rank = len(rows) + len(reduced)
    variables = [sympy.Symbol(f"i{axis}", integer=True, nonnegative=True) for axis in range(rank)]
    space = IterationSpace(variables, [int(size) for size in (*rows, *reduced)], len(reduced))
    while True:
        recorder = LoopRecorder.over(space)
        for node in nodes:
            own_rows, own_reduced = node.group[1]
            recorder.replay(node, variables[: len(own_rows)], variables[len(rows) :] if own_reduced else [])
        if not recorder.must_split:
            return recorder


def fusion_refusal(first: Sequence[SchedulerNode], second: Sequence[SchedulerNode]) -> str:
    """Why the two groups should not share a kernel although their loops match; empty where they may.

    Together they may ask for something no kernel does (an index that depends on a reduction), or for axis splits that
    exclude each other, so that transfers become gathers that would not be any in kernels of their own.
    """
    if not any(_indices_matter(node) for node in (*first, *second)):
        return ""
    try:
        together = record_loops([*first, *second]).program()
        check_indices(together)
    except UnsupportedError as error:
        return str(error)
    apart = sum(_computed_indices(record_loops(nodes).program()) for nodes in (first, second))
    if _computed_indices(together) > apart:
        return "their views split the axes in ways that exclude each other"
    return ""


def _indices_matter(node: SchedulerNode) -> bool:
    """Whether the node has more than affine accesses."""
    body = node._body
    digits = any(index.has(FloorDiv, ModularIndexing) for index in body.indexing_exprs.values())
    return bool(digits or body.indirect_vars or body.subblocks or body.has_op("device_assert_async"))


def _computed_indices(program: LoopProgram) -> int:
    gathers = {gather.value for access in program.accesses() for gather in access.gathers}
    return sum(direct_load(program, value) is None for value in gathers)
