"""Which operators of the model a kernel lists: those it computes, not those whose values it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import pytorchsim


def origins(function: Callable[..., Any], *inputs: torch.Tensor) -> list[list[str]]:
    torch._dynamo.reset()
    options = {"config": "tiny", "strict": True, "mode": "timing"}
    torch.compile(function, backend="pytorchsim", options=options)(*inputs)
    return [kernel["origins"] for kernel in pytorchsim.report().to_dict()["kernels"]]


def test_what_was_realised_after_it_was_inlined_is_another_kernels() -> None:
    def branches(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.exp(x) + 1  # inlined into the sum when that is lowered, then realised for the product
        return torch.sigmoid(z.sum(0)), torch.relu(z @ w)

    assert origins(branches, torch.ones(40, 24), torch.ones(24, 24)) == [
        ["exp", "add"],
        ["sum", "sigmoid"],
        ["mm", "relu"],
    ]


def test_what_is_computed_again_is_listed_again() -> None:
    def twice(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.abs()  # cheap: inlined into both
        return y.sum(0), y.sum(1)

    assert origins(twice, torch.ones(40, 24)) == [["abs", "sum"], ["abs", "sum"]]


def test_a_chain_of_kernels_does_not_pile_up_its_history() -> None:
    def chain(x: torch.Tensor) -> torch.Tensor:
        for operation in (torch.exp, torch.tanh, torch.sin):
            x = operation(x @ x)
        return x

    assert origins(chain, torch.ones(24, 24)) == [["mm", "exp"], ["mm", "tanh"], ["mm", "sin"]]


def test_an_operand_that_was_copied_for_a_convolution_is_no_part_of_it() -> None:
    def pooled(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.conv2d(torch.nn.functional.avg_pool2d(x.exp(), 2), w, bias)

    inputs = torch.ones(1, 4, 8, 8), torch.ones(4, 4, 3, 3), torch.ones(4)
    assert origins(pooled, *inputs) == [["exp", "avg_pool2d"], ["convolution"]]
