"""Do reductions over rows join the product's kernel, and do those over its contiguous axis stay away?"""

from __future__ import annotations

import pytest
import torch

from tests.fusion.conftest import Fuse

randn = torch.randn
CONFIGS = ("tpuv3", "mobile", "tiny")


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("reduce", ["amax", "sum", "amin"])
def test_reductions_over_rows_join_the_product(fuse: Fuse, config: str, reduce: str) -> None:
    outcome = fuse(lambda x, w: getattr(x @ w, reduce)(-2), randn(130, 96), randn(96, 70), config=config)
    assert outcome.origins == [["mm", reduce]]


def test_max_of_a_feed_forward_size(fuse: Fuse) -> None:
    outcome = fuse(lambda x, w: (x @ w).amax(-2), randn(3072, 512), randn(512, 768))
    assert outcome.kernels == 1


def test_max_with_both_outputs(fuse: Fuse) -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ w
        return y, y.amax(-2)

    assert fuse(both, randn(300, 96), randn(96, 70)).kernels == 1


@pytest.mark.parametrize("config", CONFIGS)
def test_batched_max_with_both_outputs(fuse: Fuse, config: str) -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ w
        return y, y.amax(1)

    outcome = fuse(both, randn(3, 100, 40), randn(3, 40, 70), config=config)
    assert outcome.origins == [["bmm", "amax"]]


@pytest.mark.parametrize("config", CONFIGS)
def test_variance_and_mean(fuse: Fuse, config: str) -> None:
    x, w = randn(130, 96), randn(96, 70)
    assert fuse(lambda x, w: torch.var_mean(x @ w, -2), x, w, config=config).kernels == 1


def test_variance_and_mean_of_512(fuse: Fuse) -> None:
    assert fuse(lambda x, w: torch.var_mean(x @ w, -2), randn(512, 512), randn(512, 512)).kernels == 1


def test_variance_does_not_cancel(fuse: Fuse) -> None:
    # Columns of mean 1e4 and deviation 1: E[x^2] - E[x]^2 in float32 would be off by several units.
    x = torch.cat([randn(200, 8), torch.full((200, 1), 100.0)], 1)
    w = torch.cat([torch.eye(8), torch.full((1, 8), 100.0)])
    outcome = fuse(lambda x, w: torch.var_mean(x @ w, -2)[0], x, w, tolerance=1e-3)
    assert outcome.kernels == 1


def test_residual_then_variance(fuse: Fuse) -> None:
    def model(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x @ w + r
        return (y, *torch.var_mean(y, -2))

    assert fuse(model, randn(768, 512), randn(512, 3072), randn(768, 3072)).kernels == 1


def test_softmax_over_rows_is_one_kernel(fuse: Fuse) -> None:
    assert fuse(lambda x, w: torch.softmax(x @ w, 0), randn(65, 64), randn(64, 33)).kernels == 1


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("reduce", ["amax", "sum", "prod"])
def test_matmul_reduce_last_dim(fuse: Fuse, config: str, reduce: str) -> None:
    # Fused, this would compile and fold the wrong axis: the numbers decide.
    x, w = randn(64, 96) / 10, randn(96, 64) / 3
    outcome = fuse(lambda x, w: getattr(x @ w, reduce)(-1), x, w, config=config)
    assert outcome.kernels == 2
    assert "contiguous axis" in outcome.reasons


def test_channels_first_layer_norm_mean_declines(fuse: Fuse) -> None:
    # The channels are the product's contiguous axis; seen as (batch, channels, height, width) they stand between the
    # batch and the pixels.
    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = (x @ w).view(2, 6, 6, 24).permute(0, 3, 1, 2)
        return y - y.mean(1, keepdim=True)

    outcome = fuse(model, randn(72, 16), randn(16, 24))
    assert outcome.kernels == 2
    assert "contiguous axis" in outcome.reasons


def test_reduction_over_part_of_the_rows_declines(fuse: Fuse) -> None:
    outcome = fuse(lambda x, w: (x @ w).view(4, 10, 24).amax(1), randn(40, 16), randn(16, 24))
    assert outcome.kernels == 2
    assert "loops" in outcome.reasons


def test_columns_that_do_not_fit_decline(fuse: Fuse) -> None:
    outcome = fuse(lambda x, w: (x @ w).amax(0), randn(2000, 16), randn(16, 24), config="tiny")
    assert outcome.kernels == 2
    assert "no tile fits" in outcome.reasons


def test_cores_take_whole_columns(fuse: Fuse) -> None:
    outcome = fuse(lambda x, w: (x @ w).amax(0), randn(700, 300), randn(300, 700), config={"cores": 3})
    assert outcome.kernels == 1


def test_columns_of_long_sums(fuse: Fuse) -> None:
    # 512 matrices of 8 products: sums are added in blocks, then folded.
    outcome = fuse(lambda x, w: (x @ w).amax(0), randn(100, 4096), randn(4096, 20), config="tiny", tolerance=5e-4)
    assert outcome.kernels == 1
    assert outcome.report["kernels"][0]["tile"]["blocked"] == 1
