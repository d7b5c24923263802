"""The index part of recording a loop body: what a buffer is touched at, under which masks, by which gathered values.

In: Inductor's index expressions over loop variables and over the symbols that stand for gathered values. Out:
accesses, and operations that compute positions and indices in the lanes. What the machine's transfers express
(affine indices, masks that are ranges of affine positions, gathered terms) becomes part of an access; everything else
becomes an index computed in the lanes, or a selection by a computed mask.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor.virtualized import V

from pytorchsim.errors import UnsupportedError
from pytorchsim.target.descriptor import MAX_INDEX_TILES
from pytorchsim.templates.index_analysis import affine_of, index_sum
from pytorchsim.templates.index_emitter import (
    INT32_LIMIT,
    IndexEmitter,
    OperationRecorder,
    RecordedValue,
    values_inside,
)
from pytorchsim.templates.index_terms import AxisTerm, IndexSum, Term, ValueTerm, sum_of
from pytorchsim.templates.iteration_space import IterationSpace
from pytorchsim.templates.loop_program import Access, AffineIndex, Gather
from pytorchsim.templates.masks import MAX_GUARDS, NOTHING_KNOWN, Condition, compared, guards_of
from pytorchsim.templates.recorded_types import machine_dtype

__all__ = ["IndexRecorder"]


@dataclass(frozen=True)
class _Mask:
    """A mask whose body is being recorded. `guarded`: accesses in the body carry it as guards."""

    value: RecordedValue
    condition: Condition
    guarded: bool
    other: Any


class IndexRecorder:
    """Index expressions of one kernel in the axes of `space`. With `affine_only`, for kernels that know nothing else,
    everything but plain affine accesses is refused and nothing is split."""

    def __init__(self, operations: OperationRecorder, space: IterationSpace, *, affine_only: bool) -> None:
        self._operations, self._space, self.affine_only = operations, space, affine_only
        self._symbols: dict[sympy.Symbol, ValueTerm] = {}
        self._emitter = IndexEmitter(operations, space)
        self._sums: dict[int, IndexSum] = {}
        self._narrow: dict[int, RecordedValue] = {}
        self._conditions: dict[int, Condition] = {}
        self._filled: dict[int, int] = {}
        self._masks: list[_Mask] = []
        self._out_of_range: list[str] = []
        self._within: list[RecordedValue] = []
        self.must_split = False

    def check(self) -> None:
        """UnsupportedError if an index leaves its bounds, or has bounds that no access could check."""
        if self._out_of_range:
            raise UnsupportedError("; ".join(self._out_of_range))
        if self._within:
            raise UnsupportedError("bounds of an index that no access follows")

    # ---- Accesses ----------------------------------------------------------------------------------------------

    def sum(self, index: sympy.Expr) -> IndexSum:
        """`index` in terms of axes and gathered values."""
        total = index_sum(index, self._resolve)
        if self.affine_only:
            if not total.is_affine:
                raise UnsupportedError(f"index {index} is not affine in ({self._names()})")
        elif self._space.split_for(total):
            self.must_split = True
        return total

    def load(self, name: str, dtype: torch.dtype, total: IndexSum) -> tuple[Access, int | None]:
        """The access of a load at `total` under the masks in force, and the number of the mask that alone decides
        about it and whose other value it gives where that does not hold."""
        guards = guards_of([mask.condition for mask in self._masks if mask.guarded], len(self._space.sizes))
        index, gathers = self._affine_and_gathers(total)
        if not all(mask.guarded for mask in self._masks):
            least, most = total.interval()
            length = _storage_elements(name)
            if least < 0 or most >= length:
                index, gathers = self._clamped(total, length)
        alone = self._masks[0] if len(self._masks) == 1 and self._masks[0].guarded else None
        if alone is not None and isinstance(alone.other, RecordedValue):
            alone = None
        fill = _bits(alone.other, dtype) if alone is not None else 0
        access = Access(name, machine_dtype(dtype), index, guards, gathers, fill)
        return access, None if alone is None else alone.value.number

    def store(self, name: str, dtype: torch.dtype, total: IndexSum) -> Access:
        """The access of a store at `total`."""
        if self._masks:
            raise UnsupportedError(f"a store to {name} under a mask")
        index, gathers = self._affine_and_gathers(total)
        return Access(name, machine_dtype(dtype), index, (), gathers)

    def filled_by(self, load: int, mask: int | None) -> None:
        """Note what `load` said of the mask that fills operation `load`."""
        if mask is not None:
            self._filled[load] = mask

    def _clamped(self, total: IndexSum, length: int) -> tuple[AffineIndex, tuple[Gather, ...]]:
        """An index computed in the lanes and kept inside a buffer of `length` elements: for loads under a computed
        mask, which may point anywhere where it does not hold."""
        value = self._operations.record("minimum", self._emitter.emit(total), length - 1)
        value = self._operations.record("maximum", value, 0)
        return AffineIndex((0,) * len(self._space.sizes)), (Gather(value.number, 1, length),)

    def _affine_and_gathers(self, total: IndexSum) -> tuple[AffineIndex, tuple[Gather, ...]]:
        """An index as an affine part and at most `MAX_INDEX_TILES` gathered ones. One of them is for the bounds that
        positions have been asked to keep, if any."""
        checks = [self.holds(self._all(self._within))] if self._within else []
        self._within = []
        axes = [(term, c) for term, c in total.terms if isinstance(term, AxisTerm)]
        values = [(term, c) for term, c in total.terms if isinstance(term, ValueTerm)]
        others = [(term, c) for term, c in total.terms if not isinstance(term, (AxisTerm, ValueTerm))]
        nested = any(True for term, _ in others for _ in values_inside(term))
        if nested or len(values) + bool(others) + len(checks) > MAX_INDEX_TILES:
            gathered = [self._computed([*values, *others], checked=True)]
        else:
            gathered = [(Gather(term.number, c, term.extent, term.wrap), 0) for term, c in values]
            gathered += [self._computed(others, checked=False)] if others else []
        affine = affine_of(sum_of(axes, total.constant + sum(shift for _, shift in gathered)), len(self._space.sizes))
        return affine, (*(gather for gather, _ in gathered), *checks)

    def _computed(self, terms: Sequence[tuple[Term, int]], *, checked: bool) -> tuple[Gather, int]:
        """A sum of terms computed in the lanes, as a gather of non-negative values, and what is to be added to it.
        `checked`: where one of the values in it is out of range, so is the sum, and the machine faults."""
        total = sum_of(terms)
        least, most = total.interval()
        value = self._emitter.emit(total + IndexSum((), -least))
        if checked:
            for inner in dict.fromkeys(inner for term, _ in terms for inner in values_inside(term)):
                raw = self._emitter.values[inner.number]
                low = self._operations.record("ge", raw, -inner.extent if inner.wrap else 0)
                fits = self._operations.record("and_", low, self._operations.record("lt", raw, inner.extent))
                value = self._operations.record("where", fits, value, self._operations.constant(-1, value.dtype))
        return Gather(value.number, 1, most - least + 1), least

    # ---- Values of positions -----------------------------------------------------------------------------------

    def expression(self, index: sympy.Expr, dtype: torch.dtype) -> RecordedValue:
        """The value of an index expression, as an integer that holds it; the caller converts to `dtype`."""
        total = self.sum(index)
        if self.affine_only and total.terms:
            raise UnsupportedError(f"the value of index {index}")
        value = self._emitter.emit(total)
        self._sums[value.number] = total
        if dtype in (torch.int32, torch.int64):
            narrow, value = value, self._operations.convert(value, dtype)
            self._sums[value.number] = total
            self._narrow[value.number] = narrow
        return value

    def compared(self, args: Sequence[Any]) -> Sequence[Any]:
        """The operands of a comparison; where all are positions or integers that fit 32 bits, as those: half the
        registers, the same answer."""
        narrow = [self._as_int32(arg) for arg in args]
        known = [arg for arg in narrow if arg is not None]
        return known if len(known) == len(args) and any(isinstance(arg, RecordedValue) for arg in known) else args

    def _as_int32(self, arg: Any) -> RecordedValue | int | None:
        if not isinstance(arg, RecordedValue):
            return arg if isinstance(arg, int) and abs(arg) < INT32_LIMIT else None
        narrow = self._narrow.get(arg.number)
        if narrow is not None and narrow.dtype == torch.int32:
            return narrow
        total = self._sums.get(arg.number)
        literal = total is not None and not total.terms and abs(total.constant) < INT32_LIMIT
        return total.constant if literal and total is not None else None

    def note(self, name: str, args: Sequence[Any], result: Any) -> None:
        """Remember what a comparison of positions, or a conjunction of such, says about the axes."""
        if not isinstance(result, RecordedValue):
            return
        if name in ("and_", "logical_and", "bitwise_and") and result.dtype == torch.bool:
            conditions = [self._conditions.get(arg.number) for arg in args if isinstance(arg, RecordedValue)]
            if len(conditions) == len(args) and any(conditions):
                left, right = (condition or NOTHING_KNOWN for condition in conditions)
                self._conditions[result.number] = left.and_also(right)
            return
        sums = [self._sum_of(arg) for arg in args]
        known = [total for total in sums if total is not None]
        if len(args) == 2 and len(known) == 2 and result.dtype == torch.bool:
            condition = compared(name, known[0] + known[1].times(-1))
            if condition is not None:
                self._conditions[result.number] = condition

    def _sum_of(self, arg: Any) -> IndexSum | None:
        if isinstance(arg, RecordedValue):
            return self._sums.get(arg.number)
        return IndexSum((), arg) if isinstance(arg, int) else None

    def constant_noted(self, value: Any, result: RecordedValue) -> None:
        """Remember an integer literal, which positions are compared with."""
        if isinstance(value, int) and not result.dtype.is_floating_point and result.dtype != torch.bool:
            self._sums[result.number] = IndexSum((), value)

    # ---- Gathered values and masks -----------------------------------------------------------------------------

    def indirect(self, value: RecordedValue, size: Any, *, wrap: bool) -> sympy.Symbol:
        """A symbol that stands for `value`, an index below `size`, in index expressions."""
        if self.affine_only:
            raise UnsupportedError("an index that is itself a value")
        value = self._narrow.get(value.number, value)
        if value.dtype not in (torch.int32, torch.int64):
            value = self._operations.convert(value, torch.int64)
        for mask in self._masks:
            if not mask.guarded:  # where it does not hold, the index may be anything
                value = self._operations.record("where", mask.value, value, self._operations.constant(0, value.dtype))
        term = ValueTerm(value.number, int(size), wrap)
        symbol = sympy.Symbol(f"gathered{len(self._symbols)}", integer=True, nonnegative=True)
        self._symbols[symbol], self._emitter.values[value.number] = term, value
        return symbol

    def holds(self, condition: RecordedValue) -> Gather:
        """A gathered term that adds nothing, and is an index out of range where `condition` is false."""
        if self.affine_only:
            raise UnsupportedError("an assertion")
        zero, one = (self._operations.constant(number, torch.int32) for number in (0, 1))
        return Gather(self._operations.record("where", condition, zero, one).number, 0, 1)

    def check_bounds(self, index: sympy.Expr, size: Any, *, lower: bool, upper: bool) -> None:
        """What leaves its bounds is an error in eager: here one of the compile where only positions decide, else of
        the machine, at the next access. Under a mask it may leave them, unseen."""
        if self._masks:
            return
        total = self.sum(index)
        least, most = total.interval()
        below, above = lower and least < 0, upper and most >= int(size)
        if not (below or above):
            return
        if total.is_affine:
            self._out_of_range.append(f"index {index} takes values {least}..{most}, outside 0..{int(size) - 1}")
            return
        value = self._emitter.emit(total)
        if below:
            self._within.append(self._operations.record("ge", value, 0))
        if above:
            self._within.append(self._operations.record("lt", value, int(size)))

    def _all(self, conditions: Sequence[RecordedValue]) -> RecordedValue:
        result = conditions[0]
        for condition in conditions[1:]:
            result = self._operations.record("and_", result, condition)
        return result

    def masked(self, mask: RecordedValue, body: Callable[[], Any], other: Any) -> RecordedValue:
        """`body()` where `mask` holds, else `other`."""
        if self.affine_only:
            raise UnsupportedError("a masked load")
        condition = self._conditions.get(mask.number, NOTHING_KNOWN)
        inherited = [outer.condition for outer in self._masks if outer.guarded]
        guards = guards_of([*inherited, condition], len(self._space.sizes))
        guarded = condition.complete and len(guards) <= MAX_GUARDS
        self._masks.append(_Mask(mask, condition, guarded, other))
        try:
            value: RecordedValue = body()
        finally:
            self._masks.pop()
        if guarded and self._filled.get(value.number) == mask.number:
            return value
        result: RecordedValue = self._operations.record("where", mask, value, self._constant_like(other, value))
        return result

    def _constant_like(self, other: Any, value: RecordedValue) -> RecordedValue:
        return other if isinstance(other, RecordedValue) else self._operations.constant(other, value.dtype)

    def _resolve(self, symbol: sympy.Symbol) -> IndexSum | None:
        term = self._symbols.get(symbol)
        return sum_of([(term, 1)]) if term is not None else self._space.position(symbol)

    def _names(self) -> str:
        return ", ".join(map(str, self._space.variables))


def _storage_elements(name: str) -> int:
    """Elements of a buffer from its data pointer on."""
    buffer: Any = V.graph.try_get_buffer(name)
    if buffer is None:
        raise UnsupportedError(f"a masked load of {name}, which is no buffer of the graph")
    layout = buffer.get_layout()
    sizes, strides = ([int(value) for value in values] for values in (layout.size, layout.stride))
    return 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))


def _bits(value: float, dtype: torch.dtype) -> int:
    """The bit pattern of `value` in memory."""
    return int.from_bytes(bytes(torch.tensor([value], dtype=dtype).view(torch.uint8).tolist()), "little")
