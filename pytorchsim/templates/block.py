"""One block of a tile inside a tile function: its loads, operations, walks and stores, as MLIR at the insertion
point.

In: a program, a tile, where the buffers are. A block is one vector of row-level values; a walk passes over the
reduced axes of its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith, scf, vector

from pytorchsim.mlir import builders
from pytorchsim.target.dtypes import I32, Dtype
from pytorchsim.templates.fold import fold_lanes, fold_vector
from pytorchsim.templates.gathers import IndexTileKey
from pytorchsim.templates.loop_program import Access, LoopProgram, Operation
from pytorchsim.templates.positions import INDEX_EMITTERS, Positions
from pytorchsim.templates.reductions import REDUCTIONS, Partial
from pytorchsim.templates.stages import Stage
from pytorchsim.templates.tile import Tile
from pytorchsim.templates.vector_ops import EMITTERS
from pytorchsim.templates.vector_values import Operands, from_memory, splat, to_memory, vector_type

__all__ = ["Accumulator", "Block", "BufferKey", "StoreBuffer", "accumulators", "partial_dtypes"]


@dataclass(frozen=True)
class StoreBuffer:
    """The buffer of store number `number`."""

    number: int


@dataclass(frozen=True)
class Accumulator:
    """The buffer of part `part` of reduction `operation`, held over the tiles of a row."""

    operation: int
    part: int


BufferKey = Access | StoreBuffer | Accumulator | IndexTileKey


@dataclass
class Block:
    """Where the buffers are (`pointers`), the scalar `origins` of axes that several tiles share, and the row-level
    `values` so far."""

    program: LoopProgram
    tile: Tile
    pointers: dict[BufferKey, ir.Value]
    origins: dict[int, ir.Value]
    values: dict[int, ir.Value] = field(default_factory=dict)

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
    ) -> None:
        """Operations `numbers` on the vector at `address`, which stands at `positions`, into `values`."""
        elements = self.tile.vector_elements
        for number in numbers:
            operation = self.program.operations[number]
            if operation.access is not None:
                memory = operation.access.dtype
                kind = ir.VectorType.get([elements], builders.element_type(memory))
                loaded = vector.load(kind, self.pointers[operation.access], [address])
                values[number] = from_memory(loaded, memory, elements)
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
        loaded = []
        for part, dtype in enumerate(partial_dtypes(self.program, reduction)):
            kind = ir.VectorType.get([self.tile.vector_elements], builders.element_type(dtype))
            value = vector.load(kind, self.pointers[Accumulator(reduction, part)], [address])
            loaded.append(from_memory(value, dtype, self.tile.vector_elements))
        return tuple(loaded)

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

    def fold(self, reduction: int, partial: Partial, lanes: int) -> Partial:
        """One row's partial results over the vector and the lanes, where the tile spreads a row over them."""
        if self.tile.rows_inner:
            return partial

        def combine(a: Partial, b: Partial) -> Partial:
            return self.combine(reduction, a, b)

        folded = fold_vector(partial, self.tile.vector_elements, combine)
        return fold_lanes(folded, lanes, combine) if self.tile.folds_lanes else folded

    def walk(self, stage: Stage, block: ir.Value, start: dict[int, Partial]) -> dict[int, Partial]:
        """One pass over the reduced axes of `block`: the stage's reductions and scans folded into `start`, its stores
        done."""
        count = self._walk_steps()
        dynamic = self.tile.rows_inner and any(axis in self.tile.reduced_axes for axis in self.origins)
        unroll = self.tile.unroll if stage.reductions and self.tile.walk_count >= self.tile.unroll else 1
        widths = {reduction: len(partial) for reduction, partial in start.items()}
        flat = [value for partial in start.values() for value in partial]
        neutral = [value for reduction in stage.reductions for value in self.start(reduction)]
        main = arith.subi(count, arith.remui(count, builders.index_constant(unroll))) if unroll > 1 else count
        accumulated = self._loop(
            stage, block, (builders.index_constant(0), main), [flat] + [neutral] * (unroll - 1), widths
        )
        total = accumulated[0]
        for other in accumulated[1:]:
            total = {reduction: self.combine(reduction, total[reduction], other[reduction]) for reduction in total}
        if unroll > 1 and (dynamic or self.tile.walk_count % unroll):
            rest = [value for partial in total.values() for value in partial]
            (total,) = self._loop(stage, block, (main, count), [rest], widths)
        return total

    def _walk_steps(self) -> ir.Value:
        """Steps of a walk; fewer where rows are walked along axes and the streamed one ends inside the tile."""
        steps = builders.index_constant(self.tile.walk_count)
        for axis, origin in self.origins.items():
            if not self.tile.rows_inner or axis in self.tile.row_axes:
                continue
            extent, size = self.program.sizes[axis], self.tile.sizes[axis]
            left = arith.minui(arith.subi(builders.index_constant(extent), origin), builders.index_constant(size))
            inside = arith.muli(left, builders.index_constant(self.tile.inner_stride(axis)))
            steps = arith.minui(steps, inside) if size > 1 else steps
        return steps

    def _loop(
        self,
        stage: Stage,
        block: ir.Value,
        bounds: tuple[ir.Value, ir.Value],
        starts: Sequence[Sequence[ir.Value]],
        widths: dict[int, int],
    ) -> list[dict[int, Partial]]:
        """Steps `bounds`, one for each of `starts` at a time; returns the partial results of each."""
        step = builders.index_constant(len(starts))
        loop = scf.ForOp(*bounds, step, [value for start in starts for value in start])
        with ir.InsertionPoint(loop.body):
            carried = _unflatten(loop.inner_iter_args, len(starts), widths)
            for copy, partials in enumerate(carried):
                at = loop.induction_variable
                at = arith.addi(at, builders.index_constant(copy)) if copy else at
                carried[copy] = self._step(stage, block, at, partials)
            scf.YieldOp([value for partials in carried for partial in partials.values() for value in partial])
        return _unflatten(loop.results, len(starts), widths)

    def _step(self, stage: Stage, block: ir.Value, at: ir.Value, partials: dict[int, Partial]) -> dict[int, Partial]:
        address = self.walk_address(block, at)
        values = dict(self.values)
        for scan in stage.scans:
            values.update(zip(_carries(self.program.operations[scan]), partials[scan], strict=True))
        positions = self.positions(block, at)
        self.compute(stage.walk_operations, address, values, positions)
        self.store(stage.walk_stores, address, values)
        exists = positions.exists() if stage.reductions else None
        folded = {}
        for reduction, partial in partials.items():
            if reduction in stage.scans:
                folded[reduction] = tuple(values[n] for n in _new_values(self.program.operations[reduction]))
                continue
            incoming: Partial = (values[self.program.operations[reduction].operands[0]],)
            if len(partial) > 1:
                incoming = (*incoming, positions.flat())
            if exists is not None:
                neutral = self.start(reduction)
                incoming = tuple(arith.select(exists, v, n) for v, n in zip(incoming, neutral, strict=True))
            folded[reduction] = self.combine(reduction, partial, incoming)
        return folded


def _unflatten(flat: Sequence[ir.Value], copies: int, widths: dict[int, int]) -> list[dict[int, Partial]]:
    values = iter(flat)
    return [
        {reduction: tuple(next(values) for _ in range(width)) for reduction, width in widths.items()}
        for _ in range(copies)
    ]


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
