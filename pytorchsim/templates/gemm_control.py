"""The control function of a matrix product: which step loads what, when a part of the result is finished and stored.

Steps are numbered result tile by result tile, k innermost. Each core takes a contiguous range of result tiles (of
whole columns where the tail folds them), so that the stationary operand loads once per outer tile. While a step
computes, the loads of the next one run; what is finished is stored from one of two copies while the next one grows in
the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import Buffer, KernelBuilder, TileFunction
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, TransferOp
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.array_step import array_step
from pytorchsim.templates.block import BufferKey, StoreBuffer
from pytorchsim.templates.footprint import BufferNeed
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand, Part
from pytorchsim.templates.gemm_tile import RESULT, Block, GemmTile, fused_tile, program_blocks
from pytorchsim.templates.lane_step import lane_step
from pytorchsim.templates.loop_program import Access, LoopProgram
from pytorchsim.templates.operand_function import KAxis, OperandFunction, operand_function
from pytorchsim.templates.stages import plan_stages
from pytorchsim.templates.tile_functions import StagedFunction, TileFunctions

__all__ = ["GemmControl"]

_LOAD_TAG, _STORE_TAG, _TAIL_TAG = 0, 2, 4
"""Loads of step s carry tag s mod 2, stores of result t tag 2 + t mod 2, the tail's loads tag 4."""

_OPERANDS: tuple[Operand, Operand] = ("x", "w")


@dataclass(frozen=True)
class _Moved:
    """A buffer, what one copy of it holds, and the descriptor that fills or empties a copy, if any does."""

    buffer: Buffer
    elements: int
    dtype: Dtype
    descriptor: str = ""
    walks: bool = True


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
        self._needs = tile.buffers(problem, fusion, kernel.config)
        self._moved: dict[str, _Moved] = {}
        self._memories: dict[str, ir.Value] = {}
        self._prologues: dict[Operand, OperandFunction] = {}
        self._finish: StagedFunction | None = None

    def build(self, operands: Mapping[Operand, str], result: str) -> None:
        """Everything. `operands`: buffer names of X and W where they are loaded as they are."""
        problem, tile, fusion = self._problem, self._tile, self._fusion
        for operand in _OPERANDS:
            program, block = fusion.prologue(operand), tile.block(operand, problem)
            if program is None:
                access = Access(operands[operand], problem.dtype, problem.index(operand))
                self._declare(operand, operand, access, TransferOp.LOAD, block)
                continue
            self._declare(operand, operand, None, TransferOp.LOAD, block)
            for number, access in enumerate(program.loads):
                self._declare(f"{operand}_in{number}", operand, access, TransferOp.LOAD, block, program)
            self._prologues[operand] = operand_function(
                self._kernel, f"prologue_{operand}", program, block, masks=self._masks(operand)
            )
        block = tile.block("y", problem)
        stored = Access(result, problem.result_dtype, problem.y) if result in self._slots else None
        if stored is not None and stored.dtype != problem.accumulator:
            stored = None  # the tail converts and stores it
        self._declare("y", "y", stored, TransferOp.STORE, block)
        if fusion.tail is not None:
            for name, access, _ in program_blocks(fusion.tail):
                op = TransferOp.LOAD if name.startswith("in") else TransferOp.STORE
                self._declare(name, "y", access, op, block, fusion.tail)
            flat = fused_tile(fusion.tail, block, self._kernel.config)
            functions = TileFunctions(self._kernel, fusion.tail, plan_stages(fusion.tail), flat, tile.lanes)
            self._finish = functions.resident()
        several = self._counts[2] > 1
        self._control(
            self._step_function("start", accumulate=False),
            self._step_function("step", accumulate=True) if several else None,
        )

    def _step_function(self, name: str, *, accumulate: bool) -> TileFunction:
        dtypes = (self._problem.dtype, self._problem.accumulator)
        step = array_step if self._tile.body == "array" else lane_step
        rows = self._tile.block("y", self._problem).pitch
        return step(self._kernel, name, self._tile, dtypes, rows, accumulate=accumulate)

    def _masks(self, operand: Operand) -> KAxis:
        if not self._problem.k % self._tile.k:
            return ""
        return "lane" if operand == "x" and self._tile.body == "array" else "walked"

    # ---- Buffers and descriptors -----------------------------------------------------------------------------------

    def _declare(
        self,
        name: str,
        part: Part,
        access: Access | None,
        op: TransferOp,
        block: Block,
        program: LoopProgram | None = None,
    ) -> None:
        """A buffer of `block`'s shape over the frame of `part`, and the descriptor that moves it where it has an
        access. A program's access that does not change along the walked axis has one value per slot."""
        need: BufferNeed = self._needs[name]
        buffer = self._kernel.buffer(name, need.bytes_per_copy, copies=need.copies)
        symbol, row_level = "", False
        if access is not None:
            vector = 0
            if program is not None and program.is_row_level(access):
                row_level, vector = True, fused_tile(program, block, self._kernel.config).vector_elements
            symbol = self._kernel.descriptor(f"transfer_{name}", self._descriptor(part, access, op, block, vector))
        self._moved[name] = _Moved(buffer, need.elements, need.dtype, symbol, not row_level)

    def _descriptor(self, part: Part, access: Access, op: TransferOp, block: Block, vector: int) -> Descriptor:
        """Axes (batch, walked, lane), or (batch, element of a vector, lane) where there is one value per slot, in every
        element of its `vector`."""
        index, frame = access.index, self._problem.frame(part)
        batch = Axis(1, index.strides[0], 0)
        if vector:
            walked = Axis(vector if op is TransferOp.LOAD else 1, 0, 1)
            lane = Axis(block.lane_size, index.strides[1], vector, lane=block.spread)
        else:
            walked = Axis(block.walked_size, index.strides[2], 1)
            lane = Axis(block.lane_size, index.strides[1], block.pitch, lane=block.spread)
        bounds = []
        if frame[1] % block.lane_size:
            bounds.append(Bound(0, (0, 0, 1), frame[1]))
        if frame[2] % block.walked_size and not vector:
            bounds.append(Bound(0, (0, 1, 0), frame[2]))
        return Descriptor(
            slot=self._slots[access.buffer],
            op=op,
            dtype=access.dtype,
            axes=(batch, walked, lane),
            offset=index.offset,
            bounds=tuple(bounds),
        )

    # ---- Control ---------------------------------------------------------------------------------------------------

    def _control(self, start: TileFunction, more: TileFunction | None) -> None:
        counts_m, counts_n, counts_k = self._counts
        per_unit = counts_m * counts_k if self._tile.column else counts_k
        units = self._problem.batch * counts_n * (1 if self._tile.column else counts_m)
        with self._kernel.control() as (core, cores):
            self._memories = {name: builders.buffer_ref(moved.buffer) for name, moved in self._moved.items()}
            first_unit = arith.divui(arith.muli(_index(units), core), cores)
            end_unit = arith.divui(arith.muli(_index(units), arith.addi(core, _index(1))), cores)
            first, end = arith.muli(first_unit, _index(per_unit)), arith.muli(end_unit, _index(per_unit))
            first_output = arith.divui(first, _index(counts_k))
            with _when(arith.cmpi(arith.CmpIPredicate.ult, first, end)):
                self._load_operands(self._place(first), first, first_output)
                scf.YieldOp([])
            loop = scf.ForOp(first, end, _index(1))
            with ir.InsertionPoint(loop.body):
                step = loop.induction_variable
                following = arith.addi(step, _index(1))
                with _when(arith.cmpi(arith.CmpIPredicate.ult, following, end)):
                    self._load_operands(self._place(following), following, first_output)
                    scf.YieldOp([])
                self._step(step, first_output, start, more)
                scf.YieldOp([])
            for copy in range(2):
                builders.wait(_STORE_TAG + copy)

    def _step(self, step: ir.Value, first_output: ir.Value, start: TileFunction, more: TileFunction | None) -> None:
        place = self._place(step)
        copy = _parity(place.unit)
        begins = _is(place.k, 0) if self._counts[2] > 1 else None
        ends = _is(place.k, self._counts[2] - 1) if self._counts[2] > 1 else None
        if self._tile.column and self._counts[0] > 1:
            begins = _both(begins, _is(place.inner, 0))
            ends = _both(ends, _is(place.inner, self._counts[0] - 1))
        builders.wait(_parity(step))
        _if(begins, lambda: self._begin(place, copy))
        for operand, function in self._prologues.items():
            self._prologue(operand, function, step, place, first_output)
        pointers = [
            self._pointer("x", self._copy("x", step, place)),
            self._pointer("w", self._copy("w", step, place)),
            self._result_pointer(copy, place),
        ]
        if more is None:
            builders.call_tile(start, pointers)
        else:
            choice = scf.IfOp(_is(place.k, 0), has_else=True)
            for block, called in ((choice.then_block, start), (choice.else_block, more)):
                with ir.InsertionPoint(block):
                    builders.call_tile(called, pointers)
                    scf.YieldOp([])
        _if(ends, lambda: self._end(place, copy))

    def _begin(self, place: _Place, copy: ir.Value) -> None:
        """The result's buffers are free again; what the tail reads is fetched."""
        builders.wait(arith.addi(copy, _index(_STORE_TAG)))
        for name in self._moved:
            if name.startswith("in"):
                self._transfer(name, _index(0), _index(_TAIL_TAG), self._result_origins(place))

    def _end(self, place: _Place, copy: ir.Value) -> None:
        """The tail runs, results are stored."""
        if self._finish is not None:
            if any(name.startswith("in") for name in self._moved):
                builders.wait(_TAIL_TAG)
            names = self._tail_names()
            copies = {"i": _index(0), "o": copy, "y": copy}
            pointers = [self._pointer(names[key], copies[names[key][0]]) for key in self._finish.buffers]
            builders.call_tile(self._finish.function, pointers)
        for name, moved in self._moved.items():
            if moved.descriptor and (name == "y" or name.startswith("out")):
                self._transfer(name, copy, arith.addi(copy, _index(_STORE_TAG)), self._result_origins(place))

    def _tail_names(self) -> dict[BufferKey, str]:
        """Buffer names of what the tail's function takes."""
        if self._fusion.tail is None:
            return {}
        loads = enumerate(self._fusion.tail.loads)
        names: dict[BufferKey, str] = {
            access: "y" if access.buffer == RESULT else f"in{number}" for number, access in loads
        }
        return names | {StoreBuffer(number): f"out{number}" for number in range(len(self._fusion.tail.stores))}

    def _prologue(
        self, operand: Operand, function: OperandFunction, step: ir.Value, place: _Place, first_output: ir.Value
    ) -> None:
        """Compute an operand's tile from what was loaded for it."""

        def call() -> None:
            pointers = [
                self._pointer(operand, self._copy(operand, step, place))
                if isinstance(key, StoreBuffer)
                else self._pointer(f"{operand}_in{number}", _parity(step))
                for number, key in enumerate(function.buffers)
            ]
            left = arith.subi(_index(self._problem.k), arith.muli(place.k, _index(self._tile.k)))
            builders.call_tile(function.function, [*pointers, left] if function.masks else pointers)

        _if(self._fresh(place, first_output) if operand == self._tile.stationary else None, call)

    def _load_operands(self, place: _Place, step: ir.Value, first_output: ir.Value) -> None:
        """The streamed operand's tile, and the stationary one's in the first result tile of each outer tile (or of
        this core)."""
        for operand in _OPERANDS:
            program = self._fusion.prologue(operand)

            def load(operand: Operand = operand, program: LoopProgram | None = program) -> None:
                tag, origins = _parity(step), self._operand_origins(operand, place)
                if program is None:
                    self._transfer(operand, self._copy(operand, step, place), tag, origins)
                for number in range(len(program.loads) if program else 0):
                    self._transfer(f"{operand}_in{number}", _parity(step), tag, origins)

            _if(self._fresh(place, first_output) if operand == self._tile.stationary else None, load)

    def _fresh(self, place: _Place, first_output: ir.Value) -> ir.Value:
        """Whether the stationary operand's tile is not in the scratchpad yet."""
        return arith.ori(_is(place.inner, 0), arith.cmpi(arith.CmpIPredicate.eq, place.output, first_output))

    def _place(self, step: ir.Value) -> _Place:
        counts_m, counts_n, counts_k = self._counts
        output, k = _divide(step, counts_k)
        outer_x = self._tile.outer == "x"
        inner_count, outer_count = (counts_n, counts_m) if outer_x else (counts_m, counts_n)
        outer, inner = _divide(output, inner_count)
        unit = outer if self._tile.column else output
        batch, outer = _divide(outer, outer_count)
        m, n = (outer, inner) if outer_x else (inner, outer)
        return _Place(batch, m, n, k, inner, output, unit)

    def _copy(self, operand: Operand, step: ir.Value, place: _Place) -> ir.Value:
        """Which copy of an operand's buffer a step uses."""
        if operand != self._tile.stationary:
            return _index(0) if operand in self._prologues else _parity(step)
        if self._counts[2] > 1:
            return place.k
        inner_count = self._counts[1] if operand == "x" else self._counts[0]
        return _parity(_divide(place.output, inner_count)[0])

    def _operand_origins(self, operand: Operand, place: _Place) -> dict[int, ir.Value]:
        """By axis number of the descriptors: batch, walked, lane."""
        tile, k = self._tile, arith.muli(place.k, _index(self._tile.k))
        if operand == "w":
            return {0: place.batch, 1: k, 2: arith.muli(place.n, _index(tile.n))}
        m = arith.muli(place.m, _index(tile.m))
        return {0: place.batch, 1: m, 2: k} if tile.body == "array" else {0: place.batch, 1: k, 2: m}

    def _result_origins(self, place: _Place) -> dict[int, ir.Value]:
        tile = self._tile
        m = _index(0) if tile.column else arith.muli(place.m, _index(tile.m))
        return {0: place.batch, 1: m, 2: arith.muli(place.n, _index(tile.n))}

    def _transfer(self, name: str, copy: ir.Value, tag: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        moved = self._moved[name]
        used = {axis: origin for axis, origin in origins.items() if axis != 1 or moved.walks}
        builders.transfer(moved.descriptor, self._pointer(name, copy), tag, used)

    def _result_pointer(self, copy: ir.Value, place: _Place) -> ir.Value:
        """Where the step adds: the result's copy, from the step's rows on."""
        moved, tile = self._moved["y"], self._tile
        pitch = tile.block("y", self._problem).pitch
        elements = (tile.n_slots - 1) * pitch + tile.m
        shift = arith.muli(copy, _index(moved.buffer.bytes_per_copy))
        if tile.column and self._counts[0] > 1:
            shift = arith.addi(shift, arith.muli(place.m, _index(tile.m * moved.dtype.bytes)))
        return builders.tile_view(self._memories["y"], shift, elements, builders.element_type(moved.dtype))

    def _pointer(self, name: str, copy: ir.Value) -> ir.Value:
        moved = self._moved[name]
        shift = arith.muli(copy, _index(moved.buffer.bytes_per_copy))
        return builders.tile_view(self._memories[name], shift, moved.elements, builders.element_type(moved.dtype))


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


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
