"""Products over the first axes of two matrices become products with a transposed operand, on a CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.transpose_lhs import transpose_lhs

RNG = np.random.default_rng(0)
G = RNG.standard_normal((64, 256)).astype(np.float32)
X = RNG.standard_normal((64, 128)).astype(np.float32)


def over_first(a, b):
    return jax.lax.dot_general(a, b, (((0,), (0,)), ((), ())), precision="highest")


def scanned(g, x):
    return jax.lax.scan(lambda total, _: (total + over_first(g, x), None), jnp.zeros((256, 128)), None, 2)[0]


@pytest.mark.parametrize(
    ("f", "g", "x", "transposed"),
    [
        (over_first, G, X, "256x64"),
        (lambda g, x: over_first(g, x) * 2, G, X, "256x64"),
        (lambda g, x: over_first(g, x).T, G, X, "128x64"),
        (lambda g, x: over_first(g, x).T.T, G, X, "256x64"),
        (lambda g, x: over_first(g, x).T + over_first(g, x).T.sum(), G, X, "128x64"),
        (lambda g, x: (y := over_first(g, x)).T.sum(0) + y.sum(1), G, X, "256x64"),  # read in both layouts
        (scanned, G, X, "256x64"),
        (lambda g, x: jax.grad(lambda w: (jnp.sin(x @ w.T) * g).sum())(jnp.ones((256, 128))), G, X, "256x64"),
        (lambda g, x: jax.grad(lambda w: (jnp.sin(x @ w) * g).sum())(jnp.ones((128, 256))), G, X, "128x64"),
        (lambda g, x: g.T @ x, G, X, None),
        (lambda g, x: g @ g.T + x[0, 0], G, X, None),
        (over_first, G.astype(np.float16), X.astype(np.float16), None),
        (over_first, G[:32, :32], X[:32, :32], "32x32"),
        (over_first, G[:, :4], np.repeat(X, 8, 1), None),  # few rows
        (over_first, G[:8, :16], X[:8, :16], None),  # little work
        (over_first, G, X[:, :1], None),  # a vector
        (over_first, np.zeros((1024, 64), np.float32), np.zeros((1024, 128), np.float32), None),  # a long sum
        (over_first, np.zeros((1024, 64), np.float32), np.zeros((1024, 512), np.float32), "64x1024"),
        (over_first, np.zeros((5000, 256), np.float32), np.zeros((5000, 512), np.float32), None),  # a large copy
        (lambda g, x: jnp.einsum("bkm,bkn->bmn", g[None], x[None]), G, X, None),
        (over_first, G[:0], X[:0], None),
    ],
)
def test_which_products(f, g, x, transposed):
    want = np.array(f(jnp.asarray(g), jnp.asarray(x)))
    lowered = jax.jit(f).lower(g, x)
    module = lowered.compiler_ir("stablehlo")
    before = str(module)
    transpose_lhs(module)
    module.operation.verify()
    after = str(module)
    assert (after != before) is (transposed is not None)
    if transposed is not None:
        assert "optimization_barrier %" in after
        assert f"-> tensor<{transposed}xf32>" in after
    np.testing.assert_allclose(lowered.compile()(g, x), want, rtol=2e-3, atol=2e-3)


def test_what_xla_makes_of_them():
    """Count the library calls of XLA's own choice. When XLA makes them without the pass, the pass can go."""
    options = {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}
    products = []
    for change in (lambda module: None, transpose_lhs):
        lowered = jax.jit(lambda g, x: over_first(g, x)).lower(G, X)
        change(lowered.compiler_ir("stablehlo"))
        products.append(" dot(" in lowered.compile(options).as_text().split("ENTRY")[1])
    assert products == [True, False]


def test_the_gradient_of_a_layer(xla_only):
    x, w = mx.array(X), mx.array(np.ones((256, 128), np.float32) / 128)
    with ext.reproducible():
        dx, dw = mx.grad(lambda x, w: mx.sin(x @ w.T).sum(), (0, 1))(x, w)
        mx.eval(dx, dw)
    c = np.cos(X @ np.array(w).T)
    np.testing.assert_allclose(np.array(dw), c.T @ X, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.array(dx), c @ np.array(w), rtol=1e-4, atol=1e-4)
