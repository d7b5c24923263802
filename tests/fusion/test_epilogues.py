"""Which elementwise nodes become part of a product's kernel, and are the numbers right?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

from tests.fusion.conftest import Fuse

randn = torch.randn


@pytest.mark.parametrize(("m", "k", "n"), [(32, 32, 32), (128, 128, 128), (512, 512, 512), (129, 61, 56)])
def test_residual(fuse: Fuse, m: int, k: int, n: int) -> None:
    def residual(bias: torch.Tensor, x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return torch.addmm(bias, x, w) + r

    outcome = fuse(residual, randn(n), randn(m, k), randn(k, n), randn(m, n))
    assert outcome.origins == [["addmm", "add"]]


@pytest.mark.parametrize("activation", [torch.relu, torch.sigmoid, functional.gelu])
def test_activation(fuse: Fuse, activation: torch.nn.Module) -> None:
    assert fuse(lambda x, w: activation(x @ w), randn(100, 48), randn(48, 72)).kernels == 1


def test_chain_with_several_outputs(fuse: Fuse) -> None:
    def chain(b: torch.Tensor, x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.addmm(b, x, w, alpha=0.5, beta=3)
        return torch.relu(y) + r, y * 2, torch.sigmoid(y)

    assert fuse(chain, randn(33, 1), randn(33, 70), randn(70, 50), randn(33, 50)).kernels == 1


def test_product_itself_is_an_output_too(fuse: Fuse) -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ w
        return y, torch.relu(y)

    assert fuse(both, randn(61, 70), randn(70, 50)).kernels == 1
    assert fuse(both, randn(61, 70).half(), randn(70, 50).half(), tolerance=1e-2).kernels == 1


def test_epilogue_over_a_view(fuse: Fuse) -> None:
    def heads(x: torch.Tensor, w: torch.Tensor, r: torch.Tensor) -> torch.Tensor:
        return (x @ w).view(4, 10, 3, 16) * r

    assert fuse(heads, randn(40, 30), randn(30, 48), randn(4, 10, 3, 16)).kernels == 1


def test_epilogue_walks_the_result_across(fuse: Fuse) -> None:
    assert fuse(lambda x, w, r: (x @ w).t() + r, randn(40, 33), randn(33, 24), randn(24, 40)).kernels == 1


MOVED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "flip": lambda y: y.flip(0) + 1,
    "neighbours": lambda y: y[1:] + y[:-1],
    "itself across": lambda y: y[:24] + y[:24].t(),
    "steps": lambda y: y[::3, 1::2] * 2,
    "gather": lambda y: y[torch.tensor([3, 0, 3])] * 2,
    "part": lambda y: y[:, :7] * 2,
}


@pytest.mark.parametrize("name", MOVED)
def test_other_elements_than_its_own_are_read_from_memory(fuse: Fuse, name: str) -> None:
    outcome = fuse(lambda x, w: MOVED[name](x @ w), randn(40, 33), randn(33, 24))
    assert outcome.kernels == 2


def test_linear_then_softmax_keeps_the_bias_in_the_product(fuse: Fuse) -> None:
    def model(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.softmax(functional.linear(x, w, b), -1)

    outcome = fuse(model, randn(20, 64), randn(30, 64), randn(30))
    assert outcome.origins == [["t", "addmm"], ["_softmax"]]
    assert "contiguous" in outcome.reasons


def test_reading_other_points_is_refused(fuse: Fuse) -> None:
    def symmetric(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        return y + y.t()

    outcome = fuse(symmetric, randn(40, 30), randn(30, 40))
    assert outcome.kernels == 2


def test_attention_block(fuse: Fuse) -> None:
    def attention(x: torch.Tensor, qkv: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.view(1, 64, 4, 16).transpose(1, 2) for part in (x @ qkv).split(64, -1))
        weights = torch.softmax(q @ k.transpose(-1, -2) * 0.25, -1)
        return x + (weights @ v).transpose(1, 2).reshape(1, 64, 64) @ out

    outcome = fuse(attention, randn(1, 64, 64), randn(64, 192), randn(64, 64))
    assert sum("bmm" in " ".join(origins) or "matmul" in " ".join(origins) for origins in outcome.origins) >= 2
    assert "add" in outcome.origins[-1]


def test_epilogue_behind_deep_steps(fuse: Fuse) -> None:
    def both(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x @ w
        return y, torch.relu(y)

    for config in ("tpuv3", {"cores": 3}):
        outcome = fuse(both, randn(1024, 1024), randn(1024, 1024), config=config)
        assert outcome.kernels == 1
        assert outcome.report["kernels"][0]["tile"]["deep"] > 1
