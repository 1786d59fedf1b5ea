"""The training step of a small GPT: loss, gradients, Adam; in MLX, for both libraries, and hand-written in JAX.

Four layers of width 128 with 4 heads, vocabulary 1000, batches of 8x64 tokens. Both versions start from the same
parameters and compute the same losses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

LAYERS, WIDTH, HEADS, VOCABULARY, BATCH, LENGTH = 4, 128, 4, 1000, 8, 64
RATE, BETA1, BETA2, EPS = 1e-3, 0.9, 0.99, 1e-8


def parameters(layers: int = LAYERS) -> dict[str, Any]:
    """Return the parameters as NumPy arrays, the same at every call."""
    rng = np.random.default_rng(0)

    def normal(*shape: int) -> np.ndarray:
        return rng.normal(scale=0.02, size=shape).astype(np.float32)

    def norm() -> dict[str, np.ndarray]:
        return {"scale": np.ones(WIDTH, np.float32), "shift": np.zeros(WIDTH, np.float32)}

    return {
        "tokens": normal(VOCABULARY, WIDTH),
        "positions": normal(LENGTH, WIDTH),
        "layers": [
            {
                "norm1": norm(),
                "query": normal(WIDTH, WIDTH),
                "key": normal(WIDTH, WIDTH),
                "value": normal(WIDTH, WIDTH),
                "out": normal(WIDTH, WIDTH),
                "norm2": norm(),
                "up": normal(WIDTH, 4 * WIDTH),
                "down": normal(4 * WIDTH, WIDTH),
            }
            for _ in range(layers)
        ],
        "norm": norm(),
        "head": normal(WIDTH, VOCABULARY),
    }


def tokens() -> tuple[np.ndarray, np.ndarray]:
    """Return a batch: the tokens (8, 64), and their successors."""
    text = np.random.default_rng(1).integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype(np.int32)
    return text[:, :-1], text[:, 1:]


def tree_map(fn: Callable[..., Any], tree: Any, *rest: Any) -> Any:
    """Apply `fn` to the leaves of trees of one structure."""
    if isinstance(tree, dict):
        return {k: tree_map(fn, v, *[r[k] for r in rest]) for k, v in tree.items()}
    if isinstance(tree, list):
        return [tree_map(fn, v, *[r[k] for r in rest]) for k, v in enumerate(tree)]
    return fn(tree, *rest)


def mlx_step(
    mx: Any, layers: int = LAYERS, average: Callable[[Any], Any] = lambda gradients: gradients
) -> Callable[[], float]:
    """Return the step as an MLX user writes it, without compile. Each call trains once and returns the loss.

    With several processes, `average` replaces the gradients by their mean over all of them.
    """

    def layer_norm(p: Any, x: Any) -> Any:
        mean = mx.mean(x, axis=-1, keepdims=True)
        variance = mx.var(x, axis=-1, keepdims=True)
        return (x - mean) * mx.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]

    def heads(x: Any) -> Any:
        return x.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    def attention(p: Any, x: Any, mask: Any) -> Any:
        q, k, v = heads(x @ p["query"]), heads(x @ p["key"]), heads(x @ p["value"])
        scores = (q @ k.transpose(0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5 + mask
        mixed = mx.softmax(scores, axis=-1) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH) @ p["out"]

    def gelu(x: Any) -> Any:
        return 0.5 * x * (1 + mx.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    def loss_fn(p: Any, x: Any, y: Any) -> Any:
        mask = mx.where(mx.arange(LENGTH)[:, None] >= mx.arange(LENGTH), 0.0, -1e9)
        h = p["tokens"][x] + p["positions"]
        for layer in p["layers"]:
            h = h + attention(layer, layer_norm(layer["norm1"], h), mask)
            h = h + gelu(layer_norm(layer["norm2"], h) @ layer["up"]) @ layer["down"]
        logits = layer_norm(p["norm"], h) @ p["head"]
        picked = mx.take_along_axis(logits, y[..., None], axis=-1).squeeze(-1)
        return mx.mean(mx.logsumexp(logits, axis=-1) - picked)

    params = tree_map(mx.array, parameters(layers))
    m = tree_map(mx.zeros_like, params)
    v = tree_map(mx.zeros_like, params)
    x, y = map(mx.array, tokens())
    mx.eval(params, m, v, x, y)
    value_and_grad = mx.value_and_grad(loss_fn)
    t = 0

    def step() -> float:
        nonlocal params, m, v, t
        t += 1
        rate = RATE * (1 - BETA2**t) ** 0.5 / (1 - BETA1**t)
        loss, grads = value_and_grad(params, x, y)
        grads = average(grads)
        m = tree_map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, grads)
        v = tree_map(lambda v, g: BETA2 * v + (1 - BETA2) * mx.square(g), v, grads)
        params = tree_map(lambda p, m, v: p - rate * m / (mx.sqrt(v) + EPS), params, m, v)
        mx.eval(loss, params, m, v)
        return loss.item()

    return step


def jax_step(layers: int = LAYERS) -> Callable[[], float]:
    """Return the hand-written step: one `jax.jit` around all of it."""
    import jax
    import jax.numpy as jnp

    def layer_norm(p: Any, x: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p["scale"] + p["shift"]

    def heads(x: Any) -> Any:
        return x.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

    def attention(p: Any, x: Any, mask: Any) -> Any:
        q, k, v = heads(x @ p["query"]), heads(x @ p["key"]), heads(x @ p["value"])
        scores = (q @ k.transpose(0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5 + mask
        mixed = jax.nn.softmax(scores, axis=-1) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH) @ p["out"]

    def loss_fn(p: Any, x: Any, y: Any) -> Any:
        mask = jnp.where(jnp.arange(LENGTH)[:, None] >= jnp.arange(LENGTH), 0.0, -1e9)
        h = p["tokens"][x] + p["positions"]
        for layer in p["layers"]:
            h = h + attention(layer, layer_norm(layer["norm1"], h), mask)
            h = h + jax.nn.gelu(layer_norm(layer["norm2"], h) @ layer["up"]) @ layer["down"]
        logits = layer_norm(p["norm"], h) @ p["head"]
        picked = jnp.take_along_axis(logits, y[..., None], axis=-1).squeeze(-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    @jax.jit
    def train(params: Any, m: Any, v: Any, rate: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(params, x, y)
        m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, grads)
        v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, grads)
        params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + EPS), params, m, v)
        return loss, params, m, v

    params = jax.tree.map(jnp.array, parameters(layers))
    m = jax.tree.map(jnp.zeros_like, params)
    v = jax.tree.map(jnp.zeros_like, params)
    x, y = map(jnp.array, tokens())
    t = 0

    def step() -> float:
        nonlocal params, m, v, t
        t += 1
        rate = RATE * (1 - BETA2**t) ** 0.5 / (1 - BETA1**t)
        loss, params, m, v = train(params, m, v, rate, x, y)
        jax.block_until_ready((params, m, v))
        return float(loss)

    return step
