"""`merge_axes`: a loop program over as few axes as its accesses allow. In and out: a `LoopProgram`. Pure."""

from __future__ import annotations

from dataclasses import replace

from pytorchsim.templates.loop_program import AffineIndex, LoopProgram

__all__ = ["merge_axes"]


def merge_axes(program: LoopProgram) -> LoopProgram:
    """The same program over fewer axes: size-1 axes go, neighbours merge where everything walks them as one.

    A row axis never merges with a reduced one. Each of the two groups keeps at least one axis (of size 1) if it has
    any, the row group always. Indices that differ in axes of size 1 only become equal.
    """
    if not program.row_rank:
        widened = program.map_indices(lambda index: AffineIndex((0, *index.strides), index.offset))
        program = replace(widened, sizes=(1, *program.sizes))
    program = _without_points(program)
    axis = 0
    while axis + 1 < len(program.sizes):
        size = program.sizes[axis + 1]
        apart = axis + 1 == program.row_rank
        if apart or any(index.strides[axis] != index.strides[axis + 1] * size for index in program.indices()):
            axis += 1
            continue
        program = _without_axis(program, axis, size * program.sizes[axis])
    return program


def _without_points(program: LoopProgram) -> LoopProgram:
    """Without axes of size 1, except one in a group that has no other."""
    for axis in reversed(range(len(program.sizes))):
        in_rows = axis < program.row_rank
        alone = program.row_rank == 1 if in_rows else program.reduced == 1
        if program.sizes[axis] != 1:
            continue
        if alone:
            program = program.map_indices(lambda index, axis=axis: _replaced(index, axis, 0))  # type: ignore[misc]
        else:
            program = _dropped(program, axis)
    return program


def _replaced(index: AffineIndex, axis: int, stride: int) -> AffineIndex:
    return AffineIndex((*index.strides[:axis], stride, *index.strides[axis + 1 :]), index.offset)


def _dropped(program: LoopProgram, axis: int) -> LoopProgram:
    without = program.map_indices(
        lambda index: AffineIndex((*index.strides[:axis], *index.strides[axis + 1 :]), index.offset)
    )
    sizes = (*program.sizes[:axis], *program.sizes[axis + 1 :])
    return replace(without, sizes=sizes, reduced=program.reduced - (axis >= program.row_rank))


def _without_axis(program: LoopProgram, axis: int, size: int) -> LoopProgram:
    """`axis` becomes part of the next one, which then has `size`."""
    merged = _dropped(program, axis)
    return replace(merged, sizes=(*merged.sizes[:axis], size, *merged.sizes[axis + 1 :]))
