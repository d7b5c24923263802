"""Software pipelining of a vector step: which of its operations run how many steps late.

In: the operations of a step in program order. Out: `Phases`. Results of the special function unit and of the divider
come late, and the core issues in order: whoever waits for them holds up all that follows. So what uses such a result
belongs to a later phase; a loop runs phase p of step i - p beside phase 0 of step i, and neither waits for the other.
Loads and constants are repeated in every phase that uses them, so that registers carry computed values only.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytorchsim.templates.loop_program import LoopProgram, Operation
from pytorchsim.templates.operation_costs import is_slow

__all__ = ["MOST_PHASES", "Phase", "Phases", "StepWork", "plan_phases"]

MOST_PHASES = 3
"""Each phase more keeps further values in registers."""


@dataclass(frozen=True)
class StepWork:
    """What a step does: numbers of operations in program order, of stores, of reductions that fold it, of scans that
    carry values to the next step; `recalled` operations are read from the buffer in which an earlier walk kept them,
    `kept` ones are written there."""

    operations: tuple[int, ...]
    stores: tuple[int, ...] = ()
    reductions: tuple[int, ...] = ()
    scans: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    recalled: tuple[int, ...] = ()


@dataclass(frozen=True)
class Phase:
    """The part of a step's work that runs at one place of the loop."""

    operations: tuple[int, ...]
    stores: tuple[int, ...]
    reductions: tuple[int, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True)
class Phases:
    """`phases` in order; `carried[n]`: how many steps value n is kept in a register, and the phase that computes it."""

    phases: tuple[Phase, ...]
    carried: dict[int, tuple[int, int]]

    @property
    def rotation(self) -> int:
        """Steps after which registers repeat: so many are written out in a loop, and none is copied."""
        return 1 + max((age for age, _ in self.carried.values()), default=0)


def plan_phases(program: LoopProgram, work: StepWork, limit: int = MOST_PHASES) -> Phases:
    """At most `limit` phases. A step with scans has one: the next step needs all of it."""
    operations = program.operations
    limit = 1 if work.scans else limit
    repeated = {n for n in work.operations if n in work.recalled or _is_repeated(operations[n])}
    computed = [n for n in work.operations if n not in repeated]
    home: dict[int, int] = {}

    def ready(number: int) -> int:
        """The first phase that can use value `number`."""
        return min(limit - 1, home[number] + is_slow(operations[number])) if number in home else 0

    for number in computed:
        home[number] = max((ready(operand) for operand in operations[number].operands), default=0)
    outputs: list[tuple[int, int]] = [(program.stores[n].value, n) for n in work.stores]
    outputs += [(operations[n].operands[0], n) for n in work.reductions]
    outputs += [(n, n) for n in work.kept]
    users: dict[int, list[int]] = {}
    for value, _ in outputs:
        users.setdefault(value, []).append(ready(value))
    for number in reversed(computed):
        if number in users and not is_slow(operations[number]):
            home[number] = min(users[number])  # not before it is used
        for operand in operations[number].operands:
            users.setdefault(operand, []).append(home[number])

    phases = []
    for phase in range(max([*home.values(), *(at for uses in users.values() for at in uses)], default=0) + 1):
        members = {n for n in computed if home[n] == phase} | {n for n in repeated if phase in users.get(n, ())}
        phases.append(
            Phase(
                tuple(n for n in work.operations if n in members),
                tuple(n for n in work.stores if ready(program.stores[n].value) == phase),
                tuple(n for n in work.reductions if ready(operations[n].operands[0]) == phase),
                tuple(n for n in work.kept if ready(n) == phase),
            )
        )
    last = {number: max(users[number]) for number in computed if number in users}
    carried = {number: (at - home[number], home[number]) for number, at in last.items() if at > home[number]}
    return Phases(tuple(phases), carried)


def _is_repeated(operation: Operation) -> bool:
    return operation.access is not None or operation.name == "constant"
