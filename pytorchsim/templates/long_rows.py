"""Reductions of few long rows: the rows are cut into chunks, so that every core has its share.

In: a loop program with fewer tiles of rows than cores may want. Out: programs that run one after another in its place,
with the workspaces between them, or nothing where that does not pay. For each stage that reduces: one program walks the
chunks and stores a partial result of each, one folds the partial results in the order of chunks; a last one computes
what is stored along the rows. A position (argmax) has two partial results, the value and where it stood.
Pure; the cut depends on the program and the core alone, so results have the same bits on any number of cores.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import BOOL, I32, I64, Dtype, Kind
from pytorchsim.templates.loop_program import Access, AffineIndex, Guard, LoopProgram, Operation, Store
from pytorchsim.templates.merge_axes import merge_axes
from pytorchsim.templates.reductions import REDUCTIONS
from pytorchsim.templates.stages import Stage, plan_stages
from pytorchsim.templates.tile_search import TileSearch, cheapest, estimated_cycles

__all__ = ["LongRows", "Part", "Workspace", "plan_long_rows"]

_CHUNKS = 32
"""Into how many chunks a row is cut at least, and less than twice as many: enough for the cores of any chip."""

_ROW_TILES = 8
"""Programs with fewer tiles of rows are looked at; those over chunks have at least as many."""

_GAIN, _LOSS = 1.5, 1.8
"""It pays if it would be so many times as fast on `_ROW_TILES` cores, and at most so many times as slow on one. There
the estimate is too high: 1.3, 1.5 and 1.8 turned out as 1.09, 1.10 and 1.18 (argmax, softmax and log softmax of 65,543
elements, `mobile` with fast memory)."""

_FOLDED_BY = {"argmax": "max", "argmin": "min"}
"""What folds the values of a reduction to a position."""


@dataclass(frozen=True)
class Workspace:
    """A dense buffer between the programs: `name` is how accesses call it."""

    name: str
    dtype: Dtype
    elements: int


@dataclass(frozen=True)
class Part:
    """A program with the least number of tiles that its rows are to be cut into."""

    program: LoopProgram
    row_tiles: int = 1


@dataclass(frozen=True)
class LongRows:
    """`parts` in order; `reason`: why."""

    parts: tuple[Part, ...]
    workspaces: tuple[Workspace, ...]
    reason: str


def plan_long_rows(program: LoopProgram, config: NpuConfig) -> LongRows | None:
    """The programs that take the place of `program`; None where it stays one."""
    if not program.reduced or 0 in program.sizes or any(access.gathers for access in program.accesses()):
        return None
    if program.scans:
        return None
    if any(store.in_place for store in program.stores):  # a later program would load what an earlier one has changed
        return None
    stages = plan_stages(program)
    whole = cheapest(program, config)
    if whole.tile is None or prod(whole.tile.counts(program.sizes)[: program.row_rank]) >= _ROW_TILES:
        return None
    if program.sizes[program.row_rank] < 2 * _CHUNKS:
        return None
    cutter = _Cutter(program, stages)
    parts = tuple(replace(part, program=merge_axes(part.program)) for part in cutter.parts())
    searches = [cheapest(part.program, config, row_tiles=part.row_tiles) for part in parts]
    if not all(found.ranked for found in searches):
        return None
    gaps = (len(parts) - 1) * config.core.launch_cycles
    alone = sum(found.cycles for found in searches) + gaps
    shared: float = gaps
    for part, found in zip(parts, searches, strict=True):
        shared += _on_many(part, found, config)
    if alone > _LOSS * whole.cycles or _GAIN * shared > whole.cycles:
        return None
    reason = (
        f"rows cut into {cutter.chunks} chunks over {len(parts)} kernels: about {alone:.0f} cycles on one core and"
        f" {shared:.0f} on {_ROW_TILES}, where one kernel takes {whole.cycles:.0f} on any number"
    )
    return LongRows(parts, tuple(cutter.workspaces.values()), reason)


def _on_many(part: Part, found: TileSearch, config: NpuConfig) -> float:
    """Estimated cycles of the best tile on `_ROW_TILES` cores."""
    best = found.ranked[0]
    return estimated_cycles(part.program, best.stages, best.tile, config, cores=_ROW_TILES)


class _Cutter:
    """Makes the programs. The outermost reduced axis is the one that is cut."""

    def __init__(self, program: LoopProgram, stages: Sequence[Stage]) -> None:
        self.program, self.stages = program, stages
        self.workspaces: dict[str, Workspace] = {}
        extent = program.sizes[program.row_rank]
        self.inner = 1 << ((extent // _CHUNKS).bit_length() - 1)  # as tiles are cut
        self.chunks = -(-extent // self.inner)
        self._ragged = self.chunks * self.inner != extent
        walked = [
            program.operations[n].operands for stage in stages for n in (*stage.walk_operations, *stage.reductions)
        ]
        stored = [(program.stores[n].value,) for stage in stages for n in stage.walk_stores]
        self._used_in_walks = {n for numbers in (*walked, *stored) for n in numbers if program.row_values[n]}

    def parts(self) -> list[Part]:
        """The programs in order."""
        parts = []
        for number, stage in enumerate(self.stages):
            if stage.reductions:
                parts += [Part(self._partial(stage), _ROW_TILES), Part(self._fold(number, stage))]
            elif stage.walk_stores:
                parts.append(Part(self._rest(stage)))
        return parts

    @property
    def _rows(self) -> tuple[int, ...]:
        return self.program.sizes[: self.program.row_rank]

    def _partial(self, stage: Stage) -> LoopProgram:
        """Over (rows, chunks | a chunk): partial results of the stage's reductions, and what the stage stores."""
        rank = self.program.row_rank
        sizes = (*self._rows, self.chunks, self.inner, *self.program.sizes[rank + 1 :])

        def cut(index: AffineIndex) -> AffineIndex:
            *rows, step = index.strides[: rank + 1]
            return replace(index, strides=(*rows, step * self.inner, step, *index.strides[rank + 1 :]))

        made = _Program(self, cut)
        along = cut(AffineIndex(tuple(int(axis == rank) for axis in range(len(self.program.sizes)))))
        guard = Guard(along, self.program.sizes[rank])
        if self._ragged:
            made.guard = guard
        for reduction in stage.reductions:
            op = self.program.operations[reduction]
            kind, value = op.reduction or "", made.value(op.operands[0])
            dtype = made.operations[value].dtype
            if self._ragged:
                exists = made.below(guard)
                identity = made.constant(REDUCTIONS[kind].identity(dtype)[0], dtype)
                value = made.add(Operation("where", (exists, value, identity), dtype))
            folded = made.add(replace(op, operands=(value,)))
            for name, result in self._partial_results(reduction, dtype):
                kept = folded
                if name.startswith("value"):
                    kept = made.add(Operation("reduced_value", (folded,), result))
                made.store(self._workspace(name, result, (*self._rows, self.chunks)), kept, rank + 1)
        for store in stage.walk_stores:
            made.keep(store)
        return made.program(sizes, self.program.reduced)

    def _fold(self, number: int, stage: Stage) -> LoopProgram:
        """Over (rows | chunks): the stage's reductions, and what is stored once per row from then on."""
        rank = self.program.row_rank
        made = _Program(self, lambda index: replace(index, strides=(*index.strides[:rank], 0)))
        for reduction in stage.reductions:
            op = self.program.operations[reduction]
            dtype = self.program.operations[op.operands[0]].dtype
            loaded = [
                made.load(self._workspace(name, result, (*self._rows, self.chunks)), rank + 1)
                for name, result in self._partial_results(reduction, dtype)
            ]
            if op.reduction in _FOLDED_BY:
                result = self._fold_position(made, op, loaded)
            else:
                result = made.add(replace(op, operands=(loaded[0],)))
            made.known[reduction] = result
            if number + 1 < len(self.stages):
                made.store(self._workspace(f"row{reduction}", op.dtype, self._rows), result, rank)
        later = self.stages[number + 1].row_operations if number + 1 < len(self.stages) else ()
        for operation in later:
            op = self.program.operations[operation]
            if operation in self._used_in_walks and op.operands:  # once per row, not once per element
                value = made.value(operation)
                made.store(self._workspace(f"row{operation}", op.dtype, self._rows), value, rank)
        due = [0, 1] if number == 0 else [number + 1]
        for store in [store for at in due if at < len(self.stages) for store in self.stages[at].row_stores]:
            made.keep(store)
        return made.program((*self._rows, self.chunks), 1)

    def _fold_position(self, made: _Program, op: Operation, loaded: list[int]) -> int:
        """The first position, in order of chunks, among those of the best value; NaN is the best one."""
        value, position = loaded
        dtype = made.operations[value].dtype
        best = made.add(Operation("reduce", (value,), dtype, reduction=_FOLDED_BY[op.reduction or ""]))
        equal = made.add(Operation("eq", (value, best), BOOL))
        if dtype.kind is Kind.FLOAT:
            both = [made.add(Operation("isnan", (number,), BOOL)) for number in (value, best)]
            equal = made.add(
                Operation("logical_or", (equal, made.add(Operation("logical_and", tuple(both), BOOL))), BOOL)
            )
        rank = self.program.row_rank
        step = self.inner * prod(self.program.sizes[rank + 1 :])
        chunk = made.add(Operation("position", (), op.dtype, position=AffineIndex((0,) * rank + (step,))))
        position = made.add(Operation("add", (position, chunk), op.dtype))
        farthest = made.constant(prod(self.program.sizes[rank:]), op.dtype)
        candidate = made.add(Operation("where", (equal, position, farthest), op.dtype))
        return made.add(Operation("reduce", (candidate,), op.dtype, reduction="min"))

    def _rest(self, stage: Stage) -> LoopProgram:
        """Over every point: what the last stage stores along the rows."""
        made = _Program(self, lambda index: index)
        for store in stage.walk_stores:
            made.keep(store)
        return made.program(self.program.sizes, 0)

    def _partial_results(self, reduction: int, dtype: Dtype) -> list[tuple[str, Dtype]]:
        """(workspace, type) of what is kept of a chunk."""
        op = self.program.operations[reduction]
        if op.reduction not in _FOLDED_BY:
            return [(f"partial{reduction}", op.dtype)]
        return [(f"value{reduction}", dtype), (f"position{reduction}", op.dtype)]

    def _workspace(self, name: str, dtype: Dtype, sizes: tuple[int, ...]) -> Workspace:
        return self.workspaces.setdefault(name, Workspace(name, dtype, prod(sizes)))


class _Program:
    """A program in the making: operations copied from another one, whose axes `place` maps."""

    def __init__(self, cutter: _Cutter, place: Callable[[AffineIndex], AffineIndex]) -> None:
        self.operations: list[Operation] = []
        self.known: dict[int, int] = {}
        self.guard: Guard | None = None
        self._numbers: dict[tuple[Operation, str], int] = {}
        self._stores: list[Store] = []
        self._cutter, self._place = cutter, place

    def add(self, operation: Operation) -> int:
        """The number of an operation, equal ones shared."""
        key = (operation, repr(operation.constant))  # by text: 0.0 == -0.0
        if key not in self._numbers:
            self._numbers[key] = len(self.operations)
            self.operations.append(operation)
        return self._numbers[key]

    def constant(self, value: float, dtype: Dtype) -> int:
        """A literal in its type."""
        literal = bool(value) if dtype == BOOL else float(value) if dtype.kind is Kind.FLOAT else int(value)
        return self.add(Operation("constant", (), dtype, constant=literal))

    def below(self, guard: Guard) -> int:
        """Whether the point exists."""
        wide = I32 if guard.extent < 1 << 31 else I64
        position = self.add(Operation("position", (), wide, position=guard.position))
        return self.add(Operation("lt", (position, self.constant(guard.extent, wide)), BOOL))

    def value(self, number: int) -> int:
        """Operation `number` of the original program and what it needs; what an earlier one folded comes from there."""
        if number in self.known:
            return self.known[number]
        op = self._cutter.program.operations[number]
        workspace = self._cutter.workspaces.get(f"row{number}")
        if workspace is not None:
            self.known[number] = self.load(workspace, self._cutter.program.row_rank)
            return self.known[number]
        operands = tuple(self.value(operand) for operand in op.operands)
        access = None if op.access is None else self._placed(op.access, store=False)
        position = None if op.position is None else self._place(op.position)
        self.known[number] = self.add(replace(op, operands=operands, access=access, position=position))
        return self.known[number]

    def load(self, workspace: Workspace, axes: int) -> int:
        """What a workspace holds along the first `axes` axes."""
        # Strides need the sizes, which come last: a marker for now.
        access = Access(workspace.name, workspace.dtype, AffineIndex((), axes))
        return self.add(Operation("load", (), workspace.dtype, access=access))

    def store(self, workspace: Workspace, value: int, axes: int) -> None:
        """Keep a value along the first `axes` axes."""
        self._stores.append(Store(Access(workspace.name, workspace.dtype, AffineIndex((), axes)), value))

    def keep(self, number: int) -> None:
        """A store of the original program."""
        store = self._cutter.program.stores[number]
        self._stores.append(
            replace(store, access=self._placed(store.access, store=True), value=self.value(store.value))
        )

    def program(self, sizes: tuple[int, ...], reduced: int) -> LoopProgram:
        """The program over `sizes`."""

        def dense(access: Access) -> Access:
            if access.buffer not in self._cutter.workspaces:
                return access
            axes = access.index.offset
            strides = [prod(sizes[axis + 1 : axes]) if axis < axes else 0 for axis in range(len(sizes))]
            return replace(access, index=AffineIndex(tuple(strides)))

        operations = tuple(op if op.access is None else replace(op, access=dense(op.access)) for op in self.operations)
        stores = tuple(replace(store, access=dense(store.access)) for store in self._stores)
        return LoopProgram(sizes, operations, stores, reduced)

    def _placed(self, access: Access, *, store: bool) -> Access:
        guards = tuple(replace(guard, position=self._place(guard.position)) for guard in access.guards)
        index = self._place(access.index)
        varies = self.guard is not None and any(
            step and bound for step, bound in zip(index.strides, self.guard.position.strides, strict=True)
        )
        if self.guard is not None and (store or varies):
            guards = (*guards, self.guard)
        return replace(access, index=index, guards=guards)
