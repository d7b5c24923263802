"""Transfers of matrices between DRAM and the scratchpad, one per head, as attention's kernels need them.

In: where a tensor lies, how much of each axis a tile has. Out: descriptors. Elements that do not exist are those behind
the end of an axis whose extent its tiles do not divide.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pytorchsim.target.descriptor import Axis, Bound, Descriptor, TransferOp
from pytorchsim.target.dtypes import BF16, F16, F32, Dtype
from pytorchsim.templates.attention_problem import Place

__all__ = ["Along", "matrix_descriptor", "minus_infinity"]


@dataclass(frozen=True)
class Along:
    """An axis: elements of the tensor and of the tile, and the stride of either in elements."""

    extent: int
    size: int
    dram_stride: int
    spad_stride: int
    lane: bool = False


def matrix_descriptor(
    slot: int, place: Place, axes: Sequence[Along], *, store: bool = False, fill: int = 0
) -> Descriptor:
    """A load, or a store, of a tile with `axes` of the tensor at `place`; `fill`: bits of what does not exist."""
    bounds = []
    for number, axis in enumerate(axes):
        if axis.extent % axis.size:
            steps = tuple(int(other == number) for other in range(len(axes)))
            bounds.append(Bound(0, steps, axis.extent))
    return Descriptor(
        slot=slot,
        op=TransferOp.STORE if store else TransferOp.LOAD,
        dtype=place.dtype,
        axes=tuple(Axis(axis.size, axis.dram_stride, axis.spad_stride, lane=axis.lane) for axis in axes),
        offset=place.offset,
        bounds=tuple(bounds),
        fill=fill,
    )


def minus_infinity(dtype: Dtype) -> int:
    """Its bits; 0 (false) in types without it."""
    return {F32.name: 0xFF800000, F16.name: 0xFC00, BF16.name: 0xFF80}.get(dtype.name, 0)
