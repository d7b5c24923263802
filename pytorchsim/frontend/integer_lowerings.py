"""Lowerings of integer operations that Inductor leaves to the host or gives another type than eager: powers by a
tensor, `any` of uint8.

In: Inductor's IR of the operands. Out: IR. Importing this module registers them, for our graphs only.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor.lowering import (
    ELEMENTWISE_TYPE_PROMOTION_KIND,
    get_promoted_dtype,
    lowerings,
    make_pointwise,
    to_dtype,
    transform_args,
)
from torch._inductor.virtualized import ops

from pytorchsim.frontend.lowerings import lowers

__all__: list[str] = []

aten = torch.ops.aten


@lowers(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def _pow(base: Any, exponent: Any) -> Any:
    """Integers: repeated squaring over the exponent's bits, wrapping around as eager does. Others: stock."""
    kind = ELEMENTWISE_TYPE_PROMOTION_KIND.DEFAULT
    dtype = get_promoted_dtype(base, exponent, type_promotion_kind=kind)
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return None
    (base, exponent), _ = transform_args(
        [base, exponent], {}, broadcast=True, type_promotion_kind=kind, convert_input_to_bool=False
    )
    return make_pointwise(lambda x, n: _integer_power(x, n, dtype))(base, exponent)


def _integer_power(x: Any, n: Any, dtype: torch.dtype) -> Any:
    def number(value: int) -> Any:
        return ops.constant(value, dtype)

    def is_odd(value: Any) -> Any:
        return ops.ne(ops.bitwise_and(value, number(1)), number(0))

    signed = dtype.is_signed
    result = number(1)
    for bit in reversed(range(8 * dtype.itemsize - signed)):  # from the top: one value is live, not one per bit
        result = ops.mul(result, result)
        taken = is_odd(ops.bitwise_right_shift(n, number(bit)))
        result = ops.where(taken, ops.mul(result, x), result)
    if not signed:
        return result
    # A whole power below zero is not 0 only for bases of magnitude 1.
    of_minus_one = ops.where(is_odd(n), number(-1), number(1))
    below = ops.where(ops.eq(x, number(-1)), of_minus_one, number(0))
    below = ops.where(ops.eq(x, number(1)), number(1), below)
    return ops.where(ops.lt(n, number(0)), below, result)


@lowers(aten.any.default, aten.any.dim, aten.any.dims)
def _any(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """Of uint8 it is uint8, of every other type bool, as in eager."""
    if x.get_dtype() != torch.uint8:
        return None
    return to_dtype(lowerings[aten.any.default](x, dim, keepdim), torch.uint8)
