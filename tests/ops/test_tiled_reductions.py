"""Are reductions right for tiles of any rank, over axes that are apart, split, padded or gathered?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import group_norm, layer_norm, pad

Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
CheckCases = Callable[..., None]


@pytest.fixture(params=["tpuv3", "tiny"])
def config(request: pytest.FixtureRequest) -> str:
    """The widest machine and the smallest: what lies between them differs in no form of an index."""
    return str(request.param)


@pytest.mark.parametrize("rank", range(1, 10))
def test_every_rank(check_cases: CheckCases, rank: int) -> None:
    x = torch.randn([2] * rank if rank > 5 else [5] * rank)
    every_other = list(range(0, rank, 2))
    check_cases(
        {
            "all": (lambda a: a.sum(), (x,)),
            "every other axis": (lambda a: a.sum(every_other), (x,)),
            "from the last": (lambda a: a.amax(list(range(rank - 1, -1, -2))), (x,)),
            "one in the middle": (lambda a: a.mean(rank // 2), (x,)),
            "reversed axes": (lambda a: a.permute(list(range(rank - 1, -1, -1))).amin(every_other), (x,)),
            "and back": (lambda a: a - a.amax(every_other, keepdim=True), (x,)),
        },
        tolerance=1e-5,
    )


def test_norms_over_split_tokens(check_cases: CheckCases) -> None:
    """Windows are views: the axes of a token are split over several loops, reduced or not."""

    def windows(x: torch.Tensor) -> torch.Tensor:
        return x.view(2, 3, 4, 3, 5, 6).permute(0, 1, 3, 2, 4, 5)

    x = torch.randn(2, 12, 15, 6)
    check_cases(
        {
            "variance over the window": (lambda a: torch.var_mean(windows(a), (3, 4, 5)), (x,)),
            "variance across windows": (lambda a: torch.var_mean(windows(a), (1, 3, 4)), (x,)),
            "layer norm of windows": (lambda a: layer_norm(windows(a).reshape(-1, 20, 6), (6,)), (x,)),
            "group norm": (lambda a: group_norm(a, 4), (torch.randn(2, 16, 7, 5),)),
        },
        tolerance=1e-4,
    )


def test_positions_of_extremes(check_cases: CheckCases) -> None:
    """Positions count in the order of the tensor, whatever order the loops have; the first of equals wins."""
    x = torch.randint(-3, 3, (4, 5, 6)).float()
    y = torch.randint(-3, 3, (3, 40)).float()
    check_cases(
        {
            "of three axes": (lambda a: (a.argmax(), a.argmax(0), a.argmin(2), a.permute(2, 0, 1).argmax()), (x,)),
            "along a split axis": (lambda a: a.view(3, 4, 5, 2).permute(1, 0, 3, 2).reshape(12, 10).argmax(1), (y,)),
            "of a split whole": (lambda a: a.view(3, 4, 10).permute(1, 0, 2).reshape(-1).argmax(), (y,)),
            "of the flipped": (lambda a: a.flip(1).argmin(1), (y,)),
            "with the values": (lambda a: a.max(1), (y,)),
        }
    )


def test_reductions_of_what_is_moved(check_cases: CheckCases) -> None:
    x = torch.randn(13, 37)
    check_cases(
        {
            "padded rows": (lambda a: pad(a, (1, 2, 3, 0), value=2.0).sum(1), (x,)),
            "padded columns": (lambda a: pad(a, (1, 2, 3, 0), value=2.0).amax(0), (x,)),
            "rolled": (lambda a: a.roll((-20, 30), (1, 0)).sum(1), (x,)),
            "flipped": (lambda a: a.flip(0).amin(0), (x,)),
            "joined": (lambda a: torch.cat((a, a * 2), 1).amax(1), (x,)),
            "windows": (lambda a: a.unfold(1, 4, 2).sum(-1), (x,)),
            "softmax of the masked": (lambda a: a.masked_fill(a > 1, float("-inf")).softmax(0), (x,)),
        },
        tolerance=1e-5,
    )
