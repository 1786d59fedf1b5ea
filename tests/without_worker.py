"""A program that uses all unpromised features, of which some may be switched off. It prints its results as JSON.

Each name of `PARTS` is one kind of work. Its results, numbers or texts, do not depend on the features.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

import numpy as np

import mxcompat as mx
from mxcompat import nn
from mxcompat import optimizers as optim

RNG = np.random.default_rng(0)


def training() -> Any:
    """Train a small network whose steps evaluate parameters and read intermediate values. Return the losses."""
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 3))
    optimizer = optim.AdamW(1e-2)
    x, y = mx.array(RNG.normal(size=(32, 8)).astype(np.float32)), mx.array(RNG.integers(0, 3, 32))
    seen = []

    def loss(x: mx.array, y: mx.array) -> mx.array:
        logits = model(x)
        seen[:] = [logits]
        return nn.losses.cross_entropy(logits, y, reduction="mean")

    losses = []
    for _ in range(30):
        value, gradients = nn.value_and_grad(model, loss)(x, y)
        optimizer.update(model, gradients)
        mx.eval(model.parameters(), optimizer.state)
        losses.append(value.item())
    return [*losses, seen[0].sum().item()]


def caches() -> Any:
    """Write into a cache in place, while references to its older states are held and read later."""
    cache, held, out = mx.zeros((64, 128, 32)), [], []
    for k in range(12):
        cache[:, k] = mx.full((64, 32), float(k + 1))
        if k % 4 == 0:
            held.append(cache[:, :])
        mx.eval(cache)
        out.append(cache.sum().item())
    return [*out, *[x.sum().item() for x in held]]


def chains() -> Any:
    """Compute chains of elementwise operations on large arrays, whose operands may be overwritten."""
    x = mx.array(RNG.uniform(1, 2, (512, 512)).astype(np.float32))
    y = x * 2
    mx.eval(y)
    view = y[:256]
    z = mx.abs(mx.negative(y) + x) * y
    mx.eval(z)
    kept = y.sum().item()
    w = mx.sqrt(mx.square(z + 1))
    del z
    return [kept, view.sum().item(), w.sum().item(), mx.grad(lambda x: (mx.sin(x) * x).sum())(w).sum().item()]


def overlaps() -> Any:
    """Move rows down in a compiled program: each row must be read before it is overwritten."""

    def down(x: mx.array) -> mx.array:
        x = (x * 1.5).reshape(32, 32)
        x[1:] = x[:-1]
        return x.reshape(-1)

    return mx.compile(down)(mx.arange(1024, dtype=mx.float32)).tolist()


def identities() -> Any:
    """Compute identities that hold for real numbers, but not for floats, or for integers that overflow."""

    def compiled(x: mx.array, n: mx.array) -> list[mx.array]:
        return [mx.log(mx.exp(x)), mx.sqrt(x * x), n * n // 7, n // mx.abs(n)]

    x, n = mx.array([1000.0, 1e30, -3.0]), mx.array([2**17 + 3, -(2**31), 65_537], mx.int32)
    return [str(r.tolist()) for r in mx.compile(compiled)(x, n)]


def halves() -> Any:
    """Compute sums of products in half precision, each of which is rounded."""
    a, b = (mx.array(RNG.normal(size=2000).astype(np.float16)) for _ in range(2))
    return mx.compile(lambda a, b: a * b - b * a)(a, b).sum().item(), (a * b + a).sum().item()


def factors() -> Any:
    """Factorize matrices with LAPACK, by XLA and by NumPy, including matrices that it rejects."""
    a = mx.array(RNG.normal(size=(6, 6)).astype(np.float32))
    a = a @ a.T + 6 * mx.eye(6)
    factor = mx.compile(lambda a: mx.linalg.cholesky(a, stream=mx.cpu))(a)
    try:
        mx.linalg.inv(mx.zeros((4, 4)), stream=mx.cpu).tolist()
    except Exception as error:
        return [factor.sum().item(), type(error).__name__]
    return None


def jaxs() -> Any:
    """Exchange arrays with JAX, and share memory."""
    import jax

    x = mx.array(jax.numpy.arange(6.0).reshape(2, 3))
    y = mx.compile(lambda x: x + 1)(x)
    result = jax.jit(lambda x: x * 2)(mx.array(RNG.integers(0, 9, 4))).tolist()
    return [memoryview(y).tolist(), np.array(y).tolist(), bytes(memoryview(np.array(x))).hex(), result]


def processes() -> Any:
    """Receive a signal during a computation."""
    signals: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda *_: signals.append(1))
    signal.raise_signal(signal.SIGUSR1)
    x = mx.zeros((512, 1024))
    x[0] = 1
    mx.eval(x)
    signal.signal(signal.SIGUSR1, before)
    return [len(signals), x.sum().item()]


def refusals() -> Any:
    """Raise errors, with and without the line that caused them, and run out of memory."""
    names = []
    for work in (lambda: mx.zeros((2, 3)) @ mx.zeros((4, 5)), lambda: mx.zeros((1 << 20, 1 << 20)).sum().item()):
        try:
            work()
        except Exception as error:
            names.append(type(error).__name__)
    return names


def memory() -> Any:
    """Clear the caches, and compile again."""
    f = mx.compile(lambda x: mx.sin(x) @ x)
    x = mx.array(RNG.normal(size=(40, 40)).astype(np.float32))
    first = f(x).sum().item()
    mx.ext.debug.clear_cache()
    return [first, f(x).sum().item(), mx.ext.debug.cache_info().trace_bytes >= 0]


PARTS = (training, caches, chains, overlaps, identities, halves, factors, jaxs, processes, refusals, memory)


def main() -> None:
    results = {}
    for part in PARTS:
        for side in range(2):  # NumPy computes the first run, and an executable may compute the second
            results[f"{part.__name__} {side}"] = part()
    json.dump(results, sys.stdout)


if __name__ == "__main__":
    main()
