"""Second derivatives of nearly every op, over a short chain of it, compared with MLX's.

New programs use NumPy alone, since XLA would take seconds to compile them.
"""

import math
import re

import mlx.core as real
import numpy as np
import pytest

import mxcompat.core as ours
from mxcompat import testing
from mxcompat._graph.run import events
from mxcompat.ext.debug import host_disabled

STEPS = 3
RNG = np.random.default_rng(0)
X = (RNG.uniform(0.2, 0.9, (4, 4)) + 2 * np.eye(4)).astype(np.float32)
OTHER, DIRECTION = (RNG.uniform(-1, 1, (4, 4)).astype(np.float32) for _ in range(2))
PLACES = np.array([2, 0, 2, 1])


def attention(mx, x, **options):
    return mx.fast.scaled_dot_product_attention(
        x[None, None], 2 * x[None, None], x[None, None] + 1, scale=0.5, **options
    )


STEP = {
    "abs": lambda mx, x: mx.abs(x - 0.5),
    "attention": lambda mx, x: attention(mx, x, mask="causal"),
    "attention_mask": lambda mx, x: attention(mx, x, mask=x),
    "clip": lambda mx, x: mx.clip(x, 0.2, 0.8),
    "conv": lambda mx, x: mx.conv1d(x[None], mx.stack([x, x])[:, :3]),
    "cross": lambda mx, x: mx.linalg.cross(x[:, :3], x[:, 1:]),
    "cross_entropy": lambda mx, x: mx.logsumexp(x, axis=1) - mx.take_along_axis(x, mx.array(PLACES)[:, None], 1)[:, 0],
    "cummax": lambda mx, x: mx.cummax(x, axis=1),
    "cumprod": lambda mx, x: mx.cumprod(x, axis=1),
    "det": lambda mx, x: mx.linalg.det(x * 0.1 + mx.eye(4)),
    "fft": lambda mx, x: mx.fft.irfft(mx.fft.rfft(x)),
    "gather_mm": lambda mx, x: mx.gather_mm(x[None], mx.stack([x, x + 1]), rhs_indices=mx.array([1])),
    "half": lambda mx, x: x.astype(mx.float16).astype(mx.float32) * x,
    "hadamard": lambda mx, x: mx.hadamard_transform(x),
    "logcumsumexp": lambda mx, x: mx.logcumsumexp(x, axis=1, reverse=True),
    "masked": lambda mx, x: mx.where(x > 0.5, x, x * x),
    "max": lambda mx, x: mx.max(x, axis=1),
    "maximum": lambda mx, x: mx.maximum(x, 0.6),
    "median": lambda mx, x: mx.sort(x, axis=1)[:, 1:3].mean(axis=1),
    "norm": lambda mx, x: mx.linalg.norm(x, axis=1),
    "norm_1": lambda mx, x: mx.linalg.norm(x, 1, axis=1),
    "norm_inf": lambda mx, x: mx.linalg.norm(x, math.inf),
    "norm_3": lambda mx, x: mx.linalg.norm(x, 3, axis=1),
    "normal": lambda mx, x: mx.random.normal((4, 4), loc=x, scale=x, key=mx.random.key(3)),
    "pad": lambda mx, x: mx.pad(x, 1, mode="edge"),
    "power": lambda mx, x: mx.power(mx.abs(x) + 0.3, x),
    "prod": lambda mx, x: mx.prod(x, axis=1),
    "put": lambda mx, x: mx.put_along_axis(x, mx.array(PLACES)[:, None], x[:, :1] * x[:, 1:2], 1),
    "reciprocal": lambda mx, x: mx.reciprocal(mx.abs(x) + 0.3),
    "remainder": lambda mx, x: mx.remainder(x, 0.7),
    "rope": lambda mx, x: mx.fast.rope(x[None], 4, traditional=False, base=100.0, scale=1.0, offset=1),
    "scaled": lambda mx, x: x / mx.linalg.norm(x @ x[0]),
    "scatter": lambda mx, x: x.at[mx.array(PLACES)].add(x * x),
    "scatter_max": lambda mx, x: x.at[mx.array(PLACES)].maximum(x * 2),
    "slice": lambda mx, x: x.at[1:3].add(x[:2] * x[1:3]),
    "slice_product": lambda mx, x: x.at[1:3].multiply(x[:2]),
    "split": lambda mx, x: mx.split(x, 2)[0] * mx.split(x, 2)[1],
    "topk": lambda mx, x: mx.sort(mx.topk(x, 2)),
    "truncated": lambda mx, x: mx.random.truncated_normal(x - 2, x + 2, key=mx.random.key(3)),
    "uniform": lambda mx, x: mx.random.uniform(x, x + 2, (4, 4), key=mx.random.key(3)),
}  # fmt: skip


def chain(mx, step):
    def function(x):
        for _ in range(STEPS):
            y = step(mx, x).reshape(-1)
            x = x * 0.9 + mx.array(OTHER) * mx.sin((y * mx.cos(mx.arange(y.size) * 1.7)).sum()) * 0.1
        return (x * x).sum()

    return function


def gradient_of_gradient(mx, f, x, v):
    return mx.grad(lambda x: (mx.grad(f)(x) * v).sum())(x)


def tangent_of_gradient(mx, f, x, v):
    return mx.jvp(mx.grad(f), [x], [v])[1][0]


def gradient_of_tangent(mx, f, x, v):
    return mx.grad(lambda x: mx.jvp(f, [x], [v])[1][0])(x)


def tangent(mx, f, x, v):
    return mx.jvp(f, [x], [v])[1][0]


WAYS = (tangent, gradient_of_gradient, tangent_of_gradient, gradient_of_tangent)


NO_RULE = "mplemented|NYI|with respect to indices"
"""MLX's messages for a missing rule, such as forward through a scatter, or back through the tangent of a maximum."""


def by_mlx(way, step):
    """Return the derivative, or None where MLX has no rule for it."""
    try:
        return np.array(way(real, chain(real, step), real.array(X), real.array(DIRECTION)))
    except (RuntimeError, ValueError) as error:
        if not re.search(NO_RULE, str(error)):
            raise
        return None


@pytest.mark.parametrize("name", STEP)
def test_second_derivatives(name):
    """Compare second derivatives of a scalar: all mode orders agree, even if MLX has only one of them."""
    before = events.stats.compiles
    results = [np.array(way(ours, chain(ours, STEP[name]), ours.array(X), ours.array(DIRECTION))) for way in WAYS]
    assert events.stats.compiles == before
    expected = [by_mlx(way, STEP[name]) for way in WAYS]
    limit = 2e-3 * max(1.0, float(np.abs(results[1]).max()))
    for got in results[2:]:
        np.testing.assert_allclose(got, results[1], atol=limit)
    for way, got, want in zip(WAYS, results, expected, strict=True):
        if want is not None:
            np.testing.assert_allclose(got, want, atol=limit, err_msg=way.__name__)


@pytest.mark.parametrize("name", ["cumprod", "cross", "logcumsumexp", "prod"])
def test_a_long_chain(name):
    """Assert that the work per step of a long chain is constant. (21 steps of `logcumsumexp` once took XLA 46 s.)"""
    before = events.stats.compiles

    def function(x):
        for _ in range(21):
            x = ours.tanh(x + 0.1 * STEP[name](ours, x).mean())
        return x.sum()

    got = ours.jvp(ours.grad(function), [ours.array(X)], [ours.array(DIRECTION)])[1][0]
    assert np.isfinite(np.array(got)).all()
    assert events.stats.compiles == before


def test_a_matrix_of_second_derivatives_is_symmetric():
    """Assert that a Hessian is symmetric. XLA's derivative of `cholesky` was not."""
    matrix = ours.array(X @ X.T + np.eye(4, dtype=np.float32))
    weights = ours.array(OTHER)

    def function(a):
        return (ours.linalg.cholesky(a, stream=ours.cpu) * weights).sum()

    def second():
        return np.array(ours.grad(lambda a: (ours.grad(function)(a) * weights).sum())(matrix))

    here = second()
    with host_disabled():
        there = second()
    np.testing.assert_allclose(here, here.T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)


def test_truncated_normals_between_equal_bounds():
    """Assert that the derivatives at equal bounds follow the lower one, as in MLX."""
    for mode in ("grad", "jvp"):
        results = []
        for mx in (real, ours):
            bounds = [mx.array([0.0, 1.0, 3.0]), mx.array([0.0, 1.0, 3.0])]
            draw = lambda a, b, mx=mx: mx.random.truncated_normal(a, b, key=mx.random.key(0))  # noqa: E731
            if mode == "grad":
                results.append(mx.grad(lambda a, b, draw=draw: draw(a, b).sum(), argnums=(0, 1))(*bounds))
            else:
                results.append(mx.jvp(draw, bounds, [mx.ones(3), 10 * mx.ones(3)])[1])
        assert not testing.differences(*results)


COMPLEX_STEPS = {
    "var": lambda mx, x: mx.real(mx.var(x * 1j)),
    "var, ddof": lambda mx, x: mx.real(mx.var(x * (1 + 2j), ddof=1)),
    "std": lambda mx, x: mx.abs(mx.std(x * (1 + 1j))),
    "norm": lambda mx, x: mx.linalg.norm(x * (1 + 1j)),
}


@pytest.mark.parametrize("name", COMPLEX_STEPS)
def test_of_complex_statistics(name):
    f, x = COMPLEX_STEPS[name], np.array([1, 2, 4], np.float32)
    results = []
    for mx in (real, ours):
        grad = mx.grad(lambda x, mx=mx: f(mx, x))
        second = mx.grad(lambda x, grad=grad: grad(x)[0])(mx.array(x))
        along = mx.jvp(grad, [mx.array(x)], [mx.array(x * x)])[1][0]
        results.append([np.array(second), np.array(along)])
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("f", [
    lambda mx, x: mx.max(x) * mx.max(x), lambda mx, x: mx.exp(mx.min(x)), lambda mx, x: x.max() * x,
    lambda mx, x: mx.square(x).max(axis=0, keepdims=True) * x.min(),
])  # fmt: skip
def test_of_extremes_of_complex_numbers(f):
    def gradient(mx, f):
        return mx.grad(lambda x: (mx.real(f(x)) + 2 * mx.imag(f(x))).sum())

    z = np.array([0.2 + 0.3j, 0.5 - 0.1j, -1 + 2j], np.complex64)
    results = []
    for mx in (real, ours):
        first = gradient(mx, lambda x, mx=mx: f(mx, x))
        second = gradient(mx, first)(mx.array(z))
        results.append([np.array(second), np.array(mx.jvp(first, [mx.array(z)], [mx.array(z * z)])[1][0])])
    for want, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def test_of_a_compiled_function_that_has_state():
    """Differentiate a compiled function with state twice. Its node has several results, and is an output itself."""

    def second(mx):
        state = [mx.array(1.0)]

        def cubes(a):
            state[0] = state[0] * 0.5 + (a * a * a).sum()
            return a * a * a

        compiled = mx.compile(cubes, inputs=state, outputs=state)

        def total(a):
            state[0] = mx.array(1.0)
            return compiled(a).sum()

        x, along = mx.array([1.0, 2.0]), mx.ones(2)
        gradient = mx.grad(total)
        return [t.tolist() for t in mx.jvp(lambda a: mx.jvp(gradient, [a], [along])[1][0], [x], [along])[1]]

    assert second(ours) == second(real) == [[6.0, 6.0]]
