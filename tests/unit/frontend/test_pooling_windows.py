"""A pool's windows against counting, both ways: the elements of a window, the windows of an element."""

from __future__ import annotations

from itertools import product

import pytest

from pytorchsim.frontend.pooling_windows import AdaptiveWindows, Range, RegularWindows, Windows


def _regular(extent: int, kernel: int, stride: int, padding: int, dilation: int) -> RegularWindows:
    windows = (extent + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
    return RegularWindows(extent, windows, kernel, stride, padding, dilation)


REGULAR = [
    _regular(extent, kernel, stride, padding, dilation)
    for extent, kernel, stride, padding, dilation in product((7, 8), (1, 3), (1, 2, 3), (0, 1), (1, 2))
    if padding <= kernel // 2
]
ADAPTIVE = [AdaptiveWindows(extent, windows) for extent, windows in product((1, 5, 6), (1, 4, 5, 7))]


def _hold(ranges: list[Range]) -> bool:
    return all(low <= int(value) < int(high) for value, low, high in ranges)


def _taken(axis: Windows, window: int) -> list[int]:
    return [int(axis.position(window, tap)) for tap in range(axis.taps) if _hold(axis.inside(window, tap))]


@pytest.mark.parametrize("axes", [REGULAR, ADAPTIVE], ids=["regular", "adaptive"])
def test_windows_of_an_element_are_those_that_take_it(axes: list[Windows]) -> None:
    for axis in axes:
        plain = not isinstance(axis, RegularWindows) or axis.dilation == 1
        taken = [_taken(axis, window) for window in range(axis.windows)]
        for position in range(axis.extent):
            wanted = {window for window, elements in enumerate(taken) if position in elements}
            numbers = [number for number in range(axis.covers) if _hold(axis.exists(position, number))]
            found = [int(axis.window(position, number)) for number in numbers]
            assert len(set(found)) == len(found), axis
            assert wanted <= set(found), axis
            if plain:
                covered = {int(axis.window(position, n)) for n in numbers if _hold(axis.covered(position, n))}
                assert covered == wanted, axis


@pytest.mark.parametrize("axes", [REGULAR, ADAPTIVE], ids=["regular", "adaptive"])
def test_first_element_and_bounds(axes: list[Windows]) -> None:
    for axis in axes:
        for window in range(axis.windows):
            taken = _taken(axis, window)
            assert taken == sorted(taken)
            assert int(axis.first(window)) == taken[0], axis
            if not isinstance(axis, RegularWindows) or axis.dilation == 1:
                low, high = axis.bounds(window)
                assert list(range(int(low), int(high))) == taken, axis


def test_adaptive_windows_are_eagers() -> None:
    """7 elements, 3 windows: floor(7 o / 3) up to ceil(7 (o + 1) / 3)."""
    assert [_taken(AdaptiveWindows(7, 3), window) for window in range(3)] == [[0, 1, 2], [2, 3, 4], [4, 5, 6]]
