"""Decompositions of operations whose indices number one axis: as gathers and scatters with the index broadcast.

In: tensors of a graph that is traced. Out: tensors. So an index below zero is out of range, as in eager (PyTorch's own
decompositions wrap it around), and every type and reduction that a scatter has is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

__all__ = ["axis_index_decompositions"]

aten = torch.ops.aten

_REDUCTIONS = ("amax", "amin")
"""Of `index_reduce`; the others have no scatter that runs on the NPU."""


def axis_index_decompositions(stock: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    """Entries of a decomposition table. `stock` is what it has for cases that these leave alone."""

    def index_select(x: torch.Tensor, dim: int, index: torch.Tensor) -> Any:
        if not x.dim() or index.dim() != 1 or index.dtype != torch.int64:
            return stock[aten.index_select.default](x, dim, index)
        shape = list(x.shape)
        shape[dim] = index.numel()
        return aten.gather.default(x, dim, _broadcast(index, dim, shape))

    def index_reduce(
        x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, reduce: str, *, include_self: bool = True
    ) -> Any:
        if reduce not in _REDUCTIONS:
            return NotImplemented
        return _scattered(
            lambda *operands: aten.scatter_reduce.two(*operands, reduce, include_self=include_self),
            *(x, dim, index, source),
        )

    return {
        aten.index_select.default: index_select,
        aten.index_add.default: _index_add,
        aten.index_copy.default: _index_copy,
        aten.index_reduce.default: index_reduce,
    }


def _index_add(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor, *, alpha: Any = 1) -> torch.Tensor:
    return _scattered(aten.scatter_add.default, x, dim, index, source if alpha == 1 else source * alpha)


def _index_copy(x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return _scattered(aten.scatter.src, x, dim, index, source)


def _scattered(
    operation: Callable[..., torch.Tensor], x: torch.Tensor, dim: int, index: torch.Tensor, source: torch.Tensor
) -> torch.Tensor:
    """`source`'s slices along `dim` to where `index` says."""
    target = x if x.dim() else x.reshape(1)
    shape = list(target.shape)
    shape[dim] = index.numel()
    result = operation(target, dim, _broadcast(index.to(torch.int64), dim, shape), source.reshape(shape))
    return result.reshape(x.shape)


def _broadcast(index: torch.Tensor, dim: int, shape: list[int]) -> torch.Tensor:
    """`index` along axis `dim` of `shape`."""
    sizes = [1] * len(shape)
    sizes[dim] = -1
    return index.reshape(sizes).expand(shape)
