"""Lowerings of float divisions that round their quotient to a whole number, and of remainders by numbers.

In: Inductor's IR of the operands. Out: IR. Importing this module registers them, for our graphs only.

Eager's floor division goes with `remainder`: 1.0 // 0.1 is 9 in float32, since the nearest number to 0.1 is larger than
0.1. Inductor's own lowering takes the floor of the rounded quotient, which is 10.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch._inductor.lowering import (
    ELEMENTWISE_TYPE_PROMOTION_KIND,
    get_promoted_dtype,
    lowerings,
    make_pointwise,
    transform_args,
)
from torch._inductor.virtualized import ops

from pytorchsim.frontend.lowerings import lowers

__all__: list[str] = []

aten = torch.ops.aten

_KIND = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def _div(dividend: Any, divisor: Any, rounding_mode: str | None = None) -> Any:
    """Of floats, rounded: here. Others: stock."""
    dtype = get_promoted_dtype(dividend, divisor, type_promotion_kind=_KIND)
    if rounding_mode is None or not dtype.is_floating_point:
        return None
    dividend = _in_type(dividend, dtype)
    # Eager rounds a quotient to its type before it cuts the fraction off, but not one by a single number, which it does
    # not round to the type either.
    rounds = not isinstance(divisor, int | float) and bool(divisor.get_size())
    operands, _ = transform_args(
        [dividend, divisor], {}, broadcast=True, type_promotion_kind=_KIND, convert_input_to_bool=False
    )
    if rounding_mode == "floor":
        return make_pointwise(lambda x, y: _floor_quotient(x, y, dtype))(*operands)
    if rounds:
        return make_pointwise(lambda x, y: ops.trunc(ops.to_dtype(ops.div_rn(x, y), dtype)))(*operands)
    return make_pointwise(lambda x, y: ops.trunc(ops.div_rn(x, y)))(*operands)


@lowers(aten.remainder.Scalar)
def _remainder(dividend: Any, divisor: Any) -> Any:
    return _by_number(aten.remainder.Scalar, dividend, divisor)


@lowers(aten.fmod.Scalar)
def _fmod(dividend: Any, divisor: Any) -> Any:
    return _by_number(aten.fmod.Scalar, dividend, divisor)


def _by_number(operation: Any, dividend: Any, divisor: Any) -> Any:
    """As the stock lowering, which leaves the number as it is: in float16 and bfloat16 that shifts the remainder of a
    quotient of 100 by a hundred times the difference."""
    dtype = get_promoted_dtype(dividend, divisor, type_promotion_kind=_KIND)
    return lowerings[operation](dividend, _in_type(divisor, dtype)) if dtype.is_floating_point else None


def _in_type(operand: Any, dtype: torch.dtype) -> Any:
    """A number as the type has it; tensors unchanged."""
    return torch.tensor(operand, dtype=dtype).item() if isinstance(operand, int | float) else operand


def _floor_quotient(x: Any, y: Any, dtype: torch.dtype) -> Any:
    """The largest whole number that is not above the exact quotient.

    The floor of the rounded quotient is that number or one more: rounding never leaves the interval between two whole
    numbers but to its upper end. The rest `x - floor * y` is exact in a fused operation, so its sign tells.
    """
    quotient = ops.floor(ops.div_rn(x, y))
    rest = ops.where(ops.isinf(y), x, ops.fma(ops.neg(quotient), y, x))
    nonzero = ops.ne(rest, ops.constant(0.0, dtype))
    above = ops.logical_and(nonzero, ops.logical_xor(ops.signbit(rest), ops.signbit(y)))
    quotient = ops.where(above, ops.sub(quotient, ops.constant(1.0, dtype)), quotient)
    # Infinity has no rest; by zero the quotient is the division's.
    undefined = ops.logical_and(ops.isinf(x), ops.ne(y, ops.constant(0.0, dtype)))
    return ops.where(undefined, ops.constant(math.nan, dtype), quotient)
