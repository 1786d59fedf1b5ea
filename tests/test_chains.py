"""Long chains of elementwise ops with several results: shared values are computed once."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph.passes.chains import cut_chains
from mxcompat.ext.debug import host_disabled

X = np.random.default_rng(0).standard_normal((40, 16)).astype(np.float32)


def states(x, joined, count=40):
    """Return the outputs of a filter with two states."""
    a = b = jnp.zeros(16)
    values = []
    for k in range(count):
        a, b = 0.9 * a - 0.2 * b + x[k], 0.2 * a + 0.9 * b
        values.append(a)
    return jnp.stack(values) if joined else values


def cut(f, *inputs):
    """Return the number of values that a function keeps, and the text of its module."""
    module = jax.jit(f).lower(*inputs).compiler_ir("stablehlo")
    cut_chains(module)
    assert module.operation.verify()
    text = str(module)
    return text.count("call @kept_"), text


@pytest.mark.parametrize("joined", [False, True])
def test_a_recurrence_is_cut(joined):
    """Assert that a recurrence is cut every few steps, independent of its length."""
    all_of_them, some = (cut(lambda x, n=n: states(x, joined, n), X)[0] for n in (40, 30))
    assert 10 < all_of_them < 80
    assert some / 30 == pytest.approx(all_of_them / 40, rel=0.2)


def test_through_a_condition():
    """Assert that a branch still reads values from outside of it."""

    def f(x):
        values = states(x, False)
        return [*values, jax.lax.cond(x[0, 0] > 0, lambda: values[3] * 2, lambda: values[30] + values[2])]

    kept, _ = cut(f, X)
    assert kept


@pytest.mark.parametrize(
    "f",
    [
        lambda x: states(x, False)[-1],
        lambda x: states(x, True, 8),
        lambda x: [x * k + 1 for k in range(200)],
        lambda x: sum(jnp.tanh(x * k) for k in range(200)),
        lambda x: [(x + k) @ x.T for k in range(60)],
    ],
)
def test_what_is_not_cut(f):
    kept, _ = cut(f, X)
    assert kept == 0


def test_the_values_are_right():
    x = mx.array(X)

    def f(x):
        a = b = mx.zeros(16)
        values = []
        for k in range(len(X)):
            a, b = 0.9 * a - 0.2 * b + mx.tanh(x[k]), mx.maximum(0.2 * a + 0.9 * b, -1.0)
            values.append(a)
        return mx.stack(values)

    def both():
        results = f(x), mx.grad(lambda x: f(x).square().sum())(x)
        mx.eval(results)
        return [*map(np.array, results)]

    want = both()
    with host_disabled():
        got = both()
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g, w, rtol=1e-4, atol=1e-4)
