"""Loops over steps in every length: before, in and behind a software pipeline, with and without elements to spare."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

LENGTHS = (1, 3, 31, 64, 65, 130, 257, 700)


def mish_like(x: torch.Tensor) -> torch.Tensor:
    """Three slow operations, one behind the other, and a value that outlives two of them."""
    y = torch.exp(x * 0.5)
    return torch.tanh(y) / torch.sqrt(y + 1.0) + y


def compare(function: Callable[..., torch.Tensor], *inputs: torch.Tensor, config: str = "tpuv3") -> None:
    torch._dynamo.reset()
    compiled = torch.compile(function, backend="pytorchsim", options={"config": config, "strict": True})
    torch.testing.assert_close(compiled(*inputs), function(*inputs), rtol=2e-5, atol=2e-5, equal_nan=True)


@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
def test_rows_of_every_length(config: str) -> None:
    def all_of(*rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(torch.softmax(row, -1) for row in rows) + tuple(
            (torch.exp(row) / (1 + torch.exp(row))).sum(-1) for row in rows
        )

    compare(all_of, *(torch.randn(5, length) for length in LENGTHS), config=config)


@pytest.mark.parametrize("config", ["tpuv3", "tiny"])
def test_vectors_of_every_number(config: str) -> None:
    def all_of(*flat: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(mish_like(each) for each in flat) + tuple(functional.silu(each) for each in flat)

    compare(all_of, *(torch.randn(128 * blocks - 5) for blocks in (1, 33, 64, 97, 160, 225)), config=config)


@pytest.mark.parametrize("length", [40, 1000])
def test_nan_anywhere_wins_extremes(length: int) -> None:
    x = torch.randn(6, length)
    for row, at in enumerate((0, 7, length // 2, length - 1)):
        x[row, at] = float("nan")
    x[4] = float("-inf")
    x[5] = float("inf")
    compare(lambda x: torch.stack((x.amax(-1), x.amin(-1))), x)


@pytest.mark.parametrize("length", [40, 1000])
def test_positions_of_extremes(length: int) -> None:
    x = torch.randn(8, length).round()  # many ties
    x[1, length // 3 :: 5] = float("nan")
    x[2], x[3] = float("-inf"), float("inf")
    x[4, length - 1] = 100.0
    x[5, 0] = -100.0
    compare(lambda x: torch.stack((x.argmax(-1), x.argmin(-1))), x)
    compare(lambda x: torch.stack((x.argmax(0), x.argmin(0))), x)
    compare(lambda x: torch.stack((x.flatten().argmax(), x.flatten().argmin())), x)


@pytest.mark.parametrize("shape", [(2, 300, 90), (3, 5, 4000)])
def test_positions_over_several_tiles(shape: tuple[int, ...]) -> None:
    x = torch.randint(-3, 4, shape)
    compare(lambda x: torch.stack((x.flatten(1).argmax(-1), x.flatten(1).argmin(-1))), x, config="tiny")
    compare(lambda x: x.transpose(0, 1).flatten(1).argmax(-1), x.float(), config="tiny")


def test_a_row_over_the_lanes_is_covered_exactly() -> None:
    # 128 lanes of 79 (the last has 67): whole vectors first, the rest under a mask, in the last lane from its own end.
    x = torch.randn(2, 128 * 79 - 12)
    compare(lambda x: torch.stack((x.sum(-1), x.amax(-1), x.argmin(-1).float())), x)
    compare(lambda x: torch.softmax(x, -1), x)
