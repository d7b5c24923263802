"""Do views, pads, joins and copies give eager's values, whatever the shape and the order of the axes?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Check = Callable[..., torch.Tensor]


def test_transposes(check: Check) -> None:
    for shape, order in (
        ((64, 156), (1, 0)),
        ((640, 256), (1, 0)),
        ((62, 34, 44), (2, 0, 1)),
        ((62, 34, 44), (1, 2, 0)),
        ((6, 134, 14), (0, 2, 1)),
    ):
        check(lambda x, order=order: x.permute(order).contiguous() + 1, torch.randn(shape), exact=True)


def test_reshapes(check: Check) -> None:
    check(lambda x: x.view(128, 4, 16).transpose(0, 1).reshape(4, -1) + 1, torch.randn(128, 64), exact=True)
    check(lambda x: x.reshape(6, 10, 7).permute(2, 0, 1).reshape(14, 30) * 2, torch.randn(60, 7), exact=True)
    check(lambda x: x.reshape(2, 3, 4, 5).permute(3, 1, 0, 2).reshape(10, 12) * 2, torch.randn(120), exact=True)


def test_incompatible_radices(check: Check) -> None:
    check(lambda x: x.t().reshape(7, 10) + x.reshape(7, 10), torch.randn(10, 7), exact=True)
    check(lambda x: x.t().reshape(-1)[::3] + 1, torch.randn(10, 9), exact=True)


def test_window_partition_and_back(check: Check) -> None:
    def partition(x: torch.Tensor) -> torch.Tensor:
        windows = x.view(2, 2, 4, 2, 4, 3).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 3)
        return windows * 2

    def back(w: torch.Tensor) -> torch.Tensor:
        return w.view(2, 2, 2, 4, 4, 3).permute(0, 1, 3, 2, 4, 5).reshape(2, 8, 8, 3) + 1

    check(partition, torch.randn(2, 8, 8, 3), exact=True)
    check(back, torch.randn(8, 16, 3), exact=True)
    check(lambda x: back(partition(x)), torch.randn(2, 8, 8, 3), exact=True)


def test_roll(check: Check) -> None:
    check(lambda x: x.roll(3) + 1, torch.randn(47), exact=True)
    check(lambda x: x.roll((-2, 9), (0, 1)) * 2, torch.randn(7, 5), exact=True)
    check(lambda x: x.view(8, 9).roll((4, -3), (0, 1)).amax(1), torch.randn(72), exact=True)


def test_flip(check: Check) -> None:
    check(lambda x: x.flip(0) + x, torch.randn(13, 5), exact=True)
    check(lambda x: x.flip((0, 1)) - x.flip(1), torch.randn(13, 5), exact=True)


def test_pad(check: Check) -> None:
    check(lambda x: torch.nn.functional.pad(x, (1, 2)) + 1, torch.randn(9, 11), exact=True)
    check(lambda x: torch.nn.functional.pad(x, (1, 2, 3, 0), value=-2.0) * 2, torch.randn(9, 11), exact=True)
    check(lambda x: torch.nn.functional.pad(x, (-1, 2)) + 1, torch.randn(9, 11), exact=True)


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_cat_and_stack(check: Check, dim: int) -> None:
    parts = [torch.randn(3, 4, 5) for _ in range(3)]
    check(lambda a, b, c: torch.cat((a, b + 1, c * 2), dim), *parts, exact=True)
    check(lambda a, b, c: torch.stack((a, b, c), dim) + 1, *parts, exact=True)


def test_repeats(check: Check) -> None:
    check(lambda x: x.repeat(2, 3) + 1, torch.randn(5, 7), exact=True)
    check(lambda x: x.repeat_interleave(3, 1) + 1, torch.randn(5, 7), exact=True)
    check(lambda x: torch.nn.functional.pixel_shuffle(x, 2) + 1, torch.randn(2, 12, 5, 3), exact=True)


def test_split(check: Check) -> None:
    def halves(x: torch.Tensor) -> torch.Tensor:
        a, b = x.split(20, 1)
        return a * b.sigmoid()

    check(halves, torch.randn(6, 40))


def test_many_axes(check: Check) -> None:
    x = torch.randn([2] * 9)
    check(lambda a, b: a + b, x.permute(*range(8, -1, -1)), x, exact=True)
