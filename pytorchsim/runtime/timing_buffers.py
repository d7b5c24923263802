"""Buffers of a graph that runs in timing mode.

In: sizes and strides as the generated module gives them. Out: tensors that cannot be taken for results: NaN, or zeros
where the dtype has no NaN. Assumes: no kernel fills them, because in timing mode no data moves. Without this a result
would be whatever the allocator's memory held before: other values in every run, and what is left of freed tensors.
Memory that a graph did not allocate stays.

Large buffers map one file in memory per pattern, copy on write: nobody writes to them in this mode, so that a model of
any length needs the pages of its largest buffer, and no time to fill them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence

import torch

__all__ = ["unwritten_strided_cpu"]

_MAPPED_BYTES = 1 << 17
"""Buffers of at least this size are mapped; smaller ones cost less than a mapping."""

_CHUNK_BYTES = 1 << 20


def unwritten_strided_cpu(size: Sequence[int], stride: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
    """A tensor of `size` and `stride` (both in elements), in place of Inductor's `empty_strided_cpu`."""
    elements = 1 + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True)) if 0 not in size else 0
    size_bytes = elements * dtype.itemsize
    if size_bytes >= _MAPPED_BYTES:
        return torch.empty(0, dtype=dtype).set_(_pattern(dtype).storage(size_bytes), 0, tuple(size), tuple(stride))
    buffer = torch.empty_strided(size, stride, dtype=dtype, device="cpu")
    return buffer.fill_(_nothing(dtype))


def _nothing(dtype: torch.dtype) -> float | int:
    return float("nan") if dtype.is_floating_point or dtype.is_complex else 0


class _Pattern:
    """A file in memory that holds one value again and again, as long as the largest buffer so far."""

    def __init__(self, dtype: torch.dtype) -> None:
        value = torch.full((_CHUNK_BYTES // dtype.itemsize,), _nothing(dtype), dtype=dtype)
        self._chunk = bytes(value.view(torch.uint8).numpy()) if _nothing(dtype) else b""  # NaN is true
        self._file = os.memfd_create("pytorchsim-timing-buffers")
        self._lock = threading.Lock()

    def storage(self, size_bytes: int) -> torch.UntypedStorage:
        """Memory of this size. What is written to it is its own."""
        with self._lock:
            length = os.fstat(self._file).st_size
            while self._chunk and length < size_bytes:
                length += os.pwrite(self._file, self._chunk, length)
            if length < size_bytes:  # zeros: a hole in the file
                os.ftruncate(self._file, size_bytes)
        # Opened by name and closed again: a mapping holds no descriptor, of which a process has few.
        storage = torch.UntypedStorage.from_file(f"/proc/self/fd/{self._file}", shared=False, nbytes=size_bytes)
        assert isinstance(storage, torch.UntypedStorage)
        return storage


_patterns: dict[torch.dtype, _Pattern] = {}
_patterns_lock = threading.Lock()


def _pattern(dtype: torch.dtype) -> _Pattern:
    with _patterns_lock:
        if dtype not in _patterns:
            _patterns[dtype] = _Pattern(dtype)
        return _patterns[dtype]
