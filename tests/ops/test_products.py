"""Do matrix products give eager's values, whatever the shape, strides and epilogue?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

Check = Callable[..., torch.Tensor]


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [
        (32, 32, 32), (128, 128, 128), (256, 256, 256), (128, 256, 256), (128, 63, 56), (1, 64, 10), (7, 5, 3), (1, 1, 1),
        (2, 1, 300), (300, 1, 2), (61, 784, 256),
    ],
)  # fmt: skip
def test_mm(check: Check, m: int, k: int, n: int) -> None:
    check(torch.mm, torch.randn(m, k), torch.randn(k, n))


@pytest.mark.parametrize(("m", "k", "n"), [(128, 256, 512), (129, 61, 56), (516, 244, 224)])
@pytest.mark.parametrize("bias", ["row", "full", "column", "scalar"])
def test_addmm(check: Check, m: int, k: int, n: int, bias: str) -> None:
    shape = {"row": (n,), "full": (m, n), "column": (m, 1), "scalar": (1,)}[bias]
    check(torch.addmm, torch.randn(shape), torch.randn(m, k), torch.randn(k, n))


def test_addmm_scales(check: Check) -> None:
    x, w, b = torch.randn(40, 50), torch.randn(50, 60), torch.randn(60)
    check(lambda b, x, w: torch.addmm(b, x, w, alpha=2.0, beta=0.5), b, x, w)
    check(lambda b, x, w: torch.addmm(b, x, w, beta=0), torch.full((60,), float("nan")), x, w)


def test_transposed_operands(check: Check) -> None:
    x, w = torch.randn(50, 70), torch.randn(70, 90)
    check(lambda a, b: a.t() @ b, torch.randn(50, 70).contiguous(), torch.randn(50, 90))
    check(lambda a, b: a @ b.t(), x, torch.randn(90, 70))
    check(lambda a, b: a.t() @ b.t(), torch.randn(70, 50), torch.randn(90, 70))
    check(lambda a, b: a[::2] @ b[:, 3:80:7], x, w)
    check(torch.mm, torch.randn(40, 33).t(), torch.randn(40, 21))


@pytest.mark.parametrize("shape", [(4, 10, 64), (64,), (2, 3, 5, 64)], ids=str)
def test_linear(check: Check, shape: tuple[int, ...]) -> None:
    check(torch.nn.functional.linear, torch.randn(shape), torch.randn(30, 64), torch.randn(30))


@pytest.mark.parametrize(("b", "m", "k", "n"), [(2, 32, 16, 64), (3, 61, 33, 17), (12, 64, 64, 64)])
def test_bmm(check: Check, b: int, m: int, k: int, n: int) -> None:
    check(torch.bmm, torch.randn(b, m, k), torch.randn(b, k, n))
    check(lambda x, w: x @ w.transpose(1, 2), torch.randn(b, m, k), torch.randn(b, n, k))


def test_epilogues(check: Check) -> None:
    x, w, r = torch.randn(100, 48), torch.randn(48, 72), torch.randn(100, 72)
    check(lambda x, w: torch.relu(x @ w), x, w)
    check(lambda x, w, r: torch.sigmoid(x @ w) * r + 1, x, w, r)
    check(lambda x, w, r: torch.nn.functional.gelu(x @ w + r), x, w, r)
    check(lambda x, w, r: (x @ w + r.t().contiguous().t()).t(), x, w, r)


def test_product_then_softmax(check: Check) -> None:
    linear = torch.randn(30, 64), torch.randn(30)
    check(lambda x, w, b: torch.softmax(torch.nn.functional.linear(x, w, b), -1), torch.randn(20, 64), *linear)


def test_not_finite_values_pass_through(check: Check) -> None:
    x, w = torch.randn(9, 20), torch.randn(20, 11)
    x[2, 3], w[4, 5] = float("inf"), float("nan")
    check(torch.mm, x, w)
