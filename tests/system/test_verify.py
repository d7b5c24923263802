"""`options={"verify": True}`: right kernels pass, a wrong one is named with its first wrong element."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from pytorchsim.errors import ConfigError, VerificationError
from pytorchsim.runtime.verification import Verification
from pytorchsim.templates.vector_ops import EMITTERS

VERIFY = {"strict": True, "verify": True}


def compiled(function: Any) -> Any:
    return torch.compile(function, backend="pytorchsim", fullgraph=True, options=VERIFY)


def test_training_is_compared_and_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    check = Verification.check

    def counting(self: Verification, kernel: Any, stored: dict[str, torch.Tensor]) -> None:
        compared.extend(stored)
        check(self, kernel, stored)

    monkeypatch.setattr(Verification, "check", counting)
    model = nn.Sequential(nn.Linear(20, 12), nn.BatchNorm1d(12), nn.GELU(), nn.Linear(12, 5), nn.LogSoftmax(-1))
    x = torch.randn(9, 20, requires_grad=True)
    compiled(model)(x).sum().backward()
    assert x.grad is not None
    assert len(compared) > 10


def test_indices_scatters_and_changed_inputs_pass() -> None:
    def function(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        values, places = x.max(1)
        return values, places, torch.zeros(6, 7).index_add_(0, index, x), x.half() + 1

    x, index = torch.randn(4, 7), torch.tensor([1, 1, 5, 0])
    expected = function(x.clone(), index)
    for ours, eagers in zip(compiled(function)(x, index), expected, strict=True):
        torch.testing.assert_close(ours, eagers, rtol=1e-3, atol=1e-3)


def test_the_first_wrong_kernel_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.relu(torch.cos(a @ b).sum(0) @ b)

    a, b = torch.randn(6, 8), torch.randn(8, 8)
    with monkeypatch.context() as patch:
        patch.setitem(EMITTERS, "cos", EMITTERS["sin"])
        with pytest.raises(VerificationError) as caught:
            compiled(function)(a, b)
    error = caught.value
    assert "cos" in error.operation or "sum" in error.operation
    assert len(error.index) >= 1
    wrong, right = torch.sin(a @ b), torch.cos(a @ b)
    if "sum" in error.operation:
        wrong, right = wrong.sum(0), right.sum(0)
    assert error.actual == pytest.approx(float(wrong[error.index]), abs=1e-4)
    assert error.expected == pytest.approx(float(right[error.index]), abs=1e-4)
    files = {path.name for path in Path(error.dump).rglob("*")}
    assert "values.pt" in files
    assert any(name.endswith(".mlir") for name in files)
    assert str(error.dump) in str(error)
    torch._dynamo.reset()
    torch.testing.assert_close(compiled(function)(a, b), function(a, b), rtol=1e-4, atol=1e-4)


class Classifier(nn.Module):
    """Two kernels whose values are right before the one that is not."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.norm = nn.Linear(20, 16), nn.Linear(16, 12), nn.LayerNorm(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.first(x).relu())
        y: torch.Tensor = self.second(hidden).tanh()
        return y


def test_a_model_with_a_wrong_kernel_stops_at_it(monkeypatch: pytest.MonkeyPatch) -> None:
    passed: list[str] = []
    check = Verification.check

    def noting(self: Verification, kernel: Any, stored: dict[str, torch.Tensor]) -> None:
        check(self, kernel, stored)
        passed.extend(stored)

    monkeypatch.setattr(Verification, "check", noting)
    torch.manual_seed(3)
    model, x = Classifier().requires_grad_(False), torch.randn(6, 20)
    with monkeypatch.context() as patch:
        patch.setitem(EMITTERS, "tanh", EMITTERS["sin"])
        with pytest.raises(VerificationError) as caught:
            compiled(model)(x)
    error = caught.value
    assert passed, "the layers before are right"
    assert "tanh" in error.operation
    place = tuple(error.index)
    hidden = model.second(model.norm(model.first(x).relu()))
    assert error.actual == pytest.approx(float(hidden.sin()[place]), abs=1e-4)
    assert error.expected == pytest.approx(float(hidden.tanh()[place]), abs=1e-4)
    assert (Path(error.dump) / "values.pt").is_file() or list(Path(error.dump).rglob("values.pt"))
    for said in ("tanh", str(place), str(error.dump)):
        assert said in str(error)


def test_there_is_nothing_to_compare_in_timing_mode() -> None:
    with pytest.raises(ConfigError, match="nothing to compare"):
        torch.compile(torch.relu, backend="pytorchsim", options={"verify": True, "mode": "timing"})(torch.ones(3))
