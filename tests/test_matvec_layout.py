"""Products of one row read the matrix in its memory layout, on a CPU."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.matvec_layout import add_after_matvec, multiply_by_column

RNG = np.random.default_rng(0)
W = RNG.standard_normal((40, 30)).astype(np.float32)
ROW = RNG.standard_normal((1, 1, 30)).astype(np.float32)


@pytest.mark.parametrize(
    ("f", "x", "turned"),
    [
        (lambda x, w: x @ w.T, ROW, True),
        (lambda x, w: x @ w.T, ROW[0, 0], True),
        (lambda x, w: jnp.exp(x) @ w.T + 1, ROW, True),
        (lambda x, w: jnp.matmul(x, w.T, precision="highest"), ROW, True),
        (lambda x, w: x @ w.T, ROW.astype(np.float16), True),
        (lambda x, w: x.swapaxes(0, 2)[:, 0].T @ w.T, ROW, True),
        (lambda x, w: jax.lax.scan(lambda x, w: (x @ w.T, x), x[0, 0, :5], w.reshape(-1, 5, 5))[0], ROW, False),
        (lambda x, w: x @ (w * 2).T, ROW, False),  # computed on the way
        (lambda x, w: jax.jit(lambda x, w: x @ w.T)(x, w * 2), ROW, False),
        (lambda x, w: x @ w.T, np.repeat(ROW, 2, 1), False),  # two rows
        (lambda x, w: x @ w[:30], ROW, False),
        (lambda x, w: jnp.einsum("bk,bnk->bn", x[0], w[None]), ROW, False),
        (lambda x, w: jnp.einsum("bnk,bk->bn", w[None], x[0]), ROW, False),
        (lambda x, w: w.T @ w, ROW, False),
        (lambda x, w: x[:, :, :0].reshape(5, 0) @ w[:, :0].T, ROW, False),
    ],
)
def test_which_products(f, x, turned):
    want = np.array(f(jnp.asarray(x), jnp.asarray(W.astype(x.dtype))))
    lowered = jax.jit(f).lower(x, W.astype(x.dtype))
    module = lowered.compiler_ir("stablehlo")
    before = str(module)
    multiply_by_column(module)
    module.operation.verify()
    assert (str(module) != before) is turned
    assert ("dot_general %arg1," in str(module)) is turned
    np.testing.assert_allclose(lowered.compile()(x, W.astype(x.dtype)), want, rtol=2e-3, atol=2e-3)


def test_a_linear_layer(xla_only):
    """Compare values and derivatives, for one row and for a batch of single rows."""
    x, w = mx.array(ROW), mx.array(W)
    f = mx.compile(lambda x, w: mx.value_and_grad(lambda x, w: mx.sin(x @ w.T).sum(), (0, 1))(x, w))
    with ext.reproducible():
        value, (dx, dw) = f(x, w)
        together = mx.compile(mx.vmap(lambda x: x @ w.T))(mx.concatenate([x, 2 * x]))
    row = ROW[0] @ W.T
    np.testing.assert_allclose(value.item(), np.sin(row).sum(), rtol=1e-4)
    np.testing.assert_allclose(np.array(dx)[0], np.cos(row) @ W, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.array(dw), np.cos(row).T @ ROW[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(np.array(together), np.stack([row, 2 * row]), rtol=1e-4, atol=1e-4)


BIAS = RNG.standard_normal(40).astype(np.float32)
VECTOR = ROW[0, 0]


@pytest.mark.parametrize(
    ("f", "x", "apart"),
    [
        (lambda x, w, b: x @ w.T + b, ROW, True),
        (lambda x, w, b: b + x @ w.T, ROW[0], True),
        (lambda x, w, b: x @ (w * 2).T + b, ROW, True),
        (lambda x, w, b: w @ x + b, VECTOR, True),
        (lambda x, w, b: (x @ w.T).reshape(4, 10) + b.reshape(4, 10), ROW, True),
        (lambda x, w, b: x @ w.T + b, np.repeat(ROW, 2, 1), False),  # two rows
        (lambda x, w, b: x @ w.T * b, ROW, False),
        (lambda x, w, b: (x @ w.astype(np.int32).T) + 1, VECTOR.astype(np.int32), False),
    ],
)
def test_what_is_added_to_a_product_of_a_vector_is_added_after_it(f, x, apart):
    lowered = jax.jit(f).lower(x, W, BIAS)
    want = np.array(f(*map(jnp.asarray, (x, W, BIAS))))
    module = lowered.compiler_ir("stablehlo")
    before = str(module)
    add_after_matvec(module)
    module.operation.verify()
    assert (str(module) != before) is apart
    compiled = lowered.compile()
    computations = compiled.as_text().split("\n\n")
    assert not any(" dot(" in c and " add(" in c for c in computations if "ENTRY" not in c)
    np.testing.assert_allclose(compiled(x, W, BIAS), want, rtol=1e-5, atol=1e-5)


def test_xla_adds_within_such_a_product_by_itself():
    """Assert that XLA fuses the add into the product. When it stops, the pass can go."""
    text = jax.jit(lambda x, w, b: x @ w.T + b).lower(VECTOR, W, BIAS).compile().as_text()
    assert any(" dot(" in c and " add(" in c for c in text.split("\n\n") if "ENTRY" not in c)
