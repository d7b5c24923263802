"""The control function of a matrix product: which step loads what, when a part of the result is finished and stored.

Each core takes a contiguous range of result tiles (of whole columns where the tail folds them), so that the stationary
operand loads once per outer tile. While a step computes, the loads of the next one run; what is finished is stored from
one of two copies while the next one grows in the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import index_constant
from pytorchsim.mlir.kernel_builder import KernelBuilder, TileFunction
from pytorchsim.target.descriptor import TransferOp
from pytorchsim.templates.block import BufferKey, StoreBuffer
from pytorchsim.templates.control_flow import add, both, equal, if_else, if_true, less, multiply, parity, select
from pytorchsim.templates.gemm_buffers import DEEP, GemmBuffers
from pytorchsim.templates.gemm_functions import prologue_function, step_functions, tail_function
from pytorchsim.templates.gemm_order import GemmOrder, Step
from pytorchsim.templates.gemm_problem import GemmFusion, GemmProblem, Operand
from pytorchsim.templates.gemm_tile import LEAD, RESULT, GemmTile, program_blocks
from pytorchsim.templates.operand_function import OperandFunction
from pytorchsim.templates.tile_functions import StagedFunction

__all__ = ["GemmControl"]

_LOAD_TAG, _STORE_TAG, _TAIL_TAG = 0, 2, 4
"""Loads of step s carry tag s mod 2, stores of result t tag 2 + t mod 2, the tail's loads tag 4."""

_OPERANDS: tuple[Operand, Operand] = ("x", "w")


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
        self._order = GemmOrder(problem, tile)
        self._buffers = GemmBuffers(kernel, problem, fusion, tile, slots)
        self._prologues: dict[Operand, OperandFunction] = {}
        self._tail: StagedFunction | None = None

    def build(self, operands: Mapping[Operand, str], result: str) -> None:
        """Everything. `operands`: buffer names of X and W where they are loaded as they are."""
        problem, tile, fusion = self._problem, self._tile, self._fusion
        for operand in _OPERANDS:
            self._declare_operand(operand, operands[operand])
            prologue = prologue_function(self._kernel, problem, fusion, tile, operand)
            if prologue is not None:
                self._prologues[operand] = prologue
        self._declare_result(result)
        self._tail = tail_function(self._kernel, problem, fusion, tile)
        self._control(step_functions(self._kernel, problem, tile))

    # ---- Buffers ---------------------------------------------------------------------------------------------------

    def _declare_operand(self, operand: Operand, source: str) -> None:
        """The tile that is multiplied, and where a prologue computes it, what it is computed from."""
        problem, tile, program = self._problem, self._tile, self._fusion.prologue(operand)
        block = tile.block(operand, problem)
        if program is None:
            access = problem.access(operand, source, problem.dtype)
            self._buffers.declare(operand, operand, access, TransferOp.LOAD, block)
            if tile.deep > 1 and operand != tile.stationary:
                self._buffers.declare_deep(operand, access)
            if tile.lead:
                first = tile.leading(problem).block(operand, problem)
                self._buffers.declare(LEAD + operand, operand, access, TransferOp.LOAD, first)
            return
        self._buffers.declare(operand, operand, None, TransferOp.LOAD, block)
        for number, access in enumerate(program.loads):
            self._buffers.declare(f"{operand}_in{number}", operand, access, TransferOp.LOAD, block, program)

    def _declare_result(self, result: str) -> None:
        """The sums, and what the tail loads and stores."""
        problem, tile, tail = self._problem, self._tile, self._fusion.tail
        block = tile.block("y", problem)
        if tile.blocked:
            self._buffers.declare("partial", "y", None, TransferOp.STORE, block)
        stored = problem.access("y", result, problem.result_dtype) if result in self._slots else None
        if stored is not None and stored.dtype != problem.accumulator:
            stored = None  # the tail converts and stores it
        self._buffers.declare("y", "y", stored, TransferOp.STORE, block)
        for name, access, _ in program_blocks(tail) if tail is not None else ():
            op = TransferOp.LOAD if name.startswith("in") else TransferOp.STORE
            self._buffers.declare(name, "y", access, op, block, tail)

    # ---- Control ---------------------------------------------------------------------------------------------------

    def _control(self, functions: Mapping[str, TileFunction]) -> None:
        order = self._order
        with self._kernel.control() as (core, cores):
            self._buffers.refer()
            self._buffers.clear(_TAIL_TAG)
            first_unit = arith.divui(arith.muli(index_constant(order.units), core), cores)
            end_unit = arith.divui(arith.muli(index_constant(order.units), add(core, 1)), cores)
            first, end = multiply(first_unit, order.tiles_per_unit), multiply(end_unit, order.tiles_per_unit)
            steps, zero, one = order.steps(first, end), index_constant(0), index_constant(1)
            if_true(less(first, end), lambda: self._load_operands(order.step(zero, first, zero, first)))
            loop = scf.ForOp(zero, steps, one, [first, zero])
            with ir.InsertionPoint(loop.body):
                number = loop.induction_variable
                output, depth = loop.inner_iter_args
                step = order.step(number, output, depth, first)
                following = arith.addi(number, one)
                next_output = select(step.last, arith.addi(output, one), output)
                next_depth = select(step.last, zero, arith.addi(depth, one))
                if_true(
                    less(following, steps),
                    lambda: self._load_operands(order.step(following, next_output, next_depth, first)),
                )
                self._step(step, functions)
                scf.YieldOp([next_output, next_depth])
            for copy in range(2):
                builders.wait(_STORE_TAG + copy)

    def _step(self, step: Step, functions: Mapping[str, TileFunction]) -> None:
        copy = parity(step.unit)
        several = self._counts[2] > 1
        begins, ends = (step.first, step.last) if several else (None, None)
        if self._tile.column and self._counts[0] > 1:
            begins = _also(begins, equal(step.inner, 0))
            ends = _also(ends, equal(step.inner, self._counts[0] - 1))
        builders.wait(parity(step.number))
        if_true(begins, lambda: self._begin(step, copy))
        for operand, function in self._prologues.items():
            self._prologue(operand, function, step)
        if self._tile.deep == 1:
            self._compute(step, copy, functions, "")
        else:
            if_else(
                step.fresh,
                lambda: self._compute(step, copy, functions, ""),
                lambda: self._compute(step, copy, functions, DEEP),
            )
        if_true(ends, lambda: self._end(step, copy))

    def _compute(self, step: Step, copy: ir.Value, functions: Mapping[str, TileFunction], depth: str) -> None:
        """Call the step function: the first of a result tile overwrites, others add."""
        tile = self._tile.deepened() if depth else self._tile
        pointers = [
            self._buffers.pointer(part, self._copy(part, step), tile.block(part, self._problem).elements)
            for part in _OPERANDS
        ]
        firsts = pointers
        if tile.lead:
            firsts = [self._buffers.pointer(LEAD + part, index_constant(0)) for part in _OPERANDS]
        result = self._buffers.result_pointer(copy, step.m)
        start, more = functions[f"{depth}start"], functions.get(f"{depth}step")
        if more is None:
            builders.call_tile(start, [*pointers, result])
            return
        own_sums = self._buffers.pointer("partial", index_constant(0)) if tile.blocked else None

        def add_to_result() -> None:
            if own_sums is None:
                builders.call_tile(more, [*pointers, result])
                return
            builders.call_tile(more, [*pointers, own_sums])
            builders.call_tile(functions["add"], [own_sums, result])

        if_else(step.first, lambda: builders.call_tile(start, [*firsts, result]), add_to_result)

    def _begin(self, step: Step, copy: ir.Value) -> None:
        """The result's buffers are free again; what the tail reads is fetched."""
        builders.wait(add(copy, _STORE_TAG))
        for name in self._buffers.moved:
            if name.startswith("in"):
                only, tag = index_constant(0), index_constant(_TAIL_TAG)
                self._buffers.transfer(name, only, tag, self._order.result_origins(step))

    def _end(self, step: Step, copy: ir.Value) -> None:
        """The tail runs, results are stored."""
        if self._tail is not None:
            if any(name.startswith("in") for name in self._buffers.moved):
                builders.wait(_TAIL_TAG)
            names = self._tail_names()
            copies = {"i": index_constant(0), "o": copy, "y": copy}
            pointers = [self._buffers.pointer(names[key], copies[names[key][0]]) for key in self._tail.buffers]
            builders.call_tile(self._tail.function, pointers)
        for name, moved in self._buffers.moved.items():
            if moved.descriptor and (name == "y" or name.startswith("out")):
                self._buffers.transfer(name, copy, add(copy, _STORE_TAG), self._order.result_origins(step))

    def _tail_names(self) -> dict[BufferKey, str]:
        """Buffer names of what the tail's function takes."""
        if self._fusion.tail is None:
            return {}
        loads = enumerate(self._fusion.tail.loads)
        names: dict[BufferKey, str] = {
            access: "y" if access.buffer == RESULT else f"in{number}" for number, access in loads
        }
        return names | {StoreBuffer(number): f"out{number}" for number in range(len(self._fusion.tail.stores))}

    def _prologue(self, operand: Operand, function: OperandFunction, step: Step) -> None:
        """Compute an operand's tile from what was loaded for it."""

        def call() -> None:
            pointers = [
                self._buffers.pointer(operand, self._copy(operand, step))
                if isinstance(key, StoreBuffer)
                else self._buffers.pointer(f"{operand}_in{number}", parity(step.number))
                for number, key in enumerate(function.buffers)
            ]
            left = arith.subi(index_constant(self._problem.k), multiply(step.k, self._tile.k))
            builders.call_tile(function.function, [*pointers, left] if function.masks else pointers)

        if_true(self._when_used(operand, step), call)

    def _load_operands(self, step: Step) -> None:
        for operand in _OPERANDS:
            if_true(self._when_used(operand, step), partial(self._load, operand, step))

    def _when_used(self, operand: Operand, step: Step) -> ir.Value | None:
        """Of the streamed operand always (None); of the stationary one in the first result tile of each outer tile
        (or of this core)."""
        return step.fresh if operand == self._tile.stationary else None

    def _load(self, operand: Operand, step: Step) -> None:
        buffers, order = self._buffers, self._order
        tag, origins = parity(step.number), order.operand_origins(operand, step)
        copy = self._copy(operand, step)
        program = self._fusion.prologue(operand)
        if program is not None:
            for number in range(len(program.loads)):
                buffers.transfer(f"{operand}_in{number}", parity(step.number), tag, origins)
        elif DEEP + operand in buffers.moved:
            if_else(
                step.fresh,
                lambda: buffers.transfer(operand, copy, tag, origins),
                lambda: buffers.transfer(DEEP + operand, copy, tag, origins),
            )
        elif self._tile.lead:
            if_else(
                step.first,
                lambda: buffers.transfer(LEAD + operand, index_constant(0), tag, order.lead_origins(operand, step)),
                lambda: buffers.transfer(operand, copy, tag, origins),
            )
        else:
            buffers.transfer(operand, copy, tag, origins)

    def _copy(self, operand: Operand, step: Step) -> ir.Value:
        """Which copy of an operand's buffer a step uses."""
        if operand == self._tile.stationary:
            return self._order.held_copy(step)
        return index_constant(0) if operand in self._prologues else parity(step.number)


def _also(condition: ir.Value | None, other: ir.Value) -> ir.Value:
    """Both; None always holds."""
    return other if condition is None else both(condition, other)
