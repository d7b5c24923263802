"""Does a multilayer perceptron run and train on the NPU as in eager: values, gradients, optimiser steps, no host op?"""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

import pytorchsim

STRICT = {"strict": True}


def mlp() -> nn.Sequential:
    """The model of this file; weights from the test's seed."""
    return nn.Sequential(nn.Linear(784, 256), nn.GELU(), nn.LayerNorm(256), nn.Linear(256, 10), nn.Softmax(-1))


def close(actual: torch.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def host_ops() -> int:
    total = pytorchsim.report().to_dict()["totals"]["host_ops"]
    assert isinstance(total, int)
    return total


@pytest.mark.parametrize("batch", [1, 8, 61, 64])
def test_loss_and_gradients(batch: int) -> None:
    model = mlp()
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend="pytorchsim", fullgraph=True, options=STRICT)
    x, target = torch.randn(batch, 784, requires_grad=True), torch.softmax(torch.randn(batch, 10), -1)
    same_x = x.detach().clone().requires_grad_()

    loss = ((compiled(x) - target) ** 2).mean()
    loss.backward()
    expected = ((reference(same_x) - target) ** 2).mean()
    expected.backward()

    close(loss, expected)
    assert x.grad is not None
    assert same_x.grad is not None
    close(x.grad, same_x.grad)
    for parameter, wanted in zip(model.parameters(), reference.parameters(), strict=True):
        assert parameter.grad is not None
        assert wanted.grad is not None
        close(parameter.grad, wanted.grad)
    assert host_ops() == 0


def test_ten_adam_steps_track_eager() -> None:
    model = mlp()
    reference = copy.deepcopy(model)
    compiled = torch.compile(model, backend="pytorchsim", fullgraph=True, options=STRICT)
    optimiser, expected_optimiser = (torch.optim.Adam(m.parameters(), 1e-3) for m in (model, reference))
    step = torch.compile(optimiser.step, backend="pytorchsim", options=STRICT)
    x, target = torch.randn(64, 784), torch.softmax(torch.randn(64, 10), -1)
    for _ in range(10):
        loss = ((compiled(x) - target) ** 2).mean()
        loss.backward()
        step()
        assert host_ops() == 0
        optimiser.zero_grad()
        expected = ((reference(x) - target) ** 2).mean()
        expected.backward()
        expected_optimiser.step()
        expected_optimiser.zero_grad()
        close(loss, expected)
    for parameter, wanted in zip(model.parameters(), reference.parameters(), strict=True):
        torch.testing.assert_close(parameter, wanted, rtol=1e-3, atol=1e-5)


def test_inference_on_a_small_machine() -> None:
    model = mlp().requires_grad_(False)
    compiled = torch.compile(model, backend="pytorchsim", fullgraph=True, options=STRICT | {"config": "mobile"})
    x = torch.randn(8, 784)
    close(compiled(x), model(x))
