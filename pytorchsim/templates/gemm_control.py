"""The control function of the GEMM template: which step loads what, when its tile of the result is finished, and what
is then stored.

Steps are numbered output tile by output tile, k innermost. Output tiles of a core are a contiguous range, so that the
stationary operand loads once per outer tile. While a step computes, the loads of the next one run; a finished tile is
stored from one of two copies while the next one accumulates in the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders
from pytorchsim.mlir.builders import Buffer, KernelBuilder, TileFunction
from pytorchsim.target.descriptor import Axis, Bound, Descriptor, TransferOp
from pytorchsim.target.dtypes import F32, Dtype
from pytorchsim.templates.block import StoreBuffer
from pytorchsim.templates.gemm_functions import step_function, tail_function
from pytorchsim.templates.gemm_tile import GemmProblem, GemmTile
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram

__all__ = ["GemmControl"]

_LOAD_TAG, _STORE_TAG, _TAIL_TAG = 0, 2, 4
"""Loads of step s carry tag s mod 2, stores of output tile t tag 2 + t mod 2, the tail's loads tag 4."""

Operand = Literal["x", "w"]


@dataclass(frozen=True)
class _Block:
    """What a buffer holds of a space of three axes, the last one spread over the lanes one by one: tile `sizes`,
    `extents` of the space, in-lane `strides`, `elements` per lane and copy, `copies`."""

    sizes: tuple[int, int, int]
    extents: tuple[int, int, int]
    strides: tuple[int, int, int]
    elements: int
    copies: int


@dataclass(frozen=True)
class _Moved:
    """A buffer and the descriptor that fills or empties one copy of it."""

    buffer: Buffer
    elements: int
    dtype: Dtype
    descriptor: str


@dataclass(frozen=True)
class _Place:
    """The tile coordinates of a step: batch, m, n of its output tile and k, as tile numbers; `inner` counts within
    the outer tile."""

    batch: ir.Value
    m: ir.Value
    n: ir.Value
    k: ir.Value
    inner: ir.Value
    output: ir.Value


class GemmControl:
    """Builds one kernel. `result` is the name of the template's buffer, which the tail reads."""

    def __init__(
        self, kernel: KernelBuilder, problem: GemmProblem, tile: GemmTile, tail: LoopProgram | None, result: str
    ) -> None:
        self._kernel, self._problem, self._tile, self._tail, self._result = kernel, problem, tile, tail, result
        self._counts = tile.counts(problem)
        self._moved: dict[str, _Moved] = {}
        self._memories: dict[str, ir.Value] = {}
        self._tail_inputs: list[Access] = []
        self._tail_keys: list[Access | StoreBuffer] = []

    def build(self, operands: Mapping[Operand, int], slots: Mapping[str, int]) -> None:
        """Everything: `operands` gives the slots of X and W, `slots` those of other buffers by name."""
        problem, tile = self._problem, self._tile
        self._operand("x", operands["x"], problem.x, (problem.batch, problem.m, problem.k))
        self._operand("w", operands["w"], problem.w, (problem.batch, problem.k, problem.n))
        self._result_tile(slots)
        start = step_function(self._kernel, "start", tile, problem.dtype, accumulate=False)
        more = (
            step_function(self._kernel, "step", tile, problem.dtype, accumulate=True) if self._counts[2] > 1 else None
        )
        finish = None
        if self._tail is not None:
            finish = tail_function(self._kernel, "tail", tile, self._tail, self._tail_keys)
        self._control(start, more, finish)

    # ---- Buffers and descriptors -----------------------------------------------------------------------------------

    def _operand(self, name: Operand, slot: int, index: AffineIndex, extents: tuple[int, int, int]) -> None:
        """X over (batch, m, k), in the lane [k block][m]; W over (batch, k, n), in the lane [array][k]."""
        tile, copies = self._tile, self._tile.copies(name, self._problem)
        if name == "x":
            block = _Block((1, tile.m, tile.k), extents, (0, 1, tile.m), tile.x_elements(), copies)
        else:
            block = _Block((1, tile.k, tile.n), extents, (0, 1, tile.k), tile.w_elements(), copies)
        self._declare(name, block, slot, TransferOp.LOAD, (self._problem.dtype, index))

    def _result_tile(self, slots: Mapping[str, int]) -> None:
        """The accumulator, stored by itself where somebody reads the product; the tail's other buffers lie as it
        does."""
        tile, problem = self._tile, self._problem
        twice = _Block((1, tile.m, tile.n), problem.frame, (0, 1, tile.m), tile.y_elements(), 2)
        self._declare("y", twice, slots.get(self._result), TransferOp.STORE, (F32, problem.y))
        if self._tail is None:
            return
        for access in self._tail.loads:
            self._tail_keys.append(access)
            if access.buffer == self._result:
                continue
            name = f"in{len(self._tail_inputs)}"
            self._tail_inputs.append(access)
            once = replace(twice, copies=1)
            self._declare(name, once, slots[access.buffer], TransferOp.LOAD, (access.dtype, access.index))
        for number, store in enumerate(self._tail.stores):
            self._tail_keys.append(StoreBuffer(number))
            target = store.access
            self._declare(f"out{number}", twice, slots[target.buffer], TransferOp.STORE, (target.dtype, target.index))

    def _declare(
        self, name: str, block: _Block, slot: int | None, op: TransferOp, access: tuple[Dtype, AffineIndex]
    ) -> None:
        """A buffer of the block's shape, and the descriptor that moves one copy of it where it has a slot."""
        dtype, index = access
        buffer = self._kernel.buffer(name, block.elements * dtype.bytes, copies=block.copies)
        symbol = ""
        if slot is not None:
            descriptor = Descriptor(
                slot=slot,
                op=op,
                dtype=dtype,
                axes=tuple(
                    Axis(size, index.strides[axis], block.strides[axis], lane=axis == 2)
                    for axis, size in enumerate(block.sizes)
                ),
                offset=index.offset,
                bounds=tuple(
                    Bound(0, tuple(int(axis == other) for other in range(3)), block.extents[axis])
                    for axis, size in enumerate(block.sizes)
                    if block.extents[axis] % size
                ),
            )
            symbol = self._kernel.descriptor(f"transfer_{name}", descriptor)
        self._moved[name] = _Moved(buffer, block.elements, dtype, symbol)

    # ---- Control ---------------------------------------------------------------------------------------------------

    def _control(self, start: TileFunction, more: TileFunction | None, finish: TileFunction | None) -> None:
        counts_m, counts_n, counts_k = self._counts
        outputs = self._problem.batch * counts_m * counts_n
        with self._kernel.control() as (core, cores):
            self._memories = {name: builders.buffer_ref(moved.buffer) for name, moved in self._moved.items()}
            first = arith.divui(arith.muli(_index(outputs), core), cores)
            end = arith.divui(arith.muli(_index(outputs), arith.addi(core, _index(1))), cores)
            first_step, end_step = arith.muli(first, _index(counts_k)), arith.muli(end, _index(counts_k))
            with _when(arith.cmpi(arith.CmpIPredicate.ult, first_step, end_step)):
                self._load_operands(first_step, first)
                scf.YieldOp([])
            loop = scf.ForOp(first_step, end_step, _index(1))
            with ir.InsertionPoint(loop.body):
                step = loop.induction_variable
                following = arith.addi(step, _index(1))
                with _when(arith.cmpi(arith.CmpIPredicate.ult, following, end_step)):
                    self._load_operands(following, first)
                    scf.YieldOp([])
                self._step(step, start, more, finish)
                scf.YieldOp([])
            for copy in range(2):
                builders.wait(_STORE_TAG + copy)

    def _step(
        self,
        step: ir.Value,
        start: TileFunction,
        more: TileFunction | None,
        finish: TileFunction | None,
    ) -> None:
        place, copy = self._place(step), _parity(self._place(step).output)
        pointers = [
            self._pointer("x", self._copy("x", step, place)),
            self._pointer("w", self._copy("w", step, place)),
            self._pointer("y", copy),
        ]
        builders.wait(_parity(step))

        def begin() -> None:
            builders.wait(arith.addi(copy, _index(_STORE_TAG)))
            for number in range(len(self._tail_inputs)):
                self._transfer(f"in{number}", _index(0), _index(_TAIL_TAG), self._result_origins(place))
            builders.call_tile(start, pointers)

        def end() -> None:
            tag = arith.addi(copy, _index(_STORE_TAG))
            if finish is not None:
                if self._tail_inputs:
                    builders.wait(_TAIL_TAG)
                builders.call_tile(finish, [self._tail_pointer(key, copy) for key in self._tail_keys])
            for name, moved in self._moved.items():
                if moved.descriptor and (name == "y" or name.startswith("out")):
                    self._transfer(name, copy, tag, self._result_origins(place))

        if more is None:
            begin()
            end()
            return
        is_first = arith.cmpi(arith.CmpIPredicate.eq, place.k, _index(0))
        choice = scf.IfOp(is_first, has_else=True)
        with ir.InsertionPoint(choice.then_block):
            begin()
            scf.YieldOp([])
        with ir.InsertionPoint(choice.else_block):
            builders.call_tile(more, pointers)
            scf.YieldOp([])
        with _when(arith.cmpi(arith.CmpIPredicate.eq, place.k, _index(self._counts[2] - 1))):
            end()
            scf.YieldOp([])

    def _load_operands(self, step: ir.Value, first: ir.Value) -> None:
        """The streamed operand's tile, and the stationary one's in the first output tile of each outer tile (or of
        this core)."""
        place = self._place(step)
        tag = _parity(step)
        stationary: Operand = self._tile.stationary
        streamed: Operand = "w" if stationary == "x" else "x"
        self._transfer(streamed, self._copy(streamed, step, place), tag, self._operand_origins(streamed, place))
        fresh = arith.ori(
            arith.cmpi(arith.CmpIPredicate.eq, place.inner, _index(0)),
            arith.cmpi(arith.CmpIPredicate.eq, place.output, first),
        )
        with _when(fresh):
            self._transfer(
                stationary, self._copy(stationary, step, place), tag, self._operand_origins(stationary, place)
            )
            scf.YieldOp([])

    def _place(self, step: ir.Value) -> _Place:
        counts_m, counts_n, counts_k = self._counts
        output, k = _divide(step, counts_k)
        inner_count = counts_n if self._tile.stationary == "x" else counts_m
        outer_count = counts_m if self._tile.stationary == "x" else counts_n
        outer, inner = _divide(output, inner_count)
        batch, outer = _divide(outer, outer_count)
        m, n = (outer, inner) if self._tile.stationary == "x" else (inner, outer)
        return _Place(batch, m, n, k, inner, output)

    def _copy(self, operand: Operand, step: ir.Value, place: _Place) -> ir.Value:
        """Which copy of an operand's buffer a step uses."""
        if operand != self._tile.stationary:
            return _parity(step)
        if self._counts[2] > 1:
            return place.k
        inner_count = self._counts[1] if operand == "x" else self._counts[0]
        return _parity(_divide(place.output, inner_count)[0])

    def _operand_origins(self, operand: Operand, place: _Place) -> dict[int, ir.Value]:
        tile, k = self._tile, arith.muli(place.k, _index(self._tile.k))
        if operand == "x":
            return {0: place.batch, 1: arith.muli(place.m, _index(tile.m)), 2: k}
        return {0: place.batch, 1: k, 2: arith.muli(place.n, _index(tile.n))}

    def _result_origins(self, place: _Place) -> dict[int, ir.Value]:
        tile = self._tile
        return {0: place.batch, 1: arith.muli(place.m, _index(tile.m)), 2: arith.muli(place.n, _index(tile.n))}

    def _transfer(self, name: str, copy: ir.Value, tag: ir.Value, origins: Mapping[int, ir.Value]) -> None:
        builders.transfer(self._moved[name].descriptor, self._pointer(name, copy), tag, origins)

    def _tail_pointer(self, key: Access | StoreBuffer, copy: ir.Value) -> ir.Value:
        if isinstance(key, StoreBuffer):
            return self._pointer(f"out{key.number}", copy)
        if key.buffer != self._result:
            return self._pointer(f"in{self._tail_inputs.index(key)}", _index(0))
        return self._pointer("y", copy)

    def _pointer(self, name: str, copy: ir.Value) -> ir.Value:
        moved = self._moved[name]
        shift = arith.muli(copy, _index(moved.buffer.bytes_per_copy))
        return builders.tile_view(self._memories[name], shift, moved.elements, builders.element_type(moved.dtype))


def _parity(value: ir.Value) -> ir.Value:
    return arith.andi(value, _index(1))


def _divide(value: ir.Value, count: int) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder by a constant."""
    if count == 1:
        return value, _index(0)
    return arith.divui(value, _index(count)), arith.remui(value, _index(count))


def _when(condition: ir.Value) -> ir.InsertionPoint:
    """An insertion point inside `if condition`."""
    return ir.InsertionPoint(scf.IfOp(condition).then_block)


def _index(value: int) -> ir.Value:
    return builders.index_constant(value)
