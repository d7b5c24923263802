"""In which order a loop program with reductions runs: stages, each one pass over the reduced axes.

Stage s first computes the row-level values that the reductions of earlier stages allow, then walks the reduced axes
once, folding its own reductions and storing what it can. Softmax has three stages (maximum, sum, quotient), a program
without reductions has one and no walk. A value of a walk that a later stage needs is computed again there: registers
do not outlive a walk. What only serves as an index of a gather is not in any stage: `gathers.py` plans it.
"""

from __future__ import annotations

from dataclasses import dataclass

from pytorchsim.templates.loop_program import LoopProgram, needed_operations

__all__ = ["Stage", "plan_stages"]


@dataclass(frozen=True)
class Stage:
    """Numbers of operations, in program order, and of stores.

    `row_operations` run once per row before the walk and `row_stores` with them; `walk_operations`, `walk_stores` run
    at each point of the walk; `reductions` are the `reduce` operations that the walk folds, `scans` those of its
    operations that carry values from one step to the next.
    """

    row_operations: tuple[int, ...]
    row_stores: tuple[int, ...]
    walk_operations: tuple[int, ...]
    walk_stores: tuple[int, ...]
    reductions: tuple[int, ...]
    scans: tuple[int, ...] = ()

    @property
    def carried(self) -> tuple[int, ...]:
        """What keeps values from one step of the walk to the next."""
        return (*self.reductions, *self.scans)

    @property
    def walks(self) -> bool:
        """Whether this stage passes over the reduced axes at all."""
        return bool(self.reductions or self.walk_stores)


def plan_stages(program: LoopProgram) -> tuple[Stage, ...]:
    """The stages of `program`, at least one."""
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
    stages = []
    for current in range(max([*stage, *stores.values()], default=0) + 1):
        reductions = [n for n, op in enumerate(program.operations) if op.reduction and stage[n] == current + 1]
        walk_stores = [n for n, at in stores.items() if at == current and n not in row_stores]
        wanted = [program.operations[n].operands[0] for n in reductions] + [
            program.stores[n].value for n in walk_stores
        ]
        walk = _closure(program, wanted, is_row)
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
                scans=tuple(number for number in walk if number in program.scans),
            )
        )
    return tuple(stages)


def _closure(program: LoopProgram, wanted: list[int], is_row: tuple[bool, ...]) -> tuple[int, ...]:
    """What a walk has to compute for `wanted`: everything they use that is not row-level."""
    needed: set[int] = set()
    pending = [number for number in wanted if not is_row[number]]
    while pending:
        number = pending.pop()
        if number not in needed:
            needed.add(number)
            pending.extend(n for n in program.operations[number].operands if not is_row[n])
    return tuple(sorted(needed))
