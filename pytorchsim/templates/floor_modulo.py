"""`flatten_nested_floormod`: quotients and remainders of one variable that are nested collapse to one digit
`(v // A) % M`.

In and out: Inductor's expressions, of FloorDiv and ModularIndexing with constant radices, equal wherever the variable
is not negative. Only identities that divisibility guards; arguments of several variables are left alone.
"""

from __future__ import annotations

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

__all__ = ["flatten_nested_floormod"]

_Digit = tuple[sympy.Symbol, int, int | None]
"""(v // divisor) % modulus; modulus None for the quotient alone."""


def flatten_nested_floormod(expression: sympy.Expr) -> sympy.Expr:
    """`expression` with every nest over one variable collapsed as far as the radices divide."""
    if not expression.args:
        return expression
    digit = _digit(expression)
    if digit is not None:
        return _built(digit)
    return expression.func(*(flatten_nested_floormod(argument) for argument in expression.args))


def _digit(expression: sympy.Expr) -> _Digit | None:
    """`expression` as one digit of one variable, if it is one."""
    if isinstance(expression, sympy.Symbol):
        return expression, 1, None
    if isinstance(expression, FloorDiv):
        base, divisor = expression.args
        return _divided(_digit(base), divisor) if _is_radix(divisor) else None
    if isinstance(expression, ModularIndexing):
        base, divisor, modulus = expression.args
        if not (_is_radix(divisor) and _is_radix(modulus)):
            return None
        return _reduced(_divided(_digit(base), divisor), int(modulus))
    return None


def _divided(digit: _Digit | None, divisor: sympy.Expr) -> _Digit | None:
    """((v // A) % M) // d: exact where M has no limit or d divides M."""
    if digit is None:
        return None
    (variable, before, modulus), by = digit, int(divisor)
    if modulus is None:
        return variable, before * by, None
    return (variable, before * by, modulus // by) if modulus % by == 0 else None


def _reduced(digit: _Digit | None, modulus: int) -> _Digit | None:
    """((v // A) % M) % m: exact where M has no limit, m divides M, or M does not exceed m."""
    if digit is None:
        return None
    variable, divisor, before = digit
    if before is None or before % modulus == 0:
        return variable, divisor, modulus
    return digit if before <= modulus else None


def _built(digit: _Digit) -> sympy.Expr:
    variable, divisor, modulus = digit
    if modulus is not None:
        return ModularIndexing(variable, sympy.Integer(divisor), sympy.Integer(modulus))
    return FloorDiv(variable, sympy.Integer(divisor)) if divisor > 1 else variable


def _is_radix(value: sympy.Expr) -> bool:
    return bool(value.is_Integer) and int(value) > 0
