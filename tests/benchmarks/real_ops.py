"""Time single ops at the sizes of real models: the first call in a process, and a warm call.

Each side runs in a separate process, because a process can import only one library as `mlx`:

    python -m tests.benchmarks.real_ops SIDE NAME     prints milliseconds: of the first call, of a warm one

SIDE is `mxcompat`, `MLX` or `PyTorch`. PyTorch has a column for the convolutions, if it is installed.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from .real_sides import has_torch, in_turn
from .table import Row, compared, present

__all__ = ["OPS", "ROUNDS", "rows"]

ROUNDS = 3
_WARM_SECONDS = 0.6
_ROOM_MS = 20.0
"""Milliseconds above its target that a row may take: noise and start-up dominate shorter calls."""


class Conv(NamedTuple):
    """A convolution: the input's shape with channels last, output channels, kernel, stride, padding and groups."""

    shape: tuple[int, ...]
    channels: int
    kernel: int
    stride: int = 1
    padding: int = 0
    groups: int = 1
    transposed: bool = False

    def mlx(self, mx: Any) -> Callable[[], Any]:
        axes = len(self.shape) - 2
        x = mx.random.normal(self.shape)
        w = mx.random.normal((self.channels, *[self.kernel] * axes, self.shape[-1] // self.groups)) * 0.05
        mx.eval(x, w)
        f = getattr(mx, f"conv_transpose{axes}d" if self.transposed else f"conv{axes}d")
        return lambda: f(x, w, stride=self.stride, padding=self.padding, groups=self.groups)

    def torch(self) -> Callable[[], Any]:
        import torch  # type: ignore[import-not-found]

        axes = len(self.shape) - 2
        size = (self.channels, self.shape[-1] // self.groups)
        x = torch.randn(self.shape[0], self.shape[-1], *self.shape[1:-1])
        w = torch.randn(*(size[::-1] if self.transposed else size), *[self.kernel] * axes) * 0.05
        if axes == 2:  # PyTorch is faster with this layout
            x, w = (a.contiguous(memory_format=torch.channels_last) for a in (x, w))
        f = getattr(torch.nn.functional, f"conv_transpose{axes}d" if self.transposed else f"conv{axes}d")

        def step() -> Any:
            with torch.no_grad():
                return f(x, w, stride=self.stride, padding=self.padding, groups=self.groups)

        return step


_CONVOLUTIONS = {
    "conv 7x7, stride 2, 3 to 64 channels": Conv((2, 224, 224, 3), 64, 7, 2, 3),
    "conv 3x3, 56x56, 64 channels": Conv((2, 56, 56, 64), 64, 3, 1, 1),
    "conv 1x1, 56x56, 64 to 256 channels": Conv((2, 56, 56, 64), 256, 1),
    "conv 3x3, 14x14, 256 channels": Conv((2, 14, 14, 256), 256, 3, 1, 1),
    "conv 3x3, 256x256, 128 channels": Conv((1, 256, 256, 128), 128, 3, 1, 1),
    "conv 16x16, stride 16, 3 to 768 channels": Conv((4, 224, 224, 3), 768, 16, 16),
    "conv 3x3, 32 groups": Conv((2, 28, 28, 256), 256, 3, 1, 1, 32),
    "conv 3x3, depthwise": Conv((2, 56, 56, 128), 128, 3, 1, 1, 128),
    "conv 7x7, depthwise": Conv((2, 28, 28, 256), 256, 7, 1, 3, 256),
    "conv1d 3, 3000 long, 80 to 512 channels": Conv((1, 3000, 80), 512, 3, 1, 1),
    "conv1d 3, stride 2, 512 channels": Conv((1, 3000, 512), 512, 3, 2, 1),
    "conv_transpose2d 4x4, stride 2": Conv((1, 64, 64, 128), 64, 4, 2, 1, transposed=True),
    "conv_transpose1d 16, stride 8": Conv((1, 1500, 256), 128, 16, 8, 4, transposed=True),
    "conv3d 3x3x3, 64 channels": Conv((1, 16, 32, 32, 64), 64, 3, 1, 1),
}


def _normal(*shape: int, dtype: str = "float32") -> Callable[[Any], Any]:
    return lambda mx: mx.random.normal(shape).astype(getattr(mx, dtype))


def _heads(*shape: int, dtype: str = "float32") -> list[Callable[[Any], Any]]:
    batch, heads, shared, rows, length, width = shape
    return [
        _normal(batch, heads, rows, width, dtype=dtype),
        *[_normal(batch, shared, length, width, dtype=dtype)] * 2,
    ]


def _attention(mask: str | None = None) -> Callable[..., Any]:
    return lambda mx, q, k, v: mx.fast.scaled_dot_product_attention(q, k, v, scale=q.shape[-1] ** -0.5, mask=mask)


def _loss_gradient(mx: Any, x: Any, w: Any) -> Any:
    labels = mx.arange(x.shape[0]) * 7 % w.shape[0]

    def loss(x: Any) -> Any:
        logits = x @ w.T
        return (mx.logsumexp(logits, axis=-1) - mx.take_along_axis(logits, labels[:, None], axis=-1)[:, 0]).mean()

    return mx.value_and_grad(loss)(x)


def _cpu(mx: Any) -> dict[str, Any]:
    return {"stream": mx.cpu}


_Case = tuple[Callable[..., Any], list[Callable[[Any], Any]]]

_CASES: dict[str, _Case] = {
    "attention, 1500 by 1500, 8 heads of 64": (_attention(), _heads(1, 8, 8, 1500, 1500, 64)),
    "attention, causal, 2048, 32 heads of 128 sharing 8": (_attention("causal"), _heads(1, 32, 8, 2048, 2048, 128)),
    "attention, 1 by 8192, 32 heads of 128 sharing 8": (_attention(), _heads(1, 32, 8, 1, 8192, 128)),
    "the same in bfloat16": (_attention(), _heads(1, 32, 8, 1, 8192, 128, dtype="bfloat16")),
    "matmul 1024x1024 by 1024x1024": (lambda mx, a, b: a @ b, [_normal(1024, 1024)] * 2),
    "matmul 32x4096 by 4096x4096": (lambda mx, a, b: a @ b.T, [_normal(32, 4096), _normal(4096, 4096)]),
    "matmul 1x4096 by 4096x4096": (lambda mx, a, b: a @ b.T, [_normal(1, 4096), _normal(4096, 4096)]),
    "matmul 1x4096 by 4096x4096, bfloat16": (
        lambda mx, a, b: a @ b.T,
        [_normal(1, 4096, dtype="bfloat16"), _normal(4096, 4096, dtype="bfloat16")],
    ),
    "matmul 32x4096 by 4096x4096, float16": (
        lambda mx, a, b: a @ b.T,
        [_normal(32, 4096, dtype="float16"), _normal(4096, 4096, dtype="float16")],
    ),
    "matmul, 64 of 256x256": (lambda mx, a, b: a @ b, [_normal(64, 256, 256)] * 2),
    "softmax 4096x4096": (lambda mx, x: mx.softmax(x, axis=-1), [_normal(4096, 4096)]),
    "softmax 32x152000, bfloat16": (lambda mx, x: mx.softmax(x, axis=-1), [_normal(32, 152000, dtype="bfloat16")]),
    "layer_norm 4096x1024": (
        lambda mx, x, w, b: mx.fast.layer_norm(x, w, b, 1e-5),
        [_normal(4096, 1024), _normal(1024), _normal(1024)],
    ),
    "rms_norm 2048x4096, bfloat16": (
        lambda mx, x, w: mx.fast.rms_norm(x, w, 1e-5),
        [_normal(2048, 4096, dtype="bfloat16"), _normal(4096, dtype="bfloat16")],
    ),
    "gelu 4096x4096": (lambda mx, x: x * (1 + mx.erf(x / 2**0.5)) / 2, [_normal(4096, 4096)]),
    "rope 32 heads of 2048x128": (
        lambda mx, x: mx.fast.rope(x, 128, traditional=False, base=10000.0, scale=1.0, offset=0),
        [_normal(1, 32, 2048, 128)],
    ),
    "sort of a million": (lambda mx, x: mx.sort(x), [_normal(1_000_000)]),
    "sort 4096x1024": (lambda mx, x: mx.sort(x, axis=-1), [_normal(4096, 1024)]),
    "argsort of a million": (lambda mx, x: mx.argsort(x), [_normal(1_000_000)]),
    "topk of 152000": (lambda mx, x: mx.topk(x, 50), [_normal(1, 152000)]),
    "argpartition of 152000": (lambda mx, x: mx.argpartition(-x, 50, axis=-1), [_normal(1, 152000)]),
    "argmax of 152000": (lambda mx, x: mx.argmax(x, axis=-1), [_normal(1, 152000)]),
    "sampling from 152000 logits": (lambda mx, x: mx.random.categorical(x), [_normal(1, 152000)]),
    "top-p of 152000 logits": (
        lambda mx, x: mx.where(mx.cumsum(mx.sort(mx.softmax(x, axis=-1), axis=-1), axis=-1) > 0.1, x, -1e9),
        [_normal(1, 152000)],
    ),
    "cumsum 4096x4096": (lambda mx, x: mx.cumsum(x, axis=1), [_normal(4096, 4096)]),
    "fft of 2^20": (lambda mx, x: mx.abs(mx.fft.fft(x)), [_normal(1 << 20)]),
    "rfft, 3000 of 400": (lambda mx, x: mx.abs(mx.fft.rfft(x)), [_normal(3000, 400)]),
    "fft2 1024x1024": (lambda mx, x: mx.abs(mx.fft.fft2(x)), [_normal(1024, 1024)]),
    "10 million normal numbers": (lambda mx: mx.random.normal((10_000_000,)), []),
    "embedding, 2048 of 152000x896": (lambda mx, w: w[mx.arange(2048) * 73 % 152000], [_normal(152000, 896)]),
    "scatter-add of 100000 rows of 64": (
        lambda mx, x, u: x.at[mx.arange(100_000) * 31 % 10_000].add(u),
        [_normal(10_000, 64), _normal(100_000, 64)],
    ),
    "take_along_axis 4096x4096": (
        lambda mx, x: mx.take_along_axis(x, mx.argsort(x[:, :64], axis=-1), axis=-1),
        [_normal(4096, 4096)],
    ),
    "transposed copy 4096x4096": (lambda mx, x: mx.contiguous(x.T), [_normal(4096, 4096)]),
    "sum over rows 4096x4096": (lambda mx, x: x.sum(axis=0), [_normal(4096, 4096)]),
    "sum over columns 4096x4096": (lambda mx, x: x.sum(axis=1), [_normal(4096, 4096)]),
    "concatenate 2 of 64 MB": (lambda mx, a, b: mx.concatenate([a, b], axis=1), [_normal(4096, 4096)] * 2),
    "cast 4096x4096 to bfloat16": (lambda mx, x: x.astype(mx.bfloat16), [_normal(4096, 4096)]),
    "quantize 4096x4096, 4 bits": (lambda mx, w: mx.quantize(w, group_size=64, bits=4), [_normal(4096, 4096)]),
    "max_pool2d 3x3, 112x112, 64 channels": (
        lambda mx, x: mx.stack(
            [mx.stack([x[:, i : i + 110 : 2, j : j + 110 : 2] for j in range(3)]).max(0) for i in range(3)]
        ).max(0),
        [_normal(2, 112, 112, 64)],
    ),
    "loss over 32000 words, gradient": (_loss_gradient, [_normal(512, 512), _normal(32000, 512)]),
    "svd 256x256": (lambda mx, x: mx.linalg.svd(x, **_cpu(mx)), [_normal(256, 256)]),
    "qr 512x512": (lambda mx, x: mx.linalg.qr(x, **_cpu(mx)), [_normal(512, 512)]),
    "inv 512x512": (lambda mx, x: mx.linalg.inv(x, **_cpu(mx)), [_normal(512, 512)]),
    "eigh 256x256": (lambda mx, x: mx.linalg.eigh(x + x.T, **_cpu(mx)), [_normal(256, 256)]),
}

OPS: tuple[str, ...] = (*_CONVOLUTIONS, *_CASES)
"""Names of the ops that are measured."""


def _step(side: str, name: str) -> tuple[Callable[[], Any], Callable[[Any], None]]:
    """Return the call to time, and the function that waits for its results."""
    if side == "PyTorch":
        return _CONVOLUTIONS[name].torch(), lambda result: None
    if side == "MLX":
        import mlx.core as mx
    else:
        import mxcompat.core as mx
    mx.random.seed(0)
    if name in _CONVOLUTIONS:
        return _CONVOLUTIONS[name].mlx(mx), lambda result: mx.eval(result)
    f, makers = _CASES[name]
    arrays = [make(mx) for make in makers]
    mx.eval(arrays)
    return lambda: f(mx, *arrays), lambda result: mx.eval(result)


def _measure(side: str, name: str) -> dict[str, float]:
    """Return milliseconds of the first call and the median of warm ones."""
    step, wait = _step(side, name)

    def timed() -> float:
        start = time.perf_counter()
        wait(step())
        return time.perf_counter() - start

    first = timed()
    end = time.perf_counter() + _WARM_SECONDS
    count = 0
    while time.perf_counter() < end or (count < 3 and first < _WARM_SECONDS):
        timed()
        count += 1
    if side == "mxcompat":
        from .timing import settle

        settle()
        timed()
    times = [timed()]
    end = time.perf_counter() + _WARM_SECONDS
    while time.perf_counter() < end:
        times.append(timed())
    return {"first call": 1e3 * first, "warm": 1e3 * statistics.median(times)}


def rows(is_selected: Callable[[str], bool], rounds: int) -> Iterator[Row]:
    """Measure the ops whose names are selected, in turn on each side, `rounds` times."""
    sides = [side for side in present() if side != "jax.jit"]
    for name in filter(is_selected, OPS):
        here = [*sides, *(["PyTorch"] if has_torch() and name in _CONVOLUTIONS else [])]
        measurements = in_turn("real_ops", [name], here, rounds)
        for label, most in (("first call", 2.0), ("warm", 1.0)):
            times = {
                side: [measured[label] for measured in all_measured] for side, all_measured in measurements.items()
            }
            ratios, spread = compared(times)
            medians = {side: statistics.median(values) for side, values in times.items()}
            row = Row(f"  {label}" if label == "warm" else f"{name}: {label}", "ms", medians, ratios, spread)
            row.limit("MLX", most, most * medians.get("MLX", 0.0) + _ROOM_MS)
            if label == "warm":
                row.limit("PyTorch", 1.5, 1.5 * medians.get("PyTorch", 0.0) + 1.0)
            yield row


if __name__ == "__main__":
    print(json.dumps(_measure(*sys.argv[1:])))
