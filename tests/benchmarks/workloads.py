"""The workloads: each in plain MLX, given `mx`, and hand-written in JAX, with mxcompat's targets.

A workload's `mlx(mx)` and `jax()` set it up and return a step to be timed. A step returns a number, which must be
the same on all sides, so that the benchmark compares equal work.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from . import gpt, operations, training

Step = Callable[[], Any]


@dataclass(frozen=True)
class Workload:
    """One row of the table.

    Args:
        mlx: sets the work up with a given `mx`, and returns the step.
        jax: the same with `jax.jit`; None without a counterpart.
        of_jax: the limit as a multiple of `jax`'s median.
        of_mlx: the limit as a multiple of real MLX's median.
    """

    name: str
    mlx: Callable[[Any], Step]
    jax: Callable[[], Step] | None = None
    of_jax: float | None = None
    of_mlx: float | None = None


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def reproducible(build: Callable[[Any], Step]) -> Callable[[Any], Step]:
    """Return the same work in reproducible mode, to measure its cost. Real MLX is always reproducible."""

    def wrapped(mx: Any) -> Step:
        step = build(mx)
        if mx.__name__ != "mxcompat.core":
            return step
        from mxcompat import ext

        def reproducibly() -> Any:
            with ext.reproducible():
                return step()

        return reproducibly

    return wrapped


def build_add(mx: Any) -> Step:
    a, b = mx.array(_normal(0, 8, 8)), mx.array(_normal(1, 8, 8))
    mx.eval(a, b)

    def step() -> None:
        a + b

    return step


def eval_add(mx: Any) -> Step:
    a, b = mx.array(_normal(0, 8, 8)), mx.array(_normal(1, 8, 8))
    mx.eval(a, b)

    def step() -> None:
        mx.eval(a + b)

    return step


def eval_add_jax() -> Step:
    import jax
    import jax.numpy as jnp

    a, b = jnp.array(_normal(0, 8, 8)), jnp.array(_normal(1, 8, 8))
    add = jax.jit(lambda a, b: a + b)

    def step() -> None:
        add(a, b).block_until_ready()

    return step


MLP_DEPTH, MLP_WIDTH, MLP_BATCH = 4, 32, 32


def mlp(mx: Any) -> Step:
    params = [{"w": mx.array(_normal(k, MLP_WIDTH, MLP_WIDTH) / 6), "b": mx.zeros(MLP_WIDTH)} for k in range(MLP_DEPTH)]
    x, y = mx.array(_normal(10, MLP_BATCH, MLP_WIDTH)), mx.array(_normal(11, MLP_BATCH, MLP_WIDTH))
    mx.eval(params, x, y)

    def loss_fn(params: Any, x: Any, y: Any) -> Any:
        for layer in params:
            x = mx.tanh(x @ layer["w"] + layer["b"])
        return mx.mean(mx.square(x - y))

    value_and_grad = mx.value_and_grad(loss_fn)

    def step() -> float:
        loss, grads = value_and_grad(params, x, y)
        mx.eval(loss, grads)
        return loss.item()

    return step


def mlp_jax() -> Step:
    import jax
    import jax.numpy as jnp

    params = [
        {"w": jnp.array(_normal(k, MLP_WIDTH, MLP_WIDTH) / 6), "b": jnp.zeros(MLP_WIDTH)} for k in range(MLP_DEPTH)
    ]
    x, y = jnp.array(_normal(10, MLP_BATCH, MLP_WIDTH)), jnp.array(_normal(11, MLP_BATCH, MLP_WIDTH))

    def loss_fn(params: Any, x: Any, y: Any) -> Any:
        for layer in params:
            x = jnp.tanh(x @ layer["w"] + layer["b"])
        return jnp.mean(jnp.square(x - y))

    value_and_grad = jax.jit(jax.value_and_grad(loss_fn))

    def step() -> float:
        loss, grads = value_and_grad(params, x, y)
        jax.block_until_ready(grads)
        return float(loss)

    return step


def _chain(np_like: Any, x: Any) -> Any:
    """Apply 200 elementwise ops, in a Python loop."""
    for _ in range(40):
        x = x * 1.01
        x = x + 0.02
        x = np_like.maximum(x, -1.0)
        x = np_like.minimum(x, 1.0)
        x = -x
    return x


def elementwise(mx: Any) -> Step:
    x = mx.array(_normal(0, 1_000_000))
    mx.eval(x)

    def step() -> float:
        y = _chain(mx, x)
        mx.eval(y)
        return y[0].item()

    return step


def elementwise_jax() -> Step:
    import jax
    import jax.numpy as jnp

    x = jnp.array(_normal(0, 1_000_000))
    chain = jax.jit(lambda x: _chain(jnp, x))

    def step() -> float:
        y = chain(x)
        y.block_until_ready()
        return float(y[0])

    return step


def _series(mx: Any, x: Any, y: Any) -> list[Any]:
    out = []
    for _ in range(6):
        x = mx.sin(x) * y
        out.append(x)
    return out


def several(mx: Any) -> Step:
    x, y = mx.array(_normal(0, 512, 512)), mx.array(_normal(1, 512, 512))
    mx.eval(x, y)

    def step() -> float:
        results = _series(mx, x, y)
        mx.eval(results)
        return results[-1][0, 0].item()

    return step


def several_jax() -> Step:
    import jax
    import jax.numpy as jnp

    x, y = jnp.array(_normal(0, 512, 512)), jnp.array(_normal(1, 512, 512))
    series = jax.jit(lambda x, y: _series(jnp, x, y))

    def step() -> float:
        return float(jax.block_until_ready(series(x, y))[-1][0, 0])

    return step


def vmap(mx: Any) -> Step:
    xs, ys = mx.array(_normal(0, 4096, 100)), mx.array(_normal(1, 100, 4096))
    mx.eval(xs, ys)
    add = mx.vmap(lambda x, y: x + y, in_axes=(1, 0))

    def step() -> None:
        mx.eval(add(xs, ys))

    return step


def vmap_jax() -> Step:
    import jax
    import jax.numpy as jnp

    xs, ys = jnp.array(_normal(0, 4096, 100)), jnp.array(_normal(1, 100, 4096))
    add = jax.jit(jax.vmap(lambda x, y: x + y, in_axes=(1, 0)))

    def step() -> None:
        add(xs, ys).block_until_ready()

    return step


WORKLOADS = (
    Workload("build one add", build_add, of_mlx=1.2),
    Workload("build and evaluate one add, 8x8", eval_add, eval_add_jax, of_jax=1.2, of_mlx=0.6),
    Workload("value_and_grad of a 4-layer MLP, 32 wide", mlp, mlp_jax, of_jax=1.2, of_mlx=0.6),
    Workload("  the same bits each time", reproducible(mlp), mlp_jax),
    Workload("train step of a 4-layer GPT", gpt.mlx_step, gpt.jax_step, of_jax=1.1, of_mlx=0.1),
    Workload("200 elementwise ops on 1M floats", elementwise, elementwise_jax, of_jax=1.1, of_mlx=0.4),
    Workload("six results of 1 MB, evaluated at once", several, several_jax, of_jax=1.1, of_mlx=0.1),
    Workload("vmap of an add, 4096x100 + 100x4096", vmap, vmap_jax, of_jax=1.1, of_mlx=0.5),
    Workload("conv2d and its gradient", operations.conv, operations.conv_jax, of_jax=1.1),
    Workload("distances of 300 points, 1000 each", operations.distances, operations.distances_jax, of_jax=1.1),
    Workload("rotary embedding, 64 heads of 512x64", operations.rope, operations.rope_jax, of_jax=0.5, of_mlx=1.0),
    Workload("cumsum, cumprod and cummax of a million", operations.scans, operations.scans_jax, of_jax=1.0, of_mlx=4.0),
    Workload("gradient of a product of a million", operations.product, operations.product_jax, of_jax=1.0, of_mlx=2.0),
    Workload("4-bit matmul, 1x512 by 512x2048", operations.quantized(1), operations.quantized_jax(1), of_mlx=1 / 3),
    Workload("4-bit matmul, 128 rows", operations.quantized(128), operations.quantized_jax(128), of_mlx=1 / 3),
    Workload("nn MLP, AdamW: train step", training.mlp, training.mlp_jax, of_jax=1.5, of_mlx=0.15),
    Workload("  the same bits each time", reproducible(training.mlp), training.mlp_jax, of_jax=1.5),
    Workload("nn GPT, AdamW: train step", training.gpt, training.gpt_jax, of_jax=1.1),
    Workload("nn conv net, AdamW: train step", training.conv_net, training.conv_net_jax, of_jax=1.05),
)
