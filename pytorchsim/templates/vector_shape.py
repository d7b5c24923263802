"""How long a program's vectors are and how many partial results a walk keeps, so that all values stay in registers.

In: a program, its stages, the machine's registers. Out: a `VectorShape`. Pure. Spilled registers would lie in the
scratchpad, and every access to them would take a port.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from pytorchsim.target.dtypes import I32, Dtype, Kind
from pytorchsim.templates.loop_program import LoopProgram
from pytorchsim.templates.phases import MOST_PHASES, StepWork, plan_phases
from pytorchsim.templates.reductions import REDUCTIONS
from pytorchsim.templates.stages import Stage

__all__ = ["LARGEST_GROUP", "VectorShape", "vector_shape", "widest_bits"]

_REGISTERS = 32
LARGEST_GROUP = 8
"""Registers of the largest group."""

_LONGEST = 4
"""Registers of a value of the usual width: longer groups take units no less time and leave fewer values."""


@dataclass(frozen=True)
class VectorShape:
    """`elements` computed at once; `unroll` partial results per reduction; a step is cut into at most `phases`."""

    elements: int
    unroll: int = 1
    phases: int = MOST_PHASES


def widest_bits(program: LoopProgram, numbers: Iterable[int] | None = None) -> int:
    """Bits of the widest value in memory or registers; `numbers`: of these operations and what they load only."""
    operations = program.operations if numbers is None else [program.operations[number] for number in numbers]
    accesses = [*program.accesses()] if numbers is None else [op.access for op in operations if op.access is not None]
    return max([access.dtype.bits for access in accesses] + [op.dtype.bits for op in operations], default=32)


def vector_shape(
    program: LoopProgram, stages: Sequence[Stage], vlen_bits: int, max_lmul: int = LARGEST_GROUP
) -> VectorShape:
    """The longest vectors, with as many partial results as hide the latency of what folds them and divide the rounding
    error: four to eight registers' worth do. `max_lmul` bounds the registers of the widest value. Steps whose phases do
    not fit even in single registers run one after another."""
    base = max(widest_bits(program, stage.walk_operations or stage.row_operations) for stage in stages)
    folded = any(stage.reductions for stage in stages) and not program.scans  # steps of a scan follow one another
    widest = widest_bits(program)
    groups = (8, 4, 2, 1) if not folded else (_LONGEST, 2, 1)
    # Whoever asks for single registers is short of them: nothing is carried from step to step either.
    for phases, lmul in product((MOST_PHASES, 1) if max_lmul > 1 else (1,), groups):
        elements = lmul * vlen_bits // base
        if elements * widest > min(max_lmul, LARGEST_GROUP) * vlen_bits:
            continue
        counter = _Counter(program, stages, vlen_bits, elements, phases)
        for unroll in (4, 2, 1) if folded else (1,):
            enough = unroll * lmul in (4, 8) or unroll == 1
            if enough and counter.most(unroll) <= _REGISTERS:
                return VectorShape(max(2, elements), unroll, phases)
    return VectorShape(max(2, vlen_bits // widest), 1, 1)


@dataclass(frozen=True)
class _Counter:
    program: LoopProgram
    stages: Sequence[Stage]
    vlen_bits: int
    elements: int
    phases: int

    def most(self, unroll: int) -> int:
        """Registers of the fullest place. A temporary and two masks come on top of the values."""
        spare = (2 if self._positions() else 1) * self._registers(self._usual()) + 2
        return spare + max(self._stage(number, unroll) for number in range(len(self.stages)))

    def _usual(self) -> Dtype:
        numbers = self.stages[0].walk_operations or self.stages[0].row_operations
        return self.program.operations[numbers[0]].dtype if numbers else I32

    def _positions(self) -> bool:
        return any(REDUCTIONS[op.reduction].with_position for op in self.program.operations if op.reduction)

    def _registers(self, dtype: Dtype) -> int:
        if dtype.kind is Kind.BOOL:
            return 1
        return max(1, self.elements * dtype.bits // self.vlen_bits)

    def _value(self, number: int) -> int:
        """Constants are scalars."""
        operation = self.program.operations[number]
        return 0 if operation.name == "constant" else self._registers(operation.dtype)

    def _stage(self, number: int, unroll: int) -> int:
        stage = self.stages[number]
        rows = sum(map(self._value, self._rows_in_use(number)))
        if not stage.walks:
            phases = plan_phases(self.program, StepWork(stage.row_operations, stage.row_stores), self.phases)
            carried = sum(age * self._value(value) for value, (age, _) in phases.carried.items())
            return self._live(stage.row_operations, [self.program.stores[n].value for n in stage.row_stores]) + carried
        phases = plan_phases(self.program, stage.step, self.phases)
        outputs = [self.program.stores[n].value for n in stage.walk_stores]
        outputs += [self.program.operations[n].operands[0] for n in stage.reductions]
        live = self._live(stage.walk_operations, outputs)
        if len(phases.phases) > 1:
            live += sum(age * self._value(value) for value, (age, _) in phases.carried.items())
        else:
            live *= unroll
        carries = [carry for scan in stage.scans for carry in self.program.operations[scan].operands]
        folds = unroll * sum(map(self._partial, stage.reductions)) + sum(map(self._value, carries))
        return rows + live + folds

    def _partial(self, reduction: int) -> int:
        operation = self.program.operations[reduction]
        kind = REDUCTIONS[operation.reduction or ""]
        dtype = self.program.operations[operation.operands[0]].dtype
        return sum(map(self._registers, kind.parts(dtype))) + kind.walk(dtype).masks

    def _rows_in_use(self, number: int) -> set[int]:
        """Row-level values that exist in stage `number` and are used from there on."""
        known = {n for stage in self.stages[: number + 1] for n in stage.row_operations}
        known |= {n for stage in self.stages[:number] for n in stage.reductions}
        used: set[int] = set()
        for at, stage in enumerate(self.stages[number:], number):
            later = (*stage.row_operations, *stage.reductions) if at > number else stage.reductions
            used.update(n for op in (*later, *stage.walk_operations) for n in self.program.operations[op].operands)
            used.update(self.program.stores[n].value for n in (*stage.walk_stores, *stage.row_stores))
        return known & used

    def _live(self, numbers: Sequence[int], outputs: Sequence[int]) -> int:
        """The most registers at once when `numbers` run in order; what comes from elsewhere is not counted."""
        inside = set(numbers)
        last = {n: at for at, number in enumerate(numbers) for n in self.program.operations[number].operands}
        last |= dict.fromkeys(outputs, len(numbers))
        live = most = 0
        for at, number in enumerate(numbers):
            live += self._value(number)
            most = max(most, live)
            touched = {*self.program.operations[number].operands, number} & inside
            live -= sum(self._value(n) for n in touched if last.get(n, at) == at)
        return most
