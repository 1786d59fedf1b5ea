"""Derivatives through integers: real MLX passes tangents and cotangents through a cast, truncated."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat.ext.debug import host_disabled
from tests.expressions import cases
from tests.oracle import check

DTYPES = ("int32", "uint8", "bool_")

FUNCTIONS = cases(
    """
x.astype(D)
x.astype(D).astype(mx.float32) * w
x.astype(D) * w
mx.sin(x.astype(D))
x.astype(D) * 2.5 + x
mx.where(x.astype(D) > 0, x, 2 * x)
(x > 0).astype(D) * x
x.astype(mx.float16).astype(D).astype(mx.float32) * w
x.astype(D).reshape(3, 1)[1:].astype(mx.float32) * w
mx.concatenate([x.astype(D), x.astype(D)]).astype(mx.float32)
mx.array([x[0], x[2]], D)
mx.slice_update(mx.zeros((3,), D), x[:1].astype(D), mx.array([1]), (0,))
mx.where(x > 0, x.astype(D), mx.array([1, 2, 3]).astype(D)).astype(mx.float32)
mx.stop_gradient(x.astype(D)) * x
mx.compile(lambda x: x.astype(D).astype(mx.float32) * w)(x)
mx.checkpoint(lambda x: x.astype(D).astype(mx.float32) * w)(x)
mx.vmap(lambda x: x.astype(D).astype(mx.float32) * 2.5)(x)
mx.minimum(x.astype(D), mx.array([1, 1, 1]).astype(D)).astype(mx.float32)
x.astype(D).astype(mx.int32).astype(mx.float32) * w
"""
)


OTHERS = ("int8", "int16", "uint16", "uint32", "int64", "uint64")


def evaluated(function: str, dtype: str, mx):
    w = mx.array([1.5, 2.5, -0.5])
    return lambda x: eval(function, {"mx": mx, "D": getattr(mx, dtype), "w": w, "x": x})


@pytest.mark.parametrize(
    ("function", "dtype"), [*itertools.product(FUNCTIONS, DTYPES), *itertools.product(FUNCTIONS[1:3], OTHERS)]
)
def test_forward_and_back(function: str, dtype: str) -> None:
    """Compare both modes, with cotangents of the result's dtype."""

    def both(mx):
        f = evaluated(function, dtype, mx)
        x = mx.array([1.7, 2.6, 0.3])
        cotangent = mx.array(np.linspace(0.5, 3.5, f(x).size, dtype=np.float32)).reshape(f(x).shape)
        return mx.jvp(f, [x], [mx.array([1.5, 2.5, -0.5])]), mx.vjp(f, [x], [cotangent.astype(f(x).dtype)])

    check(both)


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64"])
def test_second_derivatives(dtype: str) -> None:
    def second(mx):
        cube = evaluated("x.astype(D).astype(mx.float32) ** 3", dtype, mx)
        point = mx.array(2.4)
        once = mx.grad(cube)
        return once(point), mx.grad(once)(point), mx.jvp(once, [point], [mx.array(1.0)])[1]

    check(second)


WEIGHTED = {
    "logaddexp": lambda mx, x: mx.logaddexp(mx.array([0.4, 1.0, 0.3]), x.astype(mx.int32)),
    "sin": lambda mx, x: mx.sin(x.astype(mx.int32).astype(mx.float32) * 0.5),
    "product": lambda mx, x: x.astype(mx.int32).astype(mx.float32) * x,
    "of bytes": lambda mx, x: mx.exp(x.astype(mx.uint8) * mx.array([0.5, 1.5, 2.5])),
    "unsigned": lambda mx, x: x.astype(mx.uint32).astype(mx.float32) ** 2 * x,
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_derivatives_of_derivatives_are_truncated_as_well(name: str) -> None:
    """Compare second derivatives of both mode orders: they are truncated, too."""

    def derivatives(mx):
        def f(x):
            return (WEIGHTED[name](mx, x) * mx.array([1.0, 2.5, 3.7])).sum()

        def along(x):
            return mx.jvp(f, [x], [mx.full(3, 2.6)])[1][0]

        x, direction = mx.array([1.3, 2.7, 1.9]), mx.full(3, 1.7)
        first = mx.grad(f)
        second = mx.grad(lambda x: first(x).sum())
        return [
            second(x), mx.grad(lambda x: second(x).sum())(x), mx.vjp(first, [x], [direction])[1],
            mx.jvp(first, [x], [direction])[1], mx.grad(along)(x), mx.jvp(along, [x], [direction])[1],
            mx.vmap(lambda t: mx.vjp(first, [x], [t])[1][0])(mx.eye(3) * 2.6),
        ]  # fmt: skip

    check(derivatives)


def test_a_derivative_within_another_that_captures_an_integer() -> None:
    def outer(mx):
        def loss(x, w):
            return (x.astype(mx.int32) * w * w).sum()

        f = lambda x: mx.grad(lambda w: loss(x, w))(mx.array([1.5, -2.0]))  # noqa: E731
        return mx.jvp(f, [mx.array([2.7, 3.1])], [mx.array([1.0, 2.0])])

    check(outer)


def test_values_are_those_of_the_integers() -> None:
    """Compare integers too large for floats: a hash, as in procedural noise."""

    def noise(mx, x):
        n = (x * 1000).astype(mx.int64)
        n = (n * 6364136223846793005 + 1442695040888963407) >> 33
        return (n % 1024).astype(mx.float32) * x

    def both(mx):
        x = mx.array([1.7, 2.6, 0.3])
        return noise(mx, x), mx.value_and_grad(lambda x: noise(mx, x).sum())(x)[0]

    check(both)


def test_numpy_takes_derivatives_where_no_integer_is_on_the_way() -> None:
    """Assert that a gradient through floats needs no compile, despite comparisons, indices and casts beside it."""

    def loss(x):
        best = mx.argmax(x)
        mask = (x > 0).astype(mx.int32)
        return (mx.where(mask > 0, x, 2 * x) * mx.stop_gradient(x).astype(mx.int32)).sum() + x[mx.stop_gradient(best)]

    x = mx.array([1.7, -2.6, 0.3])
    before = ext.debug.compiles()
    mx.eval(mx.grad(loss)(x))
    assert ext.debug.compiles() == before


def test_numpy_and_xla_agree() -> None:
    f = evaluated("x.astype(D).astype(mx.float32) * w + x", "int32", mx)
    x = mx.array([1.7, 2.6, 0.3])
    first = mx.grad(lambda x: f(x).sum())(x)
    with host_disabled():
        second = mx.grad(lambda x: f(x).sum())(x)
        mx.eval(second)
    assert mx.array_equal(first, second)
