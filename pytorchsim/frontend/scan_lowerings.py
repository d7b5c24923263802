"""Lowerings of running folds: `cumsum`, `cumprod`, `cummax`, `cummin`, `logcumsumexp`.

In: Inductor's IR of the operand. Out: Inductor's `Scan` nodes, one for each result. Importing this module registers
them, for our graphs only. Inductor's own lowerings would split long ones by the number of the host's processors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.lowering import clone, lowerings, to_dtype
from torch._inductor.virtualized import ops

from pytorchsim.frontend.lowerings import lowers

__all__: list[str] = []

aten = torch.ops.aten

Values = tuple[Any, ...]
Combine = Callable[[Values, Values], Values]
"""What has been folded so far and the next element's values give the new fold."""


@lowers(aten.cumsum.default)
def _cumsum(x: ir.TensorBox, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    return _running(x, dim, dtype, lambda folded, new: (ops.add(folded[0], new[0]),))


@lowers(aten.cumprod.default)
def _cumprod(x: ir.TensorBox, dim: int, *, dtype: torch.dtype | None = None) -> Any:
    return _running(x, dim, dtype, lambda folded, new: (ops.mul(folded[0], new[0]),))


@lowers(aten.logcumsumexp.default)
def _logcumsumexp(x: ir.TensorBox, dim: int) -> Any:
    return _running(x, dim, x.get_dtype(), _log_add_exp)


@lowers(aten.cummax.default)
def _cummax(x: ir.TensorBox, dim: int) -> Any:
    return _extreme_so_far(x, dim, ops.ge)


@lowers(aten.cummin.default)
def _cummin(x: ir.TensorBox, dim: int) -> Any:
    return _extreme_so_far(x, dim, ops.le)


def _running(x: ir.TensorBox, dim: int, dtype: torch.dtype | None, combine: Combine) -> Any:
    """A fold of one value; sums and products of integers and bools are int64 unless a type is asked for."""
    if dtype is None:
        dtype = x.get_dtype() if x.get_dtype().is_floating_point else torch.int64
    x = to_dtype(x, dtype)
    if not x.get_size():
        return clone(x)
    (result,) = _scan(x, dim, (dtype,), (x.make_loader(),), combine)
    return result


def _extreme_so_far(x: ir.TensorBox, dim: int, beats: Callable[[Any, Any], Any]) -> Any:
    """(value, position): the last of equal ones; a NaN stays, and the next one takes its place, as in eager."""
    if not x.get_size():
        return clone(x), lowerings[aten.full]([], 0, dtype=torch.int64, device=x.get_device())
    axis, floating = dim % len(x.get_size()), x.get_dtype().is_floating_point

    def combine(folded: Values, new: Values) -> Values:
        takes = beats(new[0], folded[0])
        if floating:
            takes = ops.logical_or(takes, ops.isnan(new[0]))
        return tuple(ops.where(takes, ours, theirs) for theirs, ours in zip(folded, new, strict=True))

    def position(index: Sequence[sympy.Expr]) -> Any:
        return ops.index_expr(index[axis], torch.int64)

    return tuple(_scan(x, dim, (x.get_dtype(), torch.int64), (x.make_loader(), position), combine))


def _log_add_exp(folded: Values, new: Values) -> Values:
    """log(exp(a) + exp(b)) by the larger one; of equal infinities the difference would be NaN."""
    smaller, larger = ops.minimum(folded[0], new[0]), ops.maximum(folded[0], new[0])
    total = ops.add(larger, ops.log1p(ops.exp(ops.sub(smaller, larger))))
    return (ops.where(ops.logical_and(ops.eq(smaller, larger), ops.isinf(larger)), larger, total),)


def _scan(
    x: ir.TensorBox,
    dim: int,
    dtypes: tuple[torch.dtype, ...],
    loaders: tuple[Callable[..., Any], ...],
    combine: Combine,
) -> list[ir.TensorBox]:
    """A result for each of `dtypes`: the values of `loaders` folded along axis `dim` up to each element."""
    size, axis = list(x.get_size()), dim % len(x.get_size())
    device = x.get_device()
    assert device is not None
    if int(size[axis]) < 2 or 0 in size:
        return [
            ir.Pointwise.create(device=device, dtype=dtype, inner_fn=loader, ranges=size)
            for dtype, loader in zip(dtypes, loaders, strict=True)
        ]

    def reindex(rows: Sequence[sympy.Expr], along: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        return [*rows[:axis], *along, *rows[axis:]]

    results = [
        ir.TensorBox.create(
            ir.Scan(
                device=device,
                dtype=dtype,
                dtypes=dtypes,
                inner_fn=loaders[number],
                inner_fns=loaders,
                size=size,
                ranges=[*size[:axis], *size[axis + 1 :]],
                scan_ranges=[size[axis]],
                combine_fn=combine,
                reindex=reindex,
                reduction_hint=ir.ReductionHint.DEFAULT,
                output_index=number,
            )
        )
        for number, dtype in enumerate(dtypes)
    ]
    for result in results:
        result.realize()
    return results
