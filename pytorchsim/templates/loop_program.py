"""What a kernel computes at one point of its iteration space, free of Inductor and of MLIR.

In: recorded by `pytorchsim.templates.recorder` from Inductor's loop bodies. Out: read by stage planning, tile search
and emission. A program is a list of operations in single-assignment form; an operand is the number of an earlier
operation. The last `reduced` axes are reduced: a *row* is one point of the other axes; a value is row-level when it
is the same for every point of the row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pytorchsim.target.dtypes import Dtype

__all__ = ["Access", "AffineIndex", "LoopProgram", "Operation", "Store", "merge_axes"]


@dataclass(frozen=True)
class AffineIndex:
    """Element `offset + sum(strides[a] * i[a])` of a buffer, relative to its data pointer. Elements, not bytes."""

    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Access:
    """One buffer touched at an affine index. `dtype` is the type in memory, not the one computed in."""

    buffer: str
    dtype: Dtype
    index: AffineIndex


@dataclass(frozen=True)
class Operation:
    """One value. `access` is set for `load`, `constant` for `constant`, `reduction` (sum, max ...) for `reduce`,
    which folds its operand over the reduced axes. `dtype` is the type computed in."""

    name: str
    operands: tuple[int, ...]
    dtype: Dtype
    access: Access | None = None
    constant: float | int | bool | None = None
    reduction: str | None = None


@dataclass(frozen=True)
class Store:
    """The value `value` goes to `access`, converted to the type in memory."""

    access: Access
    value: int


@dataclass(frozen=True)
class LoopProgram:
    """Operations and stores at one point of the space `sizes` (elements per axis, outermost first; the last `reduced`
    are reduced)."""

    sizes: tuple[int, ...]
    operations: tuple[Operation, ...]
    stores: tuple[Store, ...]
    reduced: int = 0

    @property
    def row_rank(self) -> int:
        """Axes that are not reduced: the first ones."""
        return len(self.sizes) - self.reduced

    def is_row_level(self, access: Access) -> bool:
        """Whether `access` touches one element per row."""
        return not any(access.index.strides[self.row_rank :])

    @property
    def loads(self) -> tuple[Access, ...]:
        """Distinct loads in program order."""
        return tuple(dict.fromkeys(op.access for op in self.operations if op.access is not None))

    def accesses(self) -> Iterator[Access]:
        """Every access: loads, then stores."""
        yield from self.loads
        yield from (store.access for store in self.stores)

    def max_live(self) -> int:
        """The most values that are live at once when operations run in order: register pressure of one vector step."""
        last_use = {number: position for position, op in enumerate(self.operations) for number in op.operands}
        for store in self.stores:
            last_use[store.value] = len(self.operations)
        live = 0
        most = 1
        ends: dict[int, int] = {}
        for position, op in enumerate(self.operations):
            live -= ends.pop(position - 1, 0)
            if op.name != "constant" and position in last_use:
                live += 1
                ends[last_use[position]] = ends.get(last_use[position], 0) + 1
            most = max(most, live)
        return most


def merge_axes(program: LoopProgram) -> LoopProgram:
    """The same program over fewer axes: size-1 axes go, neighbours merge where every access walks them as one.

    A row axis never merges with a reduced one. Each of the two groups keeps at least one axis (of size 1) if it has
    any, the row group always.
    """
    groups = [range(program.row_rank), range(program.row_rank, len(program.sizes))]
    if not program.row_rank:
        program = _with_row_axis(program)
        groups = [range(1), range(1, len(program.sizes))]
    alone = {group[0] for group in groups if group and all(program.sizes[axis] == 1 for axis in group)}
    kept: list[int] = []
    sizes: list[int] = []
    strides: dict[Access, list[int]] = {access: [] for access in program.accesses()}
    for axis, size in enumerate(program.sizes):
        if size == 1 and axis not in alone:
            continue
        same_group = bool(kept) and (kept[-1] < program.row_rank) == (axis < program.row_rank)
        mergeable = same_group and all(
            walked[-1] == access.index.strides[axis] * size for access, walked in strides.items()
        )
        if mergeable:
            sizes[-1] *= size
        else:
            kept.append(axis)
            sizes.append(size)
        for access, walked in strides.items():
            if mergeable:
                walked[-1] = access.index.strides[axis]
            else:
                walked.append(access.index.strides[axis])
    mapping = {
        access: replace(access, index=AffineIndex(tuple(walked), access.index.offset))
        for access, walked in strides.items()
    }
    return LoopProgram(
        tuple(sizes),
        tuple(replace(op, access=mapping[op.access]) if op.access is not None else op for op in program.operations),
        tuple(replace(store, access=mapping[store.access]) for store in program.stores),
        sum(1 for axis in kept if axis >= program.row_rank),
    )


def _with_row_axis(program: LoopProgram) -> LoopProgram:
    """The same program with an axis of size 1 in front."""

    def widen(access: Access) -> Access:
        return replace(access, index=AffineIndex((0, *access.index.strides), access.index.offset))

    return LoopProgram(
        (1, *program.sizes),
        tuple(replace(op, access=widen(op.access)) if op.access is not None else op for op in program.operations),
        tuple(replace(store, access=widen(store.access)) for store in program.stores),
        program.reduced,
    )
