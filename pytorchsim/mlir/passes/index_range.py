"""The range of an index, where constants and loops with constant bounds determine it. Used by verify-kernel.

In: an `index` or integer value. Out: the smallest and the largest number it can be, or None if that is not known.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

__all__ = ["IndexRange", "constant_of", "range_of"]


@dataclass(frozen=True)
class IndexRange:
    """From `low` to `high`, both included."""

    low: int
    high: int


def constant_of(value: ir.Value) -> int | None:
    """The number that an `index` or integer value always is, if it is an `arith.constant`."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attribute = owner.attributes["value"]
    return int(attribute.value) if isinstance(attribute, ir.IntegerAttr) else None


def range_of(value: ir.Value) -> IndexRange | None:
    """What `value` can be. Looks through sums, products, casts and loops."""
    constant = constant_of(value)
    if constant is not None:
        return IndexRange(constant, constant)
    owner = value.owner
    if isinstance(owner, ir.Block):
        return _loop_range(ir.BlockArgument(value))
    if owner.name == "arith.index_cast":
        return range_of(owner.operands[0])
    if owner.name not in ("arith.addi", "arith.subi", "arith.muli"):
        return None
    left, right = range_of(owner.operands[0]), range_of(owner.operands[1])
    if left is None or right is None:
        return None
    if owner.name == "arith.addi":
        return IndexRange(left.low + right.low, left.high + right.high)
    if owner.name == "arith.subi":
        return IndexRange(left.low - right.high, left.high - right.low)
    corners = [a * b for a in (left.low, left.high) for b in (right.low, right.high)]
    return IndexRange(min(corners), max(corners))


def _loop_range(argument: ir.BlockArgument) -> IndexRange | None:
    """The range of an induction variable; of a loop that never runs, that of its first value."""
    loop = argument.owner.owner
    if loop.operation.name != "scf.for" or argument.arg_number != 0:
        return None
    low, end, step = (range_of(operand) for operand in list(loop.operation.operands)[:3])
    if low is None or end is None or step is None or step.low != step.high or step.low < 1:
        return None
    if low.low != low.high:
        return IndexRange(low.low, max(low.low, end.high - 1))
    turns = max(0, (end.high - 1 - low.low) // step.low)
    return IndexRange(low.low, low.low + turns * step.low)
