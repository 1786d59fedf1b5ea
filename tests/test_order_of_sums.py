"""Bitwise reproducibility in NumPy: a row does not depend on other rows, nor a sum on earlier evaluations, as in
MLX."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
import mxcompat.nn as nn
from mxcompat._graph.passes.small_dot import expand_small_dots
from tests.oracle import check


def _normal(*shape):
    return mx.random.normal(shape, key=mx.random.key(sum(shape)))


def _attention(x):
    return mx.fast.scaled_dot_product_attention(x[None], _normal(1, *x.shape[:1], 5, 8), _normal(1, *x.shape[:1], 5, 8),
                                                scale=0.3)[0]  # fmt: skip


ROWS = {
    "matmul": lambda x: x @ _normal(8, 16),
    "matmul, transposed": lambda x: x @ _normal(16, 8).T,
    "matmul, many": lambda x: x @ _normal(3, 8, 16),
    "matmul, one column": lambda x: x @ _normal(8, 1),
    "addmm": lambda x: mx.addmm(_normal(16), x, _normal(16, 8).T),
    "float16": lambda x: x.astype(mx.float16) @ _normal(8, 16).astype(mx.float16),
    "complex64": lambda x: x.astype(mx.complex64) @ _normal(8, 16),
    "einsum": lambda x: mx.einsum("brk,kn->brn", x, _normal(8, 16)),
    "tensordot": lambda x: mx.tensordot(x, _normal(8, 16), 1),
    "Linear": lambda x: nn.Linear(8, 16)(x),
    "quantized": lambda x: mx.quantized_matmul(mx.tile(x, (1, 1, 8)), *mx.quantize(_normal(16, 64))),
    "conv1d": lambda x: mx.conv1d(x, _normal(4, 1, 8)),
    "conv1d, one channel": lambda x: mx.conv1d(x, _normal(1, 1, 8)),
    "conv1d, groups": lambda x: mx.conv1d(x, _normal(4, 1, 4), groups=2),
    "attention": _attention,
    "gather_mm": lambda x: mx.gather_mm(x, _normal(4, 8, 16), rhs_indices=mx.array([0, 2, 1])),
}


def _is_even(x, w):
    """Return True if NumPy's BLAS, whose kernel depends on the processor, computes a row alike among three and among
    six."""
    return np.array_equal((x @ w)[::2], np.ascontiguousarray(x[::2]) @ w)


_X = np.array(_normal(6, 8))
EVEN = _is_even(_X, np.array(_normal(8, 16))) and _is_even(_X, np.array(_normal(16, 8)).T)
BY_BLAS = ("matmul", "matmul, transposed", "addmm", "einsum", "tensordot", "Linear", "quantized")


@pytest.mark.parametrize("name", ROWS)
def test_a_row_alone_is_as_among_others(name):
    if name in BY_BLAS and not EVEN:
        pytest.skip("with this processor NumPy's BLAS computes a row otherwise among others")
    x = _normal(3, 2, 8)
    mx.random.seed(1)
    both = np.array(ROWS[name](x))
    mx.random.seed(1)
    alone = np.array(ROWS[name](x[:, :1]))
    assert alone.tobytes() == both[:, :1].tobytes()


def test_a_vector_is_as_a_row_of_a_matrix():
    x, w = _normal(3, 64), _normal(64, 16)
    assert np.array_equal(x[1] @ w, (x @ w)[1])
    assert np.array_equal(w.T @ x[1], (w.T @ x[1:].T)[:, 0])
    assert np.array_equal(x[1] @ mx.broadcast_to(w, (2, 64, 16)), mx.stack([(x @ w)[1]] * 2))


@pytest.mark.parametrize("shape", [(1, 5), (5, 1), (0, 1), (1, 0), (1, 1), (2, 1, 4), (2, 4, 1)])
def test_products_of_a_row_or_a_column(shape):
    x = _normal(*shape)
    y = mx.swapaxes(x, -1, -2)
    for a, b in ((x, y), (y, x)):
        result, expected = np.array(a @ b), np.matmul(np.array(a), np.array(b))
        assert result.shape == expected.shape
        assert result.flags.c_contiguous
        np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def _weighted(f):
    """Return the gradient of a weighted sum of `f(x)`."""
    return lambda x: mx.grad(lambda y: (f(y) * x).sum())(x)


SUMS = {
    **{f"{name} {axis}": lambda x, name=name, axis=axis: getattr(mx, name)(x, axis=axis)
       for name in ("sum", "mean", "var", "prod", "logsumexp") for axis in (0, -1, (0, 1), None)},
    "softmax": lambda x: mx.softmax(x, axis=-1),
    "norm": lambda x: mx.linalg.norm(x, axis=-1),
    "norm of order 3": lambda x: mx.linalg.norm(x, 3, axis=-1),
    "layer_norm": lambda x: mx.fast.layer_norm(x, None, None, 1e-5),
    "rms_norm": lambda x: mx.fast.rms_norm(x, None, 1e-5),
    "batch norm": lambda x: nn.BatchNorm(x.shape[-1])(x),
    "cross_entropy": lambda x: nn.losses.cross_entropy(x, mx.zeros(x.shape[:-1], mx.int32)),
    "gradient of softmax": _weighted(lambda x: mx.softmax(x, axis=-1)),
    "gradient of layer_norm": _weighted(lambda x: mx.fast.layer_norm(x, None, None, 1e-5)),
    "gradient of a bias": lambda x: mx.grad(lambda b: ((x + b) * x).sum())(mx.ones(x.shape[-1])),
    "gradient of a mean": _weighted(lambda x: x * x.mean(axis=-1, keepdims=True)),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_does_not_depend_on_what_was_evaluated(name):
    for shape, order in (((3, 7, 12), (0, 2, 1)), ((4, 16, 16), (2, 1, 0)), ((2, 12, 9), (1, 2, 0))):
        x = _normal(*shape)
        mx.eval(x)
        together = np.array(SUMS[name](mx.transpose(x, order)))
        apart = mx.transpose(x, order)
        mx.eval(apart)
        assert together.tobytes() == np.array(SUMS[name](apart)).tobytes()


SMALL = [((5, 2), (2, 3)), ((3,), (3, 4)), ((5, 4), (4,)), ((3,), (3,)), ((2, 5, 3), (3, 3)), ((2, 1, 5, 2), (3, 2, 2)),
         ((1, 4), (4, 1)), ((20, 4), (4, 40))]  # fmt: skip


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize(("left", "right"), SMALL)
def test_small_products_are_mlx_s_to_the_last_bit(left, right):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in (left, right))
    check(lambda mx, a, b: a @ b, a, b, tol=0)
    if len(right) == 2:
        check(lambda mx, a, b: a @ b.T, a, np.ascontiguousarray(b.T), tol=0)


@pytest.mark.usefixtures("tier")
def test_a_gate_is_its_own_inverse():
    half = np.float32(1 / np.sqrt(2))
    gate = np.array([[half, half], [half, -half]])
    check(lambda mx, h: [h @ h, mx.allclose(h @ h, mx.eye(2)), mx.einsum("ij,jk->ik", h, h)], gate, tol=0)


def test_what_is_added_in_order():
    def dots(f, *shapes):
        xs = [np.random.default_rng(0).standard_normal(s).astype(np.float32) for s in shapes]
        lowered = jax.jit(f).lower(*xs)
        module = lowered.compiler_ir("stablehlo")
        expand_small_dots(module)
        module.operation.verify()
        np.testing.assert_allclose(lowered.compile()(*xs), f(*map(jnp.asarray, xs)), rtol=1e-5, atol=1e-5)
        return str(module).count("stablehlo.dot_general")

    assert dots(lambda a, b: a @ b, (5, 3), (3, 4)) == 0
    assert dots(lambda a, b: jnp.einsum("abij,bjk->abik", a, b), (2, 3, 4, 2), (3, 2, 5)) == 0
    assert dots(lambda a, b: jnp.einsum("ijk,kjl->il", a, b), (5, 2, 2), (2, 2, 3)) == 0
    assert dots(lambda a, b: jnp.tensordot(a, b, 2), (2, 2), (2, 2)) == 0
    assert dots(lambda a, b: a @ b, (5, 5), (5, 4)) == 1  # more terms
    assert dots(lambda a, b: a @ b, (100, 3), (3, 100)) == 1  # more sums
    assert dots(lambda a, b: a @ b, (5, 1), (1, 4)) == 1  # no sums
