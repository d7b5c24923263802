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
from pytorchsim.target.descriptor import TransferOp
from pytorchsim.target.dtypes import Kind
from pytorchsim.templates.bounds import BOUNDS, bounded
from pytorchsim.templates.decompositions import DECOMPOSED, OPERANDS_AS_GIVEN
from pytorchsim.templates.index_emitter import RecordedValue
from pytorchsim.templates.index_recorder import IndexRecorder
from pytorchsim.templates.index_terms import IndexSum
from pytorchsim.templates.iteration_space import IterationSpace
from pytorchsim.templates.loop_program import Access, Gather, LoopProgram, Operation, Store
from pytorchsim.templates.recorded_types import (
    COMPARISONS,
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
from pytorchsim.templates.vector_values import NARROW_FLOATS

__all__ = ["LoopRecorder", "RecordedValue"]
_INTEGERS = {8: torch.int8, 16: torch.int16}
"""The types that hold the bits of narrow floats, by width."""


_STORE_MODES: dict[str | None, TransferOp] = {
    None: TransferOp.STORE,
    "atomic_add": TransferOp.STORE_ADD,
    "atomic_min": TransferOp.STORE_MIN,
    "atomic_max": TransferOp.STORE_MAX,
}
"""Inductor's modes of a store, and two of our lowerings."""


class LoopRecorder(DefaultHandler):
    """An Inductor ops handler that writes down what it is asked to do."""

    def __init__(self, variables: Sequence[sympy.Symbol], sizes: Sequence[int], reduced: int = 0) -> None:
        """Bodies are replayed with `variables`, of extents `sizes`, the last `reduced` of them reduced.

        Refused is all that goes beyond affine accesses; `over` makes a recorder without that limit.
        """
        self._begin(IterationSpace(variables, sizes, reduced), affine_only=True)

    @classmethod
    def over(cls, space: IterationSpace) -> LoopRecorder:
        """A recorder of everything that the loop kernel can do. Where it `must_split`, the bodies have to be recorded
        again by a new one over the same space, which has more axes by then."""
        recorder = cls.__new__(cls)
        recorder._begin(space, affine_only=False)
        return recorder

    def _begin(self, space: IterationSpace, *, affine_only: bool) -> None:
        self._sizes, self._reduced = space.sizes, space.reduced
        self._indices = IndexRecorder(self, space, affine_only=affine_only)
        self._operations: list[Operation] = []
        self._known: dict[tuple[Operation, str], int] = {}
        self._stores: list[Store] = []
        self._stored: dict[str, tuple[IndexSum, RecordedValue | None]] = {}
        self._node: SchedulerNode | None = None
        self._walked: Sequence[sympy.Expr] = ()
        self._asserted: RecordedValue | None = None
        self.asserting: set[str] = set()

    @property
    def must_split(self) -> bool:
        """Whether what was recorded asked for more axes: no program can be made of it."""
        return self._indices.must_split

    def replay(self, node: SchedulerNode, rows: Sequence[sympy.Expr], reduced: Sequence[sympy.Expr]) -> None:
        """Record the body of `node` with these expressions for its loop variables. Pure: the node stays as it is."""
        self._node = node
        self._walked = reduced
        with V.set_ops_handler(self):
            node._body(list(rows), list(reduced))

    def program(self, removed_buffers: frozenset[str] = frozenset()) -> LoopProgram:
        """What was recorded, without stores to `removed_buffers` and without what then has no user."""
        self._indices.check()
        stores = [store for store in self._stores if store.access.buffer not in removed_buffers]
        needed = {number for store in stores for number in (store.value, *_gathered(store.access.gathers))}
        for number in reversed(range(len(self._operations))):
            if number in needed:
                needed.update(_used_by(self._operations[number]))
        renumber = {old: new for new, old in enumerate(sorted(needed))}

        def renumbered(access: Access) -> Access:
            gathers = tuple(replace(gather, value=renumber[gather.value]) for gather in access.gathers)
            return replace(access, gathers=gathers)

        operations = []
        for old in sorted(needed):
            op = self._operations[old]
            access = None if op.access is None else renumbered(op.access)
            operations.append(replace(op, operands=tuple(renumber[n] for n in op.operands), access=access))
        kept = tuple(replace(store, access=renumbered(store.access), value=renumber[store.value]) for store in stores)
        return LoopProgram(self._sizes, tuple(operations), kept, self._reduced)

    def load(self, name: str, index: sympy.Expr) -> RecordedValue:
        """One element of a buffer, or the value that this kernel has stored there."""
        total = self._indices.sum(index)
        if name in self._stored:
            stored_at, value = self._stored[name]
            if value is None or (stored_at != total and not self.must_split):
                raise UnsupportedError(f"{name} is read at {index} in the kernel that stores it elsewhere")
            return value
        dtype = V.graph.get_dtype(name)
        access, mask = self._indices.load(name, dtype, total)
        computed = computed_type(dtype)
        value = self.append(Operation("load", (), machine_dtype(computed), access=access), computed)
        self._indices.filled_by(value.number, mask)
        return value

    def store(self, name: str, index: sympy.Expr, value: RecordedValue, mode: str | None = None) -> None:
        """One element to a buffer."""
        if mode not in _STORE_MODES:
            known = ", ".join(map(str, _STORE_MODES))
            raise UnsupportedError(f"store with mode {mode!r} to {name}; supported: {known}")
        total = self._indices.sum(index)
        dtype = V.graph.get_dtype(name)
        value = self.to_dtype(value, dtype)
        access, op = self._indices.store(name, dtype, total), _STORE_MODES[mode]
        if op is not TransferOp.STORE and self._indices.affine_only:
            raise UnsupportedError(f"store with mode {mode!r} to {name}")
        mutated = self._node.get_output(name).get_mutations() if self._node is not None else ()
        forwarded = value if op is TransferOp.STORE and not access.gathers else None
        if self._asserted is not None:
            access = replace(access, gathers=(*access.gathers, self._indices.holds(self._asserted)))
            self._asserted = None
            self.asserting.add(name)
        self._stores.append(Store(access, value.number, op, in_place=bool(mutated)))
        for stored in (name, *mutated):
            self._stored[stored] = total, forwarded

    def index_expr(self, index: sympy.Expr, dtype: torch.dtype) -> RecordedValue:
        """The value of an index expression."""
        return self.to_dtype(self._indices.expression(index, dtype), dtype)

    def value_expr(self, expr: sympy.Expr, dtype: torch.dtype) -> RecordedValue:
        """The value of an index expression."""
        return self.index_expr(expr, dtype)

    def indirect_indexing(self, index: RecordedValue, size: Any, check: bool = True, wrap_neg: bool = True) -> Any:
        """A symbol for `index` in later index expressions. What is out of range faults, checked or not."""
        return self._indices.indirect(index, size, wrap=wrap_neg)

    def check_bounds(self, index: sympy.Expr, size: Any, lower: bool, upper: bool) -> None:
        """An index expression must stay in its bounds."""
        self._indices.check_bounds(index, size, lower=lower, upper=upper)

    def masked(self, mask: RecordedValue, body: Any, other: Any) -> RecordedValue:
        """`body()` where `mask` holds, else `other`."""
        return self._indices.masked(mask, body, other)

    def device_assert_async(self, cond: RecordedValue, msg: str) -> RecordedValue:
        """An assertion: the store of its value, which Inductor makes for every assertion, faults where it is false.
        `asserting` names the buffers of such stores, which nobody reads and which have to be stored all the same."""
        self._asserted = cond
        return cond

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
        return self.append(operation, computed)

    def scan(self, dtypes: Sequence[torch.dtype], combine_fn: Any, values: Sequence[RecordedValue]) -> Any:
        """The values folded by `combine_fn` up to each element of the reduced axis."""
        if self._indices.affine_only or len(self._walked) != 1:
            raise UnsupportedError("a scan in the kernel of a template")
        first = self.record("eq", self.index_expr(self._walked[0], torch.int32), 0)
        kinds = [computed_type(dtype) for dtype in dtypes]
        new = [self.convert(value, kind) for value, kind in zip(values, kinds, strict=True)]
        carries = [self._carry(kind) for kind in kinds]
        folded = [getattr(value, "value", value) for value in combine_fn(tuple(carries), tuple(new))]
        chosen = [
            self.record("where", first, value, self.convert(fold, kind))
            for value, fold, kind in zip(new, folded, kinds, strict=True)
        ]
        operands = tuple(value.number for value in (*carries, *chosen))
        return tuple(
            self.append(Operation("scan", operands, machine_dtype(kind), constant=number), kind)
            for number, kind in enumerate(kinds)
        )

    def _carry(self, kind: torch.dtype) -> RecordedValue:
        """What the element before has made: of one scan, so numbered."""
        return self.append(Operation("carry", (), machine_dtype(kind), constant=len(self._operations)), kind)

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
        literal = bool(value) if kind.kind is Kind.BOOL else float(value) if kind.kind is Kind.FLOAT else int(value)
        result = self.append(Operation("constant", (), kind, constant=literal), computed)
        self._indices.constant_noted(value, result)
        return result

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
        return self.append(Operation(rounding, (value.number,), made_by.dtype), value.dtype)

    def convert(self, x: RecordedValue, computed: torch.dtype) -> RecordedValue:
        """Conversion to a type computed in; nothing where it is the same."""
        if x.dtype == computed:
            return x
        if computed == torch.uint32 and x.dtype.is_floating_point:
            x = self.convert(x, torch.int64)  # wraps negative values as eager does
        return self.append(Operation("to_dtype", (x.number,), machine_dtype(computed)), computed)

    def to_dtype_bitcast(self, x: RecordedValue, dtype: torch.dtype, src_dtype: torch.dtype) -> RecordedValue:
        """The bits of a `src_dtype` in memory read as `dtype`, of the same width."""
        if is_narrow(src_dtype):
            memory = machine_dtype(src_dtype)
            bits = _INTEGERS[memory.bits]
            x = self.append(Operation(f"to_bits_{memory.name}", (x.number,), machine_dtype(bits)), bits)
        if is_narrow(dtype):
            memory = machine_dtype(dtype)
            x = self.bitcast(x, _INTEGERS[memory.bits])
            operation = Operation(f"from_bits_{memory.name}", (x.number,), machine_dtype(torch.float32))
            return self.append(operation, torch.float32)
        return self.bitcast(x, dtype)

    def bitcast(self, x: RecordedValue, computed: torch.dtype) -> RecordedValue:
        """The same bits as another type of the same width; a bool's are 0 and 1."""
        if torch.bool in (x.dtype, computed):
            return self.convert(x, computed)
        return self.append(Operation("to_dtype_bitcast", (x.number,), machine_dtype(computed)), computed)

    def record(self, name: str, *operands: Any) -> Any:
        """Operation `name` on recorded values and Python numbers: what the handler's method of that name does."""
        return self._default(name, operands, {})

    def _default(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        args = (*args, *kwargs.values())
        if name in DECOMPOSED:
            return self._decompose(name, args)
        if name not in EMITTERS:
            raise UnsupportedError(f"operation {name!r}: {UNSUPPORTED[name]}")
        if name in COMPARISONS:
            args = tuple(self._indices.compared(args))
        dtype = result_type(name, args)
        if name in BOUNDS and dtype.is_floating_point and (simpler := self._bounded(name, args, dtype)) is not None:
            return simpler
        operands = tuple(
            self._operand(arg, wanted).number
            for arg, wanted in zip(args, operand_types(name, args, dtype), strict=True)
        )
        value = self.append(Operation(name, operands, machine_dtype(dtype)), dtype)
        self._indices.note(name, args, value)
        return value

    def _decompose(self, name: str, args: tuple[Any, ...]) -> Any:
        if name == "nextafter" and any(self._is_narrow(arg) for arg in args):
            raise UnsupportedError("nextafter of float16 or bfloat16: lanes compute float32, whose neighbours differ")
        if name in OPERANDS_AS_GIVEN:
            operands = [Term(self, arg) if isinstance(arg, RecordedValue) else arg for arg in args]
        else:
            dtype = result_type(name, args)
            operands = [Term(self, self._operand(arg, dtype)) for arg in args]
        result = DECOMPOSED[name](*operands)
        return tuple(term.value for term in result) if isinstance(result, tuple) else result.value

    def _bounded(self, name: str, args: tuple[Any, ...], dtype: torch.dtype) -> Any:
        """A maximum or minimum with a constant; None where neither operand is one, and where LLVM would lose the sign
        of a zero: it makes a machine's maximum of a comparison of a widened value with 0."""
        first, second = (self._operand(arg, dtype) for arg in args)
        for value, other in ((first, second), (second, first)):
            literal = self._operations[other.number].constant
            if self._operations[other.number].name != "constant" or literal is None or math.isnan(literal):
                continue
            if literal == 0 and any(map(_is_widened, self._operations)):
                return None
            return bounded(name, Term(self, value), float(literal)).value
        return None

    def _operand(self, arg: RecordedValue | float, dtype: torch.dtype) -> RecordedValue:
        return self.convert(arg, dtype) if isinstance(arg, RecordedValue) else self.constant(arg, dtype)

    def _is_narrow(self, arg: RecordedValue | float) -> bool:
        """Whether `arg` is as it came from a type narrower than it is computed in."""
        if not isinstance(arg, RecordedValue):
            return False
        return _is_widened(self._operations[arg.number])

    def append(self, operation: Operation, dtype: torch.dtype) -> RecordedValue:
        """The value of an operation; of an equal one that is there already, if there is one."""
        key = (operation, repr(operation.constant))  # by text: 0.0 == -0.0, but they are two constants
        number = self._known.get(key)
        if number is None:
            number = self._known[key] = len(self._operations)
            self._operations.append(operation)
        return RecordedValue(number, dtype)


def _is_widened(operation: Operation) -> bool:
    """Whether its value came from a type narrower than it is computed in."""
    loaded = operation.access is not None and operation.access.dtype in NARROW_FLOATS
    return loaded or operation.name.startswith("round_to_")


def _gathered(gathers: Sequence[Gather]) -> tuple[int, ...]:
    return tuple(gather.value for gather in gathers)


def _used_by(operation: Operation) -> tuple[int, ...]:
    """The operations that `operation` needs, for its value or to know where to load."""
    return (*operation.operands, *(_gathered(operation.access.gathers) if operation.access is not None else ()))
