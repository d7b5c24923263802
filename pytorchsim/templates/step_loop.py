"""A loop over the steps of a block, written out so that an in-order core does not wait: several steps side by side, or,
where results come late, phases of different steps.

In: what a step does, how one phase of it is emitted, partial results. Out: MLIR at the insertion point, and the partial
results after the last step. The order of instructions is the order in which they are emitted here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders
from pytorchsim.templates.phases import Phase, Phases
from pytorchsim.templates.reductions import Partial

__all__ = ["Partials", "StepLoop", "Values"]

Partials = dict[int, Partial]
"""Partial results by number of their reduction."""

Values = dict[int, ir.Value]
"""Values by number of their operation."""

_EmitPhase = Callable[[Phase, Sequence[ir.Value], Sequence[Values], Sequence[Partials], bool], None]


@dataclass(frozen=True)
class StepLoop:
    """`emit(phase, steps, values, partials, masked)` emits a phase of several steps, operation by operation, and
    updates the values and partial results of each."""

    emit: _EmitPhase

    def plain(
        self,
        phases: Phases,
        bounds: tuple[ir.Value | int, ir.Value | int],
        start: Sequence[Partials],
        *,
        masked: bool = False,
    ) -> list[Partials]:
        """Steps `bounds`, as many at a time as there are `start`s; the partial results of each."""
        first, end = bounds
        widths = _widths(start)
        if isinstance(first, int) and isinstance(end, int) and end - first <= len(start):
            partials = [dict(partial) for partial in start]
            if end > first:
                self._side_by_side(phases, builders.index_constant(first), partials, masked)
            return partials
        loop = scf.ForOp(_index(first), _index(end), builders.index_constant(len(start)), _flatten(start))
        with ir.InsertionPoint(loop.body):
            partials = _unflatten(loop.inner_iter_args, len(start), widths)
            self._side_by_side(phases, loop.induction_variable, partials, masked)
            scf.YieldOp(_flatten(partials))
        return _unflatten(loop.results, len(start), widths)

    def _side_by_side(self, phases: Phases, first: ir.Value, partials: list[Partials], masked: bool) -> None:
        steps = [_plus(first, copy) for copy in range(len(partials))]
        values: list[Values] = [{} for _ in steps]
        for phase in phases.phases:
            self.emit(phase, steps, values, partials, masked)

    def pipelined(self, phases: Phases, count: int, start: Sequence[Partials]) -> list[Partials]:
        """Steps 0 to `count`: step i folds into partial result i modulo their number. At least as many steps as
        phases."""
        running = _Pipeline(self.emit, phases, [dict(partial) for partial in start])
        ahead = len(phases.phases) - 1
        copies = _copies(phases, len(start))
        for turn in range(ahead):
            running.turn(turn, builders.index_constant(turn), count)
        rounds = (count - ahead) // copies
        turn = ahead
        if rounds > 1:
            turn = ahead + rounds * copies
            loop = scf.ForOp(*map(builders.index_constant, (ahead, turn, copies)), running.state())
            with ir.InsertionPoint(loop.body):
                inner = running.resumed(loop.inner_iter_args)
                for copy in range(copies):
                    inner.turn(ahead + copy, _plus(loop.induction_variable, copy), None)
                scf.YieldOp(inner.state())
            running = inner.resumed(loop.results)
        for rest in range(turn, count + ahead):
            running.turn(rest, builders.index_constant(rest), count)
        return running.partials


class _Pipeline:
    """What is under way between two turns: carried values of the last turns, partial results."""

    def __init__(self, emit: _EmitPhase, phases: Phases, partials: list[Partials]) -> None:
        self._emit, self._phases, self.partials = emit, phases, partials
        self._carried: dict[int, list[ir.Value | None]] = {number: [] for number in phases.carried}  # newest first

    def turn(self, number: int, position: ir.Value, count: int | None) -> None:
        """Phase p of step `number` - p, for each; steps outside 0..count-1 do not exist. In a loop `number` only counts
        modulo the partial results, and `position` is the step of phase 0."""
        fresh: Values = {}
        for at, phase in enumerate(self._phases.phases):
            if count is not None and not 0 <= number - at < count:
                continue
            values = {
                value: carried
                for value, (age, home) in self._phases.carried.items()
                if home < at <= home + age and (carried := self._carried[value][at - home - 1]) is not None
            }
            own = (number - at) % len(self.partials)
            folding = [self.partials[own]]
            self._emit(phase, [_plus(position, -at)], [values], folding, False)
            fresh.update({value: values[value] for value in phase.operations})
        for value, (age, _) in self._phases.carried.items():
            self._carried[value] = [fresh.get(value), *self._carried[value]][:age]  # None: of a step that is not

    def state(self) -> list[ir.Value]:
        """Everything that a loop carries."""
        carried = [value for kept in self._carried.values() for value in kept if value is not None]
        return [*carried, *_flatten(self.partials)]

    def resumed(self, state: Sequence[ir.Value]) -> _Pipeline:
        """The same with other values."""
        values = list(state)
        count = sum(len(kept) for kept in self._carried.values())
        other = _Pipeline(self._emit, self._phases, [])
        other.partials = _unflatten(values[count:], len(self.partials), _widths(self.partials))
        rest = iter(values[:count])
        other._carried = {number: [next(rest) for _ in kept] for number, kept in self._carried.items()}
        return other


def _copies(phases: Phases, partials: int) -> int:
    """Steps written out in a loop: registers and partial results repeat after them."""
    copies = max(phases.rotation, partials)
    while copies % phases.rotation or copies % partials:
        copies += 1
    return copies


def _widths(partials: Sequence[Partials]) -> dict[int, int]:
    return {reduction: len(partial) for reduction, partial in partials[0].items()}


def _flatten(partials: Sequence[Partials]) -> list[ir.Value]:
    return [value for each in partials for partial in each.values() for value in partial]


def _unflatten(flat: Sequence[ir.Value], copies: int, widths: dict[int, int]) -> list[Partials]:
    values = iter(flat)
    return [
        {reduction: tuple(next(values) for _ in range(width)) for reduction, width in widths.items()}
        for _ in range(copies)
    ]


def _plus(value: ir.Value, constant: int) -> ir.Value:
    return arith.addi(value, builders.index_constant(constant)) if constant else value


def _index(value: ir.Value | int) -> ir.Value:
    return builders.index_constant(value) if isinstance(value, int) else value
