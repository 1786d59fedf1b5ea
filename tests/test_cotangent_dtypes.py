"""Custom rules that return cotangents of another dtype than the arguments': real MLX propagates them unchanged."""

from functools import partial

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.run.background import settle
from tests.expressions import cases
from tests.oracle import check, check_together
from tests.thinned import thinned

X = np.array([[0.25, 0.5, 1.5], [2.0, 0.75, 1.25]], np.float32)
FLOATS = ["bfloat16", "float16", "float32", "complex64"]
RETURNED = [*FLOATS, "float64", "int32", "bool_"]
HALF = 1e-2  # real MLX multiplies by factors rounded to half precision


def returning(mx, dtype, reads=False):
    """Return a function for the square, with a rule that returns this dtype."""
    f = mx.custom_function(lambda x: x * x)

    @f.vjp
    def rule(x, cotangent, output):
        if reads:
            np.array(cotangent.astype(mx.float32))
        return (cotangent * 3).astype(getattr(mx, dtype))

    return f


def summed(mx, x):
    return mx.real(x).sum() if x.dtype == mx.complex64 else x.sum()


ROADS = {
    "grad": lambda mx, f, x: mx.grad(lambda x: summed(mx, f(x)))(x),
    "value_and_grad": lambda mx, f, x: mx.value_and_grad(lambda x: summed(mx, f(x)))(x),
    "vjp": lambda mx, f, x: mx.vjp(f, [x], [x]),
    "vjp of another dtype": lambda mx, f, x: mx.vjp(f, [x], [mx.ones(x.shape)]),
    "compile of grad": lambda mx, f, x: mx.compile(mx.grad(lambda x: summed(mx, f(x))))(x),
    "grad of compile": lambda mx, f, x: mx.grad(mx.compile(lambda x: summed(mx, f(x))))(x),
    "checkpoint": lambda mx, f, x: mx.grad(mx.checkpoint(lambda x: summed(mx, f(x))))(x),
    "vmap of grad": lambda mx, f, x: mx.vmap(mx.grad(lambda x: summed(mx, f(x))))(x),
    "twice": lambda mx, f, x: mx.grad(lambda x: summed(mx, f(f(x) * 0.5) * x))(x),
    "two ways": lambda mx, f, x: mx.grad(lambda x: summed(mx, f(x) + mx.tanh(x)))(x),
    "keyword": lambda mx, f, x: mx.grad(lambda a, b: summed(mx, f(b) * a), argnames="b")(x, b=x),
    "tree": lambda mx, f, x: mx.grad(lambda p: summed(mx, f(p["w"]) * p["b"]))({"w": x, "b": x}),
}  # fmt: skip


READING = [road for road in ROADS if road not in ("compile of grad", "vmap of grad")]
"""Functions whose arrays have values, which a rule may read."""


WAYS = [*[(road, False) for road in ROADS], *[(road, True) for road in READING]]


@pytest.mark.parametrize(("way", "dtype", "returned"), thinned(3, WAYS, FLOATS, RETURNED))
def test_gradients_keep_it(way, dtype, returned):
    road, reads = way

    def derived(mx, x):
        return ROADS[road](mx, returning(mx, returned, reads), x.astype(getattr(mx, dtype)))

    check(derived, X, tol=HALF)


BEFORE = cases(
    """
-x
x.reshape(3, 2)
x.T
x[None]
x + w
w - x
x.sum(axis=0)
mx.broadcast_to(x, (2, 2, 3))
mx.concatenate([x, w])
mx.stack([x, w])
mx.where(w > 1, x, w)
mx.maximum(x, w)
mx.clip(x, 0.5, 1)
mx.pad(x, 1)
mx.cumsum(x)
mx.max(x, axis=0)
mx.repeat(x, 2)
mx.put_along_axis(w, mx.array([[0], [0]]), x[:, :1] * 1, axis=1)
w.at[mx.array([0, 1])].add(x)
x[0]
x[:, ::-1]
x[mx.array([0, 0])]
mx.take(x, mx.array([2, 0, 1]), axis=1)
mx.sort(x)
mx.floor(x)
mx.diagonal(x)
mx.cummax(x)
mx.stop_gradient(x) + x[1:]
mx.fast.rope(mx.stack([x, x])[..., :2], 2, traditional=False, base=10.0, scale=1.0, offset=1)
x * w
w / x
x ** 2
mx.exp(x)
mx.log1p(x)
mx.abs(x)
mx.sigmoid(x)
x @ w.T
w @ x.T
mx.softmax(x)
mx.logsumexp(x, axis=1)
mx.mean(x, axis=1)
mx.var(x)
mx.prod(x)
mx.logaddexp(x, w)
mx.einsum("ij,kj->ik", x, w)
mx.split(x, 3, axis=1)[1]
mx.conv1d(x[None], w[None])
mx.fast.scaled_dot_product_attention(x[None, None], w[None, None], w[None, None], scale=0.5)
mx.grad(lambda y: (y ** 3).sum())(x)
mx.vmap(lambda y: y * 2)(x)
mx.vmap(lambda y: y[1:])(x)
mx.compile(lambda y: y * y + y)(x)
mx.checkpoint(lambda y: y * y + y)(x)
mx.custom_function(lambda y: y * y)(x)
"""
)
TOGETHER = 9
"""Number of expressions whose gradients are one program."""
PAIRS = [("bfloat16", "float32"), ("float16", "float32"), ("float32", "bfloat16"), ("bfloat16", "float16")]


@pytest.mark.parametrize(("start", "pair"), thinned(2, range(0, len(BEFORE), TOGETHER), PAIRS))
def test_it_depends_on_the_ops_before_the_call(start, pair):
    dtype, returned = pair

    def derived(mx, x, expression):
        x = x.astype(getattr(mx, dtype))
        f, w = returning(mx, returned), mx.sin(x)
        return mx.grad(lambda x: f(eval(expression, {"mx": mx, "x": x, "w": w})).sum())(x)

    functions = {expression: partial(derived, expression=expression) for expression in BEFORE[start : start + TOGETHER]}
    check_together(functions, X, tol=3 * HALF)  # sums of a few such products


@pytest.mark.parametrize("expression", ["x * w", "x + w", "mx.exp(x)", "x @ w.T", "mx.abs(x)", "x.sum(axis=0)"])
def test_complex_cotangents_of_real_numbers(expression):
    """Compare complex cotangents: their derivatives are those of the real and imaginary parts."""

    def derived(mx, x):
        f = mx.custom_function(lambda x: x * 1)
        f.vjp(lambda x, cotangent, output: cotangent * (2 + mx.arange(x.size).reshape(x.shape) * 1j))
        w = mx.sin(x)
        return mx.grad(lambda x: f(eval(expression, {"mx": mx, "x": x, "w": w})).sum())(x)

    check(derived, X - 1)


def test_a_rule_before_gets_it():
    def derived(mx, x):
        seen = []
        first = mx.custom_function(lambda x: x * 2)

        @first.vjp
        def rule(x, cotangent, output):
            seen.append(str(cotangent.dtype).split(".")[-1])
            return cotangent

        x = x.astype(mx.float16)
        return mx.grad(lambda x: returning(mx, "float32")(first(x) * 3).sum())(x), seen

    check(derived, X)


def test_two_functions_of_one_argument():
    def derived(mx, x):
        x = x.astype(mx.bfloat16)
        f, g = returning(mx, "float32"), returning(mx, "float16")
        return mx.grad(lambda x: (f(x * 1) + g(x)).sum())(x), mx.grad(lambda x: (f(x) * g(-x)).sum())(x)

    check(derived, X, tol=HALF)


def test_second_derivatives():
    def derived(mx, x):
        f = mx.custom_function(lambda x: x**3)
        f.vjp(lambda x, cotangent, output: (cotangent * x * x).astype(mx.float16))
        once = mx.grad(lambda x: f(x * 2).sum())
        return once(x), mx.grad(lambda x: once(x).sum())(x), mx.jvp(once, [x], [x])[1]

    check(derived, X, tol=HALF)


def test_an_optimizer_goes_on_in_it():
    """Assert that a step casts the parameter to float32, as in MLX."""
    from mxcompat import optimizers

    w = mx.array(X).astype(mx.bfloat16)
    for make in (optimizers.SGD, optimizers.AdamW):
        gradients = {"w": mx.grad(lambda w: returning(mx, "float32")(w).sum())(w)}
        assert make(learning_rate=0.1).apply_gradients(gradients, {"w": w})["w"].dtype == mx.float32


@pytest.mark.usefixtures("xla_only")
def test_steps_compile_once():
    def step(w, k):
        return mx.grad(lambda w: returning(mx, "float32")(mx.tanh(w * k)).sum())(w)

    w = mx.array(X).astype(mx.bfloat16)
    for k in range(3):
        mx.eval(step(w, k + 1.5))
    settle()
    before = ext.debug.compiles()
    for k in range(4):
        mx.eval(step(w, k + 7.5))
    assert ext.debug.compiles() == before
