"""Which positions of an image the gradient of a convolution's input computes together: those that equally many taps
reach.

In: sizes of a convolution along one dimension. Out: `Phases`. With e = gcd(stride, dilation), a position i is
i + padding = dilation * u + stride * q + v for unique u in [0, stride / e), v in [0, e) and a q. Where v = 0, the taps
u, u + stride / e, ... reach it: one more for the first phases u than for the others, maybe none. Where v > 0 none does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import gcd

__all__ = ["Part", "Phases", "Strided", "phase_parts"]


@dataclass(frozen=True)
class Strided:
    """A convolution along one dimension: `inputs` positions of the image, `kernel` taps."""

    inputs: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def common(self) -> int:
        """What stride and dilation have in common: e."""
        return gcd(self.stride, self.dilation)

    @property
    def phases(self) -> int:
        """Values of u; also from one tap of a phase to the next."""
        return self.stride // self.common


@dataclass(frozen=True)
class Phases:
    """Positions of `count` values of u from `first` on, each with `offsets` values of v from `offset` on, and `length`
    values of q from `begin` on. `taps` reach each. Some positions may lie outside of the image."""

    first: int
    count: int
    offset: int
    offsets: int
    taps: int
    begin: int = 0
    length: int = 0


Part = tuple[Phases | None, ...]
"""For each dimension its phases; None where it is all positions of the dimension."""


def phase_parts(dimensions: Sequence[Strided]) -> tuple[Part, ...]:
    """Parts of the image that together are all of it, each position in one. First those that taps reach; in the others
    one dimension has phases without taps."""
    reached = [list(_filled(dimension, _reached(dimension))) for dimension in dimensions]
    parts: list[Part] = list(product(*reached))
    for number, dimension in enumerate(dimensions):
        before = [list(_filled(other, [_all_reached(other)])) for other in dimensions[:number]]
        without = list(_filled(dimension, _unreached(dimension)))
        rest = [[None] for _ in dimensions[number + 1 :]]
        parts += product(*before, without, *rest)
    return tuple(parts)


def _reached(dimension: Strided) -> Iterator[Phases]:
    taps, more = divmod(dimension.kernel, dimension.phases)
    if more:
        yield Phases(0, more, 0, 1, taps + 1)
    if taps:
        yield Phases(more, dimension.phases - more, 0, 1, taps)


def _all_reached(dimension: Strided) -> Phases:
    """Whatever the number of taps."""
    return Phases(0, min(dimension.kernel, dimension.phases), 0, 1, 0)


def _unreached(dimension: Strided) -> Iterator[Phases]:
    if dimension.kernel < dimension.phases:
        yield Phases(dimension.kernel, dimension.phases - dimension.kernel, 0, 1, 0)
    if dimension.common > 1:
        yield Phases(0, dimension.phases, 1, dimension.common - 1, 0)


def _filled(dimension: Strided, groups: Sequence[Phases] | Iterator[Phases]) -> Iterator[Phases]:
    """Those that have positions in the image, with the values of q that cover them."""
    for group in groups:
        ends = [
            (-((shift - dimension.padding) // dimension.stride), (last - shift) // dimension.stride)
            for last in [dimension.padding + dimension.inputs - 1]
            for u in range(group.first, group.first + group.count)
            for v in range(group.offset, group.offset + group.offsets)
            for shift in [dimension.dilation * u + v]
        ]
        ends = [(begin, end) for begin, end in ends if begin <= end]
        if ends:
            begin = min(begin for begin, _ in ends)
            yield replace(group, begin=begin, length=max(end for _, end in ends) - begin + 1)
