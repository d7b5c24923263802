"""Lowerings of operations that move elements: roll as slices, cat, scatters of every type and kind.

In: Inductor's IR of the operands. Out: IR. Importing this module registers them, for our graphs only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import inductor_prims, ir
from torch._inductor.lowering import (
    check_and_broadcast_indices,
    clone,
    expand,
    index_output_size_and_inner_fn,
    lowerings,
    to_dtype,
    view,
)
from torch._inductor.virtualized import V, ops

from pytorchsim.frontend.lowerings import lowers

__all__: list[str] = []

aten = torch.ops.aten


# ---- Roll ----------------------------------------------------------------------------------------------------------


@lowers(aten.roll.default)
def _roll(x: ir.TensorBox, shifts: Any, dims: Any = ()) -> Any:
    """Two contiguous slices joined by `cat`, for each rolled dimension. The input is realised first, a view as a copy:
    what computes it would be computed twice, and a view would bring back `(i + c) % n`, which no transfer walks."""
    shifts = [shifts] if isinstance(shifts, int) else [int(shift) for shift in shifts]
    dims = [dims] if isinstance(dims, int) else [int(dim) for dim in dims]
    sizes = [int(size) for size in x.get_size()]
    if not dims:  # of the flattened tensor
        flat = _rolled(view(x, [x.get_numel()]), shifts[0], 0)
        return view(flat, sizes)
    for shift, dim in zip(shifts, dims, strict=True):
        x = _rolled(x, shift, dim % len(sizes) if sizes else 0)
    return x


def _rolled(x: ir.TensorBox, shift: int, dim: int) -> Any:
    size = int(x.get_size()[dim]) if x.get_size() else 1
    if size < 2 or shift % size == 0:
        return clone(x)
    if isinstance(x.data, ir.StorageBox):
        x.realize()  # not a view: its own buffer is as good as a copy
    else:
        x = clone(x)
        x.realize()
    first = size - shift % size
    slice_ = lowerings[aten.slice.Tensor]
    return _joined([slice_(x, dim, first, size), slice_(x, dim, 0, first)], dim)


# ---- Cat -----------------------------------------------------------------------------------------------------------


@lowers(aten.cat.default)
def _cat(tensors: Sequence[ir.TensorBox], dim: int = 0) -> Any:
    """Each tensor is stored straight into its part of the result."""
    return _joined(tensors, dim)


def _joined(tensors: Sequence[ir.TensorBox], dim: int) -> Any:
    """As the stock lowering, which leaves 8-bit integers to the host."""
    if any(tensor.get_dtype() not in (torch.int8, torch.uint8) for tensor in tensors):
        return lowerings[aten.cat.default](tensors, dim)
    filled = [tensor for tensor in tensors if tensor.get_size() != [0]] or tensors[:1]
    dtype = functools.reduce(torch.promote_types, [tensor.get_dtype() for tensor in tensors])
    filled = [to_dtype(tensor, dtype) for tensor in filled]
    rank = len(filled[0].get_size())
    return clone(filled[0]) if len(filled) == 1 else ir.TensorBox(ir.ConcatKernel.create(filled, dim % rank))


# ---- Scatter -------------------------------------------------------------------------------------------------------

_MODES = {None: None, "sum": "atomic_add", "add": "atomic_add", "amax": "atomic_max", "amin": "atomic_min"}
"""How our kernels store for each reduction."""


@lowers(aten.scatter.src, aten.scatter.value)
def _scatter(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scatter_into(clone(x), dim, index, src, None)


@lowers(aten.scatter_.src, aten.scatter_.value)
def _scatter_in_place(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scatter_into(x, dim, index, src, None)


@lowers(aten.scatter_add.default)
def _scatter_add(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scatter_into(clone(x), dim, index, src, "atomic_add")


@lowers(aten.scatter_add_.default)
def _scatter_add_in_place(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any) -> ir.TensorBox:
    return _scatter_into(x, dim, index, src, "atomic_add")


@lowers(aten.scatter_reduce.two)
def _scatter_reduce(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, reduce: str, *, include_self: bool = True
) -> ir.TensorBox | None:
    return _reduced(clone(x), dim, index, src, reduce, include_self) if reduce in _MODES else None


@lowers(aten.scatter_reduce_.two)
def _scatter_reduce_in_place(
    x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, reduce: str, *, include_self: bool = True
) -> ir.TensorBox | None:
    return _reduced(x, dim, index, src, reduce, include_self) if reduce in _MODES else None


def _reduced(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, reduce: str, include_self: bool) -> ir.TensorBox:
    """Without `include_self` what is scattered to starts from the reduction's identity."""
    if not include_self:
        x = _scatter_into(x, dim, index, _identity(reduce, x.get_dtype()), None)
    return _scatter_into(x, dim, index, src, _MODES[reduce])


def _identity(reduce: str, dtype: torch.dtype) -> float | int | bool:
    if reduce in ("sum", "add"):
        return False if dtype == torch.bool else 0
    smallest = reduce == "amax"
    if dtype == torch.bool:
        return not smallest
    if dtype.is_floating_point:
        return float("-inf") if smallest else float("inf")
    limits = torch.iinfo(dtype)
    return limits.min if smallest else limits.max


def _scatter_into(x: ir.TensorBox, dim: int, index: ir.TensorBox, src: Any, mode: str | None) -> ir.TensorBox:
    """x[.., index[i], ..] (combined with) = src[i], in the order of `i`."""
    rank = len(x.get_size())
    target = x if rank else view(x, [1])
    index = index if index.get_size() else view(index, [1])
    if isinstance(src, ir.TensorBox) and not src.get_size():
        src = view(src, [1])
    if index.get_numel() == 0:
        return x
    dim = dim % len(target.get_size())
    target.realize()
    index, src = _apart(index, target), _apart(src, target)
    load_index = index.make_loader()
    extent = target.get_size()[dim]

    def place(position: Sequence[sympy.Expr]) -> list[sympy.Expr]:
        places = list(position)
        places[dim] = ops.indirect_indexing(load_index(position), extent, wrap_neg=False)
        return places

    if isinstance(src, ir.TensorBox):
        values = to_dtype(src, target.get_dtype()).make_loader()
    else:
        dtype = target.get_dtype()

        def values(position: Sequence[sympy.Expr]) -> Any:
            del position
            return ops.constant(src, dtype)

    _register_scatter(target, values, index.get_size(), place, mode)
    return x


def _apart(value: Any, target: ir.TensorBox) -> Any:
    """`value` as it is before `target` changes: a copy if it is computed from `target` or a view of it."""
    if not isinstance(value, ir.TensorBox):
        return value
    copy = clone(value)  # a view's own names are those that its source was computed from
    if ir.try_get_name(target) not in copy.get_read_names():
        return value
    copy.realize()
    return copy


def _register_scatter(
    target: ir.TensorBox,
    values: Callable[..., Any],
    ranges: Sequence[sympy.Expr],
    place: Callable[..., Any],
    mode: Any,
) -> None:
    """A buffer that stands for `target` after the scatter."""
    device = target.get_device()
    assert device is not None
    scatter = ir.Scatter(
        device=device,
        dtype=target.get_dtype(),
        inner_fn=values,
        ranges=list(ranges),
        output_indexer=place,
        scatter_mode=mode,
    )
    buffer = ir.ComputedBuffer(name=None, layout=ir.MutationLayoutSHOULDREMOVE(target), data=scatter)
    buffer.name = V.graph.register_buffer(buffer)
    V.graph.register_operation(buffer)


# ---- index_put -----------------------------------------------------------------------------------------------------


@lowers(aten.index_put.default)
def _index_put(x: ir.TensorBox, indices: Sequence[Any], values: ir.TensorBox, accumulate: bool = False) -> Any:
    return _accumulated(clone(x), indices, values) if _stock_refuses(x, indices, accumulate) else None


@lowers(aten.index_put_.default)
def _index_put_in_place(x: ir.TensorBox, indices: Sequence[Any], values: ir.TensorBox, accumulate: bool = False) -> Any:
    if _stock_refuses(x, indices, accumulate):
        return _accumulated(x, indices, values)
    return _kept_apart(lowerings[aten.index_put_.default], x, indices, values, accumulate)


@lowers(inductor_prims._unsafe_index_put_)
def _unsafe_index_put_in_place(
    x: ir.TensorBox, indices: Sequence[Any], values: ir.TensorBox, accumulate: bool = False
) -> Any:
    return _kept_apart(lowerings[inductor_prims._unsafe_index_put_], x, indices, values, accumulate)


def _kept_apart(
    stock: Callable[..., Any], x: ir.TensorBox, indices: Sequence[Any], values: ir.TensorBox, accumulate: bool
) -> Any:
    """Inductor's lowering, with operands that do not change while it stores: it leaves views of `x` as they are."""
    x.realize()
    return stock(x, [_apart(index, x) for index in indices], _apart(values, x), accumulate)


def _stock_refuses(x: ir.TensorBox, indices: Sequence[Any], accumulate: bool) -> bool:
    """Inductor's own lowering adds to every type but these two, which other machines have no atomics for."""
    masks = any(index is not None and index.get_dtype() in (torch.bool, torch.uint8) for index in indices)
    return accumulate and not masks and x.get_dtype() in (torch.int64, torch.bool)


def _accumulated(x: ir.TensorBox, indices: Sequence[Any], values: ir.TensorBox) -> ir.TensorBox:
    """x[indices] += values, duplicates included."""
    target = x if x.get_size() else view(x, [1])
    target.realize()
    values = _apart(to_dtype(values, x.get_dtype()), target)
    broadcast, tensors = check_and_broadcast_indices(indices, x.get_device())
    loaders = [_apart(index, target).make_loader() if index is not None else None for index in broadcast]
    sizes = list(target.get_size())
    shape = list(broadcast[tensors[0]].get_size())
    extents = sizes[: len(broadcast)]
    ranges, place = index_output_size_and_inner_fn(sizes, broadcast, tensors, shape, loaders, extents, None, check=True)
    _register_scatter(target, expand(values, ranges).make_loader(), ranges, place, "atomic_add")
    return x
