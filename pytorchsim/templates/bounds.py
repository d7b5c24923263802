"""A maximum or minimum with a constant, as a comparison and a selection.

The machine's own maximum ignores NaN, so that of two values takes six instructions. A constant is known not to be NaN:
`x` is kept unless it compares as lower, which NaN never does; so, too, where zeros of both signs meet, as by eager's
clamps and ReLU.
"""

from __future__ import annotations

from pytorchsim.templates.terms import Term, where

__all__ = ["BOUNDS", "bounded"]

BOUNDS = frozenset({"maximum", "minimum"})


def bounded(name: str, x: Term, bound: float) -> Term:
    """`name` of `x` and `bound`, which is not NaN."""
    return where(x < bound if name == "maximum" else x > bound, bound, x)
