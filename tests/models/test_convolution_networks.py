"""Do stacks of convolutions, pools and norms give eager's values, forward and backward?"""

from __future__ import annotations

import pytest
import torch
from torch import nn

import pytorchsim


class Stem(nn.Module):
    """Convolution, max pool, batch norm, convolution, ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 16, 7, 2, 3), nn.Conv2d(16, 32, 3, padding=1)
        self.pool, self.norm = nn.MaxPool2d(3, 2, 1), nn.BatchNorm2d(16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.second(self.norm(self.pool(self.first(x)))).relu()
        return y


class Residual(nn.Module):
    """A bottleneck of ResNet with a projection of its input."""

    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(
            [nn.Conv2d(16, 8, 1, bias=False), nn.Conv2d(8, 8, 3, 2, 1, bias=False), nn.Conv2d(8, 32, 1, bias=False)]
        )
        self.norms = nn.ModuleList([nn.BatchNorm2d(8), nn.BatchNorm2d(8), nn.BatchNorm2d(32)])
        self.projection = nn.Conv2d(16, 32, 1, 2, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x
        for number, (convolution, norm) in enumerate(zip(self.convolutions, self.norms, strict=True)):
            y = norm(convolution(y))
            y = y.relu() if number < 2 else y
        total: torch.Tensor = (y + self.projection(x)).relu()
        return total


@pytest.mark.parametrize("config", ["tpuv3", "mobile"])
@pytest.mark.parametrize(("network", "shape"), [(Stem, (2, 3, 32, 32)), (Residual, (2, 16, 8, 8))], ids=["stem", "res"])
def test_inference(network: type[nn.Module], shape: tuple[int, ...], config: str) -> None:
    torch._dynamo.reset()
    model = network().eval()
    options = {"config": config, "strict": True}
    x = torch.randn(shape)
    with torch.no_grad():
        actual = torch.compile(model, backend="pytorchsim", fullgraph=True, options=options)(x)
        torch.testing.assert_close(actual, model(x), rtol=1e-4, atol=1e-4)
    assert pytorchsim.report().to_dict()["totals"]["host_ops"] == 0


@pytest.mark.parametrize(("network", "shape"), [(Stem, (2, 3, 16, 16)), (Residual, (2, 16, 8, 8))], ids=["stem", "res"])
def test_training(network: type[nn.Module], shape: tuple[int, ...]) -> None:
    """Batch statistics and all gradients."""
    torch._dynamo.reset()
    model = network()
    x = torch.randn(shape)
    model(x).square().sum().backward()
    wanted = [parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None]
    model.zero_grad()
    compiled = torch.compile(model, backend="pytorchsim", fullgraph=True)
    compiled(x).square().sum().backward()
    for parameter, expected in zip(model.parameters(), wanted, strict=True):
        assert parameter.grad is not None
        scale = max(1.0, expected.abs().max().item())
        torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-4 * scale)
