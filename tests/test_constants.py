"""Windows that XLA computes from constants only are computed at run time, not at compile time."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from mxcompat._graph.passes.constants import hide_window_constants
from tests.oracle import check

X = np.ones((128, 64), np.float32)


def ones(x):
    return jnp.ones_like(x)


def barriers(f, x=X):
    lowered = jax.jit(f).lower(x)
    module = lowered.compiler_ir("stablehlo")
    hide_window_constants(module)
    np.testing.assert_allclose(lowered.compile()(x), f(x), rtol=1e-5)
    return str(module).count("stablehlo.optimization_barrier")


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: lax.cumprod(ones(x), 1) + x, 1),
        (lambda x: lax.cumsum(jnp.exp(lax.iota(jnp.float32, 8192) / 1e4)) + x.sum(), 1),
        (lambda x: jnp.cumsum(ones(x), 1) + jnp.cumsum(ones(x) * 2, 1), 1),  # one function has two call sites
        (lambda x: lax.reduce_window(ones(x), 0.0, lax.add, (3, 3), (1, 1), "SAME"), 1),
        (jax.grad(lambda x: lax.cumsum(x, 0).sum()), 1),
        (lambda x: lax.scan(lambda s, _: (s + lax.cummax(ones(x), 0), s), x, None, 2)[0], 1),
        (lambda x: lax.cumsum(x, 1), 0),
        (lambda x: lax.cumsum(ones(x) * x[0, 0], 1), 0),
        (lambda x: lax.cumsum(ones(x[:8, :8]), 1).sum() + x, 0),  # little
    ],
)
def test_what_waits_for_the_run(f, expected):
    assert barriers(f) == expected


def test_running_sums_of_constants_are_right(xla_only):
    check(lambda mx, x: mx.grad(lambda y: mx.cumsum(y, axis=1).sum())(x), np.ones((256, 256), np.float32))
    check(lambda mx: mx.cumprod(mx.full((256, 256), 0.5), axis=0))
