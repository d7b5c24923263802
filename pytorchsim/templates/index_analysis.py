"""Sympy index expressions to affine indices, or a refusal that names the expression."""

from __future__ import annotations

from collections.abc import Sequence

import sympy

from pytorchsim.errors import UnsupportedError
from pytorchsim.templates.loop_program import AffineIndex

__all__ = ["affine_index"]


def affine_index(index: sympy.Expr, variables: Sequence[sympy.Symbol]) -> AffineIndex:
    """`index` as strides over `variables` and an offset, all in elements.

    Raises UnsupportedError where the index is not affine in them with integer coefficients.
    """
    expression = sympy.expand(index)
    strides = []
    for variable in variables:
        stride = expression.coeff(variable, 1)
        strides.append(stride)
        expression = sympy.expand(expression - stride * variable)
    if expression.free_symbols or not expression.is_integer or not all(stride.is_Integer for stride in strides):
        raise UnsupportedError(
            f"index {index} is not affine in ({', '.join(map(str, variables))});"
            " only constant strides and offsets are supported"
        )
    return AffineIndex(tuple(int(stride) for stride in strides), int(expression))
