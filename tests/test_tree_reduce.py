"""Long reductions run in stages; the first is fused with the computation of the elements."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.passes.tree_reduce import tree_reduce
from tests.thinned import thinned

RNG = np.random.default_rng(0)


def reductions(f, *inputs):
    """Return the number of reductions after the pass."""
    module = jax.jit(f).lower(*inputs).compiler_ir("stablehlo")
    tree_reduce(module)
    return str(module).count("stablehlo.reduce")


@pytest.mark.parametrize(
    ("shape", "axes", "count"),
    [
        ((9000, 32), 1, 1),  # short
        ((600, 100), 1, 1),  # few elements
        ((9000, 64), 1, 2),
        ((600, 1000), 1, 3),
        ((9000, 37), 1, 2),
        ((1024, 600), 0, 2),  # already computed in parallel
        ((64, 40, 40, 3), (1, 2), 3),
        ((64, 40, 3), (0, 2), 1),  # the axes are not adjacent
        ((300_000,), 0, 5),
    ],
)
def test_stages(shape, axes, count):
    assert reductions(lambda x: jnp.sum(x, axes), np.zeros(shape, np.float32)) == count


def test_what_is_left_alone():
    x = np.zeros((9000, 64), np.float32)
    assert reductions(lambda x: jax.lax.reduce(x, np.float32(0), jax.lax.add, ()), x) == 1
    assert reductions(lambda x: jnp.argmax(x, 1), x) == 1
    assert reductions(lambda x: jnp.sum(x, 1), x.astype(np.int32)) == 1
    assert reductions(lambda x: jnp.prod(x, 1), x) == 1
    assert reductions(lambda x: (jnp.sum(jnp.exp(x), 1), jnp.exp(x)), x) == 2  # the exponential is read twice
    assert reductions(lambda x: (lambda y: (jnp.sum(y, 1), y))(jnp.exp(x)), x) == 1  # the exponential is materialized
    assert reductions(lambda x: jax.lax.reduce(x, x[0, 0], jax.lax.add, (1,)), x) == 1


COUNTS = [33, 64, 100, 127, 1000, 1001, 4096]


@pytest.mark.parametrize(
    ("name", "count"), thinned(2, ["sum", "max", "min", "mean", "var", "logsumexp", "all"], COUNTS)
)
def test_values(name, count, xla_only, monkeypatch):
    monkeypatch.setattr(policy, "LARGE_ELEMENTS", 1 << 10)
    x = RNG.standard_normal((70, count, 9)).astype(np.float32)
    x[3, 5], x[4, 6], x[5, 7] = np.inf, -np.inf, np.nan
    by_numpy = np.logaddexp.reduce if name == "logsumexp" else getattr(np, name)
    axes = (1, 2, 0) if name == "logsumexp" else (1, 2, (1, 2), None, 0)
    results = [getattr(mx, name)(mx.array(x), axis) for axis in axes]  # an argument for each, as if they were alone
    mx.eval(results)
    for axis, result in zip(axes, results, strict=True):
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(np.array(result), by_numpy(x, axis), rtol=1e-4, atol=1e-4)


def test_distances(xla_only):
    x = RNG.standard_normal((60, 301)).astype(np.float32)
    distance = mx.compile(lambda x: ((x[:, None] - x[None]) ** 2).sum(-1))
    exact = ((x[:, None].astype(np.float64) - x[None]) ** 2).sum(-1)
    np.testing.assert_allclose(np.array(distance(mx.array(x))), exact, rtol=1e-5)
    gradient = mx.grad(lambda x: distance(x).sum())(mx.array(x))
    np.testing.assert_allclose(np.array(gradient), 4 * (60 * x - x.sum(0)), rtol=1e-3, atol=1e-2)
