"""Do reductions give eager's values, whatever the axes, the length and the scratchpad?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Check = Callable[..., torch.Tensor]


@pytest.mark.parametrize(
    ("shape", "dims"),
    [((29, 47), (1,)), ((17, 68), (0,)), ((327, 447), (1, 0)), ((128, 768), (-1,)), ((5, 6, 7, 8), (0, 2))],
    ids=str,
)
@pytest.mark.parametrize("keepdim", [False, True])
def test_sum(check: Check, shape: tuple[int, ...], dims: tuple[int, ...], keepdim: bool) -> None:
    check(lambda a, b: (a + b).sum(dims, keepdim=keepdim), torch.randn(shape), torch.randn(shape))


@pytest.mark.parametrize("name", ["sum", "amax", "amin", "prod", "mean"])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_every_kind_along_every_axis(check: Check, name: str, dim: int) -> None:
    check(lambda a: getattr(a, name)(dim), torch.randn(9, 33, 70) * 0.5 + 1)


def test_special_values(check: Check) -> None:
    x = torch.randn(40, 12)
    x[3, 4], x[5, 6], x[6, 6], x[7, :], x[8, :] = float("nan"), float("inf"), float("-inf"), float("-inf"), float("nan")
    for name in ("amax", "amin", "sum"):
        check(lambda a, name=name: getattr(a, name)(1), x)
        check(lambda a, name=name: getattr(a, name)(0), x)


def test_any_and_all(check: Check) -> None:
    x = torch.randn(37, 50)
    check(lambda a: (a > 2).any(1), x)
    check(lambda a: (a > -2).all(0), x)
    check(lambda a: (a > 9).any(), x)


@pytest.mark.parametrize("shape", [(8192,), (1, 8192), (100, 333), (1000003,)], ids=str)
def test_reduction_of_all_elements(check: Check, shape: tuple[int, ...]) -> None:
    check(torch.sum, torch.randn(shape))
    check(torch.amax, torch.randn(shape))


@pytest.mark.parametrize("shape", [(64, 128), (256, 128)], ids=str)
@pytest.mark.parametrize("dim", [0, 1])
def test_softmax_of_many_rows(check: Check, shape: tuple[int, ...], dim: int) -> None:
    check(lambda a: torch.softmax(a, dim), torch.randn(shape) * 3)


@pytest.mark.parametrize("shape", [(1, 16), (5, 8), (3, 8192), (2, 20000)], ids=str)
def test_softmax_of_few_rows(check: Check, shape: tuple[int, ...]) -> None:
    check(lambda a: torch.softmax(a, 1), torch.randn(shape) * 3)


@pytest.mark.parametrize("shape", [(512, 768), (1, 1024), (61, 256), (3, 5000)], ids=str)
def test_layer_norm(check: Check, shape: tuple[int, ...]) -> None:
    weight, bias = torch.randn(shape[-1:]), torch.randn(shape[-1:])
    check(lambda a, w, b: torch.nn.functional.layer_norm(a, a.shape[-1:], w, b), torch.randn(shape), weight, bias)


@pytest.mark.parametrize("shape", [(4, 100), (2, 3000), (1, 50000)], ids=str)
def test_variance_does_not_cancel(check: Check, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape) + 1e4  # E[x^2] - E[x]^2 would lose every digit: 1e8 has a spacing of 8 in f32
    check(lambda a: torch.var(a, -1), x)
    check(lambda a: torch.var(a, -1, correction=0), x)


@pytest.mark.parametrize("name", ["argmax", "argmin"])
def test_argmax_and_argmin(check: Check, name: str) -> None:
    x = torch.randint(-5, 5, (37, 130)).float()  # many ties: the first one counts
    x[4, 7] = x[4, 90] = float("nan")
    x[5, :] = float("inf")
    for dim in (0, 1):
        check(lambda a, dim=dim: getattr(a, name)(dim), x, exact=True)
    check(lambda a: getattr(a, name)(), x, exact=True)
    check(lambda a: getattr(a.t(), name)(), x, exact=True)
    check(lambda a: getattr(a, name)(), x[:, 1::2], exact=True)


def test_max_with_position(check: Check) -> None:
    x = torch.randint(-5, 5, (37, 130)).float()
    check(lambda a: a.max(1).values + a.max(1).indices, x, exact=True)


def test_two_reductions_share_a_kernel(check: Check) -> None:
    check(lambda a: torch.stack((a.sum(1), a.amax(1), a.mean(1))), torch.randn(70, 40))


@pytest.mark.parametrize("shape", [(1, 16, 64, 64), (1, 64, 32, 32), (1, 8, 4, 4), (1, 256, 32, 32)], ids=str)
def test_batch_norm_in_evaluation(check: Check, shape: tuple[int, ...]) -> None:
    channels = shape[1]
    check(
        torch.nn.functional.batch_norm,
        torch.randn(shape),
        torch.randn(channels),
        torch.rand(channels) + 0.5,
        torch.randn(channels),
        torch.randn(channels),
    )


def test_batch_norm_in_training(check: Check) -> None:
    x = torch.randn(4, 6, 9, 7)
    check(lambda x: torch.nn.functional.batch_norm(x, None, None, training=True), x)


def test_group_norm(check: Check) -> None:
    check(
        lambda x, w, b: torch.nn.functional.group_norm(x, 4, w, b),
        torch.randn(3, 16, 9, 5),
        torch.randn(16),
        torch.randn(16),
    )


def test_var_mean_of_a_large_mean(check: Check) -> None:
    check(lambda x: torch.cat(torch.var_mean(x, 1)), torch.randn(20, 768) + 1e4)
