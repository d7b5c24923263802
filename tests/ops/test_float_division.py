"""Do quotients rounded to whole numbers and remainders by numbers equal eager's?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

CheckEach = Callable[..., tuple[torch.Tensor, ...]]

INF, NAN = float("inf"), float("nan")
VALUES = (INF, -INF, NAN, 0.0, -0.0, 1e-40, 0.1, -0.1, 0.3, -0.7, 1.0, -1.0, 2.5, 7.0, -7.3, 5e3, 3e38)


@pytest.fixture(params=["tiny"])
def config(request: pytest.FixtureRequest) -> str:
    """One machine: what is tested is computed in each element for itself."""
    return str(request.param)


def pairs() -> tuple[torch.Tensor, torch.Tensor]:
    """Each value by each, quotients that are whole but for rounding, and random ones."""
    values = torch.tensor(VALUES)
    left, right = torch.meshgrid(values, values, indexing="ij")
    divisors, random = torch.randn(300), torch.randn(100) * 1e3
    whole = torch.randint(-50, 50, (300,)) * divisors
    return torch.cat([left.flatten(), whole, random]), torch.cat([right.flatten(), divisors, divisors[:100]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_whole_quotients(check_each: CheckEach, dtype: torch.dtype) -> None:
    a, b = (operand.to(dtype) for operand in pairs())

    def function(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return a // b, torch.div(a, b, rounding_mode="trunc"), a // 0.1, 7.0 // a, a // 3, torch.floor_divide(a, -0.7)

    check_each(function, a, b)
    # What an exact remainder goes with: 1.0 is ten times 0.1, but not ten times the float32 next to 0.1.
    tenth = torch.tensor([0.1], dtype=dtype)
    (quotient,) = check_each(lambda x: (1.0 // x,), tenth)
    assert quotient.item() == 9.0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_whole_quotients_of_narrow_types(check_each: CheckEach, dtype: torch.dtype) -> None:
    a, b = (operand[-400:].to(dtype) for operand in pairs())
    check_each(lambda a: (a // 0.3, torch.div(a, -0.7, rounding_mode="trunc"), a // 3), a)
    check_each(lambda a, b: (torch.div(a, b, rounding_mode="trunc"),), a, b)
    # Eager rounds what it computes of two tensors to the type on the way.
    check_each(lambda a, b: (a // b, 7.3 // a), a, b, tolerance=1e-2)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_remainders_by_a_number_round_it(check_each: CheckEach, dtype: torch.dtype) -> None:
    x = (torch.randn(300) * 30).to(dtype)
    check_each(lambda x: (x % 0.3, torch.fmod(x, 0.3), x % -7.1), x)
