"""A matrix product written down axis by axis, and the `GemmProblem` made of it.

In: axes with what a step along each does to every operand, guards. Out: a problem without axes of one element, with
neighbouring axes joined where all operands walk them as one, without guards that always hold, on the unit that
multiplies it fastest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.coordinates import Coordinate
from pytorchsim.templates.gemm_problem import Body, GemmProblem, Part, Role, accumulator_dtype, body_of
from pytorchsim.templates.loop_program import AffineIndex, Guard

__all__ = ["ProductAxis", "ProductGuard", "product_problem"]

_PARTS: tuple[Part, Part, Part] = ("x", "w", "y")
_ROLES: tuple[Role, ...] = ("b", "m", "n", "k")


@dataclass(frozen=True)
class ProductAxis:
    """`size` steps of a group, outermost axes first. `strides`: elements of each operand that has the group. `steps`:
    of the positions of guards, by number."""

    role: Role
    size: int
    strides: Mapping[Part, int]
    steps: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class ProductGuard:
    """Elements of `part` exist where `0 <= base + steps < extent`; `stride` elements lie from one position to the
    next."""

    part: Part
    base: int
    extent: int
    stride: int = 0


def product_problem(
    axes: Sequence[ProductAxis],
    guards: Sequence[ProductGuard],
    offsets: Mapping[Part, int],
    dtypes: tuple[Dtype, Dtype],
    config: NpuConfig,
) -> GemmProblem:
    """The problem. There is one axis of columns. `offsets` in elements; `dtypes`: of operands and result."""
    kept = [number for number, guard in enumerate(guards) if not _always(guard, number, axes)]
    made = [number for number, guard in enumerate(guards) if guard.part == "y" and not _is_axis(guard, number, axes)]
    groups = {role: _joined(_needed(axes, role, [*kept, *made])) for role in _ROLES}
    for role, group in groups.items():
        if not group:
            group.append(ProductAxis(role, 1, {}))
    dtype, result = dtypes
    sizes = {role: tuple(axis.size for axis in group) for role, group in groups.items()}
    (columns,) = sizes["n"]
    problem = GemmProblem(
        batch_axes=sizes["b"],
        m_axes=sizes["m"],
        n=columns,
        k_axes=sizes["k"],
        x=_NOWHERE,
        w=_NOWHERE,
        y=_NOWHERE,
        dtype=dtype,
        result_dtype=result,
        body=_fastest(dtype, sizes, config),
    )
    indices: dict[Part, AffineIndex] = {}
    positions: dict[int, AffineIndex] = {}
    for part in _PARTS:
        order = [axis for role in problem.roles(part) for axis in groups[role]]
        indices[part] = AffineIndex(tuple(axis.strides.get(part, 0) for axis in order), offsets[part])
        positions |= {
            number: AffineIndex(tuple(axis.steps.get(number, 0) for axis in order), guard.base)
            for number, guard in enumerate(guards)
            if guard.part == part
        }
    conditions = {
        part: tuple(Guard(positions[number], guards[number].extent) for number in kept if guards[number].part == part)
        for part in _PARTS
    }
    return replace(
        problem,
        x=indices["x"],
        w=indices["w"],
        y=indices["y"],
        x_guards=conditions["x"],
        w_guards=conditions["w"],
        y_guards=conditions["y"],
        y_coordinates=tuple(
            Coordinate(guards[number].extent, guards[number].stride, positions[number]) for number in made
        ),
    )


_NOWHERE = AffineIndex(())


def _joined(axes: Sequence[ProductAxis]) -> list[ProductAxis]:
    """Neighbours as one axis where every operand and every guard walks them as one."""
    joined: list[ProductAxis] = []
    for axis in axes:
        outer = joined[-1] if joined else None
        if outer is not None and _continues(outer, axis):
            joined[-1] = replace(axis, size=outer.size * axis.size)
        else:
            joined.append(axis)
    return joined


def _continues(outer: ProductAxis, inner: ProductAxis) -> bool:
    parts = {*outer.strides, *inner.strides}
    numbers = {*outer.steps, *inner.steps}
    return all(outer.strides.get(part, 0) == inner.strides.get(part, 0) * inner.size for part in parts) and all(
        outer.steps.get(number, 0) == inner.steps.get(number, 0) * inner.size for number in numbers
    )


def _needed(axes: Sequence[ProductAxis], role: Role, kept: Sequence[int]) -> list[ProductAxis]:
    """Axes of more than one element, with steps of the guards that are `kept`."""
    return [
        replace(axis, steps={number: step for number, step in axis.steps.items() if number in kept})
        for axis in axes
        if axis.role == role and axis.size > 1
    ]


def _always(guard: ProductGuard, number: int, axes: Sequence[ProductAxis]) -> bool:
    """Whether the guard holds at every point."""
    reaches = [axis.steps.get(number, 0) * (axis.size - 1) for axis in axes]
    least = guard.base + sum(min(0, reach) for reach in reaches)
    most = guard.base + sum(max(0, reach) for reach in reaches)
    return least >= 0 and most < guard.extent


def _is_axis(guard: ProductGuard, number: int, axes: Sequence[ProductAxis]) -> bool:
    """Whether the positions are those of one axis, all of them."""
    moving = [(axis.steps[number], axis.size) for axis in axes if axis.steps.get(number) and axis.size > 1]
    return guard.extent == 1 or (guard.base == 0 and moving == [(1, guard.extent)])


def _fastest(dtype: Dtype, sizes: Mapping[Role, tuple[int, ...]], config: NpuConfig) -> Body:
    """What multiplies it in the fewest cycles, as far as sizes tell: batches one after another on the arrays (or with
    a column per lane), or a batch per lane."""
    m, n, k = (prod(sizes[role]) for role in ("m", "n", "k"))
    one_by_one, batches = body_of(dtype, m), sizes["b"][-1]
    lanes, bits = config.core.lanes, accumulator_dtype(dtype).bits
    cycles_per_product = bits / config.core.datapath_bits
    if one_by_one == "array":
        one = -(-k // lanes) * -(-n // lanes) * max(m / config.array.count, lanes)
    else:
        one = m * k * -(-n // lanes) * cycles_per_product
    vector = max(2, config.core.datapath_bits // bits)
    per_lane = -(-batches // lanes) * -(-m // vector) * vector * n * k * cycles_per_product
    return "batch" if per_lane < batches * one else one_by_one
