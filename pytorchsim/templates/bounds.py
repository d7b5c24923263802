"""A maximum or minimum with a constant, as a comparison and a selection.

The machine's own maximum ignores NaN, so that of two values takes six instructions. A constant is known not to be NaN:
`x` is kept unless it compares as lower, which NaN never does. Zeros are told apart as IEEE 754's maximum does.
"""

from __future__ import annotations

from math import copysign

from pytorchsim.templates.terms import Term, where

__all__ = ["BOUNDS", "bounded"]

BOUNDS = frozenset({"maximum", "minimum"})


def bounded(name: str, x: Term, bound: float) -> Term:
    """`name` of `x` and `bound`, which is not NaN."""
    if name == "maximum":
        replaced = x < bound if bound == 0 and copysign(1, bound) < 0 else x <= bound
    else:
        replaced = x > bound if bound == 0 and copysign(1, bound) > 0 else x >= bound
    return where(replaced, bound, x)
