"""After a call that failed, the report is about that call, not about the one before."""

from __future__ import annotations

import pytest
import torch

import pytorchsim
from pytorchsim.errors import ConfigError, HostOpError, UnsupportedError
from pytorchsim.runtime.kernel import Kernel

OPTIONS = {"config": "tiny", "strict": True}


def before() -> None:
    """A call that works."""
    torch.compile(torch.relu, backend="pytorchsim", options=OPTIONS)(torch.ones(8))
    assert pytorchsim.report().to_dict()["totals"]["launches"] == 1
    assert pytorchsim.report().error == ""


def failed(*words: str) -> None:
    report = pytorchsim.report()
    assert report.kernels == ()
    for word in words:
        assert word in report.error
        assert word in str(report)
    assert "nothing ran" in str(report)


def test_options_that_are_refused() -> None:
    before()
    with pytest.raises(ConfigError):
        torch.compile(torch.relu, backend="pytorchsim", options={"strikt": True})(torch.ones(8))
    failed("ConfigError", "strikt")
    before()


def test_a_graph_that_is_refused() -> None:
    before()
    with pytest.raises(HostOpError):
        torch.compile(torch.sort, backend="pytorchsim", options=OPTIONS)(torch.ones(8))
    failed("HostOpError", "sort")


def test_a_backward_that_is_refused() -> None:
    class Refused(torch.autograd.Function):
        @staticmethod
        def forward(context: torch.autograd.function.FunctionCtx, x: torch.Tensor) -> torch.Tensor:
            del context
            return 2 * x

        @staticmethod
        def backward(_: torch.autograd.function.FunctionCtx, gradient: torch.Tensor) -> torch.Tensor:
            return torch.sort(gradient)[0]

    x = torch.ones(8, requires_grad=True)
    with pytest.raises(UnsupportedError):
        torch.compile(Refused.apply, backend="pytorchsim", options=OPTIONS)(x).sum().backward()
    assert "sort" in pytorchsim.report().error


def test_a_launch_that_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def chain(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ w, -1)

    compiled = torch.compile(chain, backend="pytorchsim", options=OPTIONS)
    x = torch.ones(16, 16)
    compiled(x, x)
    launches = pytorchsim.report().to_dict()["totals"]["launches"]
    assert launches > 1
    run, names = Kernel.run, []

    def faulty(kernel: Kernel, *tensors: torch.Tensor) -> None:
        names.append(kernel.name)
        if len(names) == launches:
            raise RuntimeError("made up")
        run(kernel, *tensors)

    with monkeypatch.context() as patched:
        patched.setattr(Kernel, "run", faulty)
        with pytest.raises(RuntimeError, match="made up"):
            compiled(x, x)
    report = pytorchsim.report()
    assert report.to_dict()["totals"]["launches"] == launches - 1
    assert report.error == "RuntimeError: made up"
    assert "what ran before it is below" in str(report)
    compiled(x, x)
    assert pytorchsim.report().error == ""
