"""Operations that are recorded as several simpler ones, so that stages, tiles and costs see what is computed.

In: terms. Out: a term, or a tuple of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytorchsim.templates.elementary_functions import ELEMENTARY_FUNCTIONS
from pytorchsim.templates.error_functions import ERROR_FUNCTIONS
from pytorchsim.templates.float_remainders import FLOAT_REMAINDERS
from pytorchsim.templates.powers import POWERS
from pytorchsim.templates.terms import Term

__all__ = ["DECOMPOSED", "FLOAT32_ONLY", "OPERANDS_AS_GIVEN"]


def _reciprocal(x: Term) -> Term:
    return 1.0 / x


def _rsqrt(x: Term) -> Term:
    return 1.0 / x.apply("sqrt")


def _sigmoid(x: Term) -> Term:
    return 1.0 / ((-x).apply("exp") + 1.0)


def _relu(x: Term) -> Term:
    return x.apply("maximum", 0)


def _to_integer(rounding: str) -> Callable[[Term, torch.dtype], Term]:
    return lambda x, dtype: x.apply(rounding).to(dtype)


DECOMPOSED: dict[str, Callable[..., Any]] = {
    "square": lambda x: x * x,
    "reciprocal": _reciprocal,
    "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
    "relu": _relu,
    "floor_to_int": _to_integer("floor"),
    "ceil_to_int": _to_integer("ceil"),
    "trunc_to_int": _to_integer("trunc"),
    "round_to_int": _to_integer("round"),
    **ELEMENTARY_FUNCTIONS,
    **ERROR_FUNCTIONS,
    **POWERS,
    **FLOAT_REMAINDERS,
}
"""By Inductor's name."""

OPERANDS_AS_GIVEN = frozenset({"floor_to_int", "ceil_to_int", "trunc_to_int", "round_to_int", "frexp", "ldexp"})
"""The others get terms of one type: the result's."""

FLOAT32_ONLY = frozenset({*ELEMENTARY_FUNCTIONS, *ERROR_FUNCTIONS, "exp2", "log2", "log10", "pow", "sigmoid"})
"""Built on the special function unit, or on polynomials of its accuracy."""
