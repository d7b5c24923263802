"""The control function of a matrix product: which step loads what, when a part of the result is finished and stored.

Steps are numbered result tile by result tile, k innermost. Each core takes a contiguous range of result tiles (of
whole columns where the tail folds them), so that the stationary operand loads once per outer tile. While a step
computes, the loads of the next one run; what is finished is stored from one of two copies while the next one grows in
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import KernelBuilder, TileFunction
from pytorchsim.target.descriptor import TransferOp
from pytorchsim.templates.array_step import add_partial, array_step
from pytorchsim.templates.batch_step import batch_step
from pytorchsim.templates.block import BufferKey, StoreBuffer
from pytorchsim.templates.gemm_buffers import DEEP, GemmBuffers
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand, Part
from pytorchsim.templates.gemm_tile import LEAD, RESULT, GemmTile, fused_tile, program_blocks
from pytorchsim.templates.lane_step import lane_step
from pytorchsim.templates.loop_program import LoopProgram
from pytorchsim.templates.operand_function import KAxis, OperandFunction, operand_function
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile_functions import StagedFunction, TileFunctions

__all__ = ["GemmControl"]

_LOAD_TAG, _STORE_TAG, _TAIL_TAG = 0, 2, 4
"""Loads of step s carry tag s mod 2, stores of result t tag 2 + t mod 2, the tail's loads tag 4."""

_OPERANDS: tuple[Operand, Operand] = ("x", "w")


@dataclass(frozen=True)
class _Place:
    """Where a step is: tile numbers along batch, m, n and k; `inner`: of the inner tile loop; `output`: number of the
    result tile; `unit`: which result is being finished."""

    batch: ir.Value
    m: ir.Value
    n: ir.Value
    k: ir.Value
    inner: ir.Value
    output: ir.Value
    unit: ir.Value
    fresh: ir.Value
    first: ir.Value
    last: ir.Value


class GemmControl:
    """Builds one kernel. `slots`: argument number by buffer name; `result` is the template's buffer."""

    def __init__(
        self,
        kernel: KernelBuilder,
        problem: GemmProblem,
        fusion: GemmFusion,
        tile: GemmTile,
        slots: Mapping[str, int],
    ) -> None:
        self._kernel, self._problem, self._fusion, self._tile, self._slots = kernel, problem, fusion, tile, slots
        self._counts = tile.counts(problem)
        self._buffers = GemmBuffers(kernel, problem, fusion, tile, slots)
        self._prologues: dict[Operand, OperandFunction] = {}
        self._finish: StagedFunction | None = None

    def build(self, operands: Mapping[Operand, str], result: str) -> None:
        """Everything. `operands`: buffer names of X and W where they are loaded as they are."""
        problem, tile, fusion = self._problem, self._tile, self._fusion
        for operand in _OPERANDS:
            program, block = fusion.prologue(operand), tile.block(operand, problem)
            if program is None:
                access = problem.access(operand, operands[operand], problem.dtype)
                self._buffers.declare(operand, operand, access, TransferOp.LOAD, block)
                if tile.deep > 1 and operand != tile.stationary:
                    self._buffers.declare_deep(operand, access)
                if tile.lead:
                    first = tile.leading(problem).block(operand, problem)
                    self._buffers.declare(LEAD + operand, operand, access, TransferOp.LOAD, first)
                continue
            self._buffers.declare(operand, operand, None, TransferOp.LOAD, block)
            for number, access in enumerate(program.loads):
                self._buffers.declare(f"{operand}_in{number}", operand, access, TransferOp.LOAD, block, program)
            self._prologues[operand] = operand_function(
                self._kernel, f"prologue_{operand}", program, block, masks=self._masks(operand)
            )
        if tile.blocked:
            self._buffers.declare("partial", "y", None, TransferOp.STORE, tile.block("y", problem))
        block = tile.block("y", problem)
        stored = problem.access("y", result, problem.result_dtype) if result in self._slots else None
        if stored is not None and stored.dtype != problem.accumulator:
            stored = None  # the tail converts and stores it
        self._buffers.declare("y", "y", stored, TransferOp.STORE, block)
        if fusion.tail is not None:
            for name, access, _ in program_blocks(fusion.tail):
                op = TransferOp.LOAD if name.startswith("in") else TransferOp.STORE
                self._buffers.declare(name, "y", access, op, block, fusion.tail)
            flat = fused_tile(fusion.tail, block, self._kernel.config)
            functions = TileFunctions(self._kernel, fusion.tail, plan_stages(fusion.tail), flat, tile.lanes)
            self._finish = functions.resident()
        self._control(self._step_functions())

    def _step_functions(self) -> dict[str, TileFunction]:
        """`start`, `step` and, where there are deep steps, `deep_start` and `deep_step`."""
        dtypes = (self._problem.dtype, self._problem.accumulator)
        emit = {"array": array_step, "lanes": lane_step, "batch": batch_step}[self._tile.body]
        rows = self._tile.block("y", self._problem).pitch
        depths = {"": (self._tile, self._counts[2])}
        if self._tile.deep > 1:
            depths[DEEP] = (self._tile.deepened(), self._counts[2] // self._tile.deep)
        functions = {}
        for depth, (whole, count) in depths.items():
            for name in ("start", "step") if count > 1 else ("start",):
                tile = whole.leading(self._problem) if whole.lead and name == "start" else whole
                apart = tile.blocked and name == "step"
                functions[depth + name] = emit(
                    self._kernel,
                    depth + name,
                    tile,
                    dtypes,
                    tile.m if apart else rows,
                    accumulate=name == "step" and not apart,
                )
        if self._tile.blocked:
            functions["add"] = add_partial(self._kernel, "add", self._tile, dtypes[1], rows)
        return functions

    def _masks(self, operand: Operand) -> KAxis:
        if not self._problem.k % self._tile.k:
            return ""
        return "lane" if operand == "x" and self._tile.body == "array" else "walked"

    # ---- Control ---------------------------------------------------------------------------------------------------

    def _control(self, functions: Mapping[str, TileFunction]) -> None:
        counts_m, counts_n, _ = self._counts
        per_unit = counts_m if self._tile.column else 1
        units = self._tile.batches(self._problem) * counts_m * counts_n // per_unit
        with self._kernel.control() as (core, cores):
            self._buffers.refer()
            self._buffers.clear(_TAIL_TAG)
            first_unit = arith.divui(arith.muli(_index(units), core), cores)
            end_unit = arith.divui(arith.muli(_index(units), arith.addi(core, _index(1))), cores)
            first, end = arith.muli(first_unit, _index(per_unit)), arith.muli(end_unit, _index(per_unit))
            steps, zero, one = self._step_count(first, end), _index(0), _index(1)
            with _when(arith.cmpi(arith.CmpIPredicate.ult, first, end)):
                self._load_operands(self._place(first, zero, first), zero)
                scf.YieldOp([])
            loop = scf.ForOp(zero, steps, one, [first, zero])
            with ir.InsertionPoint(loop.body):
                step = loop.induction_variable
                tile_output, tile_step = loop.inner_iter_args
                place = self._place(tile_output, tile_step, first)
                following = arith.addi(step, one)
                output = arith.select(place.last, arith.addi(place.output, one), place.output)
                depth = arith.select(place.last, zero, arith.addi(tile_step, one))
                with _when(arith.cmpi(arith.CmpIPredicate.ult, following, steps)):
                    self._load_operands(self._place(output, depth, first), following)
                    scf.YieldOp([])
                self._step(place, step, functions)
                scf.YieldOp([output, depth])
            for copy in range(2):
                builders.wait(_STORE_TAG + copy)

    def _step_count(self, first: ir.Value, end: ir.Value) -> ir.Value:
        """Steps of result tiles `first` to `end`: those that fetch the stationary operand are not deep."""
        depth = self._counts[2]
        outputs = arith.subi(end, first)
        if self._tile.deep == 1:
            return arith.muli(outputs, _index(depth))
        inner = _index(self._inner_count())
        starts = arith.subi(arith.ceildivui(end, inner), arith.ceildivui(first, inner))
        within = arith.cmpi(arith.CmpIPredicate.ne, arith.remui(first, inner), _index(0))
        within = arith.andi(within, arith.cmpi(arith.CmpIPredicate.ult, first, end))
        fresh = arith.select(within, arith.addi(starts, _index(1)), starts)
        deep = arith.muli(arith.subi(outputs, fresh), _index(depth // self._tile.deep))
        return arith.addi(arith.muli(fresh, _index(depth)), deep)

    def _step(self, place: _Place, step: ir.Value, functions: Mapping[str, TileFunction]) -> None:
        copy = _parity(place.unit)
        several = self._counts[2] > 1
        begins, ends = (place.first, place.last) if several else (None, None)
        if self._tile.column and self._counts[0] > 1:
            begins = _both(begins, _is(place.inner, 0))
            ends = _both(ends, _is(place.inner, self._counts[0] - 1))
        builders.wait(_parity(step))
        _if(begins, lambda: self._begin(place, copy))
        for operand, function in self._prologues.items():
            self._prologue(operand, function, step, place)
        if self._tile.deep == 1:
            self._compute(place, step, copy, functions, "")
        else:
            _if_else(
                place.fresh,
                lambda: self._compute(place, step, copy, functions, ""),
                lambda: self._compute(place, step, copy, functions, DEEP),
            )
        _if(ends, lambda: self._end(place, copy))

    def _compute(
        self, place: _Place, step: ir.Value, copy: ir.Value, functions: Mapping[str, TileFunction], depth: str
    ) -> None:
        """Call the step function: the first of a result tile overwrites, others add."""
        tile = self._tile.deepened() if depth else self._tile
        pointers = [
            self._buffers.pointer(part, self._copy(part, step, place), tile.block(part, self._problem).elements)
            for part in _OPERANDS
        ]
        firsts = [self._buffers.pointer(LEAD + part, _index(0)) for part in _OPERANDS] if tile.lead else pointers
        result = self._buffers.result_pointer(copy, place.m)
        if tile.blocked:
            partial = self._buffers.pointer("partial", _index(0))
            _if_else(
                place.first,
                lambda: builders.call_tile(functions[f"{depth}start"], [*pointers, result]),
                lambda: self._add_partial(functions, depth, pointers, partial, result),
            )
            return
        pointers.append(result)
        firsts = [*firsts[: len(_OPERANDS)], result]
        if f"{depth}step" not in functions:
            builders.call_tile(functions[f"{depth}start"], pointers)
            return
        _if_else(
            place.first,
            lambda: builders.call_tile(functions[f"{depth}start"], firsts),
            lambda: builders.call_tile(functions[f"{depth}step"], pointers),
        )

    def _add_partial(
        self,
        functions: Mapping[str, TileFunction],
        depth: str,
        operands: Sequence[ir.Value],
        partial: ir.Value,
        result: ir.Value,
    ) -> None:
        """A step that sums by itself and then adds to the result."""
        builders.call_tile(functions[f"{depth}step"], [*operands, partial])
        builders.call_tile(functions["add"], [partial, result])

    def _begin(self, place: _Place, copy: ir.Value) -> None:
        """The result's buffers are free again; what the tail reads is fetched."""
        builders.wait(arith.addi(copy, _index(_STORE_TAG)))
        for name in self._buffers.moved:
            if name.startswith("in"):
                self._buffers.transfer(name, _index(0), _index(_TAIL_TAG), self._result_origins(place))

    def _end(self, place: _Place, copy: ir.Value) -> None:
        """The tail runs, results are stored."""
        if self._finish is not None:
            if any(name.startswith("in") for name in self._buffers.moved):
                builders.wait(_TAIL_TAG)
            names = self._tail_names()
            copies = {"i": _index(0), "o": copy, "y": copy}
            pointers = [self._buffers.pointer(names[key], copies[names[key][0]]) for key in self._finish.buffers]
            builders.call_tile(self._finish.function, pointers)
        for name, moved in self._buffers.moved.items():
            if moved.descriptor and (name == "y" or name.startswith("out")):
                self._buffers.transfer(name, copy, arith.addi(copy, _index(_STORE_TAG)), self._result_origins(place))

    def _tail_names(self) -> dict[BufferKey, str]:
        """Buffer names of what the tail's function takes."""
        if self._fusion.tail is None:
            return {}
        loads = enumerate(self._fusion.tail.loads)
        names: dict[BufferKey, str] = {
            access: "y" if access.buffer == RESULT else f"in{number}" for number, access in loads
        }
        return names | {StoreBuffer(number): f"out{number}" for number in range(len(self._fusion.tail.stores))}

    def _prologue(self, operand: Operand, function: OperandFunction, step: ir.Value, place: _Place) -> None:
        """Compute an operand's tile from what was loaded for it."""

        def call() -> None:
            pointers = [
                self._buffers.pointer(operand, self._copy(operand, step, place))
                if isinstance(key, StoreBuffer)
                else self._buffers.pointer(f"{operand}_in{number}", _parity(step))
                for number, key in enumerate(function.buffers)
            ]
            left = arith.subi(_index(self._problem.k), arith.muli(place.k, _index(self._tile.k)))
            builders.call_tile(function.function, [*pointers, left] if function.masks else pointers)

        _if(place.fresh if operand == self._tile.stationary else None, call)

    def _load_operands(self, place: _Place, step: ir.Value) -> None:
        """The streamed operand's tile, and the stationary one's in the first result tile of each outer tile (or of
        this core)."""
        for operand in _OPERANDS:
            program = self._fusion.prologue(operand)

            def load(operand: Operand = operand, program: LoopProgram | None = program) -> None:
                tag, origins = _parity(step), self._operand_origins(operand, place)
                copy = self._copy(operand, step, place)
                if program is None and DEEP + operand in self._buffers.moved:
                    _if_else(
                        place.fresh,
                        lambda: self._buffers.transfer(operand, copy, tag, origins),
                        lambda: self._buffers.transfer(DEEP + operand, copy, tag, origins),
                    )
                elif program is None and self._tile.lead:
                    _if_else(
                        place.first,
                        lambda: self._buffers.transfer(
                            LEAD + operand, _index(0), tag, self._lead_origins(operand, place)
                        ),
                        lambda: self._buffers.transfer(operand, copy, tag, origins),
                    )
                elif program is None:
                    self._buffers.transfer(operand, copy, tag, origins)
                for number in range(len(program.loads) if program else 0):
                    self._buffers.transfer(f"{operand}_in{number}", _parity(step), tag, origins)

            _if(place.fresh if operand == self._tile.stationary else None, load)

    def _inner_count(self) -> int:
        return self._counts[1] if self._tile.outer == "x" else self._counts[0]

    def _place(self, output: ir.Value, depth: ir.Value, first_output: ir.Value) -> _Place:
        """Step `depth` of result tile `output`; this core began with `first_output`."""
        counts_m, counts_n, counts_k = self._counts
        outer_x, deep = self._tile.outer == "x", self._tile.deep
        outer, inner = _divide(output, self._inner_count())
        unit = outer if self._tile.column else output
        fresh = arith.ori(_is(inner, 0), arith.cmpi(arith.CmpIPredicate.eq, output, first_output))
        last: ir.Value = _index(counts_k - 1)
        k = depth
        if deep > 1:
            k = arith.select(fresh, depth, arith.muli(depth, _index(deep)))
            last = arith.select(fresh, last, _index(counts_k // deep - 1))
        is_last = arith.cmpi(arith.CmpIPredicate.eq, depth, last)
        batch, outer = _divide(outer, counts_m if outer_x else counts_n)
        m, n = (outer, inner) if outer_x else (inner, outer)
        return _Place(batch, m, n, k, inner, output, unit, fresh, _is(depth, 0), is_last)

    def _copy(self, operand: Operand, step: ir.Value, place: _Place) -> ir.Value:
        """Which copy of an operand's buffer a step uses."""
        if operand != self._tile.stationary:
            return _index(0) if operand in self._prologues else _parity(step)
        if self._tile.lead:
            return arith.subi(place.k, _index(1))
        if self._counts[2] > 1:
            return place.k
        inner_count = self._counts[1] if operand == "x" else self._counts[0]
        return _parity(_divide(place.output, inner_count)[0])

    def _operand_origins(self, operand: Operand, place: _Place) -> dict[int, ir.Value]:
        return self._origins(operand, place, self._tile)

    def _lead_origins(self, operand: Operand, place: _Place) -> dict[int, ir.Value]:
        """Of the first k tile, whose number is 0."""
        return self._origins(operand, place, self._tile.leading(self._problem))

    def _result_origins(self, place: _Place) -> dict[int, ir.Value]:
        return self._origins("y", replace(place, m=_index(0)) if self._tile.column else place, self._tile)

    def _origins(self, part: Part, place: _Place, tile: GemmTile) -> dict[int, ir.Value]:
        """By axis of the part's frame, where the tiles do not all begin at 0."""
        numbers = {"b": place.batch, "m": place.m, "n": place.n, "k": place.k}
        origins: dict[int, ir.Value] = {}
        first = 0
        for role in self._problem.roles(part):
            counts, sizes = tile.axis_counts(role, self._problem), tile.sizes(role, self._problem)
            left = numbers[role]
            for axis in reversed(range(len(counts))):
                if counts[axis] == 1:
                    continue
                number = left
                if any(count > 1 for count in counts[:axis]):
                    left, number = _divide(left, counts[axis])
                size = sizes[axis]
                origin = number if size == 1 else arith.muli(number, _index(size))
                if role == "k" and tile.lead:  # the first one is smaller
                    origin = arith.subi(origin, _index(size - tile.lead))
                origins[first + axis] = origin
            first += len(counts)
        return origins


def _parity(value: ir.Value) -> ir.Value:
    return arith.andi(value, _index(1))


def _is(value: ir.Value, number: int) -> ir.Value:
    return arith.cmpi(arith.CmpIPredicate.eq, value, _index(number))


def _both(a: ir.Value | None, b: ir.Value) -> ir.Value:
    return b if a is None else arith.andi(a, b)


def _divide(value: ir.Value, count: int) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder by a constant."""
    if count == 1:
        return value, _index(0)
    return arith.divui(value, _index(count)), arith.remui(value, _index(count))


def _when(condition: ir.Value) -> ir.InsertionPoint:
    """An insertion point inside `if condition`."""
    return ir.InsertionPoint(scf.IfOp(condition).then_block)


def _if(condition: ir.Value | None, emit: Callable[[], None]) -> None:
    """`emit` inside `if condition`; None is always."""
    if condition is None:
        emit()
        return
    with _when(condition):
        emit()
        scf.YieldOp([])


def _if_else(condition: ir.Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    """One or the other."""
    choice = scf.IfOp(condition, has_else=True)
    for block, emit in ((choice.then_block, then), (choice.else_block, otherwise)):
        with ir.InsertionPoint(block):
            emit()
            scf.YieldOp([])


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
