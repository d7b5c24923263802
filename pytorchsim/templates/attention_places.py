"""Where attention's tensors lie, read from tensors or from Inductor's buffers.

In: tensors (real or fake) or buffers with frozen layouts, by their names in a problem. Out: sizes and places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch._inductor import ir as inductor_ir

from pytorchsim.target.dtypes import Dtype
from pytorchsim.templates.attention_problem import Place
from pytorchsim.templates.recorded_types import machine_dtype

__all__ = ["Placed", "place_buffers", "place_tensors"]

_VECTORS = ("statistics", "delta")
"""What has one number per query, so no columns."""


@dataclass(frozen=True)
class Placed:
    """`batch`: sizes of the batch axes; `sizes`: queries, keys, elements of a query, elements of a value."""

    batch: tuple[int, ...]
    sizes: tuple[int, int, int, int]
    places: dict[str, Place]


def place_tensors(tensors: Mapping[str, torch.Tensor]) -> Placed:
    """Of tensors, `query` and `value` among them."""
    places = {name: _place(name, machine_dtype(t.dtype), t.shape, t.stride(), 0) for name, t in tensors.items()}
    return _placed(tensors["query"].shape, tensors["value"].shape, places)


def place_buffers(buffers: Mapping[str, inductor_ir.IRNode]) -> Placed:
    """Of buffers, `query` and `value` among them."""
    places = {}
    for name, buffer in buffers.items():
        layout, dtype = buffer.get_layout(), machine_dtype(buffer.get_dtype())
        places[name] = _place(name, dtype, layout.size, layout.stride, int(layout.offset))
    return _placed(buffers["query"].get_size(), buffers["value"].get_size(), places)


def _placed(query: Sequence[object], value: Sequence[object], places: dict[str, Place]) -> Placed:
    *batch, queries, size = (int(extent) for extent in query)  # type: ignore[call-overload]
    keys, value_size = (int(extent) for extent in value[-2:])  # type: ignore[call-overload]
    return Placed(tuple(batch), (queries, keys, size, value_size), places)


def _place(name: str, dtype: Dtype, sizes: Sequence[object], strides: Sequence[object], offset: int) -> Place:
    """Axes of one element have stride 0, however the layout calls it."""
    steps = [0 if int(size) == 1 else int(step) for size, step in zip(sizes, strides, strict=True)]  # type: ignore[call-overload]
    *batch, row, column = [*steps, 0] if name in _VECTORS else steps
    return Place(offset, tuple(batch), row, column, dtype)
