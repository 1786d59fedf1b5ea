"""Ops that contain a Program, in NumPy: transforms and calls agree with XLA, and fall back to it if a rule is
missing."""

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import nn
from mxcompat._graph import policy
from mxcompat._graph.ir.capture import ALIAS
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._graph.run.differentiate import can_pull_back, can_push_forward
from mxcompat._graph.run.events import stats
from mxcompat._graph.run.interpret import NoRule, can_interpret, interpret
from mxcompat._transforms import calls, compiling, transform_ops
from mxcompat._transforms.custom import derive
from mxcompat._transforms.custom import ops as custom

from .harness import check, data, program_of

X = data((4, 3), "float32", 1)
W = data((3, 5), "float32", 2, -1, 1)
B = data((5,), "float32", 3, -1, 1)
V = data((5, 1), "float32", 4, -1, 1)
SQUARE = data((3, 3), "float32", 5, -1, 1)


def holds(call, *inputs, tolerance=None):
    """Compare a call of transforms, run by NumPy alone, with XLA."""
    program, _ = program_of(call, inputs)
    assert can_interpret(program), program
    check(call, *inputs, tolerance=tolerance, grad=False, jvp=False, batch=False)


def left_to_xla(call, *inputs):
    program, arrays = program_of(call, inputs)
    assert not can_interpret(program)
    with pytest.raises(NoRule):
        interpret(program, arrays)


def loss(w, b, v, x):
    h = mx.maximum(x @ w + b, 0)
    return mx.square((mx.sigmoid(h) @ v).sum(axis=1) - 1).mean()


def test_gradients_of_a_network():
    grad = mx.value_and_grad(loss, argnums=(0, 1, 2))

    def call(mx, w, b, v, x):
        value, grads = grad(w, b, v, x)
        return [value, *grads]

    holds(call, W, B, V, X, tolerance=1e-5)  # the libraries add up in another order


def test_complex_cotangents_are_conjugated():
    z, c = data((3,), "complex64", 1), data((3,), "complex64", 2)

    def call(mx, z, c):
        outs, grads = mx.vjp(lambda z: [z * z * 1j, mx.real(z)], [z], [c, mx.real(c)])
        return [*outs, *grads]

    holds(call, z, c)


def test_cotangents_are_cast_and_broadcast():
    x = data((2, 3), "float16", 1)

    def call(mx, x, c):
        return mx.vjp(lambda x: [x * x, x > 0, x * 2], [x], [c, x > 0, mx.ones((2, 3))])[1]

    holds(call, x, data((2, 3), "float32", 2))


def test_unused_and_returned_primals():
    def call(mx, x, y):
        outs, grads = mx.vjp(lambda x, y: [x, mx.zeros(2)], [x, y], [x, mx.ones(2)])
        return [*outs, *grads]

    holds(call, X, W)


def test_integer_primals_are_left_to_xla():
    left_to_xla(lambda mx, n: mx.grad(lambda n: (n * 2.0).sum())(n), data((3,), "int32"))


def test_second_derivatives():
    def again(mx, f):
        return mx.grad(lambda x: (mx.grad(f)(x) * x).sum())

    def inner(mx, x):
        x = x * 0.3
        y = mx.tanh(x[1:]) * x[:-1] ** 2 + mx.logsumexp(x, axis=1)[None, 1:].T
        return mx.square(mx.checkpoint(lambda y: mx.softmax(y, axis=0) @ y.T)(y)).mean()

    holds(lambda mx, x: again(mx, lambda x: inner(mx, x))(x), X)
    holds(lambda mx, x: again(mx, lambda x: (mx.grad(lambda x: inner(mx, x))(x) * x).sum())(x), X)
    holds(lambda mx, x: mx.vmap(again(mx, lambda x: mx.sin(x).sum()))(x), X)
    holds(lambda mx, x: mx.jvp(mx.grad(lambda x: inner(mx, x)), [x], [x * 2])[1], X)
    holds(lambda mx, x: mx.grad(lambda x: mx.jvp(lambda x: inner(mx, x), [x], [mx.sin(x)])[1][0])(x), X)
    holds(lambda mx, x: mx.jvp(lambda x: mx.jvp(lambda x: inner(mx, x), [x], [x * x])[1], [x], [x * 2])[1], X)


def test_second_derivatives_of_half_precision():
    half = data((3,), "float16", 1)
    holds(lambda mx, x: mx.grad(lambda x: mx.grad(lambda x: mx.sin(x).sum())(x).sum())(x), half)


def singular(mx, x):
    return mx.linalg.svd(x, compute_uv=False, stream=mx.cpu).sum()


def test_second_derivatives_are_left_to_xla():
    """Assert the fallback to XLA for second derivatives if the first derivative's rule cannot be differentiated."""
    left_to_xla(lambda mx, x: mx.grad(lambda x: mx.grad(lambda x: singular(mx, x))(x).sum())(x), X)
    left_to_xla(lambda mx, x: mx.grad(lambda x: mx.jvp(lambda x: singular(mx, x), [x], [x])[1][0].sum())(x), X)


def test_jvp():
    def call(mx, x, w, t):
        outs, tangents = mx.jvp(lambda x: [mx.sin(x) @ w, x > 0, mx.argmax(x, axis=1), mx.ones(2)], [x], [t])
        return [*outs, *tangents]

    holds(call, X, W, data(X.shape, "float32", 9))
    z = data((3,), "complex64", 1)
    holds(lambda mx, z, t: mx.jvp(lambda z: z * z * 1j, [z], [t])[1], z, data((3,), "complex64", 2))
    half = data((3,), "float16", 1)
    holds(lambda mx, x, t: mx.jvp(lambda x: x * x, [x], [t])[1], half, data((3,), "float32", 2))
    left_to_xla(lambda mx, n: mx.jvp(lambda n: n * 2.0, [n], [n])[1], data((3,), "int32"))


def test_checkpoint():
    scale = mx.array(3.0)

    def call(mx, x, w):
        layer = mx.checkpoint(lambda x: (mx.tanh(x @ w), x * scale))
        return mx.grad(lambda x: sum(y.sum() for y in layer(x)))(x)

    holds(call, X, W)
    check(lambda mx, x, w: mx.checkpoint(lambda x, w: [mx.tanh(x @ w), x])(x, w), X, W, tolerance=1e-5)


def test_compile():
    inner = mx.compile(lambda x, w: [mx.tanh(x @ w), x * 2])
    check(lambda mx, x, w: inner(x, w), X, W, tolerance=1e-5)
    frozen = compiling.compile_frozen(lambda x: [x * 2, x + 1])
    check(lambda mx, x: frozen(x), X)


def custom_vjp():
    """Return a function of two outputs whose rule is not its derivative."""

    @mx.custom_function
    def f(x, y):
        return mx.exp(x) * y, mx.argmax(x)

    @f.vjp
    def f_vjp(primals, cotangents, outputs):
        x, y = primals
        return cotangents[0] * 7 + outputs[0], (cotangents[0] * x).sum(axis=0) * y

    return f


def test_custom_vjp():
    f = custom_vjp()
    holds(lambda mx, x, y: mx.grad(lambda x, y: f(x, y)[0].sum(), argnums=(0, 1))(x, y), X, X[0])
    z = data((3,), "complex64", 1)
    g = mx.custom_function(lambda z: z * z)
    g.vjp(lambda z, c, out: c * (2 + 1j))
    holds(lambda mx, z, c: mx.vjp(lambda z: mx.conj(g(z)) * 3, [z], [c])[1], z, data((3,), "complex64", 2))
    fewer = mx.custom_function(lambda x, y: x * y)
    fewer.vjp(lambda primals, c, out: c)
    holds(lambda mx, x, y: mx.grad(lambda x, y: fewer(x, y).sum(), argnums=(0, 1))(x, y), X, X)


def test_second_derivatives_by_a_rule():
    """Assert that the second derivative differentiates the rule, and forward mode the function."""
    f = custom_vjp()
    whole = lambda x, y: (f(x, y)[0] * x).sum()  # noqa: E731
    holds(lambda mx, x, y: mx.grad(lambda x: (mx.grad(whole)(x, y) * x).sum())(x), X, X[0])
    holds(lambda mx, x, y: mx.jvp(lambda x: mx.grad(whole)(x, y), [x], [x * 2])[1], X, X[0])
    holds(lambda mx, x, y: mx.grad(lambda x: mx.jvp(whole, [x, y], [x * 2, y])[1][0])(x), X, X[0])


def test_custom_vjp_is_its_own_derivative_forward():
    f = custom_vjp()
    holds(lambda mx, x, y, t: mx.jvp(lambda x, y: list(f(x, y)), [x, y], [t, y])[1], X, X[0], X)


def test_custom_jvp():
    f = mx.custom_function(lambda x, y: (x * y, mx.argmax(x)))
    captured = mx.array(5.0)
    f.jvp(lambda primals, tangents: (tangents[0] * captured + primals[1], mx.argmax(primals[0])))
    holds(lambda mx, x, y, t: mx.jvp(lambda x: list(f(x, y)), [x], [t])[1], X, X[0], data(X.shape, "float32", 6))
    holds(lambda mx, x, y: mx.grad(lambda x: f(x, y)[0].sum())(x), X, X[0])  # reverse mode ignores the jvp rule


def test_custom_gradient():
    f = mx.custom_gradient(lambda x: (mx.square(x), lambda g: (g * x,)))
    holds(lambda mx, x: mx.grad(lambda x: f(x).sum())(x), X)


def test_vmap():
    both = lambda mx, x, w: [x @ w, mx.sum(x), mx.ones(2)]  # noqa: E731
    for in_axes, out_axes in (((0, None), 0), ((1, 1), (0, 0, 1)), ((None, 0), -1)):

        def call(mx, x, w, in_axes=in_axes, out_axes=out_axes):
            axes = list(out_axes) if isinstance(out_axes, tuple) else out_axes
            return mx.vmap(lambda x, w: both(mx, x, w), in_axes, axes)(x, w)

        holds(call, SQUARE, SQUARE + 1)
    holds(lambda mx, x: mx.vmap(lambda x: [x * 2, mx.array([1.0, 2.0])], 0, [1, None])(x), X)


def test_derivatives_through_vmap():
    w = data((3,), "float32", 8)
    holds(lambda mx, x, w: mx.grad(lambda w: mx.vmap(lambda x: mx.sin(x * w).sum(), 1)(x.T).sum())(w), X, w)
    check(lambda mx, x, w: mx.vmap(lambda x, w: x * w, (1, None), 1)(x.T, w), X, w)


def test_vmap_of_derivatives():
    holds(lambda mx, x: mx.vmap(mx.grad(lambda x: mx.sin(x).sum()))(x), X)
    holds(
        lambda mx, w, b, v, x: mx.vmap(mx.grad(loss), (None, None, None, 0))(w, b, v, x),
        W,
        B,
        V,
        data((2, 4, 3), "float32"),
    )
    holds(lambda mx, x, t: mx.vmap(lambda x: mx.jvp(mx.sin, [x], [t])[1])(x), X, X[0])
    holds(lambda mx, x, c: mx.vmap(lambda c: mx.vjp(mx.sin, [x], [c])[1][0])(c), X[0], X)


def test_vmap_of_vmap_and_calls():
    holds(lambda mx, x: mx.vmap(mx.vmap(lambda x: mx.exp(x) - 1), 1)(x), X)
    holds(lambda mx, x, y: mx.vmap(lambda x: mx.vmap(lambda y: mx.sin(y) * x)(y))(x), X, X[:2, :3])
    holds(lambda mx, x, w: mx.vmap(mx.checkpoint(lambda x: (x * w).sum()))(x), X, X[0])
    f = custom_vjp()
    holds(
        lambda mx, x, y: mx.vmap(lambda x: mx.grad(lambda x: f(x, y)[0].sum())(x))(x), data((2, 4, 3), "float32"), X[0]
    )


def test_custom_vmap():
    f = mx.custom_function(lambda x, y: x * y)
    f.vmap(lambda inputs, axes: (inputs[0] * 100, 0))
    holds(lambda mx, x, y: mx.vmap(f, (0, None))(x, y), X, X[0])
    g = mx.custom_function(lambda x: (x, x.sum()))
    g.vmap(lambda x, axis: ((x.T, x.sum()), (-1, None)))
    holds(lambda mx, x: mx.vmap(lambda x: list(g(x)))(x), X)


def test_random_numbers_over_keys():
    keys = np.arange(6, dtype=np.uint32).reshape(3, 2)
    holds(lambda mx, keys: mx.vmap(lambda key: mx.random.uniform(shape=(4,), key=key))(keys), keys)


def test_what_cannot_be_mapped_is_left_to_xla():
    """Assert the fallback for more draws than NumPy makes in sequence."""
    many = np.zeros((policy.FEW_ELEMENTS + 1, 2), np.uint32)
    left_to_xla(lambda mx, keys: mx.vmap(lambda key: mx.random.uniform(shape=(4,), key=key))(keys), many)


def test_what_is_covered():
    """Assert that the presence of all rules is known without a run."""
    program, _ = program_of(lambda mx, x: [mx.checkpoint(lambda x: mx.sin(x))(x), mx.stop_gradient(x)], (X,))
    assert can_pull_back(program, 1)
    assert can_push_forward(program, (0,))
    inner, _ = program_of(lambda mx, x: mx.grad(lambda x: mx.sin(x).sum())(x), (X,))
    assert can_interpret(inner)
    assert can_pull_back(inner, 1)
    arrays = (data((3,), "float32"),)
    inner, _ = program_of(lambda mx, x: mx.grad(lambda x: mx.unique(x, size=2).sum())(x), arrays)
    assert can_interpret(inner)
    assert not can_pull_back(inner, 1)
    assert can_pull_back(inner, ())


def test_a_module_that_is_called_checkpointed_and_not():
    """Differentiate a module both checkpointed and plain. The second function captures an alias of the outer node."""
    module, x = nn.Linear(3, 3), mx.array(X)
    mx.eval(module.parameters())

    def tied(module, x):
        return module(mx.tanh(nn.utils.checkpoint(module)(x))).sum()

    before = stats.compiles
    mx.eval(nn.value_and_grad(module, tied)(module, x))
    assert stats.compiles == before


def test_each_has_its_rules():
    assert all(ALIAS in kind for kind in (HOST, PULLBACK, PUSHFORWARD, BATCH))
    runs = {
        calls.CALL,
        calls.PURE_CALL,
        calls.CHECKPOINT,
        TUPLE,
        custom.CUSTOM_VMAP,
        derive.CUSTOM,
        transform_ops.VMAP,
    }
    assert all(op in kind for op in {*runs, custom.CUSTOM_VJP} for kind in (HOST, PULLBACK, PUSHFORWARD))
    assert custom.CUSTOM_JVP not in PULLBACK, "it would have to transpose the user's rule"
    assert all(op in kind for op in (transform_ops.VJP, transform_ops.JVP) for kind in (HOST, PULLBACK, PUSHFORWARD))
    mapped = {*runs, transform_ops.VJP, transform_ops.JVP, custom.CUSTOM_VJP, custom.CUSTOM_JVP}
    assert {op for op in mapped if op not in BATCH} == {derive.CUSTOM}  # `vmap` replaces it by another op
