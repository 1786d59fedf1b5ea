"""Values that XLA recomputes in each consumer loop are equal in all of them, also in quickly compiled code.

Equal values compare equal, so a gradient goes only to the larger of two neighbours.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from mxcompat._graph.passes.rounding import round_products
from tests.oracle import check, ours

pytestmark = pytest.mark.usefixtures("xla_only")


def pooled(mx: Any, x: Any) -> Any:
    return mx.maximum(mx.maximum(x[:-2], x[1:-1]), x[2:])


def pooled_twice(mx: Any, x: Any) -> Any:
    return pooled(mx, pooled(mx, x))


LOSSES = {
    "maximum": lambda mx, x, w, b, v: (pooled_twice(mx, x * w + b) * v[:-4]).sum(),
    "of a difference": lambda mx, x, w, b, v: (pooled_twice(mx, x * w - b) * v[:-4]).sum(),
    "of what is read elsewhere": lambda mx, x, w, b, v: (p := x * w).sum() + (pooled_twice(mx, p + b) * v[:-4]).sum(),
    "after a function": lambda mx, x, w, b, v: (pooled_twice(mx, mx.exp(x * w + b) * 2) * v[:-4]).sum(),
    "normalized": lambda mx, x, w, b, v: (pooled_twice(mx, (x * w + b) / mx.sqrt(w * w + 1)) * v[:-4]).sum(),
    "where": lambda mx, x, w, b, v: (pooled_twice(mx, mx.where(x > 0, x * w + b, b - x * w)) * v[:-4]).sum(),
    "compiled": lambda mx, x, w, b, v: (pooled_twice(mx, mx.compile(lambda x: mx.tanh(x * w + b))(x)) * v[:-4]).sum(),
    "minimum": lambda mx, x, w, b, v: (-pooled_twice(mx, mx.minimum(-(x * w + b), b + 9)) * v[:-4]).sum(),
    "cummax": lambda mx, x, w, b, v: (mx.cummax(x * w + b, axis=0) * v).sum(),
    "max": lambda mx, x, w, b, v: ((x * w + b).max(axis=0) * v[0]).sum(),
    "moved": lambda mx, x, w, b, v: (pooled_twice(mx, mx.pad(x * w, ((2, 2), (0, 0))) + b) * v).sum(),
}


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_go_to_the_largest(name: str) -> None:
    rng = np.random.default_rng(1)
    x, v = rng.standard_normal((2, 64, 6)).astype(np.float32)
    w, b = (1 + 0.3 * rng.standard_normal((2, 6))).astype(np.float32)

    def gradients(mx: Any) -> Any:
        arrays = [mx.array(a) for a in (x, w, b, v)]
        return mx.value_and_grad(lambda x, w, b, v: LOSSES[name](mx, x, w, b, v), argnums=(0, 1, 2))(*arrays)

    check(gradients, tol=1e-4)


def test_values_are_equal_to_themselves() -> None:
    rng = np.random.default_rng(2)
    x, w, b = (ours.array(rng.standard_normal(shape).astype(np.float32)) for shape in ((4096,), (1,), (1,)))
    y = x * w + b
    larger = ours.maximum(y[1:], y[:-1])
    assert ours.all((larger == y[1:]) | (larger == y[:-1])).item()
    assert ours.all(ours.abs(y[::-1][::-1] - y) == 0).item()


def test_what_is_compared_within_a_function() -> None:
    neighbours = jax.jit(lambda y: jax.numpy.maximum(y[1:], y[:-1]))
    shapes = [jax.ShapeDtypeStruct((8,), np.float32)] * 3
    for function, rounded in (
        (lambda x, w, b: neighbours(x * w + b), 1),
        (lambda x, w, b: neighbours(jax.numpy.clip(x, -9, 9)) + (x * w + b)[1:], 0),
        (lambda x, w, b: jax.numpy.floor(x * w + b), 1),
        (lambda x, w, b: (x * w + b).astype(jax.numpy.int32), 1),
        (lambda x, w, b: (x * w + b).astype(jax.numpy.float16), 0),
    ):
        module = jax.jit(function).lower(*shapes).compiler_ir("stablehlo")
        round_products(module)
        assert str(module).count("compare EQ") == rounded


BASES = [
    lambda x, w, b: x * w + b,
    lambda x, w, b: x * w - b,
    lambda x, w, b: b - x * w,
    lambda x, w, b: x * x * w + x,
    lambda x, w, b: (x * w + b) * w + b,
]
STEPS = [
    lambda mx, y: mx.maximum(y[:-1], y[1:]),
    lambda mx, y: mx.minimum(y[:-1], y[1:]),
    lambda mx, y: mx.maximum(mx.maximum(y[:-2], y[1:-1]), y[2:]),
    lambda mx, y: mx.where(y[1:] > y[:-1], y[1:], y[:-1] * 0.5),
    lambda mx, y: mx.where(y == y.max(axis=0), y * 2, y),
    lambda mx, y: mx.cummax(y, axis=0),
    lambda mx, y: mx.cummin(y, axis=0),
    lambda mx, y: mx.sort(y, axis=0),
    lambda mx, y: mx.tanh(y) * 2 + y,
    lambda mx, y: mx.roll(y, 1, axis=0),
    lambda mx, y: mx.concatenate([y, y[::-1]], axis=0),
    lambda mx, y: mx.pad(y, [(1, 1), (0, 0)], mode="edge"),
    lambda mx, y: y / mx.sqrt((y * y).mean(axis=0) + 1e-3),
    lambda mx, y: mx.clip(y, -1.5, 1.5),
    lambda mx, y: mx.take_along_axis(y, mx.argmax(y, axis=0, keepdims=True), axis=0) + y,
]


@pytest.mark.exhaustive
@pytest.mark.parametrize("seed", range(400))
def test_random_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, v = rng.standard_normal((2, 40, 3)).astype(np.float32)
    w, b = (1 + 0.3 * rng.standard_normal((2, 3))).astype(np.float32)
    base, steps = rng.choice(BASES), rng.choice(STEPS, 5)

    def gradients(mx: Any) -> Any:
        def loss(x: Any, w: Any, b: Any) -> Any:
            y = base(x, w, b)
            for step in steps:
                y = step(mx, y)
            return (y[:16] * mx.array(v[:16])).sum()

        return mx.value_and_grad(loss, argnums=(0, 1, 2))(*[mx.array(a) for a in (x, w, b)])

    check(gradients, tol=2e-3)
