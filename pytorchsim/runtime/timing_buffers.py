"""Buffers of a graph that runs in timing mode.

In: sizes and strides as the generated module gives them. Out: tensors that cannot be taken for results: NaN, or zeros
where the dtype has no NaN. Assumes: no kernel fills them, because in timing mode no data moves. Without this a result
would be whatever the allocator's memory held before: other values in every run, and what is left of freed tensors.
Memory that a graph did not allocate stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["unwritten_strided_cpu"]


def unwritten_strided_cpu(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of `size` and `stride` (both in elements), in place of Inductor's `empty_strided_cpu`."""
    buffer = torch.empty_strided(size, stride, dtype=dtype, device="cpu")
    return buffer.fill_(float("nan")) if dtype.is_floating_point or dtype.is_complex else buffer.zero_()
