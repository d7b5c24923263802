"""ResNet-18 and MobileNetV2 as their papers and torchvision have them: PyPI's torchvision does not import beside a CPU
build of PyTorch."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

__all__ = ["MobileNetV2", "ResNet18"]


def _conv_norm(inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[nn.Module]:
    convolution = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")  # values keep their size
    return [convolution, nn.BatchNorm2d(outputs)]


class _BasicBlock(nn.Module):
    """Two 3x3 convolutions and a shortcut (He and others 2015)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        first, second = _conv_norm(inputs, outputs, 3, stride), _conv_norm(outputs, outputs, 3)
        self.body = nn.Sequential(*first, nn.ReLU(), *second)
        changes = stride != 1 or inputs != outputs
        self.shortcut = nn.Sequential(*_conv_norm(inputs, outputs, 1, stride)) if changes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


class ResNet18(nn.Module):
    """Images (batch, 3, height, width) to (batch, classes)."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        widths = (64, 128, 256, 512)
        self.stem = nn.Sequential(*_conv_norm(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        stages = []
        for number, width in enumerate(widths):
            inputs = widths[max(0, number - 1)]
            stages += [_BasicBlock(inputs, width, 2 if number else 1), _BasicBlock(width, width, 1)]
        self.stages = nn.Sequential(*stages)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(512, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.pool(self.stages(self.stem(x))).flatten(1))


class _InvertedResidual(nn.Module):
    """Expand, filter depthwise, project (Sandler and others 2018)."""

    def __init__(self, inputs: int, outputs: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        layers: list[nn.Module] = [] if expansion == 1 else [*_conv_norm(inputs, hidden, 1), nn.ReLU6()]
        layers += [*_conv_norm(hidden, hidden, 3, stride, groups=hidden), nn.ReLU6(), *_conv_norm(hidden, outputs, 1)]
        self.body = nn.Sequential(*layers)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.body(x) if self.adds else self.body(x)


_INVERTED = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""Expansion, channels, blocks, stride of the first block."""


class MobileNetV2(nn.Module):
    """Images (batch, 3, height, width) to (batch, classes); without dropout."""

    SETTINGS = (
        (1, 16, 1, 1),
        (6, 24, 2, 2),
        (6, 32, 3, 2),
        (6, 64, 4, 2),
        (6, 96, 3, 1),
        (6, 160, 3, 2),
        (6, 320, 1, 1),
    )
    """Expansion, channels, blocks, stride of the first block."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        layers: list[nn.Module] = [*_conv_norm(3, 32, 3, 2), nn.ReLU6()]
        inputs = 32
        for expansion, channels, blocks, stride in _INVERTED:
            for block in range(blocks):
                layers.append(_InvertedResidual(inputs, channels, 1 if block else stride, expansion))
                inputs = channels
        layers += [*_conv_norm(inputs, 1280, 1), nn.ReLU6()]
        self.features = nn.Sequential(*layers)
        self.head = nn.Linear(1280, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(x).mean((2, 3)))
