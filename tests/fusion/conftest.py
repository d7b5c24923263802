"""What fusion tests do: compile strictly, compare with eager, and look at the kernels and at what was refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import pytorchsim


@dataclass(frozen=True)
class Outcome:
    """Origins of each kernel in order, and the reasons why something did not join a template."""

    origins: list[list[str]]
    refusals: list[dict[str, str]]
    report: dict[str, Any]

    @property
    def kernels(self) -> int:
        return len(self.origins)

    @property
    def reasons(self) -> str:
        return "\n".join(refusal["reason"] for refusal in self.refusals)


Fuse = Callable[..., Outcome]


@pytest.fixture
def fuse() -> Fuse:
    """`fuse(function, *tensors)`: results equal eager's; returns the outcome."""

    def run(
        function: Callable[..., Any], *tensors: torch.Tensor, config: Any = "tpuv3", tolerance: float = 1e-4
    ) -> Outcome:
        torch._dynamo.reset()
        compiled = torch.compile(
            function, backend="pytorchsim", fullgraph=True, options={"config": config, "strict": True}
        )
        expected, actual = function(*tensors), compiled(*tensors)
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        report = pytorchsim.report().to_dict()
        assert report["totals"]["host_ops"] == 0
        refusals = [dict(entry) for graph in report["graphs"] for entry in graph["facts"].get("not_fused", [])]
        return Outcome([kernel["origins"] for kernel in report["kernels"]], refusals, report)

    return run
