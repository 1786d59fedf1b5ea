"""Single ops with separate targets: convolutions with gradients, 4-bit products, and ops that are slow in XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = [
    "conv", "conv_jax", "distances", "distances_jax", "product", "product_jax", "quantized", "quantized_jax", "rope",
    "rope_jax", "scans", "scans_jax",
]  # fmt: skip

Step = Callable[[], Any]

_GROUP, _BITS = 64, 4


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def conv(mx: Any) -> Step:
    x, w = mx.array(_normal(0, 8, 32, 32, 32)), mx.array(_normal(1, 64, 3, 3, 32))
    mx.eval(x, w)
    value_and_grad = mx.value_and_grad(lambda x, w: mx.mean(mx.square(mx.conv2d(x, w, padding=1))), argnums=(0, 1))

    def step() -> float:
        loss, grads = value_and_grad(x, w)
        mx.eval(loss, grads)
        return loss.item()

    return step


def conv_jax() -> Step:
    import jax
    import jax.numpy as jnp

    x, w = jnp.array(_normal(0, 8, 32, 32, 32)), jnp.array(_normal(1, 64, 3, 3, 32))

    def loss_fn(x: Any, w: Any) -> Any:
        y = jax.lax.conv_general_dilated(x, w, (1, 1), [(1, 1)] * 2, dimension_numbers=("NHWC", "OHWI", "NHWC"))
        return jnp.mean(jnp.square(y))

    value_and_grad = jax.jit(jax.value_and_grad(loss_fn, argnums=(0, 1)))

    def step() -> float:
        loss, grads = value_and_grad(x, w)
        jax.block_until_ready(grads)
        return float(loss)

    return step


def _weights(outputs: int, inputs: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return random packed 4-bit weights, their scales and biases."""
    packed = np.random.default_rng(2).integers(0, 1 << 32, (outputs, inputs * _BITS // 32), dtype=np.uint32)
    return packed, _normal(3, outputs, inputs // _GROUP) / 64, _normal(4, outputs, inputs // _GROUP) / 64


def quantized(rows: int) -> Callable[[Any], Step]:
    """Return the product of `x (rows, 512)` and weights `(2048, 512)`, transposed."""

    def build(mx: Any) -> Step:
        x = mx.array(_normal(0, rows, 512))
        weights = [mx.array(part) for part in _weights(2048, 512)]
        mx.eval(x, weights)

        def step() -> float:
            y = mx.quantized_matmul(x, *weights, transpose=True, group_size=_GROUP, bits=_BITS)
            mx.eval(y)
            return y[0, 0].item()

        return step

    return build


def quantized_jax(rows: int) -> Callable[[], Step]:
    """Return the hand-written product: unpack, scale and multiply, which XLA fuses."""

    def build() -> Step:
        import jax
        import jax.numpy as jnp

        x = jnp.array(_normal(0, rows, 512))
        weights = [jnp.array(part) for part in _weights(2048, 512)]

        @jax.jit
        def product(x: Any, packed: Any, scales: Any, biases: Any) -> Any:
            shifts = jnp.arange(0, 32, _BITS, dtype=jnp.uint32)
            q = (packed[..., None] >> shifts) & (2**_BITS - 1)
            q = q.reshape(2048, -1, _GROUP).astype(jnp.float32)
            w = (q * scales[..., None] + biases[..., None]).reshape(2048, 512)
            return x @ w.T

        def step() -> float:
            y = product(x, *weights)
            y.block_until_ready()
            return float(y[0, 0])

        return step

    return build


def distances(mx: Any) -> Step:
    x = mx.array(_normal(0, 300, 1000))
    mx.eval(x)

    def step() -> None:
        mx.eval(mx.square(x[:, None] - x[None]).sum(-1))

    return step


def distances_jax() -> Step:
    import jax
    import jax.numpy as jnp

    x = jnp.array(_normal(0, 300, 1000))
    distance = jax.jit(lambda x: jnp.square(x[:, None] - x[None]).sum(-1))

    def step() -> None:
        distance(x).block_until_ready()

    return step


def rope(mx: Any) -> Step:
    x = mx.array(_normal(0, 4, 16, 512, 64))
    mx.eval(x)

    def step() -> None:
        mx.eval(mx.fast.rope(x, 64, traditional=False, base=1e4, scale=1.0, offset=0))

    return step


def rope_jax() -> Step:
    import jax
    import jax.numpy as jnp

    x = jnp.array(_normal(0, 4, 16, 512, 64))

    @jax.jit
    def rotated(x: Any) -> Any:
        angles = jnp.arange(512.0)[:, None] * 1e4 ** -(jnp.arange(32) / 32)
        cos, sin = jnp.cos(angles), jnp.sin(angles)
        a, b = x[..., :32], x[..., 32:]
        return jnp.concatenate([a * cos - b * sin, a * sin + b * cos], -1)

    def step() -> None:
        rotated(x).block_until_ready()

    return step


def _factors() -> np.ndarray:
    """Return a million numbers whose products stay finite."""
    return 1 + _normal(0, 1_000_000) / 1000


def scans(mx: Any) -> Step:
    x = mx.array(_factors())
    mx.eval(x)

    def step() -> None:
        for scan in (mx.cumsum, mx.cumprod, mx.cummax):
            mx.eval(scan(x))

    return step


def scans_jax() -> Step:
    import jax
    import jax.numpy as jnp

    x = jnp.array(_factors())
    scans = [jax.jit(scan) for scan in (jnp.cumsum, jnp.cumprod, jax.lax.cummax)]

    def step() -> None:
        for scan in scans:
            scan(x).block_until_ready()

    return step


def product(mx: Any) -> Step:
    x = mx.array(_factors())
    mx.eval(x)
    gradient = mx.grad(mx.prod)

    def step() -> None:
        mx.eval(gradient(x))

    return step


def product_jax() -> Step:
    import jax
    import jax.numpy as jnp

    x = jnp.array(_factors())
    gradient = jax.jit(jax.grad(jnp.prod))

    def step() -> None:
        gradient(x).block_until_ready()

    return step
