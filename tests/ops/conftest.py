"""What every op test does: compile for the NPU in strict mode, run, compare with eager."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import pytorchsim

CONFIGS = ("tpuv3", "mobile", "tiny")

Check = Callable[..., torch.Tensor]
CheckEach = Callable[..., tuple[torch.Tensor, ...]]
Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
CheckCases = Callable[..., None]


def same_layout_copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same values at the same strides and offset in a storage of its own, so that eager may write to it."""
    storage = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage().clone())  # type: ignore[call-overload]
    return storage.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())


@pytest.fixture(params=CONFIGS)
def config(request: pytest.FixtureRequest) -> str:
    """Each preset that op tests run on: wide lanes, few lanes, and a scratchpad so small that everything has tails."""
    return str(request.param)


@pytest.fixture
def check(config: str) -> Check:
    """`check(function, *tensors)`: compiled result equals eager's, with no host op; returns the result."""

    def run(function: Callable[..., torch.Tensor], *tensors: torch.Tensor, exact: bool = False) -> torch.Tensor:
        torch._dynamo.reset()
        compiled = torch.compile(
            function, backend="pytorchsim", fullgraph=True, options={"config": config, "strict": True}
        )
        expected = function(*[same_layout_copy(tensor) for tensor in tensors])
        actual = compiled(*tensors)
        assert actual.dtype == expected.dtype
        assert actual.shape == expected.shape
        assert actual.stride() == expected.stride()
        tolerance = 0.0 if exact else 1e-4
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        report = pytorchsim.report().to_dict()
        assert report["totals"]["host_ops"] == 0
        if expected.numel():
            assert report["totals"]["cycles"] > 0
            assert report["kernels"]
        return actual

    return run


@pytest.fixture
def check_each(config: str) -> CheckEach:
    """`check_each(function, *tensors)`: each result of one compiled function equals eager's (or `expected`), bit for
    bit unless a tolerance is given; NaNs and signs of zero count."""

    def run(
        function: Callable[..., tuple[torch.Tensor, ...]],
        *tensors: torch.Tensor,
        tolerance: float = 0.0,
        expected: tuple[torch.Tensor, ...] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        torch._dynamo.reset()
        compiled = torch.compile(
            function, backend="pytorchsim", fullgraph=True, options={"config": config, "strict": True}
        )
        wanted = function(*[same_layout_copy(tensor) for tensor in tensors]) if expected is None else expected
        actual = compiled(*tensors)
        assert len(actual) == len(wanted)
        for number, (ours, eagers) in enumerate(zip(actual, wanted, strict=True)):
            torch.testing.assert_close(
                ours,
                eagers,
                rtol=tolerance,
                atol=tolerance,
                equal_nan=True,
                msg=lambda text, number=number: f"result {number}: {text}",
            )
            if eagers.dtype.is_floating_point and not tolerance:
                zero = eagers == 0
                assert torch.equal(torch.signbit(ours[zero]), torch.signbit(eagers[zero])), f"zeros of result {number}"
        assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0
        return actual

    return run


@pytest.fixture
def check_cases(config: str) -> CheckCases:
    """`check_cases(cases)`: every case (a function and its tensors), all in one compiled graph, gives what eager gives:
    results with their strides (of axes longer than 1), and what is left in the storage of every tensor, bytes outside
    of the tensor included."""

    def run(cases: Mapping[str, Case], *, tolerance: float = 0.0, strides: bool = True) -> None:
        names, counts = list(cases), [len(tensors) for _, tensors in cases.values()]

        def together(*tensors: torch.Tensor) -> list[list[torch.Tensor]]:
            results, at = [], 0
            for name, count in zip(names, counts, strict=True):
                result = cases[name][0](*tensors[at : at + count])
                results.append(list(result) if isinstance(result, (tuple, list)) else [result])
                at += count
            return results

        given = [tensor for _, tensors in cases.values() for tensor in tensors]
        for_eager, for_npu = ([same_layout_copy(tensor) for tensor in given] for _ in range(2))
        torch._dynamo.reset()
        options = {"config": config, "strict": True}
        compiled = torch.compile(together, backend="pytorchsim", fullgraph=True, options=options)
        expected, actual = together(*for_eager), compiled(*for_npu)
        for name, wanted, got in zip(names, expected, actual, strict=True):
            for number, (eagers, ours) in enumerate(zip(wanted, got, strict=True)):
                where = f"{name}, result {number}"
                torch.testing.assert_close(
                    ours,
                    eagers,
                    rtol=tolerance,
                    atol=tolerance,
                    equal_nan=True,
                    msg=lambda text, where=where: f"{where}: {text}",
                )
                walks = zip(eagers.shape, eagers.stride(), ours.stride(), strict=True)
                assert not strides or all(a == b for size, a, b in walks if size > 1), where
        at = 0
        for name, count in zip(names, counts, strict=True):
            for left, right in zip(for_eager[at : at + count], for_npu[at : at + count], strict=True):
                assert torch.equal(_bytes(left), _bytes(right)) or tolerance, f"{name}: storage of an input"
            at += count
        assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0

    return run


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return torch.tensor([], dtype=torch.uint8).set_(tensor.untyped_storage())  # type: ignore[call-overload]
