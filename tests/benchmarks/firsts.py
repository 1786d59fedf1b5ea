"""New work: shapes, expressions and programs that the process has not met before.

Each workload is a function of `mx`, plain MLX, which mxcompat and real MLX run unmodified. It yields steps, and the
first and only call of each is timed; recurring steps say so. A step returns its evaluated result.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from . import gpt
from .training import sibling

Step = Callable[[], Any]


def _normal(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def _evaluated(mx: Any, *arrays: np.ndarray) -> list[Any]:
    out = [mx.array(array) for array in arrays]
    mx.eval(out)
    return out


def _done(mx: Any, value: Any) -> Any:
    mx.eval(value)
    return value


def small_expression(mx: Any) -> Iterator[Step]:
    """Yield a small expression at another shape each time."""
    for k in itertools.count(3):
        x, y = _evaluated(mx, _normal(k, k, 7), _normal(k + 1, 7))
        yield lambda x=x, y=y: _done(mx, (mx.tanh(x * 2 + y) - x.mean(axis=0)).sum(axis=1))


OPS: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda mx, a, b: a + b,
    lambda mx, a, b: a / b,
    lambda mx, a, b: mx.maximum(a, b),
    lambda mx, a, b: mx.exp(a),
    lambda mx, a, b: mx.tanh(a),
    lambda mx, a, b: a @ a.T,
    lambda mx, a, b: a.sum(axis=0),
    lambda mx, a, b: a.mean(axis=1, keepdims=True),
    lambda mx, a, b: mx.argmax(a, axis=1),
    lambda mx, a, b: mx.softmax(a, axis=-1),
    lambda mx, a, b: mx.sort(a, axis=-1),
    lambda mx, a, b: mx.cumsum(a, axis=0),
    lambda mx, a, b: mx.concatenate([a, b], axis=1),
    lambda mx, a, b: mx.logsumexp(a, axis=1),
    lambda mx, a, b: mx.pad(a, 1),
    lambda mx, a, b: a.astype(mx.int32),
)


def single_ops(mx: Any) -> Iterator[Step]:
    """Yield each of `OPS` in turn, never twice on the same shape."""
    for k in itertools.count(3):
        for j, op in enumerate(OPS):
            a, b = _evaluated(mx, *(_normal(k + i, k, 20 + j) for i in range(2)))
            yield lambda op=op, a=a, b=b: _done(mx, op(mx, a, b))


_POOL: tuple[Callable[[Any, Any, Any], Any], ...] = (
    lambda mx, x, y: mx.tanh(x),
    lambda mx, x, y: mx.sin(x),
    lambda mx, x, y: mx.sigmoid(x),
    lambda mx, x, y: mx.abs(x),
    lambda mx, x, y: -x,
    lambda mx, x, y: x.T,
    lambda mx, x, y: mx.softmax(x, axis=-1),
    lambda mx, x, y: mx.sort(x, axis=0),
    lambda mx, x, y: x - mx.mean(y, axis=1, keepdims=True),
    lambda mx, x, y: x + y,
    lambda mx, x, y: x - y,
    lambda mx, x, y: mx.tanh(x) * y,
    lambda mx, x, y: mx.maximum(x, y),
    lambda mx, x, y: mx.where(x > y, x, y * 0.5),
    lambda mx, x, y: x @ y,
    lambda mx, x, y: mx.concatenate([x[:3], y[3:]], axis=0),
)
"""Functions of two matrices (6, 6) to such a matrix. None amplifies rounding errors of its inputs, except `where`.

`where` may take the other branch if its inputs are nearly equal.
"""


def random_structures(mx: Any, length: int = 8) -> Iterator[Step]:
    """Yield random expressions over `_POOL`, of length `length`: all structures differ, all shapes are equal."""
    rng = np.random.default_rng(0)
    start = _evaluated(mx, *(np.tanh(_normal(k, 6, 6)) for k in range(3)))
    seen = set()
    while True:
        recipe = tuple((int(rng.integers(len(_POOL))), int(rng.integers(3 + k))) for k in range(length))
        if recipe not in seen:
            seen.add(recipe)
            yield partial(_follow, mx, recipe, start)


def _follow(mx: Any, recipe: tuple[tuple[int, int], ...], start: list[Any]) -> Any:
    """Apply a sequence of ops; each takes the previous result and an earlier value."""
    values = list(start)
    for op, other in recipe:
        values.append(_POOL[op](mx, values[-1], values[other]))
    return _done(mx, values[-1])


def gradient(mx: Any) -> Iterator[Step]:
    """Yield `value_and_grad` of a 4-layer MLP, 32 wide, for a batch of another size each time."""
    params = [{"w": mx.array(_normal(k, 32, 32) / 6), "b": mx.zeros(32)} for k in range(4)]
    mx.eval(params)

    def loss_fn(params: Any, x: Any, y: Any) -> Any:
        for layer in params:
            x = mx.tanh(x @ layer["w"] + layer["b"])
        return mx.mean(mx.square(x - y))

    for k in itertools.count(3):
        x, y = _evaluated(mx, _normal(10, k, 32), _normal(11, k, 32))
        yield lambda x=x, y=y: _done(mx, mx.value_and_grad(loss_fn)(params, x, y))


def _score(mx: Any, x: Any, w: Any) -> Any:
    return (mx.tanh(x @ w) * x).sum()


def vmap(mx: Any) -> Iterator[Step]:
    """Yield `vmap` over an axis of another size each time."""
    (w,) = _evaluated(mx, _normal(0, 5, 5))
    for k in itertools.count(3):
        (xs,) = _evaluated(mx, _normal(k, k, 5))
        yield lambda xs=xs: _done(mx, mx.vmap(lambda x: _score(mx, x, w))(xs))


def vmap_of_grad(mx: Any) -> Iterator[Step]:
    """Yield the `vmap` of a gradient, at another shape each time."""
    (w,) = _evaluated(mx, _normal(0, 5, 5))
    for k in itertools.count(3):
        (xs,) = _evaluated(mx, _normal(k, k, 5))
        yield lambda xs=xs: _done(mx, mx.vmap(mx.grad(lambda x: _score(mx, x, w)))(xs))


def hessian(mx: Any) -> Iterator[Step]:
    """Yield the Hessian of an energy, mapped over the rows of an identity matrix, of another size each time."""
    for k in itertools.count(3):
        x, eye = _evaluated(mx, _normal(k, k), np.eye(k, dtype=np.float32))

        def energy(x: Any) -> Any:
            return (mx.square(x[1:] - mx.tanh(x[:-1])) + mx.exp(-mx.square(x[:-1]))).sum()

        def product(v: Any, x: Any = x) -> Any:
            return mx.grad(lambda x: (mx.grad(energy)(x) * v).sum())(x)

        yield lambda product=product, eye=eye: _done(mx, mx.vmap(product)(eye))


def _trained(mx: Any, make: Callable[[Any], Any], x: np.ndarray, y: np.ndarray) -> Any:
    """Run a script's path to its first loss: model, optimizer, data and a training step."""
    nn, optimizers = sibling(mx, "nn"), sibling(mx, "optimizers")
    mx.random.seed(0)
    model = make(nn)
    mx.eval(model.parameters())
    optimizer = optimizers.AdamW(learning_rate=1e-3)

    def loss_fn(model: Any, x: Any, y: Any) -> Any:
        return nn.losses.cross_entropy(model(x), y, reduction="mean")

    loss, grads = nn.value_and_grad(model, loss_fn)(model, mx.array(x), mx.array(y))
    optimizer.update(model, grads)
    mx.eval(loss, model.parameters(), optimizer.state)
    return [loss, list(model.layers[0].parameters().values())]


def models(mx: Any) -> Iterator[Step]:
    """Yield the construction of an `nn` model with 5 million random parameters, again and again."""
    nn = sibling(mx, "nn")

    def make() -> Any:
        mx.random.seed(0)
        model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(20)])
        mx.eval(model.parameters())
        return model.layers[0].weight[0, :8]

    return itertools.repeat(make)


def first_mlp(mx: Any) -> Iterator[Step]:
    """Yield the first training step of an `nn` MLP with AdamW, including the model's construction."""

    def make(nn: Any) -> Any:
        return nn.Sequential(nn.Linear(64, 256), nn.relu, nn.Linear(256, 256), nn.relu, nn.Linear(256, 10))

    yield lambda: _trained(mx, make, _normal(1, 64, 64), np.arange(64, dtype=np.int32) % 10)


def first_conv(mx: Any) -> Iterator[Step]:
    """Yield the first training step of a small convolutional network."""

    def make(nn: Any) -> Any:
        return nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1), nn.relu, nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.relu, nn.MaxPool2d(2),
            lambda x: x.reshape(x.shape[0], -1), nn.Linear(7 * 7 * 32, 10),
        )  # fmt: skip

    yield lambda: _trained(mx, make, _normal(1, 32, 28, 28, 1), np.arange(32, dtype=np.int32) % 10)


def gpt_steps(mx: Any, layers: int = gpt.LAYERS) -> Iterator[Step]:
    """Yield the training step of a small GPT repeatedly: the first, the second and so on."""
    return itertools.repeat(gpt.mlx_step(mx, layers))


def gpt_steps_jax(layers: int = gpt.LAYERS) -> Iterator[Step]:
    """Yield hand-written JAX steps of the GPT, the first of which compiles."""
    return itertools.repeat(gpt.jax_step(layers))


def changing_batches(mx: Any) -> Iterator[Step]:
    """Yield a training step of an `nn` MLP with Adam, every batch of another size."""
    nn, optimizers = sibling(mx, "nn"), sibling(mx, "optimizers")
    mx.random.seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.relu, nn.Linear(32, 32), nn.relu, nn.Linear(32, 1))
    optimizer = optimizers.Adam(learning_rate=1e-3)
    mx.eval(model.parameters())
    value_and_grad = nn.value_and_grad(model, lambda model, x, y: nn.losses.mse_loss(model(x), y))

    def step(x: Any, y: Any) -> Any:
        loss, grads = value_and_grad(model, x, y)
        optimizer.update(model, grads)
        mx.eval(loss, model.parameters(), optimizer.state)
        return loss

    for k in itertools.count(3):
        yield partial(step, *_evaluated(mx, _normal(k, k, 16), _normal(k + 1, k, 1)))


def concatenated_cache(mx: Any, heads: int = 4, width: int = 32) -> Iterator[Step]:
    """Yield a token's attention to all tokens before it: keys and values grow by `concatenate`."""
    weights = _evaluated(mx, *(_normal(k, heads * width, heads * width) / 12 for k in range(3)))
    keys, values = _evaluated(mx, *np.zeros((2, heads, 0, width), np.float32))

    def step(x: Any) -> Any:
        nonlocal keys, values
        q, k, v = ((x @ w).reshape(1, heads, width).transpose(1, 0, 2) for w in weights)
        keys, values = mx.concatenate([keys, k], axis=1), mx.concatenate([values, v], axis=1)
        scores = (q * width**-0.5) @ keys.transpose(0, 2, 1)
        out = mx.softmax(scores, axis=-1) @ values
        mx.eval(out, keys, values)
        return out

    for k in itertools.count():
        yield partial(step, *_evaluated(mx, _normal(k, 1, heads * width)))


def unevaluated_adam(mx: Any, steps: int = 150) -> Iterator[Step]:
    """Yield a run of Adam on a vector of two, in a Python loop that is evaluated once at the end."""
    gradient = mx.grad(lambda p: (1 - p[0]) ** 2 + 5 * (p[1] - p[0] ** 2) ** 2)

    def run() -> Any:
        p = mx.array([-1.0, 1.5])
        m, v = mx.zeros(2), mx.zeros(2)
        for t in range(1, steps + 1):
            g = gradient(p)
            m = 0.9 * m + 0.1 * g
            v = 0.999 * v + 0.001 * g * g
            p = p - 0.05 * (m / (1 - 0.9**t)) / (mx.sqrt(v / (1 - 0.999**t)) + 1e-8)
        return _done(mx, p)

    yield run
