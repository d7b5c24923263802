"""Epilogues seen from a template: the loops of scheduler nodes expressed in the axes of the template's result.

In: scheduler nodes that read the result, and the result's frame: its name, sizes and strides. Out: one `LoopProgram`
over the frame, or UnsupportedError with the reason why there is none. Pure. An epilogue may walk the result in any
order and with axes merged; it may not split an axis of the frame, because a tile ends only at the frame's
coordinates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import sympy
from torch._inductor.scheduler import SchedulerNode

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.index_analysis import affine_index
from pytorchsim.templates.recorder import LoopRecorder

__all__ = ["Frame", "record_epilogues"]


@dataclass(frozen=True)
class Frame:
    """The axes of a result: its `sizes` and the `strides` (elements) of buffer `buffer`, equally long."""

    buffer: str
    sizes: tuple[int, ...]
    strides: tuple[int, ...]


def record_epilogues(nodes: Sequence[SchedulerNode], frame: Frame) -> LoopRecorder:
    """A recorder over the frame's axes that has replayed `nodes` in order."""
    axes = [sympy.Symbol(f"f{axis}", integer=True, nonnegative=True) for axis in range(len(frame.sizes))]
    recorder = LoopRecorder(axes, frame.sizes)
    known = {frame.buffer: frame.strides}
    for node in nodes:
        rows, reduced = node.group[1]
        if reduced:
            raise UnsupportedError(f"{node.get_name()} is a reduction")
        recorder.replay(node, _in_frame(node, [int(size) for size in rows], known, frame, axes), [])
        known |= {store.access.buffer: store.access.index.strides for store in recorder.program().stores}
    return recorder


def _in_frame(
    node: SchedulerNode,
    sizes: Sequence[int],
    known: Mapping[str, tuple[int, ...]],
    frame: Frame,
    axes: Sequence[sympy.Symbol],
) -> list[sympy.Expr]:
    """The node's loop variables as expressions of the frame's axes, from how it reads a buffer that lies in the
    frame."""
    variables = node._body.iter_vars
    buffer = next((name for name in known if _reads(node, name)), None)
    if buffer is None:
        raise UnsupportedError(f"{node.get_name()} reads nothing of the result")
    walked = affine_index(node._body.get_all_read_expr(buffer)[0], variables).strides
    places: list[sympy.Expr] = [sympy.Integer(0)] * len(variables)
    for axis, (size, stride) in enumerate(zip(frame.sizes, known[buffer], strict=True)):
        if size == 1:
            continue
        holder = next(
            (
                variable
                for variable, step in enumerate(walked)
                if step > 0 and stride % step == 0 and size * stride <= sizes[variable] * step
            ),
            None,
        )
        if holder is None:
            raise UnsupportedError(
                f"{node.get_name()} walks {buffer} by strides {walked} over {tuple(sizes)}, which splits axis {axis}"
                f" of the result (size {size}, stride {stride})"
            )
        places[holder] += stride // walked[holder] * axes[axis]
    covered = 1
    for size in frame.sizes:
        covered *= size
    points = 1
    for size in sizes:
        points *= size
    if covered != points:
        raise UnsupportedError(f"{node.get_name()} has {points} points, the result {covered}")
    return places


def _reads(node: SchedulerNode, buffer: str) -> bool:
    return any(dep.name == buffer for dep in node.read_writes.reads)
