"""Operations that are recorded as several simpler ones, so that stages, tiles and costs see what is computed.

In: terms. Out: a term, or a tuple of them. Special functions of float32 are in `special_functions.py` and
`powers.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from pytorchsim.templates.terms import Term, where

__all__ = ["DECOMPOSED"]


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


def _python_remainder(x: Term, y: Term) -> Term:
    """The remainder that has the divisor's sign."""
    rest = x.apply("mod", y)
    return where(rest.differs(0) & (rest.apply("signbit") ^ y.apply("signbit")), rest + y, rest)


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
    "remainder": _python_remainder,
}
"""By Inductor's name."""
