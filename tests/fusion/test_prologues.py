"""Is what makes an operand computed inside the product's kernel, on either side, with right tails?"""

from __future__ import annotations

import pytest
import torch

from tests.fusion.conftest import Fuse

randn = torch.randn
CONFIGS = ("tpuv3", "tiny")


@pytest.mark.parametrize("scale", [(128, 1), (128, 128)], ids=str)
def test_scaled_left_operand(fuse: Fuse, scale: tuple[int, int]) -> None:
    outcome = fuse(lambda c, a, b: (c * a) @ b, randn(scale), randn(128, 128), randn(128, 128))
    assert outcome.origins == [["mul", "mm"]]


@pytest.mark.parametrize("side", ["input", "weight"])
@pytest.mark.parametrize("config", CONFIGS)
def test_batched_product_with_a_scaled_operand(fuse: Fuse, side: str, config: str) -> None:
    def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return (x * 0.125) @ w if side == "input" else x @ (w * 0.125)

    assert fuse(scaled, randn(4, 65, 64), randn(4, 64, 33), config=config).kernels == 1


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("m", [3, 130])
def test_what_a_prologue_makes_of_missing_products_does_not_count(fuse: Fuse, config: str, m: int) -> None:
    # Products beyond K load as zero; 1 / 0 and exp(0) are not zero, and infinity times zero is NaN.
    x, w = randn(m, 63) + 5, randn(63, 72)
    assert fuse(lambda x, w: (1 / x) @ torch.exp(w), x, w, config=config).kernels == 1


def test_chain_of_prologues_and_an_epilogue(fuse: Fuse) -> None:
    def model(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.relu((torch.sigmoid(x) * y) @ w + 1)

    assert fuse(model, randn(70, 40), randn(70, 40), randn(40, 30)).kernels == 1


def test_a_prologue_with_another_user_stays_outside(fuse: Fuse) -> None:
    def model(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = x * 3
        return scaled @ w, scaled

    outcome = fuse(model, randn(70, 40), randn(40, 30))
    assert outcome.kernels == 2


def test_transposed_operand_with_a_prologue(fuse: Fuse) -> None:
    assert fuse(lambda x, w: (x.t() * 2) @ w.t(), randn(50, 70), randn(90, 50)).kernels == 1
