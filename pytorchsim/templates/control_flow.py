"""Small pieces of control functions: conditions and index arithmetic at the insertion point."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, scf

from pytorchsim.mlir import builders

__all__ = ["add", "both", "divide", "equal", "if_else", "if_true", "less", "minimum", "multiply", "parity", "select"]


def add(left: ir.Value, right: ir.Value | int) -> ir.Value:
    """Sum."""
    return arith.addi(left, _value(right))


def multiply(left: ir.Value, right: ir.Value | int) -> ir.Value:
    """Product."""
    return arith.muli(left, _value(right))


def minimum(left: ir.Value, right: ir.Value | int) -> ir.Value:
    """The smaller one."""
    return arith.minui(left, _value(right))


def less(left: ir.Value, right: ir.Value | int) -> ir.Value:
    """Whether `left` is below."""
    return arith.cmpi(arith.CmpIPredicate.ult, left, _value(right))


def equal(left: ir.Value, right: ir.Value | int) -> ir.Value:
    """Whether they are the same."""
    return arith.cmpi(arith.CmpIPredicate.eq, left, _value(right))


def both(left: ir.Value, right: ir.Value) -> ir.Value:
    """Whether both hold."""
    return arith.andi(left, right)


def select(condition: ir.Value, then: ir.Value, otherwise: ir.Value) -> ir.Value:
    """One of two values."""
    return arith.select(condition, then, otherwise)


def parity(value: ir.Value) -> ir.Value:
    """0 or 1: which of two copies."""
    return arith.andi(value, _value(1))


def divide(value: ir.Value, count: int) -> tuple[ir.Value, ir.Value]:
    """Quotient and remainder by a constant."""
    if count == 1:
        return value, _value(0)
    return arith.divui(value, _value(count)), arith.remui(value, _value(count))


def if_true(condition: ir.Value | None, emit: Callable[[], None]) -> None:
    """`emit` inside `if condition`; None is always."""
    if condition is None:
        emit()
        return
    with ir.InsertionPoint(scf.IfOp(condition).then_block):
        emit()
        scf.YieldOp([])


def if_else(condition: ir.Value, then: Callable[[], None], otherwise: Callable[[], None]) -> None:
    """One or the other."""
    choice = scf.IfOp(condition, has_else=True)
    for block, emit in ((choice.then_block, then), (choice.else_block, otherwise)):
        with ir.InsertionPoint(block):
            emit()
            scf.YieldOp([])


def _value(value: ir.Value | int) -> ir.Value:
    return builders.index_constant(value) if isinstance(value, int) else value
