"""Do running sums, products and extremes give eager's values, along any axis and whatever follows them?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pytorchsim

CheckCases = Callable[..., None]

on_both = pytest.mark.parametrize("config", ["tpuv3", "tiny"])


@on_both
def test_sums_and_products(check_cases: CheckCases) -> None:
    x, scores = torch.randn(30, 41), torch.cat([torch.full((5, 2), float("-inf")), torch.randn(5, 60) * 30], 1)
    check_cases(
        {
            "rows": (lambda x: torch.cumsum(x, 1), (x,)),
            "columns": (lambda x: torch.cumsum(x, 0) * 2, (x,)),
            "middle axis": (lambda x: torch.cumsum(x, 1), (torch.randn(5, 70, 9),)),
            "one row": (lambda x: torch.cumsum(x, 0), (torch.randn(300),)),
            "products": (lambda x: (torch.cumprod(x, -1), torch.cumprod(x, 0)), (x,)),
            "logarithms of sums": (lambda x: torch.logcumsumexp(x, 1), (scores,)),
            "of one point, of none": (
                lambda x, y: (torch.cumsum(x, 0), *torch.cummax(x, 0), torch.cumsum(y, 0), torch.cumsum(y, 1)),
                (torch.tensor(3.0), torch.empty(0, 3)),
            ),
        },
        tolerance=1e-4,
    )


def test_integers_are_exact(check_cases: CheckCases) -> None:
    tokens = torch.randint(0, 4, (3, 77))
    check_cases(
        {
            # How BERT-like models number the tokens that are not padding.
            "positions": (lambda x: (x.ne(3).int().cumsum(1).type_as(x) * x.ne(3).int()).long() + 3, (tokens,)),
            "bools": (lambda x: torch.cumsum(x == 2, 1), (tokens,)),
            "bytes": (lambda x: torch.cumsum(x, 0), (tokens.to(torch.int8),)),
            "wrapping": (lambda x: torch.cumprod(x + 1000, 1, dtype=torch.int32), (tokens,)),
            "half": (lambda x: torch.cumsum(x.half(), 1), (tokens,)),
            "double": (lambda x: torch.cumsum(x, 1, dtype=torch.float64), (tokens,)),
        }
    )


def test_extremes_so_far(check_cases: CheckCases) -> None:
    """The last of equal values; NaNs stay."""
    x = torch.randint(0, 9, (7, 70)).float()
    x[2, 5] = x[2, 9] = float("nan")
    x[3, 0] = float("inf")
    check_cases(
        {
            "float": (lambda x: (*torch.cummax(x, 1), *torch.cummin(x, 0)), (x,)),
            "bytes": (lambda x: (*torch.cummax(x, 1), *torch.cummin(x, 1)), (torch.arange(90).view(3, 30).char() % 7,)),
            "bools": (lambda x: torch.cummax(x > 4, 1), (x,)),
        }
    )


@on_both
def test_what_surrounds_a_scan(check_cases: CheckCases) -> None:
    def chain(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        sums = x.cumsum(1)
        return sums - sums.mean(1, keepdim=True), sums.flip(1).cumsum(1), sums.softmax(1).cumsum(1), sums.amax(1)

    check_cases(
        {
            "chain": (chain, (torch.randn(9, 41) / 8,)),
            "of a view": (lambda x: torch.cumsum(x.reshape(10, 3, 41).transpose(0, 1), 1) + 1, (torch.randn(30, 41),)),
            "split by a view": (lambda x: x.cumsum(1).view(3, 4, 6, 5).transpose(1, 3) + 1, (torch.randn(3, 120) / 8,)),
            "an index": (lambda x, i: x[i.cumsum(0) - 1], (torch.randn(50, 3), torch.ones(20, dtype=torch.long))),
            "of a product": (lambda x, w: (x @ w).cumsum(0), (torch.randn(50, 30) / 8, torch.randn(30, 20))),
        },
        tolerance=1e-4,
    )


@pytest.mark.parametrize("config", ["tiny"])
def test_rows_longer_than_the_scratchpad(check_cases: CheckCases) -> None:
    """Tiles of a row follow each other; what one has made, the next one begins with."""
    x = torch.randint(-3, 4, (2, 5000))
    check_cases({"streamed": (lambda x: (x.cumsum(1), *x.cummax(1)), (x,))})
    assert pytorchsim.report().to_dict()["kernels"]


@pytest.mark.parametrize("config", ["mobile"])
def test_gradients(config: str) -> None:
    functions: dict[str, Callable[[torch.Tensor], Any]] = {
        "cumsum": lambda x: x.cumsum(1),
        "cumprod": lambda x: x.cumprod(1),
        "cummax": lambda x: x.cummax(1)[0],
    }
    start, weight = torch.randn(6, 50), torch.randn(6, 50)
    for name, function in functions.items():
        gradients = []
        options = {"config": config, "strict": True}
        torch._dynamo.reset()
        for run in (function, torch.compile(function, backend="pytorchsim", fullgraph=True, options=options)):
            x = start.clone().requires_grad_()
            (run(x) * weight).sum().backward()
            gradients.append(x.grad)
        torch.testing.assert_close(gradients[1], gradients[0], rtol=1e-4, atol=1e-4, msg=name)


def test_a_scan_shares_a_kernel_with_what_walks_its_rows() -> None:
    options = {"config": "tpuv3", "strict": True}
    torch._dynamo.reset()
    x = torch.randn(8, 30)
    torch.compile(lambda x: (x * 2).cumsum(1) / x.sum(1, keepdim=True), backend="pytorchsim", options=options)(x)
    assert len(pytorchsim.report().to_dict()["kernels"]) == 1
