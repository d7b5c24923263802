"""Does the bar of the models refuse what is wrong?"""

from __future__ import annotations

import pytest
import torch

from tests.models.measure import largest_difference, nearness

EXPECTED = [torch.tensor([1.0, -2.0]), torch.tensor([3.0])]
EXACT = [value.double() + 1e-3 for value in EXPECTED]  # eager's own error is 1e-3


def shifted(*by: float) -> list[torch.Tensor]:
    return [value + amount for value, amount in zip(EXPECTED, by, strict=True)]


@pytest.mark.parametrize(
    ("actual", "held"),
    [
        (shifted(0, 9e-6), "at most 1e-05 from eager"),
        (shifted(2.9e-3, 0), "error against float64 at most twice eager's"),  # off by 1.9e-3
        (shifted(0, 3.1e-3), ""),  # 2.1e-3
        (shifted(0, float("nan")), ""),  # in the last tensor: `max` of Python takes the first of a pair it cannot order
        (shifted(float("nan"), 0), ""),
        (shifted(float("inf"), 0), ""),
    ],
)
def test_one_of_two_bars_holds_or_none(actual: list[torch.Tensor], held: str) -> None:
    assert nearness(actual, EXPECTED, EXACT, 1e-5) == held


def test_what_is_no_number_is_the_largest_difference() -> None:
    assert largest_difference(shifted(0, 0.5), EXPECTED) == 0.5
    assert torch.tensor(largest_difference(shifted(0, float("nan")), EXPECTED)).isnan()
