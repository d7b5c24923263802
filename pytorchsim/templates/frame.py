"""Fused nodes seen from a template: the loops of scheduler nodes expressed in the axes of a frame.

In: scheduler nodes that read the result, or that make an operand, and the frame: a buffer's name, sizes and index
over (batch, slots, walked axes). Out: one `LoopProgram` over the frame, the walked axes as the reduced ones, or
UnsupportedError with the reason why there is none. Pure. A node is matched with the coordinates of the frame's buffer,
which are then written as functions of the frame's axes (`coordinates.py`): so a frame of some positions of the buffer
takes the node's part there. A node may walk coordinates in any order and merged; it may not split one, because a tile
ends only at them. A reduction folds the walked axis and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, cast

import sympy
from torch._inductor.loop_body import LoopBody
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.virtualized import V

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.coordinates import Coordinate, all_coordinates, guarded
from pytorchsim.templates.index_analysis import affine_index
from pytorchsim.templates.loop_program import AffineIndex, Guard, LoopProgram
from pytorchsim.templates.recorder import LoopRecorder

__all__ = ["Frame", "LoopView", "internal_buffers", "record_epilogues", "record_prologues"]


@dataclass(frozen=True)
class Frame:
    """Where `buffer` lies over axes of `sizes`, the last `walked` of which are walked. `made`: coordinates of the
    buffer that are not an axis each. Points exist where `guards` hold."""

    buffer: str
    sizes: tuple[int, ...]
    index: AffineIndex
    walked: int = 1
    made: tuple[Coordinate, ...] = ()
    guards: tuple[Guard, ...] = ()

    @property
    def axes(self) -> tuple[sympy.Symbol, ...]:
        """A symbol for each axis."""
        return tuple(sympy.Symbol(f"f{axis}", integer=True, nonnegative=True) for axis in range(len(self.sizes)))

    @cached_property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """All of them."""
        return all_coordinates(self.sizes, self.index, self.made)

    @cached_property
    def symbols(self) -> tuple[sympy.Symbol, ...]:
        """One for each coordinate."""
        count = len(self.coordinates)
        return tuple(sympy.Symbol(f"c{number}", integer=True, nonnegative=True) for number in range(count))

    @property
    def own_index(self) -> AffineIndex:
        """Where the buffer lies over its coordinates."""
        coordinates = self.coordinates
        first = sum(coordinate.stride * coordinate.position.offset for coordinate in coordinates)
        return AffineIndex(tuple(coordinate.stride for coordinate in coordinates), self.index.offset - first)

    def in_axes(self, places: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        """Expressions of coordinates as those of axes."""
        positions = [
            sum((step * axis for step, axis in zip(position.strides, self.axes, strict=True)), sympy.Integer(0))
            + position.offset
            for position in (coordinate.position for coordinate in self.coordinates)
        ]
        return [place.subs(dict(zip(self.symbols, positions, strict=True)), simultaneous=True) for place in places]

    def recorder(self) -> LoopRecorder:
        """An empty recorder over the frame."""
        return LoopRecorder(self.axes, self.sizes, self.walked)


@dataclass(frozen=True)
class LoopView:
    """A scheduler node with loops of its own choice: `body` may be another form of the node's, which stays as it is."""

    node: SchedulerNode
    body: LoopBody

    @classmethod
    def of(cls, node: SchedulerNode) -> LoopView:
        """The node as it is."""
        return cls(node, node._body)

    @property
    def _body(self) -> LoopBody:
        return self.body

    def get_name(self) -> str:
        """The node's name."""
        return str(self.node.get_name())

    def get_output(self, name: str) -> Any:
        """The scheduler's buffer that the node stores."""
        return self.node.get_output(name)

    def reads(self) -> list[str]:
        """Names of what it loads, sorted."""
        return sorted({dep.name for dep in self.node.read_writes.reads})

    @property
    def sizes(self) -> tuple[list[int], list[int]]:
        """Extents of its loops: rows, reduced."""
        rows, reduced = self.body.sizes
        return [int(size) for size in rows], [int(size) for size in reduced]


def record_epilogues(views: Sequence[LoopView], frame: Frame, removed: frozenset[str]) -> LoopProgram:
    """The program of `views`, in order of execution, without stores to `removed` buffers."""
    recorder = frame.recorder()
    known = {frame.buffer: frame.own_index}
    for view in views:
        anchor = _anchor(view, known)
        places = _places(view, view.body.get_all_read_expr(anchor)[0], known[anchor], frame)
        _check_reads(view, places, known, frame)
        _replay(recorder, view, places, frame)
        for name in sorted(view.node.get_buffer_names()):
            (index,) = {_in_frame(index, view, places, frame) for index in view.body.get_all_write_expr(name)}
            known[name] = index
    return guarded(recorder.program(removed), frame.guards)


def record_prologues(views: Sequence[LoopView], frame: Frame) -> LoopProgram:
    """The program of `views`, in order of execution, the last of which stores the frame's buffer."""
    known = {frame.buffer: frame.own_index}
    placed: list[tuple[LoopView, list[sympy.Expr]]] = []
    for view in reversed(views):
        target = next((name for name in sorted(view.node.get_buffer_names()) if name in known), None)
        if target is None:
            raise UnsupportedError(f"{view.get_name()} makes nothing that the operand is made of")
        if view.sizes[1]:
            raise UnsupportedError(f"{view.get_name()} is a reduction")
        places = _places(view, view.body.get_all_write_expr(target)[0], known[target], frame)
        for name in view.reads():
            found = {_in_frame(index, view, places, frame) for index in view.body.get_all_read_expr(name)}
            known[name] = found.pop() if len(found) == 1 else AffineIndex((-1,) * len(frame.coordinates))
        placed.append((view, places))
    recorder = frame.recorder()
    for view, places in reversed(placed):
        _replay(recorder, view, places, frame)
    made = {name for view in views for name in view.node.get_buffer_names()}
    return recorder.program(frozenset(made - {frame.buffer}))


def internal_buffers(nodes: Sequence[SchedulerNode]) -> frozenset[str]:
    """Buffers that only these nodes use: a kernel of them all does not store them."""
    members = {node.get_name() for node in nodes}
    outputs = set(V.graph.get_output_names())
    return frozenset(
        buffer.get_name()
        for node in nodes
        for buffer in node.get_outputs()
        if buffer.get_name() not in outputs and all(user.get_name() in members for user in buffer.users)
    )


def _anchor(view: LoopView, known: Mapping[str, AffineIndex]) -> str:
    """The buffer of the frame that tells how the node walks it: the one over the most axes."""
    candidates = [name for name in view.reads() if name in known]
    if not candidates:
        raise UnsupportedError(f"{view.get_name()} reads nothing of the result")
    return max(candidates, key=lambda name: sum(stride != 0 for stride in known[name].strides))


def _places(view: LoopView, walked: sympy.Expr, index: AffineIndex, frame: Frame) -> list[sympy.Expr]:
    """The node's loop variables, rows then reduced, as expressions of the frame's coordinates, from how it walks a
    buffer that lies over them at `index`."""
    variables = [*view.body.iter_vars, *view.body.reduce_vars]
    sizes = [*view.sizes[0], *view.sizes[1]]
    steps = affine_index(walked, variables).strides
    places: list[sympy.Expr] = [sympy.Integer(0)] * len(variables)
    covered = 1
    for coordinate, symbol, stride in zip(frame.coordinates, frame.symbols, index.strides, strict=True):
        size = coordinate.extent
        if size == 1 or stride == 0:
            continue
        covered *= size
        holder = next(
            (
                number
                for number, step in enumerate(steps)
                if step > 0 and stride % step == 0 and size * stride <= sizes[number] * step
            ),
            None,
        )
        if holder is None:
            raise UnsupportedError(
                f"{view.get_name()} walks by strides {steps} over {tuple(sizes)}, which splits a coordinate of the"
                f" frame (size {size}, stride {stride})"
            )
        places[holder] += stride // steps[holder] * symbol
    if covered != prod(sizes):
        raise UnsupportedError(f"{view.get_name()} has {prod(sizes)} points, the frame {covered}")
    _check_reduction(view, frame.in_axes(places), frame)
    return places


def _check_reduction(view: LoopView, places: Sequence[sympy.Expr], frame: Frame) -> None:
    """A reduction folds the walked axis alone."""
    rows = len(view.body.iter_vars)
    walked = frame.axes[-1]
    folded: set[sympy.Symbol] = set().union(*(place.free_symbols for place in places[rows:]))
    kept: set[sympy.Symbol] = set().union(*(place.free_symbols for place in places[:rows]))
    if view.body.reduce_vars and (folded != {walked} or walked in kept):
        raise UnsupportedError(f"{view.get_name()} reduces other axes than the walked one")


def _in_frame(index: sympy.Expr, view: LoopView, places: Sequence[sympy.Expr], frame: Frame) -> AffineIndex:
    variables = [*view.body.iter_vars, *view.body.reduce_vars]
    return affine_index(index.subs(dict(zip(variables, places, strict=True))), frame.symbols)


def _check_reads(view: LoopView, places: Sequence[sympy.Expr], known: Mapping[str, AffineIndex], frame: Frame) -> None:
    """What lies in the frame is read at the point that is computed, nowhere else."""
    long = [number for number, coordinate in enumerate(frame.coordinates) if coordinate.extent > 1]
    for name in view.reads():
        if name not in known:
            continue
        for expression in view.body.get_all_read_expr(name):
            index = _in_frame(expression, view, places, frame)
            expected = known[name]
            same = all(index.strides[number] == expected.strides[number] for number in long)
            if not same or index.offset != expected.offset:
                raise UnsupportedError(f"{view.get_name()} reads {name} at other points than the one it computes")


def _replay(recorder: LoopRecorder, view: LoopView, places: Sequence[sympy.Expr], frame: Frame) -> None:
    rows, in_axes = len(view.body.iter_vars), frame.in_axes(places)
    recorder.replay(cast(SchedulerNode, view), in_axes[:rows], in_axes[rows:])
