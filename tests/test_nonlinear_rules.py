"""Custom rules that are not linear in their cotangents, such as those that normalize them.

At any order they receive the same requests as in MLX, and no cotangents that are known to be zero, whose
normalization is NaN.
"""

import numpy as np
import pytest

from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import apply, items
from mxcompat._graph.ir.outputs import TUPLE
from mxcompat._transforms.programs.dependence import reached_inputs
from mxcompat._transforms.transform_ops import VJP
from tests.oracle import check, ours, real, run

X = np.array([0.7, 0.3], np.float32)
BODIES = {
    "alone": lambda mx, f: f,
    "product": lambda mx, f: lambda x: f(x) * x,
    "twice": lambda mx, f: lambda x: f(f(x)) * x,
    "stopped": lambda mx, f: lambda x: mx.stop_gradient(f(x)) + 0.5 * x * x,
    "stopped factor": lambda mx, f: lambda x: mx.stop_gradient(mx.sin(f(x))) * x * x * x,
    "stopped and not": lambda mx, f: lambda x: mx.stop_gradient(f(x)) * f(x),
    "stopped argument": lambda mx, f: lambda x: f(mx.stop_gradient(x)) + 0.5 * x * x * x,
    "stopped gradient": lambda mx, f: lambda x: mx.stop_gradient(mx.grad(lambda y: f(y).sum())(x)) * x * x,
    "not used": lambda mx, f: lambda x: (f(x), x * x * x)[1],
    "an index": lambda mx, f: lambda x: x[mx.stop_gradient(mx.argmax(f(x)))] * x,
    "compiled": lambda mx, f: mx.compile(lambda x: (f(x) * x, x * x)[0]),
    "of a value, beside": lambda mx, f: lambda x: mx.value_and_grad(lambda y: (f(y).sum(), f(y) * y))(x)[0][0] * x,
}


def normalizing(mx, reads, seen):
    f = mx.custom_function(lambda x: x * mx.sin(x))

    @f.vjp
    def rule(x, cotangent, output):
        if reads:
            seen.append(np.array(cotangent).round(3).tolist())
        return cotangent / mx.sqrt((cotangent * cotangent).sum()) * x

    return f


def differentiated(mx, x, body, order, reads):
    """Return the gradient of the given order, and the requests that the rule received."""
    seen = []
    gradient = BODIES[body](mx, normalizing(mx, reads, seen))
    for _ in range(order):
        gradient = mx.grad(lambda x, g=gradient: g(x).sum())
    return gradient(x), sorted(seen)


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("body", BODIES)
def test_they_are_asked_about_what_moves(body, order, reads):
    """Compare the rules' requests at each order; XLA's rounding affects the last digits of a third derivative."""
    got, _ = check(lambda mx, x: differentiated(mx, x, body, order, reads), X, tol=1e-4)
    assert np.isfinite(np.array(got)).all()


def test_a_rule_that_calls_another():
    def nested(mx, x):
        inner = mx.custom_function(lambda a: a * a + 1)
        inner.vjp(lambda a, cotangent, output: cotangent * mx.cos(a) * output)
        f = mx.custom_function(lambda a: inner(a * mx.sin(a)))
        f.vjp(lambda a, cotangent, output: inner(cotangent) * mx.cos(a) * output)
        loss = lambda a: (mx.stop_gradient(f(a)) * f(a)).sum()  # noqa: E731
        return mx.grad(loss)(x), mx.grad(lambda a: mx.grad(loss)(a).sum())(x)

    check(nested, X)


@pytest.mark.parametrize(("result", "inputs"), [(0, {0}), (1, {1}), (2, {2}), (3, {0, 1, 2})])
def test_what_a_result_depends_on(result, inputs):
    """Check the dependencies of a node that gives a value and gradients."""
    x = [ours.array(k)._node for k in (1.0, 2.0, 3.0)]
    with Capture(x) as capture:
        a, b, c = capture.placeholders
        with Capture([a, b]) as inner:
            body = inner.close([ours.array.__add__(*map(_handle, inner.placeholders))._node])
        both = items(apply(VJP, (a, b, c), (body.program, 2, 1)))
        node = apply(TUPLE, (a, b, both[1], (_handle(both[0]) * _handle(both[2]))._node))
        program = capture.close(items(node)).program
    assert reached_inputs(program, frozenset([result])) == inputs


def _handle(node):
    x = ours.array(0.0)
    x._node = node
    return x


def test_a_checkpoint_changes_nothing():
    """Assert that a checkpoint changes no request. In MLX its second derivative passes zero to the rule."""

    def second(mx, wrap):
        f = normalizing(mx, False, [])
        body = wrap(lambda x: f(x) * x)
        return run(mx, lambda mx, x: mx.grad(lambda x: mx.grad(lambda x: body(x).sum())(x).sum())(x), (X,))

    plain, again = second(ours, lambda f: f), second(ours, ours.checkpoint)
    assert np.allclose(np.array(plain), np.array(again))
    assert np.isnan(np.array(second(real, real.checkpoint))).all()
