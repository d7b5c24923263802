"""In which order a loop program with reductions runs: stages, each one pass over the reduced axes.

Stage s first computes the row-level values that the reductions of earlier stages allow, then walks the reduced axes
once, folding its own reductions and storing what it can. Softmax has three stages (maximum, sum, quotient), a program
without reductions has one and no walk. Registers do not outlive a walk: a value of a walk that a later stage needs is
computed again there, or, where that would take long and the tile holds whole rows, kept in a buffer of the scratchpad.
What only serves as an index of a gather is not in any stage: `gathers.py` plans it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from pytorchsim.templates.loop_program import LoopProgram, needed_operations
from pytorchsim.templates.operation_costs import is_free, is_slow
from pytorchsim.templates.phases import StepWork

__all__ = ["Stage", "plan_stages"]


@dataclass(frozen=True)
class Stage:
    """Numbers of operations, in program order, and of stores.

    `row_operations` run once per row before the walk and `row_stores` with them; `walk_operations`, `walk_stores` run
    at each point of the walk; `reductions` are the `reduce` operations that the walk folds, `scans` those of its
    operations that carry values from one step to the next. The values of `kept` are written to buffers for later walks;
    those of `recalled`, among the walk's operations, are read from there.
    """

    row_operations: tuple[int, ...]
    row_stores: tuple[int, ...]
    walk_operations: tuple[int, ...]
    walk_stores: tuple[int, ...]
    reductions: tuple[int, ...]
    scans: tuple[int, ...] = ()
    kept: tuple[int, ...] = ()
    recalled: tuple[int, ...] = ()

    @property
    def carried(self) -> tuple[int, ...]:
        """What keeps values from one step of the walk to the next."""
        return (*self.reductions, *self.scans)

    @property
    def step(self) -> StepWork:
        """What is done at each point of the walk."""
        return StepWork(self.walk_operations, self.walk_stores, self.reductions, self.scans, self.kept, self.recalled)

    @property
    def walks(self) -> bool:
        """Whether this stage passes over the reduced axes at all."""
        return bool(self.reductions or self.walk_stores)


_KEPT_FROM = 6
"""Pipe beats of computing a value again from which on it is kept instead: a store and a load, whose ports are beside
the pipe, cost a place in the program and scratchpad."""

_SLOW_BEATS = 8
"""Beats that a result of a slow unit counts for: the special function unit and the divider take that much longer."""


def plan_stages(program: LoopProgram, *, keep: bool = False) -> tuple[Stage, ...]:
    """The stages of `program`, at least one. `keep`: values that take long to compute are kept from walk to walk."""
    is_row = program.row_values
    stage: list[int] = []
    for op in program.operations:
        if op.reduction is not None:
            stage.append(stage[op.operands[0]] + 1)
        else:
            stage.append(max((stage[number] for number in op.operands), default=0))
    used = set(needed_operations(program, [store.value for store in program.stores]))

    stores = {number: stage[store.value] for number, store in enumerate(program.stores)}
    row_stores = {number for number, store in enumerate(program.stores) if program.is_row_level(store.access)}
    # What changes a loaded buffer waits for the last walk: an earlier one would change what later ones load again.
    last_walk = max(
        [stage[n] - 1 for n, op in enumerate(program.operations) if op.reduction]
        + [at for n, at in stores.items() if n not in row_stores],
        default=0,
    )
    stores |= {n: max(at, last_walk) for n, at in stores.items() if program.stores[n].in_place and n not in row_stores}
    stages: list[Stage] = []
    walked: set[int] = set()
    for current in range(max([*stage, *stores.values()], default=0) + 1):
        reductions = [n for n, op in enumerate(program.operations) if op.reduction and stage[n] == current + 1]
        walk_stores = [n for n, at in stores.items() if at == current and n not in row_stores]
        wanted = [program.operations[n].operands[0] for n in reductions] + [
            program.stores[n].value for n in walk_stores
        ]
        kept = {n for n in walked if _beats_again(program, n, is_row) >= _KEPT_FROM} if keep else set()
        walk = _closure(program, wanted, is_row, kept)
        walked.update(walk)
        stages.append(
            Stage(
                row_operations=tuple(
                    n
                    for n, op in enumerate(program.operations)
                    if n in used and is_row[n] and not op.reduction and stage[n] == current
                ),
                row_stores=tuple(sorted(n for n in row_stores if stores[n] == current)),
                walk_operations=walk,
                walk_stores=tuple(sorted(walk_stores)),
                reductions=tuple(reductions),
                scans=tuple(number for number in walk if number in program.scans and number not in kept),
                recalled=tuple(number for number in walk if number in kept),
            )
        )
    return _with_kept(stages)


def _with_kept(stages: list[Stage]) -> tuple[Stage, ...]:
    """The stages, each with what a later one recalls of it: the first walk that computes a value keeps it."""
    missing = {number for stage in stages for number in stage.recalled}
    result = []
    for stage in stages:
        kept = tuple(n for n in stage.walk_operations if n in missing)
        missing.difference_update(kept)
        result.append(replace(stage, kept=kept))
    return tuple(result)


def _beats_again(program: LoopProgram, value: int, is_row: tuple[bool, ...]) -> int:
    """Beats that computing `value` again in a walk takes."""
    numbers = _closure(program, [value], is_row, set())
    operations = [program.operations[number] for number in numbers]
    return sum(_SLOW_BEATS if is_slow(operation) else not is_free(operation) for operation in operations)


def _closure(
    program: LoopProgram, wanted: list[int], is_row: tuple[bool, ...], kept: Collection[int]
) -> tuple[int, ...]:
    """What a walk has to compute for `wanted`: everything they use that is neither row-level nor behind a kept
    value."""
    needed: set[int] = set()
    pending = [number for number in wanted if not is_row[number]]
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            if number not in kept:
                pending.extend(n for n in program.operations[number].operands if not is_row[n])
    return tuple(sorted(needed))
