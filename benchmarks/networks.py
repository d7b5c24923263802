"""The two networks of the accuracy table, in plain torch.nn."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["EncoderBlock", "ResNet18"]


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut. Input and output: [batch, channels, rows, columns]."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        inner = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(inner + self.shortcut(x))


class ResNet18(nn.Module):
    """He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, table 1. [batch, 3, 224, 224] -> 1000."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        blocks: list[nn.Module] = []
        channels_in = 64
        for channels, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
            blocks += [BasicBlock(channels_in, channels, stride), BasicBlock(channels, channels, 1)]
            channels_in = channels
        self.blocks = nn.Sequential(*blocks)
        self.head = nn.Linear(512, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Class scores."""
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))  # type: ignore[no-any-return]


class EncoderBlock(nn.Module):
    """One block of BERT base (Devlin et al., NAACL 2019): [tokens, 768], 12 heads, feed-forward 3072."""

    HIDDEN, HEADS, INNER = 768, 12, 3072

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(self.HIDDEN, self.HIDDEN) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(self.HIDDEN), nn.LayerNorm(self.HIDDEN)
        self.up, self.down = nn.Linear(self.HIDDEN, self.INNER), nn.Linear(self.INNER, self.HIDDEN)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The block."""
        width = self.HIDDEN // self.HEADS

        def heads(values: torch.Tensor) -> torch.Tensor:
            return values.view(-1, self.HEADS, width).transpose(0, 1)

        query, key, value = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        weights = torch.softmax(query @ key.transpose(1, 2) / width**0.5, -1)
        attended = (weights @ value).transpose(0, 1).reshape(-1, self.HIDDEN)
        x = self.norm1(x + self.output(attended))
        return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))  # type: ignore[no-any-return]
