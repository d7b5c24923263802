"""The windows of a pool along one axis: which input elements a window takes, which windows an input element is in.

In: extents. Out: index expressions of Inductor and the ranges in which they are meant. Both directions are written so
that index analysis makes them affine where the arithmetic allows it: a regular window starts at a multiple of the
stride, and an input element of phase `h % stride` lies in windows at fixed distances from `h // stride`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing

__all__ = ["AdaptiveWindows", "Range", "RegularWindows", "Windows"]

Range = tuple[Any, int, Any]
"""(expression, low, high): low <= expression < high."""


class Windows(Protocol):
    """Windows `0..windows - 1` over positions `0..extent - 1`."""

    @property
    def extent(self) -> int:
        """Positions of the input."""

    @property
    def windows(self) -> int:
        """Positions of the result."""

    @property
    def taps(self) -> int:
        """Elements of the largest window."""

    def position(self, window: Any, tap: Any) -> Any:
        """The position of a tap; it may be outside of the input."""

    def inside(self, window: Any, tap: Any) -> list[Range]:
        """When a tap is one of the window and inside of the input."""

    def first(self, window: Any) -> Any:
        """The position of the first tap inside of the input."""

    def bounds(self, window: Any) -> tuple[Any, Any]:
        """First position of a window and one past its last, both inside of the input. Only without dilation."""

    @property
    def covers(self) -> int:
        """A position lies in at most so many windows of those that `window` gives."""

    @property
    def padded_extent(self) -> int:
        """Positions to compute so that `window` is affine: no fewer than `extent`."""

    def window(self, position: Any, number: Any) -> Any:
        """The window `number`, of `covers`, that `position` may lie in; it may be no window at all."""

    def exists(self, position: Any, number: Any) -> list[Range]:
        """When that window exists."""

    def covered(self, position: Any, number: Any) -> list[Range]:
        """When `position` lies in that window, which exists. Only without dilation."""


@dataclass(frozen=True)
class RegularWindows:
    """Window o takes `o * stride - padding + k * dilation` for k below `kernel`."""

    extent: int
    windows: int
    kernel: int
    stride: int
    padding: int
    dilation: int

    @property
    def taps(self) -> int:
        return self.kernel

    def position(self, window: Any, tap: Any) -> Any:
        return window * self.stride + tap * self.dilation - self.padding

    def inside(self, window: Any, tap: Any) -> list[Range]:
        last = (self.windows - 1) * self.stride + (self.kernel - 1) * self.dilation - self.padding
        if self.padding == 0 and last < self.extent:
            return []
        return [(self.position(window, tap), 0, self.extent)]

    def first(self, window: Any) -> Any:
        if self.padding == 0:
            return window * self.stride
        start = window * self.stride - self.padding
        shifted = start + -(-self.padding // self.dilation) * self.dilation  # not negative, and the same tap's phase
        return sympy.Max(start, ModularIndexing(shifted, 1, self.dilation) if self.dilation > 1 else 0)

    def bounds(self, window: Any) -> tuple[Any, Any]:
        start = window * self.stride - self.padding
        return sympy.Max(start, 0), sympy.Min(start + self.kernel, self.extent)

    def padded_bounds(self, window: Any) -> tuple[Any, Any]:
        """The same with the padding as part of the input."""
        start = window * self.stride - self.padding
        return start, sympy.Min(start + self.kernel, self.extent + self.padding)

    @property
    def _first(self) -> int:
        """The distance of the first window from `position // stride`: that of the last tap at phase 0."""
        return (self.padding - (self.kernel - 1) * self.dilation) // self.stride + (
            (self.padding - (self.kernel - 1) * self.dilation) % self.stride != 0
        )

    @property
    def covers(self) -> int:
        last = (self.stride - 1 + self.padding) // self.stride  # of the first tap at the last phase
        return max(1, last - self._first + 1)

    @property
    def padded_extent(self) -> int:
        return -(-self.extent // self.stride) * self.stride

    def window(self, position: Any, number: Any) -> Any:
        return FloorDiv(position, self.stride) + self._first + number

    def exists(self, position: Any, number: Any) -> list[Range]:
        return [(self.window(position, number), 0, self.windows)]

    def covered(self, position: Any, number: Any) -> list[Range]:
        phase = ModularIndexing(position, 1, self.stride) if self.stride > 1 else sympy.Integer(0)
        return [(phase + self.padding - self.stride * (self._first + number), 0, self.kernel)]


@dataclass(frozen=True)
class AdaptiveWindows:
    """Window o takes from `floor(o * extent / windows)` up to, not including, `ceil((o + 1) * extent / windows)`."""

    extent: int
    windows: int

    def _start(self, window: Any) -> Any:
        return FloorDiv(window * self.extent, self.windows)

    def _end(self, window: Any) -> Any:
        return FloorDiv((window + 1) * self.extent + self.windows - 1, self.windows)

    @property
    def taps(self) -> int:
        return max([1, *(int(self._end(window) - self._start(window)) for window in range(self.windows))])

    def position(self, window: Any, tap: Any) -> Any:
        return self._start(window) + tap

    def inside(self, window: Any, tap: Any) -> list[Range]:
        return [(self.position(window, tap), 0, self._end(window))]

    def bounds(self, window: Any) -> tuple[Any, Any]:
        return self._start(window), self._end(window)

    def first(self, window: Any) -> Any:
        return self._start(window)

    def _first(self, position: Any) -> Any:
        return FloorDiv(position * self.windows, self.extent)

    def _last(self, position: Any) -> Any:
        """One past the last window that `position` lies in."""
        return FloorDiv((position + 1) * self.windows + self.extent - 1, self.extent)

    @property
    def covers(self) -> int:
        return max([1, *(int(self._last(position) - self._first(position)) for position in range(self.extent))])

    @property
    def padded_extent(self) -> int:
        return self.extent

    def window(self, position: Any, number: Any) -> Any:
        return self._first(position) + number

    def exists(self, position: Any, number: Any) -> list[Range]:
        return [(self.window(position, number), 0, self._last(position))]

    def covered(self, position: Any, number: Any) -> list[Range]:
        return []
