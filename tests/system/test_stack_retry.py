"""Is a kernel whose spilled registers exceed the stack built again with shorter vectors, and does the report say so?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import pytorchsim
from pytorchsim.errors import SpadOverflowError


def long_chain(x: torch.Tensor) -> torch.Tensor:
    """More live values than registers: what LLVM spills grows with the length of a vector."""
    return torch.erfinv(x) + torch.lgamma(x)


def product(x: torch.Tensor) -> torch.Tensor:
    return long_chain((x[:4096].view(512, 8) @ x[:64].view(8, 8)) / 100)


def compiled(function: Callable[..., torch.Tensor], stack_bytes: int) -> Callable[..., torch.Tensor]:
    machine = {"base": "mobile", "core": {"stack_reserve_bytes": stack_bytes}}
    torch._dynamo.reset()
    return torch.compile(function, backend="pytorchsim", fullgraph=True, options={"config": machine, "strict": True})


@pytest.mark.usefixtures("fresh_caches")
@pytest.mark.parametrize(("function", "stack_bytes"), [(long_chain, 512), (product, 384)])
def test_shorter_vectors_are_tried(function: Callable[..., torch.Tensor], stack_bytes: int) -> None:
    x = torch.randn(6000)
    for _ in range(2):  # the second time from the caches
        torch.testing.assert_close(
            compiled(function, stack_bytes)(x), function(x), equal_nan=True, rtol=1e-4, atol=1e-4
        )
        (kernel,) = pytorchsim.report().to_dict()["kernels"]
        assert kernel["stack_bytes"] <= stack_bytes
        assert [reason for reason in kernel["reasons"] if "longer ones the stack takes" in reason], kernel["reasons"]
    # With room for the frame it is as it was first built.
    compiled(function, 4096)(x)
    (kernel,) = pytorchsim.report().to_dict()["kernels"]
    assert kernel["stack_bytes"] > stack_bytes
    assert not [reason for reason in kernel["reasons"] if "longer ones the stack takes" in reason]


@pytest.mark.usefixtures("fresh_caches")
def test_what_does_not_fit_names_the_limit() -> None:
    x = torch.randn(6000)
    with pytest.raises(SpadOverflowError, match=r"bytes of stack per lane.*a larger `stack_reserve_bytes`") as caught:
        compiled(long_chain, 128)(x)
    assert caught.value.kernel.startswith("npu_erfinv_")
    assert caught.value.limit == "stack_reserve_bytes"
    torch.testing.assert_close(compiled(torch.add, 128)(x, x), x + x)


def test_an_error_of_tile_search_names_the_operators() -> None:
    many = [torch.randn(64) for _ in range(40)]
    with pytest.raises(SpadOverflowError, match="a larger `scratchpad_bytes_per_lane`") as caught:
        torch.compile(
            lambda *tensors: [tensor * sum(tensors) for tensor in tensors],
            backend="pytorchsim",
            options={"config": "tiny"},
        )(*many)
    assert caught.value.kernel.startswith("npu_")
    assert "KERNEL_NAME" not in str(caught.value)
