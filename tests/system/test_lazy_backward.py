"""The backward is compiled at the first `.backward()`: for the machine of its forward, whoever calls it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch

pytestmark = pytest.mark.usefixtures("fresh_caches")


def scaled_relu(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.relu(a + b) * b


def on_npu(preset: str) -> Any:
    return torch.compile(scaled_relu, backend="pytorchsim", options={"config": preset, "strict": True})


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    return torch.randn(5, 9, requires_grad=True), torch.randn(5, 9, requires_grad=True)


def check_gradients(y: torch.Tensor, inputs: tuple[torch.Tensor, torch.Tensor]) -> None:
    expected = torch.autograd.grad(scaled_relu(*inputs).sum(), inputs)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), inputs), expected)


def test_two_machines_in_one_process(launches: Any) -> None:
    inputs = operands()
    forward = {preset: on_npu(preset)(*inputs) for preset in ("tiny", "mobile")}
    assert set(launches.presets()) == {"tiny", "mobile"}
    for preset, y in forward.items():
        launches.launched.clear()
        torch.testing.assert_close(y, scaled_relu(*inputs))
        check_gradients(y, inputs)
        assert set(launches.presets()) == {preset}
    assert launches.begun == launches.ended == ["tiny", "mobile", "tiny", "mobile"]


def test_backwards_of_both_backends_after_both_forwards(launches: Any, stock_launches: list[str]) -> None:
    inputs = operands()
    ours = on_npu("tiny")(*inputs)
    plain = torch.compile(scaled_relu)(*inputs)
    assert len(stock_launches) == 1
    launches.launched.clear()
    plain.sum().backward()
    assert launches.launched == []
    assert len(stock_launches) > 1
    count = len(stock_launches)
    check_gradients(ours, inputs)
    assert set(launches.presets()) == {"tiny"}
    assert len(stock_launches) == count


def test_backward_from_another_thread(launches: Any) -> None:
    inputs = operands()
    y = on_npu("mobile")(*inputs)
    launches.launched.clear()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(check_gradients, y, inputs).result()
    assert set(launches.presets()) == {"mobile"}
