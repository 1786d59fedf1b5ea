"""Training steps written with `nn` and `optimizers`, for both libraries, and hand-written in JAX.

A model's parameters are a flat dict from paths (those of `nn`) to NumPy arrays, so both sides start from the same
numbers. Every step consists of loss, gradients, and AdamW with MLX's defaults.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from .gpt import BATCH, HEADS, LAYERS, LENGTH, VOCABULARY, WIDTH
from .gpt import tokens as text

__all__ = ["conv_net", "conv_net_jax", "gpt", "gpt_jax", "mlp", "mlp_jax", "sibling"]

Step = Callable[[], float]
Parameters = dict[str, np.ndarray]

RATE, BETA1, BETA2, EPS, DECAY = 1e-3, 0.9, 0.999, 1e-8, 0.01


def sibling(mx: Any, name: str) -> Any:
    """Return `nn` or `optimizers` of the package whose core is `mx`."""
    return importlib.import_module(mx.__name__.removesuffix("core") + name)


Place = Callable[[Any, str], Any]
"""A function that places an array on its devices, given its role: "parameters" or "data"."""


def _here(x: Any, kind: str) -> Any:
    return x


def _mlx_step(
    mx: Any, model: Any, parameters: Parameters, x: np.ndarray, y: np.ndarray, place: Place = _here
) -> Step:  # fmt: skip
    """Return a training step as an MLX user writes it, without compile. Each call trains once and returns the loss."""
    nn, optimizers = sibling(mx, "nn"), sibling(mx, "optimizers")
    model.load_weights([(path, place(mx.array(value), "parameters")) for path, value in parameters.items()])
    optimizer = optimizers.AdamW(learning_rate=RATE)
    inputs, targets = place(mx.array(x), "data"), place(mx.array(y), "data")
    mx.eval(model.parameters(), inputs, targets)

    def loss_fn(model: Any, x: Any, y: Any) -> Any:
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    value_and_grad = nn.value_and_grad(model, loss_fn)

    def step() -> float:
        loss, grads = value_and_grad(model, inputs, targets)
        optimizer.update(model, grads)
        mx.eval(loss, model.parameters(), optimizer.state)
        return loss.item()

    return step


def _jax_step(
    forward: Callable[[Any, Any], Any], parameters: Parameters, x: np.ndarray, y: np.ndarray, place: Place = _here
) -> Step:  # fmt: skip
    """Return the hand-written step: one `jax.jit` around all of it."""
    import jax
    import jax.numpy as jnp

    def loss_fn(p: Any, x: Any, y: Any) -> Any:
        logits = forward(p, x)
        picked = jnp.take_along_axis(logits, y[..., None], axis=-1).squeeze(-1)
        return jnp.mean(jax.nn.logsumexp(logits, axis=-1) - picked)

    def update(p: Any, m: Any, v: Any) -> Any:
        return p * (1 - RATE * DECAY) - RATE * m / (jnp.sqrt(v) + EPS)

    @jax.jit
    def train(p: Any, m: Any, v: Any, x: Any, y: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_fn)(p, x, y)
        m = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, m, grads)
        v = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, v, grads)
        return loss, jax.tree.map(update, p, m, v), m, v

    p = {path: place(jnp.array(value), "parameters") for path, value in parameters.items()}
    m, v = jax.tree.map(jnp.zeros_like, p), jax.tree.map(jnp.zeros_like, p)
    inputs, targets = place(jnp.array(x), "data"), place(jnp.array(y), "data")

    def step() -> float:
        nonlocal p, m, v
        loss, p, m, v = train(p, m, v, inputs, targets)
        jax.block_until_ready((p, m, v))
        return float(loss)

    return step


class _Random:
    """Initial parameters, the same at every call."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def normal(self, *shape: int) -> np.ndarray:
        return self._rng.normal(scale=0.05, size=shape).astype(np.float32)

    def linear(self, path: str, inputs: int, outputs: int, bias: bool = True) -> Parameters:
        weight = {f"{path}.weight": self.normal(outputs, inputs)}
        return weight | ({f"{path}.bias": self.normal(outputs)} if bias else {})


def _images(*shape: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.normal(size=shape).astype(np.float32), rng.integers(0, 10, shape[0]).astype(np.int32)


_SIZES = (64, 256, 256, 10)


def _mlp_parameters() -> Parameters:
    random = _Random()
    layers = [random.linear(f"layers.{2 * k}", *_SIZES[k : k + 2]) for k in range(3)]
    return layers[0] | layers[1] | layers[2]


def mlp(mx: Any) -> Step:
    nn = sibling(mx, "nn")
    one, two, three = (nn.Linear(*_SIZES[k : k + 2]) for k in range(3))
    return _mlx_step(mx, nn.Sequential(one, nn.relu, two, nn.relu, three), _mlp_parameters(), *_images(64, 64))


def mlp_jax() -> Step:
    import jax

    def forward(p: Any, x: Any) -> Any:
        for k in (0, 2):
            x = jax.nn.relu(x @ p[f"layers.{k}.weight"].T + p[f"layers.{k}.bias"])
        return x @ p["layers.4.weight"].T + p["layers.4.bias"]

    return _jax_step(forward, _mlp_parameters(), *_images(64, 64))


def _gpt_parameters() -> Parameters:
    random = _Random()
    p = {"tokens.weight": random.normal(VOCABULARY, WIDTH), "positions.weight": random.normal(LENGTH, WIDTH)}

    def norm(path: str) -> Parameters:
        return {f"{path}.weight": np.ones(WIDTH, np.float32), f"{path}.bias": np.zeros(WIDTH, np.float32)}

    for k in range(LAYERS):
        layer = f"blocks.layers.{k}"
        for name in ("query", "key", "value", "out"):
            p |= random.linear(f"{layer}.attention.{name}_proj", WIDTH, WIDTH, bias=False)
        p |= norm(f"{layer}.ln1") | norm(f"{layer}.ln2")
        p |= random.linear(f"{layer}.linear1", WIDTH, 4 * WIDTH) | random.linear(f"{layer}.linear2", 4 * WIDTH, WIDTH)
    return p | norm("blocks.ln") | random.linear("head", WIDTH, VOCABULARY)


def gpt(mx: Any, place: Place = _here) -> Step:
    nn = sibling(mx, "nn")

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCABULARY, WIDTH)
            self.positions = nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.TransformerEncoder(LAYERS, WIDTH, HEADS, activation=nn.gelu_approx)
            self.head = nn.Linear(WIDTH, VOCABULARY)

        def __call__(self, x: Any) -> Any:
            length = x.shape[1]
            mask = nn.MultiHeadAttention.create_additive_causal_mask(length)
            h = self.tokens(x) + self.positions(mx.arange(length))
            return self.head(self.blocks(h, mask))

    return _mlx_step(mx, GPT(), _gpt_parameters(), *text(), place)


def gpt_jax(place: Place = _here) -> Step:
    import jax
    import jax.numpy as jnp

    def norm(p: Any, path: str, x: Any) -> Any:
        mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * p[f"{path}.weight"] + p[f"{path}.bias"]

    def attention(p: Any, path: str, x: Any, mask: Any) -> Any:
        def heads(name: str) -> Any:
            y = x @ p[f"{path}.{name}_proj.weight"].T
            return y.reshape(BATCH, LENGTH, HEADS, -1).transpose(0, 2, 1, 3)

        q, k, v = map(heads, ("query", "key", "value"))
        scores = (q @ k.transpose(0, 1, 3, 2)) * (WIDTH // HEADS) ** -0.5 + mask
        mixed = jax.nn.softmax(scores, axis=-1) @ v
        return mixed.transpose(0, 2, 1, 3).reshape(BATCH, LENGTH, WIDTH) @ p[f"{path}.out_proj.weight"].T

    def forward(p: Any, x: Any) -> Any:
        mask = jnp.where(jnp.arange(LENGTH)[:, None] >= jnp.arange(LENGTH), 0.0, jnp.finfo(jnp.float32).min)
        h = p["tokens.weight"][x] + p["positions.weight"]
        for k in range(LAYERS):
            layer = f"blocks.layers.{k}"
            h = h + attention(p, f"{layer}.attention", norm(p, f"{layer}.ln1", h), mask)
            up = norm(p, f"{layer}.ln2", h) @ p[f"{layer}.linear1.weight"].T + p[f"{layer}.linear1.bias"]
            h = h + jax.nn.gelu(up) @ p[f"{layer}.linear2.weight"].T + p[f"{layer}.linear2.bias"]
        return norm(p, "blocks.ln", h) @ p["head.weight"].T + p["head.bias"]

    return _jax_step(forward, _gpt_parameters(), *text(), place)


def _conv_parameters() -> Parameters:
    random = _Random()
    one = {"layers.0.weight": random.normal(16, 3, 3, 1), "layers.0.bias": random.normal(16)}
    two = {"layers.3.weight": random.normal(32, 3, 3, 16), "layers.3.bias": random.normal(32)}
    return one | two | random.linear("layers.7", 7 * 7 * 32, 10)


def conv_net(mx: Any) -> Step:
    nn = sibling(mx, "nn")
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.relu, nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.relu, nn.MaxPool2d(2),
        lambda x: x.reshape(x.shape[0], -1), nn.Linear(7 * 7 * 32, 10),
    )  # fmt: skip
    return _mlx_step(mx, model, _conv_parameters(), *_images(32, 28, 28, 1))


def conv_net_jax() -> Step:
    import jax

    def block(p: Any, path: str, x: Any) -> Any:
        y = jax.lax.conv_general_dilated(
            x, p[f"{path}.weight"], (1, 1), [(1, 1)] * 2, dimension_numbers=("NHWC", "OHWI", "NHWC")
        )
        y = jax.nn.relu(y + p[f"{path}.bias"])
        batch, height, width, channels = y.shape
        return y.reshape(batch, height // 2, 2, width // 2, 2, channels).max((2, 4))

    def forward(p: Any, x: Any) -> Any:
        x = block(p, "layers.3", block(p, "layers.0", x))
        return x.reshape(x.shape[0], -1) @ p["layers.7.weight"].T + p["layers.7.bias"]

    return _jax_step(forward, _conv_parameters(), *_images(32, 28, 28, 1))
