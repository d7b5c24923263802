"""One block of a tile inside a tile function: its loads, operations, walks and stores, as MLIR at the insertion
point.

In: a program, a tile, where the buffers are. A block is one vector of row-level values; a walk passes over the
reduced axes of its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import I32, Dtype
from pytorchsim.templates.fold import fold_vector
from pytorchsim.templates.gathers import IndexTileKey
from pytorchsim.templates.loop_program import Access, LoopProgram, Operation
from pytorchsim.templates.phases import Phase, StepWork, plan_phases
from pytorchsim.templates.positions import INDEX_EMITTERS, Positions, whole_steps
from pytorchsim.templates.reductions import REDUCTIONS, Partial, Walk
from pytorchsim.templates.stages import Stage
from pytorchsim.templates.step_loop import Partials, StepLoop, Values
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.vector_ops import EMITTERS
from pytorchsim.templates.vector_values import Operands, from_memory, splat, to_memory, vector_type
from pytorchsim.templates.window_loads import WindowLoad

__all__ = ["Accumulator", "Block", "BufferKey", "Kept", "StoreBuffer", "accumulators", "partial_dtypes"]


@dataclass(frozen=True)
class StoreBuffer:
    """The buffer of store number `number`."""

    number: int


@dataclass(frozen=True)
class Accumulator:
    """The buffer of part `part` of reduction `operation`, held over the tiles of a row."""

    operation: int
    part: int


@dataclass(frozen=True)
class Kept:
    """The buffer that keeps the values of `operation` from one walk to a later one."""

    operation: int


BufferKey = Access | StoreBuffer | Accumulator | Kept | IndexTileKey | WindowLoad


@dataclass
class Block:
    """Where the buffers are (`pointers`), the scalar `origins` of axes that several tiles share, the row-level
    `values` so far, and the results that reductions have (`reduced`). `taps`: the elements before an access's own in
    its pointer."""

    program: LoopProgram
    tile: Tile
    pointers: dict[BufferKey, ir.Value]
    origins: dict[int, ir.Value]
    values: dict[int, ir.Value] = field(default_factory=dict)
    reduced: dict[int, Partial] = field(default_factory=dict)
    taps: dict[BufferKey, int] = field(default_factory=dict)

    def row_address(self, block: ir.Value) -> ir.Value:
        return arith.muli(block, builders.index_constant(self.tile.vector_elements))

    def walk_address(self, block: ir.Value, step: ir.Value) -> ir.Value:
        base = arith.muli(block, builders.index_constant(self.tile.block_stride))
        return arith.addi(base, arith.muli(step, builders.index_constant(self.tile.walk_stride)))

    def positions(self, block: ir.Value, step: ir.Value | None = None) -> Positions:
        """Where block `block` stands, at step `step` of its walk."""
        return Positions(self.program.sizes, self.tile, self.origins, block, step)

    def compute(
        self,
        numbers: Sequence[int],
        address: ir.Value,
        values: dict[int, ir.Value],
        positions: Positions | None = None,
        recalled: Sequence[int] = (),
    ) -> None:
        """Operations `numbers` on the vector at `address`, which stands at `positions`, into `values`; those of
        `recalled` are read from where they are kept."""
        elements = self.tile.vector_elements
        for number in numbers:
            operation = self.program.operations[number]
            if number in recalled:
                values[number] = self._load(Kept(number), operation.dtype, address)
                continue
            if operation.access is not None:
                values[number] = self._load(operation.access, operation.access.dtype, address)
                continue
            if operation.name == "reduced_value":
                values[number] = self.reduced[operation.operands[0]][0]
                continue
            if operation.position is not None:
                if positions is None:
                    raise ValueError("a program with positions where none are known")
                values[number] = positions.of(operation.position, operation.dtype)
                continue
            if operation.name == "carry":
                continue  # the step before has left it in `values`
            if operation.name == "scan":
                values[number] = values[_new_values(operation)[int(operation.constant or 0)]]
                continue
            operands = Operands(
                operation,
                tuple(values[operand] for operand in operation.operands),
                tuple(self.program.operations[operand].dtype for operand in operation.operands),
                elements,
            )
            values[number] = (INDEX_EMITTERS.get(operation.name) or EMITTERS[operation.name])(operands)

    def _load(self, key: BufferKey, memory: Dtype, address: ir.Value) -> ir.Value:
        kind = ir.VectorType.get([self.tile.vector_elements], builders.element_type(memory))
        if self.taps.get(key):
            address = arith.addi(address, builders.index_constant(self.taps[key]))
        return from_memory(vector.load(kind, self.pointers[key], [address]), memory, self.tile.vector_elements)

    def _keep(self, number: int, address: ir.Value, values: dict[int, ir.Value]) -> None:
        value = to_memory(values[number], self.program.operations[number].dtype, self.tile.vector_elements)
        vector.store(value, self.pointers[Kept(number)], [address])

    def store(self, numbers: Sequence[int], address: ir.Value, values: dict[int, ir.Value]) -> None:
        for number in numbers:
            stored = self.program.stores[number]
            value = to_memory(values[stored.value], stored.access.dtype, self.tile.vector_elements)
            vector.store(value, self.pointers[StoreBuffer(number)], [address])

    def store_indices(self, keys: Sequence[IndexTileKey], address: ir.Value, values: dict[int, ir.Value]) -> None:
        """Values of operations as entries of index tiles."""
        for key in keys:
            vector.store(values[key.value], self.pointers[key], [address])

    def start(self, reduction: int) -> Partial:
        """What a fold begins with; of a scan, whose first step does not look at it, zeros."""
        if reduction in self.program.scans:
            dtypes = partial_dtypes(self.program, reduction)
            return tuple(splat(0, dtype, self.tile.vector_elements) for dtype in dtypes)
        kind = REDUCTIONS[self.program.operations[reduction].reduction or ""]
        return kind.start(_value_dtype(self.program, reduction), self.tile.vector_elements)

    def combine(self, reduction: int, a: Partial, b: Partial) -> Partial:
        kind = REDUCTIONS[self.program.operations[reduction].reduction or ""]
        return kind.combine(_value_dtype(self.program, reduction), a, b)

    def load_accumulator(self, reduction: int, address: ir.Value) -> Partial:
        return tuple(
            self._load(Accumulator(reduction, part), dtype, address)
            for part, dtype in enumerate(partial_dtypes(self.program, reduction))
        )

    def store_accumulator(self, reduction: int, partial: Partial, address: ir.Value) -> None:
        for part, (dtype, value) in enumerate(zip(partial_dtypes(self.program, reduction), partial, strict=True)):
            memory = to_memory(value, dtype, self.tile.vector_elements)
            vector.store(memory, self.pointers[Accumulator(reduction, part)], [address])

    def result(self, reduction: int, partial: Partial) -> ir.Value:
        """The reduction's value: the last part, in its own type."""
        operation = self.program.operations[reduction]
        value, dtype = partial[-1], partial_dtypes(self.program, reduction)[-1]
        if dtype == I32 and operation.dtype.bits > I32.bits:
            return arith.extsi(vector_type(operation.dtype, self.tile.vector_elements), value)
        return value

    def settle(self, reduction: int, partial: Partial) -> None:
        """`partial` is the whole result of a reduction from here on."""
        self.reduced[reduction] = partial
        self.values[reduction] = self.result(reduction, partial)

    def fold(self, reduction: int, partial: Partial, lanes: int) -> Partial:
        """One row's partial results over the vector and the lanes, where the tile spreads a row over them."""
        if self.tile.rows_inner:
            return partial

        def combine(a: Partial, b: Partial) -> Partial:
            return self.combine(reduction, a, b)

        across = lanes if self.tile.folds_lanes else 1
        return fold_vector(partial, self.tile.vector_elements, combine, lanes=across)

    def rows(self, work: StepWork) -> None:
        """All blocks of a program without walks, one vector after the other."""

        def places(at: ir.Value) -> tuple[ir.Value, Positions]:
            return self.row_address(at), self.positions(at)

        self._run(work, (self.tile.blocks, self.tile.blocks), [{}], places)

    def walk(self, stage: Stage, block: ir.Value, start: Partials) -> Partials:
        """One pass over the reduced axes of `block`: the stage's reductions and scans folded into `start`, its stores
        done."""
        forms = {reduction: self._form(reduction) for reduction in stage.reductions}
        dtypes = {reduction: _value_dtype(self.program, reduction) for reduction in stage.reductions}
        side_by_side = stage.reductions and not stage.scans and self.tile.walk_count >= self.tile.unroll
        copies = self.tile.unroll if side_by_side else 1

        def opened(partials: Partials) -> Partials:
            return partials | {n: forms[n].open(dtypes[n], partials[n]) for n in forms}

        def places(at: ir.Value) -> tuple[ir.Value, Positions]:
            return self.walk_address(block, at), self.positions(block, at)

        neutral = {reduction: self.start(reduction) for reduction in start}
        starts = [opened(start), *(opened(neutral) for _ in range(copies - 1))]
        count = self._walk_steps()
        masks = stage.reductions and not self.tile.rows_inner
        whole = whole_steps(self.program.sizes, self.tile, self.origins) if masks else count
        folded = self._run(stage.step, (whole, count), starts, places)
        total = folded[0]
        for other in folded[1:]:
            total = {n: forms[n].join(dtypes[n], total[n], other[n]) for n in total}
        return total | {n: forms[n].close(dtypes[n], total[n]) for n in forms}

    def _run(
        self,
        work: StepWork,
        steps: tuple[ir.Value | int, ir.Value | int],
        starts: list[Partials],
        places: Callable[[ir.Value], tuple[ir.Value, Positions]],
    ) -> list[Partials]:
        """`work` at all steps. `steps`: those at the start in which every element exists, and all. The partial results
        are those of as many steps side by side."""
        whole, count = steps

        def emit(
            phase: Phase,
            steps: Sequence[ir.Value],
            values: Sequence[Values],
            partials: Sequence[Partials],
            masked: bool,
        ) -> None:
            at = [places(step) for step in steps]
            for known in values:
                known.update({number: value for number, value in self.values.items() if number not in known})
            self._emit_phase(phase, work, list(zip(at, values, partials, strict=True)), masked=masked)

        loop = StepLoop(emit)
        phases = plan_phases(self.program, work, self.tile.phases)
        ahead = len(phases.phases) - 1
        if ahead and isinstance(whole, int) and whole >= 2 * len(phases.phases):
            starts = loop.pipelined(phases, whole, starts)
            main: ir.Value | int = whole
        else:
            phases = plan_phases(self.program, work, limit=1)
            main = _multiple(whole, len(starts))
            starts = loop.plain(phases, (0, main), starts)
        if isinstance(main, int) and isinstance(count, int) and main == count:
            return starts
        phases = plan_phases(self.program, work, limit=1)
        masked = whole is not count and not (isinstance(whole, int) and isinstance(count, int) and whole == count)
        (last,) = loop.plain(phases, (main, count), starts[:1], masked=masked)
        return [last, *starts[1:]]

    def _emit_phase(
        self,
        phase: Phase,
        work: StepWork,
        steps: Sequence[tuple[tuple[ir.Value, Positions], Values, Partials]],
        *,
        masked: bool,
    ) -> None:
        """A phase of several steps side by side, each at its place, with its values and partial results."""
        for scan in work.scans:
            for _, known, folding in steps:
                known.update(zip(_carries(self.program.operations[scan]), folding[scan], strict=True))
        for number in phase.operations:
            for (address, positions), known, _ in steps:
                self.compute([number], address, known, positions, work.recalled)
        for (address, _), known, _ in steps:
            self.store(phase.stores, address, known)
            for number in phase.kept:
                self._keep(number, address, known)
        for (_, positions), known, folding in steps:
            exists = positions.exists() if masked and phase.reductions else None
            for reduction in phase.reductions:
                folding[reduction] = self._absorbed(reduction, folding[reduction], known, positions, exists)
            for scan in work.scans:
                folding[scan] = tuple(known[number] for number in _new_values(self.program.operations[scan]))

    def _form(self, reduction: int) -> Walk:
        """How a walk keeps partial results of `reduction`."""
        kind = REDUCTIONS[self.program.operations[reduction].reduction or ""]
        return kind.walk(_value_dtype(self.program, reduction), in_order=self.tile.in_order(self.program.sizes))

    def _absorbed(
        self, reduction: int, partial: Partial, values: Values, positions: Positions, exists: ir.Value | None
    ) -> Partial:
        """`partial` with the step's value folded in, where the element exists."""
        incoming: Partial = (values[self.program.operations[reduction].operands[0]],)
        if REDUCTIONS[self.program.operations[reduction].reduction or ""].with_position:
            incoming = (*incoming, positions.flat())
        folded = self._form(reduction).absorb(_value_dtype(self.program, reduction), partial, incoming)
        if exists is None:
            return folded
        return tuple(arith.select(exists, new, old) for new, old in zip(folded, partial, strict=True))

    def _walk_steps(self) -> ir.Value | int:
        """Steps of a walk; fewer where rows are walked along axes and the streamed one ends inside the tile."""
        steps: ir.Value | int = self.tile.walk_count
        for axis, origin in self.origins.items():
            if not self.tile.rows_inner or axis in self.tile.row_axes or self.tile.sizes[axis] == 1:
                continue
            extent, size = self.program.sizes[axis], self.tile.sizes[axis]
            left = arith.minui(arith.subi(builders.index_constant(extent), origin), builders.index_constant(size))
            inside = arith.muli(left, builders.index_constant(self.tile.inner_stride(axis)))
            steps = arith.minui(builders.index_constant(steps) if isinstance(steps, int) else steps, inside)
        return steps


def _multiple(steps: ir.Value | int, of: int) -> ir.Value | int:
    """The largest multiple of `of` that is not above `steps`."""
    if isinstance(steps, int):
        return steps - steps % of
    return arith.subi(steps, arith.remui(steps, builders.index_constant(of))) if of > 1 else steps


def _carries(scan: Operation) -> tuple[int, ...]:
    return scan.operands[: len(scan.operands) // 2]


def _new_values(scan: Operation) -> tuple[int, ...]:
    return scan.operands[len(scan.operands) // 2 :]


def _value_dtype(program: LoopProgram, reduction: int) -> Dtype:
    return program.operations[program.operations[reduction].operands[0]].dtype


def partial_dtypes(program: LoopProgram, reduction: int) -> tuple[Dtype, ...]:
    """Types of the vectors that a partial result of `reduction`, or a scan, carries from step to step."""
    if reduction in program.scans:
        return tuple(program.operations[carry].dtype for carry in _carries(program.operations[reduction]))
    return REDUCTIONS[program.operations[reduction].reduction or ""].parts(_value_dtype(program, reduction))


def accumulators(program: LoopProgram, reductions: Sequence[int]) -> list[Accumulator]:
    """The buffers that hold partial results of `reductions` between tile functions."""
    return [Accumulator(n, part) for n in reductions for part in range(len(partial_dtypes(program, n)))]
