"""Types of recorded values: what a lane computes for each torch dtype, and what each operation wants of its operands.

In: torch dtypes and operation names. Out: machine dtypes, or UnsupportedError. Types propagate by Inductor's own rules;
float16, bfloat16 and float8 are computed as float32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch._inductor.dtype_propagation import DtypePropagationOpsHandler, promote_types

from pytorchsim.errors import UnsupportedError
from pytorchsim.target import dtypes
from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.decompositions import FLOAT32_ONLY
from pytorchsim.templates.operation_costs import SFU_OPERATIONS
from pytorchsim.templates.vector_ops import INTERNAL
from pytorchsim.templates.vector_values import NARROW_FLOATS

__all__ = ["COMPARISONS", "computed_type", "is_narrow", "machine_dtype", "operand_types", "result_type"]

COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})
_LOGIC = frozenset({"logical_and", "logical_or", "logical_xor", "logical_not"})
_TESTS = frozenset({"isnan", "isinf", "signbit"})


def machine_dtype(dtype: torch.dtype) -> Dtype:
    """The machine's type for a torch dtype. UnsupportedError where there is none."""
    name = str(dtype).removeprefix("torch.")
    try:
        return dtypes.by_name(name)
    except KeyError:
        known = ", ".join(candidate.name for candidate in dtypes.ALL_DTYPES)
        raise UnsupportedError(
            f"dtype {name} in a loop kernel; supported: {known}. Convert the tensors first"
        ) from None


def is_narrow(dtype: torch.dtype) -> bool:
    """Whether `dtype` is a type of memory only, computed as float32."""
    return machine_dtype(dtype) in NARROW_FLOATS


def computed_type(dtype: torch.dtype) -> torch.dtype:
    """The type that values of `dtype` are computed in."""
    return torch.float32 if is_narrow(dtype) else dtype


def result_type(name: str, args: Sequence[Any]) -> torch.dtype:
    """The type of what operation `name` gives for `args` (recorded values and Python numbers).

    UnsupportedError: the special function unit is needed and does not compute in it.
    """
    by_rule = promote_types(args) if name in INTERNAL else getattr(DtypePropagationOpsHandler(), name)(*args)
    dtype = computed_type(by_rule)
    if name in SFU_OPERATIONS | FLOAT32_ONLY and dtype != torch.float32:
        raise UnsupportedError(
            f"operation {name!r} on {str(dtype).removeprefix('torch.')}: the special function unit and what is built"
            " on it compute float32 only. Convert the operands to float32"
        )
    return dtype


def operand_types(name: str, args: Sequence[Any], result: torch.dtype) -> list[torch.dtype]:
    """The type that each operand is converted to before operation `name`."""
    if name in COMPARISONS:
        return [promote_types(args)] * len(args)
    if name in _LOGIC:
        return [torch.bool] * len(args)
    if name in _TESTS:
        return [arg.dtype for arg in args]
    if name == "where":
        return [torch.bool, result, result]
    return [result] * len(args)
