"""Replays Inductor loop bodies into a `LoopProgram`.

In: scheduler nodes with one iteration space. Out: operations in single-assignment form, equal ones shared. A buffer
stored earlier in the same kernel is not loaded again: its value is used (the scheduler has proved that the indices
are equal). Refusals are UnsupportedError.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import sympy
import torch
from torch._inductor.ops_handler import DefaultHandler
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.virtualized import V

from pytorchsim.errors import UnsupportedError
from pytorchsim.target.dtypes import Kind
from pytorchsim.templates.decompositions import DECOMPOSED
from pytorchsim.templates.index_analysis import affine_index
from pytorchsim.templates.loop_program import Access, AffineIndex, LoopProgram, Operation, Store
from pytorchsim.templates.recorded_types import (
    computed_type,
    is_narrow,
    machine_dtype,
    operand_types,
    result_type,
)
from pytorchsim.templates.reductions import REDUCTIONS
from pytorchsim.templates.terms import Term
from pytorchsim.templates.unsupported_ops import UNSUPPORTED
from pytorchsim.templates.vector_ops import EMITTERS

__all__ = ["LoopRecorder", "RecordedValue"]
_INTEGERS = {8: torch.int8, 16: torch.int16}
"""The types that hold the bits of narrow floats, by width."""


class RecordedValue:
    """What an operation returns to the loop body: the number of its operation and its torch dtype."""

    def __init__(self, number: int, dtype: torch.dtype) -> None:
        self.number, self.dtype = number, dtype


class LoopRecorder(DefaultHandler):
    """An Inductor ops handler that writes down what it is asked to do."""

    def __init__(self, variables: Sequence[sympy.Symbol], sizes: Sequence[int], reduced: int = 0) -> None:
        """Bodies are replayed with `variables`, of extents `sizes`, the last `reduced` of them reduced."""
        self._variables, self._sizes, self._reduced = tuple(variables), tuple(sizes), reduced
        self._operations: list[Operation] = []
        self._known: dict[tuple[Operation, str], int] = {}
        self._stores: list[Store] = []
        self._stored: dict[str, RecordedValue] = {}
        self._node: SchedulerNode | None = None

    def replay(self, node: SchedulerNode, rows: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]) -> None:
        """Record the body of `node` with these expressions for its loop variables. Pure: the node stays as it is."""
        self._node = node
        with V.set_ops_handler(self):
            node._body(list(rows), list(reduced))

    def program(self, removed_buffers: frozenset[str] = frozenset()) -> LoopProgram:
        """What was recorded, without stores to `removed_buffers` and without what then has no user."""
        stores = [store for store in self._stores if store.access.buffer not in removed_buffers]
        needed = {store.value for store in stores}
        for number in reversed(range(len(self._operations))):
            if number in needed:
                needed.update(self._operations[number].operands)
        renumber = {old: new for new, old in enumerate(sorted(needed))}
        operations = []
        for old in sorted(needed):
            op = self._operations[old]
            operations.append(replace(op, operands=tuple(renumber[n] for n in op.operands)))
        kept_stores = tuple(Store(store.access, renumber[store.value]) for store in stores)
        return LoopProgram(self._sizes, tuple(operations), kept_stores, self._reduced)

    def load(self, name: str, index: sympy.Expr) -> RecordedValue:
        """One element of a buffer, or the value that this kernel has stored there."""
        if name in self._stored:
            return self._stored[name]
        dtype = V.graph.get_dtype(name)
        access = Access(name, machine_dtype(dtype), self._index(index))
        computed = computed_type(dtype)
        return self._append(Operation("load", (), machine_dtype(computed), access=access), computed)

    def store(self, name: str, index: sympy.Expr, value: RecordedValue, mode: str | None = None) -> None:
        """One element to a buffer."""
        if mode is not None:
            raise UnsupportedError(f"store with mode {mode!r} to {name}; only plain stores are supported")
        dtype = V.graph.get_dtype(name)
        value = self.to_dtype(value, dtype)
        access = Access(name, machine_dtype(dtype), self._index(index))
        self._stores.append(Store(access, value.number))
        mutated = self._node.get_output(name).get_mutations() if self._node is not None else ()
        for stored in (name, *mutated):
            self._stored[stored] = value

    def reduction(
        self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: str, value: RecordedValue
    ) -> RecordedValue | tuple[RecordedValue, ...]:
        """The value folded over the reduced axes: one result per row."""
        if reduction_type == "welford_reduce":
            return self._mean_and_squares(dtype, value)
        if reduction_type not in REDUCTIONS:
            known = ", ".join(REDUCTIONS)
            raise UnsupportedError(f"reduction {reduction_type!r}; supported: {known}")
        computed = computed_type(dtype)
        if reduction_type == "any":
            value = self.convert(value, torch.bool)
        elif not REDUCTIONS[reduction_type].with_position:
            value = self.convert(value, computed)
        operation = Operation("reduce", (value.number,), machine_dtype(computed), reduction=reduction_type)
        return self._append(operation, computed)

    def _index(self, index: sympy.Expr) -> AffineIndex:
        ranges = dict(zip(self._variables, map(sympy.Integer, self._sizes), strict=True))
        return affine_index(V.graph.sizevars.simplify_with_ranges(index, ranges), self._variables)

    def store_reduction(self, name: str, index: sympy.Expr, value: RecordedValue) -> None:
        """One result per row to a buffer."""
        self.store(name, index, value)

    def _mean_and_squares(self, dtype: torch.dtype, value: RecordedValue) -> tuple[RecordedValue, ...]:
        """Mean, sum of squared distances from it, and count. In two walks: the row stays in the scratchpad, and no
        algorithm in one is as accurate (Chan, Golub, LeVeque 1983)."""
        count = self.constant(float(math.prod(self._sizes[len(self._sizes) - self._reduced :])), dtype)
        total = self.reduction(dtype, dtype, "sum", value)
        mean = self._default("truediv", (total, count), {})
        distance = self._default("sub", (value, mean), {})
        squares = self.reduction(dtype, dtype, "sum", self._default("mul", (distance, distance), {}))
        if isinstance(squares, tuple):
            raise TypeError("a sum has one result")
        return mean, squares, count

    def constant(self, value: float | bool, dtype: torch.dtype) -> RecordedValue:
        """A literal."""
        computed = computed_type(dtype)
        kind = machine_dtype(computed)
        literal = (
            bool(value) if kind.kind is Kind.BOOL else float(value) if kind.kind is Kind.FLOAT else int(value)
        )
        return self._append(Operation("constant", (), kind, constant=literal), computed)

    def to_dtype(
        self, x: RecordedValue, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> RecordedValue:
        """Conversion. To a type that is computed as float32 it rounds, as eager does, and stays float32."""
        value = self.convert(x, computed_type(dtype))
        if not is_narrow(dtype):
            return value
        memory, made_by = machine_dtype(dtype), self._operations[value.number]
        rounding = f"round_to_{memory.name}"
        if made_by.name == rounding or (made_by.access is not None and made_by.access.dtype == memory):
            return value
        return self._append(Operation(rounding, (value.number,), made_by.dtype), value.dtype)

    def convert(self, x: RecordedValue, computed: torch.dtype) -> RecordedValue:
        """Conversion to a type computed in; nothing where it is the same."""
        if x.dtype == computed:
            return x
        if computed == torch.uint32 and x.dtype.is_floating_point:
            x = self.convert(x, torch.int64)  # wraps negative values as eager does
        return self._append(Operation("to_dtype", (x.number,), machine_dtype(computed)), computed)

    def to_dtype_bitcast(self, x: RecordedValue, dtype: torch.dtype, src_dtype: torch.dtype) -> RecordedValue:
        """The bits of a `src_dtype` in memory read as `dtype`, of the same width."""
        if is_narrow(src_dtype):
            memory = machine_dtype(src_dtype)
            bits = _INTEGERS[memory.bits]
            x = self._append(Operation(f"to_bits_{memory.name}", (x.number,), machine_dtype(bits)), bits)
        if is_narrow(dtype):
            memory = machine_dtype(dtype)
            x = self.bitcast(x, _INTEGERS[memory.bits])
            operation = Operation(f"from_bits_{memory.name}", (x.number,), machine_dtype(torch.float32))
            return self._append(operation, torch.float32)
        return self.bitcast(x, dtype)

    def bitcast(self, x: RecordedValue, computed: torch.dtype) -> RecordedValue:
        """The same bits as another type of the same width; a bool's are 0 and 1."""
        if torch.bool in (x.dtype, computed):
            return self.convert(x, computed)
        return self._append(Operation("to_dtype_bitcast", (x.number,), machine_dtype(computed)), computed)

    def record(self, name: str, *operands: Any) -> Any:
        """Operation `name` on recorded values and Python numbers: what the handler's method of that name does."""
        return self._default(name, operands, {})

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = (*args, *kwargs.values())
        if name in DECOMPOSED:
            result = DECOMPOSED[name](*[Term(self, arg) if isinstance(arg, RecordedValue) else arg for arg in args])
            return tuple(term.value for term in result) if isinstance(result, tuple) else result.value
        if name not in EMITTERS:
            raise UnsupportedError(f"operation {name!r}: {UNSUPPORTED[name]}")
        dtype = result_type(name, args)
        operands = tuple(
            (self.convert(arg, wanted) if isinstance(arg, RecordedValue) else self.constant(arg, wanted)).number
            for arg, wanted in zip(args, operand_types(name, args, dtype), strict=True)
        )
        return self._append(Operation(name, operands, machine_dtype(dtype)), dtype)

    def _append(self, operation: Operation, dtype: torch.dtype) -> RecordedValue:
        key = (operation, repr(operation.constant))  # by text: 0.0 == -0.0, but they are two constants
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._operations)
            self._operations.append(operation)
        return RecordedValue(number, dtype)
