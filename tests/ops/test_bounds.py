"""Maxima and minima with a constant: NaN, infinities, and zeros of both signs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

SPECIAL = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 6.0, 6.5, 1e-45, -1e-45]

FUNCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": torch.relu,
    "relu6": torch.nn.functional.relu6,
    "clamp": lambda x: x.clamp(-1, 0.5),
    "clamp to one value": lambda x: x.clamp(2, 1),
    "maximum": lambda x: torch.maximum(x, torch.full_like(x, 0.25)),
    "minimum": lambda x: torch.minimum(x, torch.full_like(x, -0.25)),
    "maximum with infinity": lambda x: x.clamp(min=float("-inf")),
    "minimum with infinity": lambda x: x.clamp(max=float("inf")),
    "maximum with NaN": lambda x: torch.maximum(x, torch.full_like(x, float("nan"))),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_with_constants(dtype: torch.dtype) -> None:
    x = torch.tensor([*SPECIAL, *torch.linspace(-8, 8, 89).tolist()], dtype=dtype)
    compiled = torch.compile(
        lambda x: [function(x) for function in FUNCTIONS.values()], backend="pytorchsim", options={"strict": True}
    )
    for name, actual in zip(FUNCTIONS, compiled(x), strict=True):
        torch.testing.assert_close(actual, FUNCTIONS[name](x), rtol=0, atol=0, equal_nan=True, msg=name)


def test_of_zeros_the_value_is_kept() -> None:
    """As by eager's clamps and ReLU (`test_signs_of_zeros_survive_clamps`); of `maximum` it promises nothing."""
    x = torch.tensor([0.0, -0.0] * 8)

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [x.relu(), *(x.clamp(min=zero) for zero in (0.0, -0.0)), *(x.clamp(max=zero) for zero in (0.0, -0.0))]

    for actual in torch.compile(function, backend="pytorchsim", options={"strict": True})(x):
        assert torch.equal(actual.signbit(), x.signbit())
