"""The decompositions of our graphs: Inductor's table without what is tuned for a host CPU, with what the NPU needs.

In: nothing. Out: a table for `compile_fx`, made per compile; Inductor's own is never changed.
Assumes: an entry that returns `NotImplemented` keeps the operation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.decomposition import select_decomp_table

from pytorchsim.frontend.axis_index_decompositions import axis_index_decompositions
from pytorchsim.frontend.source_key import source_key

__all__ = ["DecompositionTable", "decomposition_table"]

aten = torch.ops.aten

# Inductor turns small products into sums of products, which pays on a host CPU only.
_PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default)

# Decomposed, a roll is a gather by `(i + c) % n`; `index_lowerings` makes two slices of it.
_MOVES = (aten.roll.default,)

# Decomposed, the index of a maximum is an offset that says nothing of padding, and gradients are gathers or scatters;
# `max_pool_lowerings` and `average_pool_lowerings` have each of them.
_POOLS = (
    aten.max_pool2d_with_indices.default,
    aten.max_pool3d_with_indices.default,
    aten.max_pool2d_with_indices_backward.default,
    aten.adaptive_max_pool2d.default,
    aten.adaptive_max_pool3d.default,
    aten._adaptive_avg_pool2d_backward.default,
    aten.avg_pool2d_backward.default,
)


class DecompositionTable(dict[Any, Callable[..., Any]]):
    """A table that stands for itself in cache keys by the sources it is made from (functions have no stable pickle)."""

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return str, (f"pytorchsim-decompositions-{source_key()}",)


def decomposition_table() -> DecompositionTable:
    """A new table; it depends on Inductor's `fallback_random`, as the stock one does."""
    table = DecompositionTable(select_decomp_table())
    for overload in (*_PRODUCTS, *_MOVES, *_POOLS):
        table.pop(overload, None)
    table[aten.mul.Tensor] = _mul
    table[aten.addmv.default] = _addmv
    table[aten.addbmm.default] = _addbmm
    table[aten.argmax.default] = _argmax
    table[aten.argmin.default] = _argmin
    table.update(axis_index_decompositions(dict(table)))
    return table


def _mul(x: torch.Tensor, other: Any) -> Any:
    """Floats times an integer as floats: Inductor folds `x * 0` to 0, which it is not where x is not finite."""
    floating = isinstance(x, torch.Tensor) and x.is_floating_point()
    return aten.mul.Tensor(x, float(other)) if floating and isinstance(other, int) else NotImplemented


def _addmv(x: torch.Tensor, matrix: torch.Tensor, vector: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * (matrix @ vector), as the product with a matrix of one column."""
    bias = x.expand(matrix.shape[0]).unsqueeze(1)
    return aten.addmm.default(bias, matrix, vector.unsqueeze(1), beta=beta, alpha=alpha).squeeze(1)


def _addbmm(x: torch.Tensor, left: torch.Tensor, right: torch.Tensor, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta * x + alpha * sum(left[i] @ right[i]): one product whose k runs over the batch, too."""
    batch, m, k = left.shape
    return aten.addmm.default(
        x, left.permute(1, 0, 2).reshape(m, batch * k), right.reshape(batch * k, -1), beta=beta, alpha=alpha
    )


def _argmax(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    return _flat_index(aten.argmax.default, x, keepdim) if dim is None and x.dim() > 1 else NotImplemented


def _argmin(x: torch.Tensor, dim: int | None = None, keepdim: bool = False) -> Any:
    return _flat_index(aten.argmin.default, x, keepdim) if dim is None and x.dim() > 1 else NotImplemented


def _flat_index(op: Callable[..., torch.Tensor], x: torch.Tensor, keepdim: bool) -> torch.Tensor:
    """Over all axes: of the flattened tensor; otherwise Inductor numbers elements in whatever order its loops have."""
    index = op(x.reshape(-1), 0, False)
    return index.reshape([1] * x.dim()) if keepdim else index
