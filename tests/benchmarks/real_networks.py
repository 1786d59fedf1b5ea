"""Networks of published sizes with random weights, in plain MLX. `real_torch` has the same in PyTorch.

Import this after `real_sides.use(side)`. Each function builds a model and its input. It returns the step to measure,
whose result is evaluated, and the number of trainable parameters. The defaults are the published sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import mlx.optimizers as optim
from mlx.utils import tree_flatten

__all__ = ["adamw", "bert", "gpt2", "resnet50", "vit", "whisper"]

Built = tuple[Callable[[], Any], int]


class Block(nn.Module):
    """A layer of a transformer, with a norm before each half, or after it."""

    def __init__(self, width: int, heads: int, before: bool = True) -> None:
        super().__init__()
        self.heads, self.before = heads, before
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def attention(self, x: mx.array, mask: str | None) -> mx.array:
        batch, length, width = x.shape
        q, k, v = (
            part.reshape(batch, length, self.heads, -1).transpose(0, 2, 1, 3) for part in mx.split(self.qkv(x), 3, -1)
        )
        scale = (width // self.heads) ** -0.5
        mixed = mx.fast.scaled_dot_product_attention(q, k, v, scale=scale, mask=mask)
        return self.out(mixed.transpose(0, 2, 1, 3).reshape(batch, length, width))

    def feed(self, x: mx.array) -> mx.array:
        return self.down(nn.gelu(self.up(x)))

    def __call__(self, x: mx.array, mask: str | None = None) -> mx.array:
        if self.before:
            x = x + self.attention(self.norm1(x), mask)
            return x + self.feed(self.norm2(x))
        x = self.norm1(x + self.attention(x, mask))
        return self.norm2(x + self.feed(x))


class GPT2(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)

    def __call__(self, x: mx.array) -> mx.array:
        h = self.tokens(x) + self.positions(mx.arange(x.shape[1]))
        for block in self.blocks:
            h = block(h, "causal")
        return self.tokens.as_linear(self.norm(h))


class Bert(nn.Module):
    def __init__(self, vocabulary: int, positions: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.kinds = nn.Embedding(2, width)
        self.norm = nn.LayerNorm(width)
        self.blocks = [Block(width, heads, before=False) for _ in range(layers)]

    def __call__(self, x: mx.array) -> mx.array:
        h = self.norm(self.tokens(x) + self.positions(mx.arange(x.shape[1])) + self.kinds(mx.zeros_like(x)))
        for block in self.blocks:
            h = block(h)
        return h


class ViT(nn.Module):
    def __init__(self, size: int, patch: int, width: int, heads: int, layers: int, classes: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, patch, stride=patch)
        self.first = mx.zeros((1, 1, width))
        self.positions = 0.02 * mx.random.normal((1, (size // patch) ** 2 + 1, width))
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def __call__(self, x: mx.array) -> mx.array:
        h = self.patches(x).flatten(1, 2)
        first = mx.broadcast_to(self.first, (h.shape[0], 1, h.shape[2]))
        h = mx.concatenate([first, h], axis=1) + self.positions
        for block in self.blocks:
            h = block(h)
        return self.head(self.norm(h)[:, 0])


class Bottleneck(nn.Module):
    """A residual block of ResNet-50: convolutions of 1x1, 3x3 and 1x1."""

    def __init__(self, channels: int, inner: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, inner, 1, bias=False), nn.BatchNorm(inner)
        self.conv2 = nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False)
        self.norm2 = nn.BatchNorm(inner)
        self.conv3, self.norm3 = nn.Conv2d(inner, 4 * inner, 1, bias=False), nn.BatchNorm(4 * inner)
        if stride != 1 or channels != 4 * inner:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, 4 * inner, 1, stride=stride, bias=False), nn.BatchNorm(4 * inner)
            )

    def __call__(self, x: mx.array) -> mx.array:
        h = nn.relu(self.norm1(self.conv1(x)))
        h = self.norm3(self.conv3(nn.relu(self.norm2(self.conv2(h)))))
        return nn.relu(h + (self.shortcut(x) if "shortcut" in self else x))


class ResNet(nn.Module):
    def __init__(self, blocks: Sequence[int], width: int, classes: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False)
        self.norm, self.pool = nn.BatchNorm(width), nn.MaxPool2d(3, stride=2, padding=1)
        self.blocks, channels = [], width
        for k, count in enumerate(blocks):
            for j in range(count):
                self.blocks.append(Bottleneck(channels, width << k, 2 if k and not j else 1))
                channels = 4 * (width << k)
        self.head = nn.Linear(channels, classes)

    def __call__(self, x: mx.array) -> mx.array:
        h = self.pool(nn.relu(self.norm(self.conv(x))))
        for block in self.blocks:
            h = block(h)
        return self.head(h.mean(axis=(1, 2)))


class Encoder(nn.Module):
    """Whisper's encoder: two convolutions over time, the second of stride 2, and a transformer."""

    def __init__(self, mels: int, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv1d(mels, width, 3, padding=1)
        self.conv2 = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.blocks = [Block(width, heads) for _ in range(layers)]
        self.norm = nn.LayerNorm(width)

    def __call__(self, x: mx.array) -> mx.array:
        h = nn.gelu(self.conv2(nn.gelu(self.conv1(x))))
        half = h.shape[-1] // 2
        angles = mx.arange(h.shape[1])[:, None] * mx.exp(-mx.log(mx.array(10000.0)) / (half - 1) * mx.arange(half))
        h = h + mx.concatenate([mx.sin(angles), mx.cos(angles)], axis=1)
        for block in self.blocks:
            h = block(h)
        return self.norm(h)


def _count(model: nn.Module) -> int:
    return sum(array.size for _, array in tree_flatten(model.trainable_parameters()))


def _inference(make: Callable[[], nn.Module], x: Callable[[], mx.array]) -> Built:
    mx.random.seed(0)
    model, data = make(), x()
    model.eval()
    mx.eval(model.parameters(), data)

    def step() -> mx.array:
        y = model(data)
        mx.eval(y)
        return y

    return step, _count(model)


def gpt2(
    batch: int = 2, length: int = 256, vocabulary: int = 50257, positions: int = 1024,
    width: int = 768, heads: int = 12, layers: int = 12,
) -> Built:  # fmt: skip
    """Train GPT-2 small with AdamW. The step returns the loss."""
    mx.random.seed(0)
    model = GPT2(vocabulary, positions, width, heads, layers)
    x = mx.random.randint(0, vocabulary, (batch, length + 1))
    optimizer = optim.AdamW(learning_rate=1e-4)
    mx.eval(model.parameters(), x)

    def loss_fn(model: nn.Module, x: mx.array) -> mx.array:
        return nn.losses.cross_entropy(model(x[:, :-1]), x[:, 1:], reduction="mean")

    value_and_grad = nn.value_and_grad(model, loss_fn)

    def step() -> mx.array:
        loss, grads = value_and_grad(model, x)
        optimizer.update(model, grads)
        mx.eval(loss, model.parameters(), optimizer.state)
        return loss

    return step, _count(model)


def bert(
    batch: int = 8, length: int = 128, vocabulary: int = 30522, positions: int = 512,
    width: int = 768, heads: int = 12, layers: int = 12,
) -> Built:  # fmt: skip
    """Run BERT base."""
    return _inference(
        lambda: Bert(vocabulary, positions, width, heads, layers),
        lambda: mx.random.randint(0, vocabulary, (batch, length)),
    )


def vit(
    batch: int = 4, size: int = 224, patch: int = 16, width: int = 768, heads: int = 12, layers: int = 12,
    classes: int = 1000,
) -> Built:  # fmt: skip
    """Run ViT-B/16."""
    return _inference(
        lambda: ViT(size, patch, width, heads, layers, classes), lambda: mx.random.normal((batch, size, size, 3))
    )


def resnet50(
    batch: int = 2, size: int = 224, blocks: Sequence[int] = (3, 4, 6, 3), width: int = 64, classes: int = 1000
) -> Built:
    """Run ResNet-50."""
    return _inference(lambda: ResNet(blocks, width, classes), lambda: mx.random.normal((batch, size, size, 3)))


def whisper(frames: int = 3000, mels: int = 80, width: int = 512, heads: int = 8, layers: int = 6) -> Built:
    """Run the encoder of Whisper base, on 30 seconds of sound."""
    return _inference(lambda: Encoder(mels, width, heads, layers), lambda: mx.random.normal((1, frames, mels)))


def adamw(matrices: int = 30, width: int = 1000) -> Built:
    """Update parameters with AdamW from given gradients. The step returns a few of the parameters."""
    mx.random.seed(0)
    model = nn.Module()
    model.matrices = [mx.random.normal((width, width)) for _ in range(matrices)]
    grads = {"matrices": [mx.random.normal((width, width)) for _ in range(matrices)]}
    optimizer = optim.AdamW(learning_rate=1e-3)
    mx.eval(model.parameters(), grads)

    def step() -> mx.array:
        optimizer.update(model, grads)
        mx.eval(model.parameters(), optimizer.state)
        return model.matrices[-1][0, :8]

    return step, _count(model)
