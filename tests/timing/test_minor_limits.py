"""`core.pipeline: minor` has no arrays, SFU and XLU: what uses them is refused, not timed with made-up figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import pytorchsim
from pytorchsim.errors import TimingError

CASES: list[tuple[Callable[..., Any], tuple[int, ...], str]] = [
    (torch.exp, (16, 16), r"SFU \(256 operations\)"),  # 16 x 16 elements
    (lambda x: x.sum(), (64, 16), r"XLU \(\d[\d,]* operations\)"),
    (lambda x: x @ x, (256, 256), r"systolic arrays \(\d[\d,]* operations\)"),
]


def run(function: Callable[..., Any], x: torch.Tensor, mode: str) -> torch.Tensor:
    torch._dynamo.reset()
    options = {"config": "gem5_minor", "strict": True, "mode": mode}
    return torch.compile(function, backend="pytorchsim", options=options)(x)


@pytest.mark.parametrize(("function", "shape", "unit"), CASES)
def test_a_unit_that_is_not_modelled_is_named(function: Callable[..., Any], shape: tuple[int, ...], unit: str) -> None:
    x = torch.rand(shape)
    with pytest.raises(TimingError, match=rf"kernel 'npu_.*uses .*{unit}.*which core\.pipeline 'minor'"):
        run(function, x, "timing")
    assert "TimingError" in pytorchsim.report().error
    torch.testing.assert_close(run(function, x, "functional"), function(x), rtol=1e-4, atol=1e-4)


def test_what_it_models_is_timed() -> None:
    x = torch.rand(40, 40)
    torch.testing.assert_close(run(lambda v: torch.relu(v) * 3, x, "functional+timing"), torch.relu(x) * 3)
    assert pytorchsim.report().to_dict()["totals"]["cycles"] > 0
