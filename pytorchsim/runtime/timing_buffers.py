"""Buffers of a graph that runs in timing mode.

In: sizes and strides as the generated module gives them. Out: tensors of zeros. Assumes: no kernel fills them, because
in timing mode no data moves. Without the zeros a result would be whatever the allocator's memory held before: other
values in every run, NaN among them, and what is left of freed tensors. Memory that a graph did not allocate stays.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["zeros_strided_cpu"]


def zeros_strided_cpu(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """Zeros of `size` and `stride` (both in elements), in place of Inductor's `empty_strided_cpu`."""
    return torch.empty_strided(size, stride, dtype=dtype, device="cpu").zero_()
