"""`mx.ext.checkify` and `check`: failures are found in compiled, mapped and nested code, without false alarms."""

import numpy as np
import pytest

import mxcompat as mx
from mxcompat.ext import check, checkify, cond, fori_loop, scan, while_loop

pytestmark = pytest.mark.usefixtures("tier")


X = mx.array([4.0, 1.0, -1.0])
GOOD = mx.array([4.0, 1.0, 9.0])


def root(x):
    return mx.where(check(x >= 0, "no root of a negative number"), mx.sqrt(mx.abs(x)), 0.0)


def in_while(x):
    return while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + mx.log(x)), (0, mx.zeros(3)))[1]


NANS = {
    "plain": (lambda x: mx.sqrt(x) + 1, r"\[sqrt\] made a NaN, called at .*test_ext_checking\.py:\d+\."),
    "call": (lambda x: mx.compile(mx.log)(x) * 2, r"\[log\] made a NaN"),
    "checkpoint": (lambda x: mx.checkpoint(mx.log)(x).sum(), r"\[log\] made a NaN"),
    "vmap": (lambda x: mx.vmap(lambda v: mx.log(v) * 2)(x), r"\[log\] made a NaN, called at .*test_ext_checking"),
    "scan": (lambda x: scan(lambda c, v: (c + mx.sqrt(v), c), 0.0, x), r"\[sqrt\] made a NaN"),
    "fori": (lambda x: fori_loop(0, 3, lambda i, c: c + mx.log(x), mx.zeros(3)), r"\[log\] made a NaN"),
    "while": (in_while, r"\[log\] made a NaN"),
    "cond": (lambda x: cond(x.sum() > 0, lambda: mx.sqrt(x), lambda: x), r"\[sqrt\] made a NaN"),
    "scan in vmap": (lambda x: mx.vmap(lambda v: scan(lambda c, _: (mx.log(v), None), v, length=2)[0])(x), r"\[log\]"),
    "grad": (lambda x: mx.grad(lambda v: mx.sqrt(v).sum())(x), r"\[vjp\] made a NaN"),
}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(("f", "message"), NANS.values(), ids=NANS.keys())
def test_nans(f, message, compiled):
    checked = checkify(f)
    if compiled:
        checked = mx.compile(checked)
    error, value = checked(X)
    with pytest.raises(FloatingPointError, match=message):
        error.throw()
    error, value = checked(GOOD)
    assert error.get() is None
    error.throw()
    for result, expected in zip(flat(value), flat(f(GOOD)), strict=True):
        np.testing.assert_allclose(np.array(result), np.array(expected), rtol=1e-6)


def flat(value):
    return [v for item in value for v in flat(item)] if isinstance(value, tuple) else [value]


def written(x, i):
    x[i] = 5.0
    return x


READS = {
    "gather": (
        lambda x, i: x[i],
        r"\[gather\] An index is out of bounds for an axis of 3, called at .*test_ext_checking",
    ),
    "two": (lambda x, i: mx.broadcast_to(x, (2, 3))[i * 0, i], r"out of bounds for an axis of 3"),
    "take": (lambda x, i: mx.take(x, i), r"out of bounds"),
    "take of an axis": (lambda x, i: mx.take(mx.broadcast_to(x, (2, 3)), i, axis=1), r"axis of 3"),
    "take_along_axis": (lambda x, i: mx.take_along_axis(x, i, 0), r"\[gather_axis\] An index"),
    "put_along_axis": (lambda x, i: mx.put_along_axis(x, i, mx.array(1.0), 0), r"\[scatter_axis\] An index"),
    "write": (written, r"\[scatter\] An index"),
    "vmap": (lambda x, i: mx.vmap(lambda k: x[k])(i), r"out of bounds"),
    "scan": (lambda x, i: scan(lambda c, k: (c + x[k], None), 0.0, i)[0], r"out of bounds"),
}


@pytest.mark.parametrize(("f", "message"), READS.values(), ids=READS.keys())
def test_bounds(f, message):
    checked = mx.compile(checkify(f))
    for bad in ([0, 3], [-4, 1]):
        with pytest.raises(IndexError, match=message):
            checked(GOOD, mx.array(bad))[0].throw()
    error, value = checked(GOOD, mx.array([-3, 2]))
    assert error.get() is None
    np.testing.assert_array_equal(np.array(value), np.array(f(mx.array(GOOD), mx.array([-3, 2]))))


def test_checks_of_ones_own():
    assert root(X).tolist() == [2, 1, 0]
    for f in (root, mx.vmap(root), mx.compile(root), lambda x: scan(lambda c, v: (c, root(v)), 0, x)[1]):
        error, value = mx.compile(checkify(f))(X)
        assert error.get() == "no root of a negative number"
        with pytest.raises(ValueError, match="no root"):
            error.throw()
        error, value = checkify(f)(GOOD)
        assert error.get() is None
        assert value.tolist() == [2, 1, 3]
    assert mx.grad(lambda x: root(x).sum())(GOOD).tolist() == [0.25, 0.5, mx.array(1 / 6).item()]


def test_the_first_failure_counts():
    error, _ = checkify(lambda x: mx.log(mx.sqrt(x))[mx.array([7])])(X)
    assert error.get().startswith("[sqrt]")


def test_what_is_asked_for():
    assert checkify(lambda x: mx.sqrt(x), nan=False)(X)[0].get() is None
    assert checkify(lambda x: x[mx.array([7])], bounds=False)(X)[0].get() is None
    assert checkify(lambda x: x)(X)[0].get() is None


def test_errors():
    with pytest.raises(ValueError, match=r"\[check\] The condition must be of dtype bool, not float32"):
        check(mx.array(1.0), "no")
    with pytest.raises(TypeError, match="A function is needed"):
        checkify(3)
