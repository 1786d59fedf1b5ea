"""Reductions of few elements over several axes become ops on whole arrays, on a CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.unroll import unroll_reductions
from tests.thinned import thinned

RNG = np.random.default_rng(0)
WINDOWS = RNG.standard_normal((8, 14, 2, 14, 2, 3)).astype(np.float32)


def remaining(f, x):
    """Return the number of remaining reductions."""
    module = jax.jit(f).lower(x).compiler_ir("stablehlo")
    unroll_reductions(module)
    module.operation.verify()
    return str(module).count("stablehlo.reduce(")


@pytest.mark.parametrize(
    ("f", "x", "count"),
    [
        (lambda x: x.max((2, 4)), WINDOWS, 0),
        (lambda x: x.min((2, 4)) + x.sum((2, 4)), WINDOWS, 0),
        (lambda x: jax.lax.scan(lambda s, r: (s + r.sum((1, 3)), 0), jnp.zeros((14, 14, 3)), x)[0], WINDOWS, 1),
        (lambda x: jax.lax.map(lambda r: jnp.tile(r, (1, 9, 1, 1, 9)).max((1, 3)), x), WINDOWS, 1),
        (lambda x: x.max(2), WINDOWS, 1),  # one axis
        (lambda x: x.max((1, 3)), WINDOWS, 1),  # many elements
        (lambda x: x.max((2, 4)), WINDOWS[:1], 1),  # a small array
        (lambda x: x.prod((2, 4)), WINDOWS, 1),
        (lambda x: x.max((2, 4)), WINDOWS.astype(np.int32), 1),
    ],
)
def test_what_is_unrolled(f, x, count):
    assert remaining(f, x) == count


@pytest.mark.parametrize(
    ("name", "dtype"), thinned(2, ["sum", "max", "min", "mean", "var", "logsumexp"], [mx.float32, mx.float16])
)
def test_values(name, dtype, xla_only):
    x = WINDOWS.copy()
    x[0, 0, 0, 0, 0, 0], x[0, 1, 0, 0, 0, 0], x[0, 2, 0, 0, 0, 0] = np.nan, np.inf, -np.inf
    x[1], x[2] = 0, -0.0
    x = np.array(mx.array(x, dtype).astype(mx.float32), np.float64)
    f = mx.compile(lambda x: (getattr(mx, name)(x * 2, (2, 4)), mx.grad(lambda y: mx.max(y * y, (2, 4)).sum())(x)))
    with ext.reproducible(), np.errstate(all="ignore"):
        reduced, gradient = f(mx.array(x, dtype))
        exact = np.log(np.exp(2 * x).sum((2, 4))) if name == "logsumexp" else getattr(np, name)(2 * x, (2, 4))
        np.testing.assert_allclose(np.array(reduced.astype(mx.float32)), exact, rtol=2e-3, atol=2e-3)
        one = mx.grad(lambda y: mx.max(y * y, (1, 3)).sum())
        one_by_one = mx.stack([one(row) for row in mx.array(x, dtype)])
    np.testing.assert_array_equal(np.array(gradient), np.array(one_by_one))
