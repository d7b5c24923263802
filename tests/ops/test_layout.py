"""Do views, pads, joins and copies give eager's values, whatever the shape and the order of the axes?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import interpolate, pad, pixel_shuffle, pixel_unshuffle

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
CheckCases = Callable[..., None]


@pytest.fixture(params=["tpuv3", "tiny"])
def config(request: pytest.FixtureRequest) -> str:
    """The widest machine and the smallest: what lies between them differs in no form of an index."""
    return str(request.param)


def _case(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Case:
    return function, tuple(torch.randn(shape) for shape in shapes)


def test_transposes_and_permutations(check_cases: CheckCases) -> None:
    check_cases(
        {
            "64x156": _case(lambda a: a.t().contiguous(), (64, 156)),
            "640x256": _case(lambda a: a.t() + 1, (640, 256)),
            "last axis first": _case(lambda a: a.permute(2, 0, 1).contiguous() + 1, (62, 34, 44)),
            "first axis last": _case(lambda a: a.permute(1, 2, 0).contiguous() + 1, (62, 34, 44)),
            "inner two": _case(lambda a: a.permute(0, 2, 1).contiguous(), (6, 134, 14)),
            "reversed": _case(lambda a: a.permute(2, 1, 0) * 2, (31, 7, 45)),
            "a transposed and a straight operand": _case(lambda a, b: torch.where(a > 0, a, b.t()), (13, 37), (37, 13)),
        }
    )


@pytest.mark.slow
def test_large_permutations(check_cases: CheckCases) -> None:
    check_cases(
        {
            str(order): _case(lambda a, order=order: a.permute(order) + 1, (62, 134, 144))
            for order in [(0, 2, 1), (2, 1, 0), (1, 2, 0)]
        }
    )


def test_reshapes(check_cases: CheckCases) -> None:
    check_cases(
        {
            "three axes to two": _case(lambda a: a.permute(1, 0, 2).reshape(34, -1) + 1, (6, 34, 44)),
            "two to three": _case(lambda a: a.t().reshape(11, 4, 34) + 1, (34, 44)),
            "heads": _case(lambda a: a.view(512, 16, 64).permute(1, 0, 2).contiguous(), (512, 1024)),
            "heads back": _case(lambda a: a.permute(1, 0, 2).reshape(64, 160) * 2, (16, 64, 10)),
            "mixed radix of three levels": _case(lambda a: a.view(2, 3, 4).permute(2, 1, 0).reshape(24) + 1, (24,)),
            "mixed radix of four": _case(
                lambda a: a.reshape(2, 3, 4, 5).permute(3, 1, 0, 2).reshape(10, 12) * 2, (120,)
            ),
        }
    )


def test_incompatible_radices(check_cases: CheckCases) -> None:
    """No split of the axes makes both walks affine: indices are computed in the lanes."""
    check_cases(
        {
            "4 and 3": _case(lambda a: a.view(4, 6).t().reshape(24).view(3, 8).t().contiguous(), (24,)),
            "two inputs": _case(lambda a, b: a.t().reshape(-1) + b.t().reshape(-1), (4, 6), (3, 8)),
            "every third": _case(lambda a: a.t().reshape(-1)[::3] + 1, (10, 9)),
            "a shifted view": _case(lambda a: a.t().reshape(-1)[1:41].view(8, 5) * 2, (9, 10)),
            "then reduced": _case(lambda a: a.t().reshape(7, 10).amax(1) + a.reshape(7, 10).amax(1), (10, 7)),
        }
    )


def test_windows(check_cases: CheckCases) -> None:
    def partition(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 3, 4, 5, 4, 7).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 7) * 2

    def back(w: torch.Tensor) -> torch.Tensor:
        return w.view(2, 3, 5, 4, 4, 7).permute(0, 1, 3, 2, 4, 5).reshape(2, 12, 20, 7) + 1

    check_cases(
        {
            "partition": _case(partition, (2, 12, 20, 7)),
            "back": _case(back, (30, 16, 7)),
            "both": _case(lambda x: back(partition(x)), (2, 12, 20, 7)),
            "shifted": _case(lambda x: back(partition(x.roll((-2, 3), (1, 2)))).roll((2, -3), (1, 2)), (2, 12, 20, 7)),
        }
    )


def test_roll(check_cases: CheckCases) -> None:
    check_cases(
        {
            "one axis": _case(lambda x: x.roll(3) + 1, (47,)),
            "two axes": _case(lambda x: x.roll((-2, 9), (0, 1)) * 2, (7, 5)),
            "flattened": _case(lambda x: x.roll(5), (13, 17)),
            "beyond the size": _case(lambda x: x.roll((-40, 53), (0, 1)), (13, 17)),
            "by nothing": _case(lambda x: x.roll((0, 17), (0, 1)) + 1, (13, 17)),
            "the same axis twice": _case(lambda x: x.roll((2, 5), (0, 0)), (13, 4)),
            "then reduced": _case(lambda x: x.view(8, 9).roll((4, -3), (0, 1)).amax(1), (72,)),
            "of a view": _case(
                lambda x: (x.view(2, 3, 4, 5).permute(0, 2, 1, 3) + 1).roll((1, -1), (1, 2)).reshape(2, -1), (2, 60)
            ),
        }
    )


def test_flip(check_cases: CheckCases) -> None:
    check_cases(
        {
            "first": _case(lambda x: x.flip(0) + x, (13, 5)),
            "both": _case(lambda x: x.flip((0, 1)) - x.flip(1), (13, 5)),
            "then viewed": _case(lambda a: a.flip(1).reshape(13, 6, 5).permute(1, 0, 2).reshape(6, 65) + 1, (13, 30)),
        }
    )


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_pad(check_cases: CheckCases, mode: str) -> None:
    cases = {
        "planes": _case(lambda a: pad(a, (3, 2, 2, 4), mode=mode), (2, 3, 13, 17)),
        "line": _case(lambda a: pad(a, (3, 2), mode=mode) + 1, (2, 3, 17)),
    }
    if mode == "constant":
        cases |= {
            "value": _case(lambda a: pad(a, (1, 2, 3, 0), value=-3.5), (13, 37)),
            "of what is computed": _case(lambda a: pad(torch.relu(a) + 1, (1, 2, 3, 0), value=-3.5), (13, 37)),
            "negative": _case(lambda a: pad(a, (-1, 2, 3, -4)), (13, 37)),
            "infinite": _case(lambda a: pad(a, (1, 1, 1, 1), value=float("-inf")).amax(0), (13, 37)),
            "twice": _case(lambda a: pad(pad(a, (1, 0), value=2.0) * 2, (1, 1), value=3.0), (13, 37)),
            "four axes": _case(lambda a: pad(a, (1, 1, 0, 2, 1, 0, 2, 1), value=1.5), (2, 3, 5, 4)),
            "then viewed": _case(lambda a: pad(a, (0, 3)).reshape(13, 8, 5).permute(1, 0, 2) + 1, (13, 37)),
        }
    check_cases(cases)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int8, torch.bool, torch.bfloat16, torch.float64], ids=str)
def test_pad_of_every_width(check_cases: CheckCases, dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (5, 7)).to(dtype)
    check_cases({"pad": (lambda a: pad(a, (2, 1), value=1), (x,)), "flip": (lambda a: a.flip(1), (x,))})


@pytest.mark.parametrize("dim", [0, 1, 2])
def test_cat_and_stack(check_cases: CheckCases, dim: int) -> None:
    shape = (3, 4, 5)
    check_cases(
        {
            "cat": _case(lambda a, b, c: torch.cat((a, b + 1, c * 2), dim), shape, shape, shape),
            "stack": _case(lambda a, b, c: torch.stack((a, b, c), dim) + 1, shape, shape, shape),
            "parts of one": _case(lambda a: torch.cat(a.chunk(3, dim)[::-1], dim) + 1, shape),
        }
    )


def test_cats_of_every_rank(check_cases: CheckCases) -> None:
    check_cases(
        {
            "two axes": _case(lambda a, b: torch.cat([a, b * 2], 1), (5, 7), (5, 9)),
            "four inputs": _case(
                lambda *t: torch.cat(t, 2) + 1, (2, 3, 4, 5), (2, 3, 1, 5), (2, 3, 9, 5), (2, 3, 2, 5)
            ),
            "five axes": _case(lambda a, b: torch.cat([a, b], 3), (2, 3, 2, 4, 3), (2, 3, 2, 1, 3)),
            "transposed": _case(lambda a, b: torch.cat([a.t(), b], 0).sum(1), (6, 5), (3, 6)),
            "into": (
                lambda a, b, o: torch.cat([a, b], 0, out=o),
                (torch.randn(2, 3), torch.randn(4, 3), torch.zeros(6, 3)),
            ),
        },
        tolerance=1e-6,
    )


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8], ids=str)
def test_cats_of_bytes(check_cases: CheckCases, dtype: torch.dtype) -> None:
    x, empty = torch.randint(0, 100, (6, 41)).to(dtype), torch.empty(0, dtype=dtype)
    other = x[:, :5].to(torch.uint8 if dtype == torch.int8 else torch.int8)
    check_cases(
        {
            "rows": (lambda x: torch.cat([x * 2, x, x + 1], -2), (x,)),
            "columns": (lambda x: torch.cat([x, x[:, :7]], 1), (x,)),
            "promoted": (lambda x, y: torch.cat([x, y], 1), (x, other)),
            "empty ones": (lambda x, e: (torch.cat([e, x], 1), torch.cat([e, e]), torch.cat([x[:0], x])), (x, empty)),
            "one": (lambda x: torch.cat([x]), (x,)),
            "stack": (lambda x: torch.stack([x, x + 1], 1), (x,)),
            "roll": (lambda x: x.roll((3, -2), (1, 0)), (x,)),
            "images": (lambda x: torch.cat([x.view(1, 2, 3, 41), x.view(1, 2, 3, 41)], 1), (x,)),
        }
    )


def test_repeats_and_shuffles(check_cases: CheckCases) -> None:
    check_cases(
        {
            "repeat": _case(lambda x: x.repeat(2, 3) + 1, (5, 7)),
            "repeat_interleave": _case(lambda x: x.repeat_interleave(3, 1), (5, 7)),
            "pixel_shuffle": _case(lambda x: pixel_shuffle(x, 2) + 1, (2, 12, 5, 3)),
            "pixel_unshuffle": _case(lambda x: pixel_unshuffle(x, 2) + 1, (2, 3, 6, 8)),
            "nearest": _case(lambda x: interpolate(x, scale_factor=2), (1, 2, 5, 7)),
            "diag_embed": _case(torch.diag_embed, (5, 7)),
            "unfold": _case(lambda x: x.unfold(1, 4, 2) * 2, (5, 14)),
            "as_strided": _case(lambda x: x.as_strided((3, 4), (2, 5), 1) + 1, (40,)),
        }
    )


def test_splits_and_slices(check_cases: CheckCases) -> None:
    check_cases(
        {
            "split": _case(lambda x: [part + 1 for part in x.split([3, 5, 2], 1)], (6, 10)),
            "halves": _case(lambda x: x.chunk(2, 1)[0] * x.chunk(2, 1)[1], (6, 40)),
            "slice_scatter": _case(lambda a, b: torch.slice_scatter(a, b, 1, 3, 9, 2), (5, 12), (5, 3)),
            "select_scatter": _case(lambda a, b: torch.select_scatter(a, b, 0, 2), (5, 12), (12,)),
            "diagonal_scatter": _case(lambda a, b: torch.diagonal_scatter(a, b, 1), (5, 8), (5,)),
        }
    )


def test_copies_into_inputs_leave_the_rest(check_cases: CheckCases) -> None:
    """Inputs are views of larger storages, whose other bytes `check_cases` compares too."""

    def assign(x: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        x[2:9, 1::3] = v * 2
        return x + 1

    check_cases(
        {
            "a slice": (assign, (torch.randn(20, 30)[3:15, 5:15], torch.randn(7, 3))),
            "a column": (lambda a, b: a[:, 2].copy_(b) + 0, (torch.randn(20, 24)[::2], torch.randn(10))),
            "a flipped self": (lambda a: a.copy_(a.flip(0)), (torch.randn(9, 8)[:, 1:6],)),
            "a transposed self": (lambda a: a.copy_(a.t() + 1), (torch.randn(9, 12)[:, 2:11],)),
            "a shifted self": (lambda a: a[1:].copy_(a[:-1] * 1) + 0, (torch.randn(33),)),
            "fill": (lambda a: a[1:3].fill_(7) + 0, (torch.randn(9, 12)[:, 2:11],)),
            "pad of self": (lambda a: a.copy_(pad(a[:, 2:], (0, 2), value=1.0)), (torch.randn(9, 12)[:, 2:11],)),
        }
    )


def test_more_axes_than_a_transfer_has(check_cases: CheckCases) -> None:
    backwards = tuple(range(8, -1, -1))
    odd = tuple(range(0, 9, 2))
    check_cases(
        {
            "nine": _case(lambda a, b: a.permute(backwards) + b, (2,) * 9, (2,) * 9),
            "ten, of several sizes": _case(
                lambda a, b: a.permute(tuple(range(9, -1, -1))) * b,
                (2, 3, 1, 2, 3, 2, 2, 1, 2, 2),
                (2, 2, 1, 2, 2, 3, 2, 1, 3, 2),
            ),
            "reduced": _case(lambda a: a.permute(backwards).amax(odd), (2,) * 9),
        }
    )
