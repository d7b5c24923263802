"""What a kernel computes at one point of its iteration space, free of Inductor and of MLIR.

In: recorded by `pytorchsim.scheduler.recorder` from Inductor's loop bodies. Out: read by tile search and emission.
A program is a list of operations in single-assignment form; an operand is the number of an earlier operation.
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
    """One value. `access` is set for `load`, `constant` for `constant`; `dtype` is the type computed in."""

    name: str
    operands: tuple[int, ...]
    dtype: Dtype
    access: Access | None = None
    constant: float | int | bool | None = None


@dataclass(frozen=True)
class Store:
    """The value `value` goes to `access`, converted to the type in memory."""

    access: Access
    value: int


@dataclass(frozen=True)
class LoopProgram:
    """Operations and stores at one point of the space `sizes` (elements per axis, outermost first)."""

    sizes: tuple[int, ...]
    operations: tuple[Operation, ...]
    stores: tuple[Store, ...]

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

    A program over one point keeps one axis of size 1.
    """
    kept: list[int] = []
    sizes: list[int] = []
    strides: dict[Access, list[int]] = {access: [] for access in program.accesses()}
    for axis, size in enumerate(program.sizes):
        if size == 1:
            continue
        mergeable = bool(kept) and all(strides[access][-1] == access.index.strides[axis] * size for access in strides)
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
    if not sizes:
        sizes = [1]
        for walked in strides.values():
            walked.append(0)
    mapping = {
        access: replace(access, index=AffineIndex(tuple(walked), access.index.offset))
        for access, walked in strides.items()
    }
    return LoopProgram(
        tuple(sizes),
        tuple(replace(op, access=mapping[op.access]) if op.access is not None else op for op in program.operations),
        tuple(replace(store, access=mapping[store.access]) for store in program.stores),
    )
