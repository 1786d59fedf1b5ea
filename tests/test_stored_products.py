"""Products with matrices of half precision in XLA's programs: the pass that calls C, compared with float64."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph import policy
from mxcompat._graph.run.foreign import TARGET
from mxcompat._graph.run.lowering import lower
from mxcompat._native import native

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")


def compiled(function, *args):
    """Return the text of the changed program, and its result."""
    lowered = lower(jax.jit(function).trace(*args))
    return str(lowered.compiler_ir()), lowered.compile({})(*args)


def near(result, exact, dtype):
    step = {"bfloat16": 2.0**-8, "float16": 2.0**-11, "float32": 1e-5}[np.dtype(dtype).name]
    exact = np.asarray(exact)
    assert result.dtype == dtype
    assert result.shape == exact.shape
    np.testing.assert_allclose(np.asarray(result, np.float64), exact, rtol=step, atol=1e-4)


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16])
@pytest.mark.parametrize("lead", [(), (1,), (2, 3), (4, 8)])
def test_c_multiplies_few_rows(dtype, lead):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((*lead, 96)), dtype)
    for out in (dtype, jnp.float32):

        def plain(x, y, out=out):
            return jnp.matmul(x, y, preferred_element_type=out)

        def by_transpose(x, y, plain=plain):
            return plain(x, y.T)

        for function, shape in ((plain, (96, 80)), (by_transpose, (80, 96))):
            y = jnp.asarray(rng.standard_normal(shape), dtype)
            text, result = compiled(function, x, y)
            assert text.count(TARGET) == 1
            assert "dot_general" not in text
            near(result, np.asarray(x, np.float64) @ np.asarray(y if shape[0] == 96 else y.T, np.float64), out)


@pytest.mark.parametrize("rows", [policy.STORED_ROWS + 1, 300])
def test_c_multiplies_many_rows_in_tiles(rows):
    rng = np.random.default_rng(0)
    x, y = (jnp.asarray(rng.standard_normal(shape), jnp.bfloat16) for shape in ((rows, 96), (80, 96)))
    text, result = compiled(lambda x, y: x @ y.T, x, y)
    assert (TARGET in text) == native.uses_tiles()
    near(result, np.asarray(x, np.float64) @ np.asarray(y, np.float64).T, x.dtype)


def test_xla_multiplies_other_arrays():
    def full(*shape, dtype=jnp.bfloat16):
        return jnp.asarray(np.random.default_rng(0).integers(-2, 3, shape), dtype)

    for x, y in (
        (full(policy.STORED_ROWS + 1, 96), full(96, 80)), (full(3, 96), full(96, 8)), (full(2, 3, 96), full(2, 96, 80)),
        (full(3, 96, dtype=jnp.float32), full(96, 80, dtype=jnp.float32)), (full(0, 96), full(96, 80)),
    ):  # fmt: skip
        text, result = compiled(jnp.matmul, x, y)
        assert TARGET not in text
        near(result, np.asarray(x, np.float64) @ np.asarray(y, np.float64), x.dtype)
    text, _ = compiled(lambda x, y: jax.lax.dot_general(x, y, (((0,), (0,)), ((), ()))), full(96, 3), full(96, 80))
    assert TARGET not in text
    text, _ = compiled(lambda x, y: x @ (y * 2), full(3, 96), full(96, 80))  # which XLA fuses
    assert TARGET not in text


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_gradients(dtype, monkeypatch):
    monkeypatch.setattr(policy, "HOST", False)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(shape).astype(np.float32) for shape in ((3, 96), (80, 96)))

    def loss(x, w):
        return mx.sum(mx.square(x @ w.T)).astype(mx.float32)

    gradients = mx.grad(loss, (0, 1))(*[mx.array(a).astype(getattr(mx, dtype)) for a in (x, w)])
    y = 2 * x @ w.T
    for got, want in zip(gradients, (y @ w, y.T @ x), strict=True):
        np.testing.assert_allclose(np.array(got.astype(mx.float32)), want, rtol=0.05, atol=0.03 * np.abs(want).max())
