"""What an operation of a loop program costs a lane: which unit it keeps busy and for how long.

In: an operation, the elements of a vector, the machine. Out: cycles by unit. Read by stage planning, register
allocation and tile search; what a kernel really takes is measured on its machine code.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytorchsim.config.model import NpuConfig
from pytorchsim.target.dtypes import Kind
from pytorchsim.templates.loop_program import LoopProgram, Operation

__all__ = ["SFU_OPERATIONS", "UnitCycles", "is_free", "is_slow", "unit_cycles"]

SFU_OPERATIONS = frozenset({"exp", "log", "sin", "cos", "tanh", "erf", "atan"})
"""What the special function unit computes."""

_DIVISIONS = frozenset({"truediv", "div_rn", "int_truediv", "sqrt"})
_INTEGER_DIVISIONS = frozenset({"truncdiv", "floordiv", "integer_mod"})


def is_free(operation: Operation) -> bool:
    """Whether the value takes no vector instruction of its own: loads have ports beside the pipes, constants are
    scalars."""
    return operation.access is not None or operation.name in ("constant", "identity")


def is_slow(operation: Operation) -> bool:
    """Whether the result comes from a unit that takes several cycles per datapath width."""
    return operation.name in SFU_OPERATIONS | _DIVISIONS | _INTEGER_DIVISIONS


@dataclass
class UnitCycles:
    """Cycles for which a vector step keeps each unit busy."""

    pipe: float = 0.0
    divider: float = 0.0
    sfu: float = 0.0
    store_port: float = 0.0

    @property
    def longest(self) -> float:
        """What a step takes if everything overlaps."""
        return max(self.pipe, self.divider, self.sfu, self.store_port)


def unit_cycles(program: LoopProgram, numbers: Iterable[int], elements: int, config: NpuConfig) -> UnitCycles:
    """Operations `numbers` on a vector of `elements`."""
    core, latency = config.core, config.latency
    total = UnitCycles()
    for number in numbers:
        operation = program.operations[number]
        if is_free(operation):
            continue
        widest = max(
            [operation.dtype.bits, *(program.operations[operand].dtype.bits for operand in operation.operands)]
        )
        beats = max(1.0, elements * widest / core.datapath_bits)
        if operation.name in SFU_OPERATIONS:
            total.sfu += elements / core.sfu_elements_per_cycle
        elif operation.name in _DIVISIONS:
            total.divider += beats * latency.vector_fp_div_cycles_per_beat
        elif operation.name in _INTEGER_DIVISIONS:
            is_float = operation.dtype.kind is Kind.FLOAT
            each = latency.vector_fp_div_cycles_per_beat if is_float else latency.vector_div_cycles_per_beat
            total.divider += beats * each
        else:
            total.pipe += beats / latency.vector_units
    return total
