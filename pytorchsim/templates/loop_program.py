"""What a kernel computes at one point of its iteration space, free of Inductor and of MLIR.

In: recorded by `pytorchsim.templates.recorder` from Inductor's loop bodies. Out: read by stage planning, tile search
and emission. A program is a list of operations in single-assignment form; an operand is the number of an earlier
operation. The last `reduced` axes are reduced: a *row* is one point of the other axes; a value is row-level when it
is the same for every point of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from pytorchsim.target.descriptor import TransferOp
from pytorchsim.target.dtypes import I32, I64, Dtype

__all__ = [
    "Access",
    "AffineIndex",
    "Gather",
    "Guard",
    "LoopProgram",
    "Operation",
    "Store",
    "direct_load",
    "needed_operations",
    "without_buffer_names",
]


@dataclass(frozen=True)
class AffineIndex:
    """Element `offset + sum(strides[a] * i[a])` of a buffer, relative to its data pointer. Elements, not bytes."""

    strides: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Guard:
    """An element is touched only where `0 <= position < extent`, `position` an affine function of the axes."""

    position: AffineIndex
    extent: int


@dataclass(frozen=True)
class Gather:
    """Adds `stride` times the value of operation `value` to the element. The value must be in `0 .. extent - 1`, with
    `wrap` (negative ones count from the end) in `-extent .. extent - 1`; any other is a fault of the machine."""

    value: int
    stride: int
    extent: int
    wrap: bool = False


@dataclass(frozen=True)
class Access:
    """One buffer touched at an affine index plus gathered terms. `dtype` is the type in memory, not the one computed
    in. Where a guard does not hold, a load gives the bit pattern `fill` and a store does nothing."""

    buffer: str
    dtype: Dtype
    index: AffineIndex
    guards: tuple[Guard, ...] = ()
    gathers: tuple[Gather, ...] = ()
    fill: int = 0


@dataclass(frozen=True)
class Operation:
    """One value. `access` is set for `load`, `constant` for `constant`, `reduction` (sum, max ...) for `reduce`,
    which folds its operand over the reduced axes, `position` for `position`, whose value is an affine function of the
    axes. `reduced_value` is the value at the position that a reduction gives. `dtype` is the type computed in.

    A `scan` folds up to each element, in the order of the reduced axes: its operands are n `carry` operations, which
    stand for what the element before has made, then the n new values; it is number `constant` of them. What a `carry`
    is at the first element is not defined."""

    name: str
    operands: tuple[int, ...]
    dtype: Dtype
    access: Access | None = None
    constant: float | int | bool | None = None
    reduction: str | None = None
    position: AffineIndex | None = None


@dataclass(frozen=True)
class Store:
    """The value `value` goes to `access`, converted to the type in memory, by `op` (plain, or combined with what is
    there, in index order). `in_place`: into memory that another buffer of the graph names, which may be loaded here."""

    access: Access
    value: int
    op: TransferOp = TransferOp.STORE
    in_place: bool = False


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

    @cached_property
    def row_values(self) -> tuple[bool, ...]:
        """For each operation: whether its value is row-level."""
        known: list[bool] = []
        for operation in self.operations:
            if operation.access is not None:
                known.append(self._one_per_row(operation.access, known))
            elif operation.position is not None:
                known.append(not any(operation.position.strides[self.row_rank :]))
            else:
                of_rows = operation.name != "carry" and all(known[number] for number in operation.operands)
                known.append(operation.reduction is not None or of_rows)
        return tuple(known)

    def is_row_level(self, access: Access) -> bool:
        """Whether `access` touches one element per row."""
        return self._one_per_row(access, self.row_values)

    def _one_per_row(self, access: Access, row_values: list[bool] | tuple[bool, ...]) -> bool:
        indices = (access.index, *(guard.position for guard in access.guards))
        return not any(any(index.strides[self.row_rank :]) for index in indices) and all(
            row_values[gather.value] for gather in access.gathers
        )

    @property
    def loads(self) -> tuple[Access, ...]:
        """Distinct loads in program order."""
        return tuple(dict.fromkeys(op.access for op in self.operations if op.access is not None))

    def accesses(self) -> Iterator[Access]:
        """Every access: loads, then stores."""
        yield from self.loads
        yield from (store.access for store in self.stores)

    @cached_property
    def positions_used(self) -> tuple[int, ...]:
        """The axes whose position some operation needs, in order."""
        return tuple(
            axis
            for axis in range(len(self.sizes))
            if any(op.position is not None and op.position.strides[axis] for op in self.operations)
        )

    @cached_property
    def computes_indices(self) -> bool:
        """Whether some access gathers by a value that is not loaded as it is."""
        gathered = {gather.value for access in self.accesses() for gather in access.gathers}
        return any(direct_load(self, value) is None for value in gathered)

    @property
    def scatters(self) -> bool:
        """Whether some store goes where values say."""
        return any(store.access.gathers for store in self.stores)

    @cached_property
    def scans(self) -> tuple[int, ...]:
        """The operations that are scans."""
        return tuple(number for number, op in enumerate(self.operations) if op.name == "scan")

    def rename_buffers(self, names: Mapping[str, str]) -> LoopProgram:
        """The same program with other names for some buffers."""

        def renamed(access: Access) -> Access:
            return replace(access, buffer=names.get(access.buffer, access.buffer))

        operations = tuple(
            op if op.access is None else replace(op, access=renamed(op.access)) for op in self.operations
        )
        stores = tuple(replace(store, access=renamed(store.access)) for store in self.stores)
        return replace(self, operations=operations, stores=stores)

    def map_indices(self, change: Callable[[AffineIndex], AffineIndex]) -> LoopProgram:
        """The same program with `change` applied to every affine function of the axes; sizes stay."""

        def changed(access: Access) -> Access:
            guards = tuple(replace(guard, position=change(guard.position)) for guard in access.guards)
            return replace(access, index=change(access.index), guards=guards)

        operations = tuple(
            replace(
                op,
                access=None if op.access is None else changed(op.access),
                position=None if op.position is None else change(op.position),
            )
            for op in self.operations
        )
        stores = tuple(replace(store, access=changed(store.access)) for store in self.stores)
        return replace(self, operations=operations, stores=stores)

    def indices(self) -> Iterator[AffineIndex]:
        """Every affine function of the axes."""
        for access in self.accesses():
            yield access.index
            yield from (guard.position for guard in access.guards)
        yield from (op.position for op in self.operations if op.position is not None)


def needed_operations(program: LoopProgram, values: Iterable[int]) -> tuple[int, ...]:
    """`values` and what computes them, in program order. What a load gathers by is not computed for it again."""
    needed: set[int] = set()
    pending = list(values)
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending.extend(program.operations[number].operands)
    return tuple(sorted(needed))


def direct_load(program: LoopProgram, value: int) -> Access | None:
    """The access behind operation `value` if the machine can gather by what lies in memory."""
    operation = program.operations[value]
    access = operation.access
    if access is None or access.gathers or access.dtype not in (I32, I64) or operation.dtype != access.dtype:
        return None
    return access


def without_buffer_names(
    programs: Sequence[LoopProgram | None], keep: Collection[str] = ()
) -> tuple[LoopProgram | None, ...]:
    """The same programs with buffers named by their order, but for those of `keep`: equal for equal layers of a model.

    What is decided about a program (tiles, stages) does not depend on names, and is remembered under this form.
    """
    accesses = (access for program in programs if program is not None for access in program.accesses())
    named = dict.fromkeys(access.buffer for access in accesses if access.buffer not in keep)
    names = {name: f"buffer {number}" for number, name in enumerate(named)}
    return tuple(None if program is None else program.rename_buffers(names) for program in programs)
