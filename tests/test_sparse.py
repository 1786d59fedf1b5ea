"""`mx.ext.sparse`, compared with `jax.experimental.sparse` and dense matrices."""

import jax
import numpy as np
import pytest
from jax.experimental.sparse import BCOO

import mxcompat as mx
from mxcompat.ext import sparse
from mxcompat.ext.debug import compiles

rng = np.random.default_rng(5)
A = (rng.normal(size=(4, 6)) * (rng.random((4, 6)) < 0.4)).astype(np.float32)
B = (rng.normal(size=(6, 3)) * (rng.random((6, 3)) < 0.5)).astype(np.float32)
D = rng.normal(size=(6, 3)).astype(np.float32)
V = rng.normal(size=6).astype(np.float32)


pytestmark = pytest.mark.usefixtures("tier")


def close(result, expected):
    np.testing.assert_allclose(np.array(result), np.array(expected), rtol=1e-5, atol=1e-6)


@pytest.fixture
def s():
    return sparse.from_dense(mx.array(A))


def test_conversions(s):
    close(s.todense(), A)
    assert s.values.size == np.count_nonzero(A)
    assert repr(s) == f"SparseMatrix(float32[4, 6], {np.count_nonzero(A)} elements)"
    close(s.to_bcoo().todense(), A)
    close(sparse.from_bcoo(BCOO.fromdense(A)).todense(), A)
    rows, columns = np.nonzero(A)
    close(sparse.from_coo(mx.array(A[rows, columns]), rows, columns, A.shape).todense(), A)
    close(sparse.from_coo([1.0, 2.0], [1, 1], [0, 0], (2, 2)).todense(), [[0, 0], [3, 0]])
    close(s.T.todense(), A.T)
    assert s.astype(mx.float16).dtype == mx.float16
    assert sparse.from_dense(mx.zeros((2, 2))).values.shape == (0,)
    close(sparse.from_dense(mx.zeros((2, 2))) @ mx.ones(2), [0, 0])


def test_products(s):
    bcoo = BCOO.fromdense(A)
    close(s @ mx.array(D), bcoo @ D)
    close(s @ mx.array(V), bcoo @ V)
    close(s @ sparse.from_dense(mx.array(B)), A @ B)
    close(sparse.matmul(mx.array(D.T), s.T), D.T @ A.T)
    close(sparse.matmul(mx.array(V), s.T), V @ A.T)
    close(sparse.matmul(mx.array(A), mx.array(D)), A @ D)
    assert (s @ mx.array(D).astype(mx.float16)).dtype == mx.float32


def test_elements(s):
    close((s * 2.0).todense(), A * 2)
    close((2.0 * s).todense(), A * 2)
    close((s * mx.array(A + 1)).todense(), A * (A + 1))
    close((-s).todense(), -A)
    close((s + s * 2).todense(), A * 3)
    close((s - s).todense(), A * 0)


def test_gradients(s):
    bcoo = BCOO.fromdense(A)

    def by_jax(values, d):
        return ((BCOO((values, bcoo.indices), shape=bcoo.shape) @ d) ** 2).sum()

    def f(values, d):
        return ((s.with_values(values) @ d) ** 2).sum()

    expected = jax.grad(by_jax, (0, 1))(bcoo.data, D)
    for g in (mx.grad(f, (0, 1)), mx.compile(mx.grad(f, (0, 1)))):
        for result, one in zip(g(s.values, mx.array(D)), expected, strict=True):
            close(result, one)
    _, tangent = mx.jvp(f, [s.values, mx.array(D)], [s.values, mx.array(D)])
    close(tangent[0], jax.jvp(by_jax, (bcoo.data, D), (bcoo.data, D))[1])
    close(mx.grad(lambda v: mx.sin(s.with_values(v).todense()).sum())(s.values), np.cos(A[np.nonzero(A)]))


def test_under_transforms(s):
    close(mx.vmap(lambda v: s @ v, in_axes=1, out_axes=1)(mx.array(D)), A @ D)
    close(
        mx.vmap(lambda values: s.with_values(values) @ mx.array(V))(mx.stack([s.values, 2 * s.values])),
        [A @ V, 2 * A @ V],
    )
    f = mx.compile(lambda m, v: (m @ v, m * 2.0))
    product, doubled = f(s, mx.array(V))
    close(product, A @ V)
    close(doubled.todense(), 2 * A)
    other = s * 3.0
    mx.eval(other)
    mx.eval(f(other, mx.array(V)))
    before = compiles()
    mx.eval(f(other, mx.array(V + 1)))
    assert compiles() == before
    power = mx.ext.fori_loop(0, 3, lambda i, v: (s.T @ (s @ v)) / 10, mx.array(V))
    close(power, np.linalg.matrix_power(A.T @ A / 10, 3) @ V)


def test_errors(s):
    cases = [
        (lambda: s @ mx.ones(4), ValueError, r"Matrices of shapes \(4, 6\) and \(4,\) do not fit"),
        (lambda: s.with_values(mx.ones(1)), ValueError, "Expected values of shape"),
        (lambda: s + s.T, ValueError, r"shape \(4, 6\) can be added, not \(6, 4\)"),
        (lambda: s + mx.ones(3), ValueError, "not array"),
        (lambda: sparse.from_dense(mx.ones(3)), ValueError, "A matrix is needed"),
        (lambda: sparse.from_coo([1.0], [0, 1], [0], (2, 2)), ValueError, "vectors of one length"),
        (lambda: sparse.from_coo([1.0], [0.5], [0], (2, 2)), ValueError, "The rows must be integers, not float32"),
        (lambda: sparse.from_coo([1.0], [0], [2], (2, 2)), IndexError, "A column is out of bounds"),
        (lambda: sparse.from_bcoo(BCOO.fromdense(np.ones(3))), ValueError, "two sparse axes"),
    ]
    for fails, kind, message in cases:
        with pytest.raises(kind, match=message):
            fails()
