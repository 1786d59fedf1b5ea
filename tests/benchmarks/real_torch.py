"""The networks of `real_networks` in PyTorch: the same sizes and arithmetic, other random weights.

Each function returns the step to measure and the number of parameters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch  # type: ignore[import-not-found]
from torch import nn  # type: ignore[import-not-found]

__all__ = ["adamw", "bert", "gpt2", "resnet50", "vit", "whisper"]

Built = tuple[Callable[[], Any], int]


def _blocks(width: int, heads: int, layers: int, before: bool = True) -> Any:
    options = {"dropout": 0.0, "activation": "gelu", "batch_first": True, "norm_first": before}
    return nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, **options) for _ in range(layers))


class GPT2(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = _blocks(width, heads, layers)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        h = self.tokens(x) + self.positions(torch.arange(x.shape[1]))
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        for block in self.blocks:
            h = block(h, src_mask=mask, is_causal=True)
        return self.norm(h) @ self.tokens.weight.T


class Bert(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = _blocks(width, heads, layers, before=False)

    def forward(self, x: Any) -> Any:
        h = self.norm(self.tokens(x) + self.positions(torch.arange(x.shape[1])) + self.kinds(torch.zeros_like(x)))
        for block in self.blocks:
            h = block(h)
        return h


class ViT(nn.Module):
    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.positions = nn.Parameter(0.02 * torch.randn(1, (size // patch) ** 2 + 1, width))
        self.blocks = _blocks(width, heads, layers)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, x: Any) -> Any:
        h = self.patches(x).flatten(2).transpose(1, 2)
        h = torch.cat([self.first.expand(len(h), -1, -1), h], dim=1) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)[:, 0])


class Bottleneck(nn.Module):
    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(inner)
        self.conv3, self.norm3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm2d(4 * inner)
        self.shortcut = nn.Identity()
        if stride != 1 or channels != 4 * inner:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, 4 * inner, 1, stride=stride, bias=False), nn.BatchNorm2d(4 * inner)
            )

    def forward(self, x: Any) -> Any:
        h = torch.relu(self.norm1(self.conv1(x)))
        h = self.norm3(self.conv3(torch.relu(self.norm2(self.conv2(h)))))
        return torch.relu(h + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self, blocks: Sequence[int], width: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.norm, self.pool = nn.BatchNorm2d(width), nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks, channels = nn.ModuleList(), width
        for k, count in enumerate(blocks):
            for j in range(count):
                self.blocks.append(Bottleneck(channels, width << k, 2 if k and not j else 1))
                channels = 4 * (width << k)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: Any) -> Any:
        h = self.pool(torch.relu(self.norm(self.conv(x))))
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean(dim=(2, 3)))


class Encoder(nn.Module):
    def __init__(self, mels: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.blocks = _blocks(width, heads, layers)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Any) -> Any:
        gelu = nn.functional.gelu
        h = gelu(self.conv2(gelu(self.conv1(x)))).transpose(1, 2)
        half = h.shape[-1] // 2
        angles = torch.arange(h.shape[1])[:, None] * torch.exp(-math.log(10000.0) / (half - 1) * torch.arange(half))
        h = h + torch.cat([torch.sin(angles), torch.cos(angles)], dim=1)
        for block in self.blocks:
            h = block(h)
        return self.norm(h)


def _count(model: Any) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def _inference(model: Any, x: Any) -> Built:
    model.eval()

    def step() -> Any:
        with torch.inference_mode():
            return model(x)

    return step, _count(model)


def gpt2(
    batch: int = 2, length: int = 256, vocabulary: int = 50257, positions: int = 1024,
    width: int = 768, heads: int = 12, layers: int = 12,
) -> Built:  # fmt: skip
    model = GPT2(vocabulary, positions, width, heads, layers)
    x = torch.randint(0, vocabulary, (batch, length + 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step() -> float:
        loss = nn.functional.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return step, _count(model)


def bert(
    batch: int = 8, length: int = 128, vocabulary: int = 30522, positions: int = 512,
    width: int = 768, heads: int = 12, layers: int = 12,
) -> Built:  # fmt: skip
    return _inference(Bert(vocabulary, positions, width, heads, layers), torch.randint(0, vocabulary, (batch, length)))


def vit(
    batch: int = 4, size: int = 224, patch: int = 16, width: int = 768, heads: int = 12, layers: int = 12,
    classes: int = 1000,
) -> Built:  # fmt: skip
    return _inference(ViT(size, patch, width, heads, layers, classes), torch.randn(batch, 3, size, size))


def resnet50(
    batch: int = 2, size: int = 224, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000
) -> Built:
    """Run ResNet-50 with channels last, which is PyTorch's faster layout."""
    layout = torch.channels_last
    model = ResNet(blocks, width, classes).to(memory_format=layout)
    return _inference(model, torch.randn(batch, 3, size, size).contiguous(memory_format=layout))


def whisper(frames: int = 3000, mels: int = 80, width: int = 512, heads: int = 8, layers: int = 6) -> Built:
    return _inference(Encoder(mels, width, heads, layers), torch.randn(1, mels, frames))


def adamw(matrices: int = 30, width: int = 1000) -> Built:
    parameters = [nn.Parameter(torch.randn(width, width)) for _ in range(matrices)]
    for parameter in parameters:
        parameter.grad = torch.randn(width, width)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)
    return optimizer.step, sum(parameter.numel() for parameter in parameters)
