"""Jacobians, Hessians, their products and linearization, compared with JAX's."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat as mx
from mxcompat.ext import hessian, hvp, jacfwd, jacrev, linearize, value_and_jac

rng = np.random.default_rng(3)
P = {"w": rng.normal(size=(2, 3)).astype(np.float32) / 4, "b": rng.normal(size=2).astype(np.float32) / 4}
X = rng.normal(size=3).astype(np.float32)


pytestmark = pytest.mark.usefixtures("tier")


def f(m):
    def function(p, x):
        h = m.tanh(p["w"] @ x + p["b"])
        return {"h": h * h[0], "s": [m.exp(h).sum(), (x**2).sum() * p["b"][0]]}

    return function


def scalar(m):
    return lambda p, x: (m.tanh(p["w"] @ x + p["b"]) ** 2).sum() + m.sin(x).sum() * p["b"][1]


def ours(tree):
    return jax.tree.map(mx.array, tree)


def is_array(x):
    return isinstance(x, mx.array)


def close(result, expected):
    result, expected = jax.tree.map(np.array, result, is_leaf=is_array), jax.tree.map(np.asarray, expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=2e-5, atol=2e-6), result, expected)


@pytest.mark.parametrize("argnums", [0, (0, 1), (1,), -1])
@pytest.mark.parametrize("kind", ["jacrev", "jacfwd"])
def test_jacobians_of_trees(kind, argnums):
    result = {"jacrev": jacrev, "jacfwd": jacfwd}[kind](f(mx), argnums)(ours(P), mx.array(X))
    close(result, getattr(jax, kind)(f(jnp), argnums)(P, X))


@pytest.mark.parametrize("mode", ["reverse", "forward"])
def test_value_and_jac(mode):
    value, jac = mx.compile(value_and_jac(f(mx), (0, 1), mode))(ours(P), mx.array(X))
    close(value, f(jnp)(P, X))
    close(jac, jax.jacrev(f(jnp), (0, 1))(P, X))


@pytest.mark.parametrize("argnums", [1, (0, 1)])
def test_hessians(argnums):
    with jax.enable_x64(True):  # JAX's result in single precision exceeds the tolerance
        expected = jax.hessian(scalar(jnp), argnums)(*jax.tree.map(np.float64, (P, X)))
    close(hessian(scalar(mx), argnums)(ours(P), mx.array(X)), expected)


def test_hessian_vector_products():
    v = jax.tree.map(lambda x: np.cos(x), P)
    with jax.enable_x64(True):  # as above
        double, x = jax.tree.map(np.float64, (P, v)), np.float64(X)
        product = jax.jvp(lambda p: jax.grad(scalar(jnp))(p, x), *[(p,) for p in double])[1]
    close(hvp(scalar(mx))(ours(P), mx.array(X), ours(v)), product)
    close(mx.compile(hvp(scalar(mx)))(ours(P), mx.array(X), ours(v)), product)
    of_x = jax.hessian(scalar(jnp), 1)(P, X) @ X
    close(hvp(scalar(mx), 1)(ours(P), mx.array(X), mx.array(X)), of_x)


def test_linearize():
    v = jax.tree.map(np.sin, P)
    value, push = linearize(f(mx), ours(P), mx.array(X))
    expected, tangent = jax.jvp(f(jnp), (P, X), (v, X))
    close(value, expected)
    close(push(ours(v), mx.array(X)), tangent)
    twice = push(jax.tree.map(lambda x: mx.array(2 * x), v), mx.array(2 * X))
    close(twice, jax.tree.map(lambda t: 2 * t, tangent))


def test_linearize_under_transforms():
    x = mx.array(X)
    close(mx.vmap(lambda t: linearize(mx.sin, x)[1](t))(mx.eye(3)), np.diag(np.cos(X)))
    close(mx.grad(lambda x: linearize(mx.sin, x)[1](mx.ones(3)).sum())(x), -np.sin(X))
    close(mx.compile(lambda x: linearize(mx.square, x)[1](x))(x), 2 * X**2)
    close(mx.vmap(lambda x: linearize(mx.exp, x)[1](x))(x), X * np.exp(X))


def test_linearize_has_the_rules_of_custom_functions():
    @mx.custom_function
    def g(x):
        return x * 2

    @g.jvp
    def rule(x, tangent):
        return tangent * 100

    assert linearize(lambda x: g(x) + x, mx.array(1.0))[1](mx.array(1.0)).item() == 101


ERRORS = {
    "mode": (lambda: value_and_jac(mx.sin, mode="sideways"), r"mode must be 'reverse' or 'forward', not 'sideways'"),
    "argnums": (lambda: jacrev(mx.sin, 1)(mx.array(1.0)), r"argnums 1 do not fit a call with 1 positional"),
    "no argnums": (lambda: jacfwd(mx.sin, ())(mx.array(1.0)), r"argnums"),
    "vector": (lambda: hvp(lambda x: x.sum())(mx.ones(3), mx.ones(2)), r"\[hvp\] The vector must have the shapes"),
    "tangent": (lambda: linearize(mx.sin, mx.ones(3))[1](mx.ones(2)), r"\[linearize\] Tangents must be like"),
    "integers": (lambda: linearize(mx.square, mx.array([1])), r"\[linearize\] Primals must be arrays of floats"),
    "no array": (lambda: jacrev(lambda x: "text")(mx.ones(2)), r"should contain only arrays"),
}


@pytest.mark.parametrize(("fails", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_errors(fails, message):
    with pytest.raises(ValueError, match=message):
        fails()
