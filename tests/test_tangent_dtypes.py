"""Tangents of another dtype than their value's: real MLX propagates them with each op's dtype."""

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
T = np.array([[1, 2, 3], [4, 5, 6.5]], np.float32)
FLOATS = ["bfloat16", "float16", "float32"]
TANGENTS = [*FLOATS, "complex64", "float64", "int32", "bool_"]
HALF = 3e-2  # sums of a few products, each of which real MLX rounds to half precision


def pushed(mx, f, x, t, dtype, tangent):
    """Return the derivative at values of one dtype, for tangents of another."""
    with mx.stream(mx.cpu):  # for real MLX, whose float64 works on the CPU only
        x, t = x.astype(getattr(mx, dtype)), t.astype(getattr(mx, tangent))
        return mx.jvp(f, [x], [t])


FUNCTIONS = cases(
    """
x
-x
x.reshape(3, 2)
x.T
x[None]
x + w
w - x
x + x
x + mx.array(1.0)
x.sum(axis=0)
mx.broadcast_to(x, (2, 2, 3))
mx.broadcast_arrays(x, w[0])
mx.meshgrid(x[0], w[0])
mx.concatenate([x, w])
mx.concatenate([x, x])
mx.stack([x, w])
mx.where(w > 1, x, w)
mx.where(x > 1, x, w)
mx.maximum(x, w)
mx.clip(x, 0.5, 1)
mx.pad(x, 1)
mx.pad(x, 1, mode="edge")
mx.cumsum(x)
mx.max(x, axis=0)
mx.repeat(x, 2)
x[0]
x[:, ::-1]
x[mx.array([0, 0])]
mx.split(x, 3, axis=1)
mx.take(x, mx.array([2, 0, 1]), axis=1)
mx.slice_update(w, x[:1], mx.array([0]), (0,))
mx.slice_update(x, w[:1], mx.array([0]), (0,))
mx.sort(x)
mx.floor(x)
mx.sign(x)
x // w
x % w
w % x
mx.diagonal(x)
mx.stop_gradient(x) + x
x.astype(mx.float32)
x.astype(mx.bfloat16)
x.astype(mx.int32)
x * w
w / x
x ** 2
mx.exp(x)
mx.abs(x)
mx.sigmoid(x)
mx.real(x)
mx.imag(x)
mx.fft.fft(x)
x @ w.T
mx.addmm(w[:, :2], x, w.T)
mx.addmm(x[:, :2], w, w.T)
mx.softmax(x)
mx.softmax(x, precise=True)
mx.logsumexp(x, axis=1)
mx.mean(x, axis=1)
mx.var(x)
mx.prod(x)
mx.logaddexp(x, w)
mx.einsum("ij,kj->ik", x, w)
mx.linalg.norm(x)
mx.fast.rms_norm(x, w[0], 1e-5)
mx.fast.layer_norm(x, w[0], w[0], 1e-5)
mx.fast.rope(mx.stack([x, x])[..., :2], 2, traditional=False, base=10.0, scale=1.0, offset=1)
mx.fast.scaled_dot_product_attention(x[None, None], w[None, None], w[None, None], scale=0.5)
mx.grad(lambda y: (y ** 3).sum())(x)
mx.jvp(lambda y: y * y, [x], [w])[1][0]
mx.vmap(lambda y: y * 2)(x)
mx.vmap(lambda y: y[1:])(x)
mx.vmap(lambda y, z: z + y, in_axes=(1, None), out_axes=1)(x, x[:, 0])
mx.compile(lambda y: y * y + y)(x)
mx.checkpoint(lambda y: y + y)(x)
mx.custom_function(lambda y: y * y)(x)
x > 1
(x > 1).sum()
(x > 1).astype(mx.int32) * w
(x > 1) & (w > 1)
mx.logical_and(x > 1, w > 1)
mx.argmax(x, axis=1)
mx.argpartition(x, 1)
"""
)
TOGETHER = 9
"""Number of functions whose tangents are one program."""
PAIRS = [("bfloat16", "float32"), ("float32", "bfloat16"), ("float16", "bfloat16"), ("float16", "int32")]


def tangent_of(function, dtype, tangent):
    def derived(mx, x, t):
        w = mx.sin(x).astype(getattr(mx, dtype))
        return pushed(mx, lambda x: eval(function, {"mx": mx, "x": x, "w": w}), x, t, dtype, tangent)

    return derived


@pytest.mark.parametrize(("start", "pair"), thinned(2, range(0, len(FUNCTIONS), TOGETHER), PAIRS))
def test_each_op_has_its_way(start, pair):
    dtype, tangent = pair
    functions = FUNCTIONS[start : start + TOGETHER]
    check_together({function: tangent_of(function, dtype, tangent) for function in functions}, X, T, tol=HALF)


SOME = ["x", "x + w", "x * w", "x.sum()", "mx.exp(x)", "x[1:]", "x * x + x", "mx.max(x)"]


@pytest.mark.parametrize(("dtype", "tangent"), thinned(2, [*FLOATS, "complex64", "int32"], TANGENTS))
def test_any_dtypes(dtype, tangent):
    check_together({function: tangent_of(function, dtype, tangent) for function in SOME}, X, T, tol=HALF)


@pytest.mark.parametrize(
    "function", ["x * w", "x + w", "mx.exp(x)", "x @ w.T", "mx.abs(x)", "x.sum(axis=0)", "mx.fft.fft(x)"]
)
def test_complex_tangents_of_real_numbers(function):
    """Compare complex tangents: their derivatives are those of the real and imaginary parts."""

    def derived(mx, x, t):
        w = mx.sin(x)
        return mx.jvp(lambda x: eval(function, {"mx": mx, "x": x, "w": w}), [x], [t + 1j * t * t])

    check(derived, X, T)


TWO = cases(
    """
x + y
x * y
mx.where(x > 1, x, y)
mx.where(z, x, y)
mx.concatenate([x, y])
mx.maximum(x, y)
x % y
x @ y.T
mx.addmm(x[:, :2], y, y.T[:, :2])
mx.slice_update(x, y[:1], mx.array([0]), (0,))
mx.meshgrid(x[0], y[0])
x > y
mx.argpartition(x + y, 1)
mx.argpartition(x, 1) * y
(x > 1).sum() + y
"""
)


@pytest.mark.parametrize("function", TWO)
@pytest.mark.parametrize("first", FLOATS)
@pytest.mark.parametrize("second", FLOATS)
def test_two_tangents(function, first, second):
    def derived(mx, x, t):
        x = x.astype(mx.float16)
        z = mx.sin(x) > 0.5
        f = lambda x, y: eval(function, {"mx": mx, "x": x, "y": y, "z": z})  # noqa: E731
        return mx.jvp(f, [x, x + 1], [t.astype(getattr(mx, first)), t.astype(getattr(mx, second))])

    check(derived, X, T, tol=HALF)


@pytest.mark.parametrize("function", ["-x", "w - x", "mx.isclose(w, x)", "mx.allclose(w, x)"])
def test_bools_are_not_subtracted(function):
    def derived(mx, x):
        w = mx.sin(x)
        return mx.jvp(lambda x: eval(function, {"mx": mx, "x": x, "w": w}), [x], [x > 1])

    check(derived, X)


NESTED = {
    "jvp of jvp": lambda mx, f, x, t: mx.jvp(lambda x: mx.jvp(f, [x], [t])[1][0], [x], [t]),
    "jvp of jvp of the tangent": lambda mx, f, x, t: mx.jvp(lambda t: mx.jvp(f, [x], [t])[1][0], [t], [x]),
    "jvp of jvp, natural": lambda mx, f, x, t: mx.jvp(lambda x: mx.jvp(f, [x], [t])[1][0], [x], [x]),
    "grad of jvp": lambda mx, f, x, t: mx.grad(lambda x: mx.jvp(f, [x], [t])[1][0].sum())(x),
    "grad of jvp of the tangent": lambda mx, f, x, t: mx.grad(lambda t: mx.jvp(f, [x], [t])[1][0].sum())(t),
    "jvp of grad": lambda mx, f, x, t: mx.jvp(mx.grad(lambda x: f(x).sum()), [x], [t]),
    "vmap of jvp": lambda mx, f, x, t: mx.vmap(lambda x, t: mx.jvp(f, [x], [t])[1][0])(x, t),
    "jvp of vmap": lambda mx, f, x, t: mx.jvp(mx.vmap(f), [x], [t]),
    "compile of jvp": lambda mx, f, x, t: mx.compile(lambda x, t: mx.jvp(f, [x], [t])[1][0])(x, t),
    "jvp of compile": lambda mx, f, x, t: mx.jvp(mx.compile(f), [x], [t]),
    "jvp of checkpoint": lambda mx, f, x, t: mx.jvp(mx.checkpoint(f), [x], [t]),
}  # fmt: skip


ALONG = [(road, function) for road in NESTED for function in ("x + 1", "x * x", "mx.exp(x) * x + x", "x.sum() * x")]
for CONSTANT in ("jvp of jvp of the tangent", "jvp of grad"):
    ALONG.remove((CONSTANT, "x + 1"))  # the inner derivative does not depend on x, so its tangent keeps its dtype


@pytest.mark.parametrize(("dtype", "tangent"), PAIRS[:3])
@pytest.mark.parametrize("road", NESTED)
def test_nested(road, dtype, tangent):
    def derived(mx, x, t, function):
        x, t = x.astype(getattr(mx, dtype)), t.astype(getattr(mx, tangent))
        return NESTED[road](mx, lambda x: eval(function, {"mx": mx, "x": x}), x, t)

    functions = {function: partial(derived, function=function) for way, function in ALONG if way == road}
    check_together(functions, X, T, tol=2 * HALF)


def returning(mx, dtype, reads=False, seen=None):
    """Return a function for the square, with a jvp rule that returns this dtype."""
    f = mx.custom_function(lambda x: x * x)

    @f.jvp
    def rule(x, tangent):
        if seen is not None:
            seen.append(str(tangent.dtype).split(".")[-1])
        if reads:
            np.array(tangent.astype(mx.float32))
        return (tangent * 3).astype(getattr(mx, dtype))

    return f


ROADS = {
    "jvp": lambda mx, f, x: mx.jvp(f, [x], [x]),
    "sum": lambda mx, f, x: mx.jvp(lambda x: f(x).sum(), [x], [x]),
    "product": lambda mx, f, x: mx.jvp(lambda x: f(x + 1) * x, [x], [x]),
    "another dtype": lambda mx, f, x: mx.jvp(f, [x], [mx.ones(x.shape)]),
    "jvp of compile": lambda mx, f, x: mx.jvp(mx.compile(lambda x: f(x) + 1), [x], [x]),
    "checkpoint": lambda mx, f, x: mx.jvp(mx.checkpoint(f), [x], [x]),
    "within another": lambda mx, f, x: mx.jvp(mx.custom_function(lambda x: f(x) * 2), [x], [x]),
    "twice": lambda mx, f, x: mx.jvp(lambda x: f(f(x) * 0.5), [x], [x]),
    "compile of jvp": lambda mx, f, x: mx.compile(lambda x: mx.jvp(f, [x], [x])[1][0])(x),
    "vmap of jvp": lambda mx, f, x: mx.vmap(lambda x: mx.jvp(f, [x], [x])[1][0])(x),
    "grad of jvp": lambda mx, f, x: mx.grad(lambda x: mx.jvp(f, [x], [x])[1][0].sum())(x),
}  # fmt: skip
RETURNED = [(road, dtype) for road in ROADS for dtype in (*FLOATS, "complex64", "int32")]
for SUM in ("complex64", "int32"):
    RETURNED.remove(("grad of jvp", SUM))  # a complex sum has no gradient
READING = ["jvp", "sum", "product", "another dtype", "jvp of compile", "within another", "twice"]


WAYS = [(*way, reads) for way in RETURNED for reads in (False, True) if way[0] in READING or not reads]


@pytest.mark.parametrize(("way", "dtype"), thinned(2, WAYS, FLOATS))
def test_rules_of_custom_functions(way, dtype):
    road, returned, reads = way

    def derived(mx, x):
        return ROADS[road](mx, returning(mx, returned, reads), x.astype(getattr(mx, dtype)))

    check(derived, X, tol=HALF)


def test_a_rule_behind_gets_it():
    def derived(mx, x):
        seen = []
        first, second = returning(mx, "float32", seen=seen), returning(mx, "bfloat16", seen=seen)
        x = x.astype(mx.float16)
        return mx.jvp(lambda x: second(first(x) + 1), [x], [x]), seen

    check(derived, X, tol=HALF)


def test_without_shapes():
    def push(x, t):
        return mx.jvp(lambda x: x * x + 1, [x], [t])[1][0]

    shapeless = mx.compile(push, shapeless=True)
    for n in (3, 4, 5):
        x, t = mx.arange(n).astype(mx.float16), mx.arange(n) * 0.5
        tangent = shapeless(x, t)
        assert tangent.dtype == mx.float32
        assert tangent.tolist() == push(x, t).tolist()


@pytest.mark.usefixtures("xla_only")
def test_steps_compile_once():
    def step(x, t, k):
        return mx.jvp(lambda x: mx.tanh(x * k).sum(), [x], [t])[1][0]

    x, t = mx.array(X).astype(mx.bfloat16), mx.array(T)
    for k in range(3):
        mx.eval(step(x, t, k + 1.5))
    settle()
    before = ext.debug.compiles()
    for k in range(4):
        mx.eval(step(x, t, k + 7.5))
    assert ext.debug.compiles() == before
