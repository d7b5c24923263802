"""Tile functions of a matrix product: its steps, what computes an operand from what is loaded, the tail.

In: problem, fused programs, tile. Out: functions in the kernel, in the order in which they are written.
"""

from __future__ import annotations

from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.templates.array_step import add_partial, array_step
from pytorchsim.templates.batch_step import batch_step
from pytorchsim.templates.gemm_buffers import DEEP
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand
from pytorchsim.templates.gemm_tile import GemmTile, fused_tile
from pytorchsim.templates.lane_step import lane_step
from pytorchsim.templates.operand_function import KAxis, OperandFunction, operand_function
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile_functions import StagedFunction, TileFunctions

__all__ = ["prologue_function", "step_functions", "tail_function"]


def step_functions(kernel: KernelBuilder, problem: GemmProblem, tile: GemmTile) -> dict[str, TileFunction]:
    """`start`, which overwrites a result tile, and `step`, which adds to it; where there are deep steps, `deep_start`
    and `deep_step`. `add` where steps sum by themselves."""
    dtypes = (problem.dtype, problem.accumulator)
    emit = {"array": array_step, "lanes": lane_step, "batch": batch_step}[tile.body]
    rows, k_tiles = tile.block("y", problem).pitch, tile.counts(problem)[2]
    depths = {"": (tile, k_tiles)}
    if tile.deep > 1:
        depths[DEEP] = (tile.deepened(), k_tiles // tile.deep)
    functions = {}
    for depth, (whole, count) in depths.items():
        for name in ("start", "step") if count > 1 else ("start",):
            part = whole.leading(problem) if whole.lead and name == "start" else whole
            apart = part.blocked and name == "step"
            functions[depth + name] = emit(
                kernel,
                depth + name,
                part,
                dtypes,
                part.m if apart else rows,
                accumulate=name == "step" and not apart,
            )
    if tile.blocked:
        functions["add"] = add_partial(kernel, "add", tile, dtypes[1], rows)
    return functions


def prologue_function(
    kernel: KernelBuilder, problem: GemmProblem, fusion: GemmFusion, tile: GemmTile, operand: Operand
) -> OperandFunction | None:
    """What computes `operand`; None where it is loaded as it is. What lies behind the last k is masked: there a
    program makes something else of zeros than zero."""
    program = fusion.prologue(operand)
    if program is None:
        return None
    masks: KAxis = ""
    if problem.k % tile.k:
        masks = "lane" if operand == "x" and tile.body == "array" else "walked"
    return operand_function(kernel, f"prologue_{operand}", program, tile.block(operand, problem), masks=masks)


def tail_function(
    kernel: KernelBuilder, problem: GemmProblem, fusion: GemmFusion, tile: GemmTile
) -> StagedFunction | None:
    """What runs on a finished result; None where nothing does."""
    if fusion.tail is None:
        return None
    flat = fused_tile(fusion.tail, tile.block("y", problem), kernel.config)
    return TileFunctions(kernel, fusion.tail, plan_stages(fusion.tail), flat, tile.lanes).resident()
