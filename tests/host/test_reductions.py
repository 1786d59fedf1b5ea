"""The NumPy rules of reductions, scans and sorts, compared with XLA."""

import itertools

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph.ir.rules import BATCH, HOST, LOWERING, PULLBACK, PUSHFORWARD
from mxcompat._graph.run.interpret import interpret
from mxcompat._graph.run.short_rows import reduced
from mxcompat._native import native
from mxcompat._ops.define import TABLE
from mxcompat._ops.reductions import scans_rules
from mxcompat._ops.reductions.others import products_of_others
from mxcompat.ext.debug import host_disabled
from tests.thinned import thinned

from .harness import DTYPES, check, data, program_of

REDUCTIONS = (
    "sum", "prod", "max", "min", "mean", "logsumexp", "all", "any", "count_nonzero", "argmax", "argmin", "var", "std",
    "median",
)  # fmt: skip
SMOOTH = ("sum", "prod", "max", "min", "mean", "logsumexp", "var", "std", "median", "softmax")
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")
INEXACT = ("float32", "bfloat16", "complex64")
NAN = np.array([[1, np.nan, 2, -np.inf], [np.inf, 0, -0.0, 1], [2, 3, 3, 1]], np.float32)
REAL = tuple(d for d in DTYPES if d != "complex64")


def inputs(shape, dtypes=DTYPES, **kwargs):
    return [data(shape, dtype, seed, **kwargs) for seed, dtype in enumerate(dtypes)]


def values(call, *xs, **kwargs):
    check(call, *xs, grad=False, jvp=False, batch=False, **kwargs)


def program_outputs(call, *xs):
    return interpret(*program_of(call, xs))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    def every(mx, *xs):
        f = getattr(mx, name)
        return [y for x in xs for y in (f(x), f(x, axis=-1), f(x, axis=0, keepdims=True))]

    values(every, *inputs((3, 4), low=0.5, high=2))


@pytest.mark.parametrize("name", SMOOTH)
def test_derivatives(name):
    def every(mx, x, half, z):
        f = getattr(mx, name)
        return [f(x, axis=(0, 2)), f(half, axis=-1), f(z, axis=0)]

    operands = data((2, 3, 4), "float32"), data((3, 5), "bfloat16"), data((3, 4), "complex64", low=-1, high=1)
    check(every, *operands, batch=False)


def test_no_elements_and_no_axes():
    def nothing(mx, x, y, n):
        fs = [mx.sum, mx.prod, mx.mean, mx.all, mx.any, mx.count_nonzero, mx.var, mx.std]
        return [f(v, axis=0) for f in fs for v in (x, n)] + [mx.max(x, axis=1), mx.median(x, axis=1), mx.softmax(x)]

    def scalar(mx, x, n):
        fs = [mx.sum, mx.prod, mx.mean, mx.max, mx.min, mx.all, mx.logsumexp, mx.var, mx.std, mx.median, mx.softmax]
        fs += [mx.argmax, mx.cumsum, lambda v: mx.sort(v, None), lambda v: mx.topk(v, 1, axis=None)]
        fs += [lambda v: mx.sum(v, axis=[]), lambda v: mx.mean(v, axis=[]), lambda v: mx.argmax(v, keepdims=True)]
        return [f(v) for f in fs for v in (x, n)]

    values(nothing, data((0, 3), "float32"), data((0,), "bfloat16"), data((0, 2), "int8"))
    values(scalar, np.float32(0.5), np.array(3, np.int8))


def test_not_a_number():
    def every(mx, x, half, z):
        fs = [mx.max, mx.min, mx.argmax, mx.argmin, mx.sum, mx.logsumexp, mx.var, mx.median, mx.softmax, mx.sort,
              mx.argsort, mx.cumsum, mx.cummax, mx.cummin, mx.all]  # fmt: skip
        ys = [f(v, axis=1) for f in fs for v in (x, half)]
        ys += [f(z, axis=0) for f in (mx.max, mx.min, mx.argmax, mx.sort, mx.argsort, mx.cummax, mx.cummin)]
        return [*ys, mx.topk(x, 2), mx.topk(x, 3, axis=0), mx.logcumsumexp(x[1:, 1:], axis=1)]

    z = data((4, 2), "complex64")
    z[1, 0] = complex(np.nan, np.nan)
    values(every, NAN, NAN.astype(ml_dtypes.bfloat16), z)


def test_the_slope_of_what_is_not_finite():
    check(lambda mx, x: [mx.softmax(x, axis=1), mx.logsumexp(x, axis=1)], NAN, batch=False)


def test_equal_elements_share():
    x = np.array([[1, 3, 3], [2, 2, 2]], np.float32)

    def every(mx, x, z):
        return [mx.max(x, axis=1), mx.min(x), mx.max(z, axis=0), mx.cummax(x, axis=1), mx.cummin(x, axis=0),
                mx.sort(x), mx.topk(x, 2), mx.median(x, axis=1)]  # fmt: skip

    z = np.array([1 + 2j, 1 + 2j, 1, 0], np.complex64)
    check(every, x, z, batch=False)


def test_products_of_zeros():
    x = np.array([[1, 0, 3], [0, 2, 0], [1, 2, 3]], np.float32)
    check(lambda mx, x: [mx.prod(x, axis=1), mx.prod(x), mx.cumprod(x, axis=1)], x, batch=False)


@pytest.mark.parametrize("xp", [np, jnp])
@pytest.mark.parametrize("axes", [(0,), (2,), (1, 3), (0, 2), (0, 1, 2, 3)])
def test_products_of_others(xp, axes):
    x = data((3, 4, 7, 2), "float64")
    x[:, 1, 2], x[2, 3, 5] = 0, np.inf
    want = np.empty_like(x)
    for place in np.ndindex(x.shape):
        line = tuple([slice(None) if k in axes else place[k] for k in range(x.ndim)])
        others = x.copy()
        others[place] = 1
        with np.errstate(invalid="ignore"):
            want[place] = np.prod(others[line])
    with jax.enable_x64(True), np.errstate(invalid="ignore"):
        np.testing.assert_allclose(products_of_others(xp, xp.asarray(x), axes), want, rtol=1e-12)
        for shape in ((0, 3), (1, 3)):
            np.testing.assert_array_equal(products_of_others(xp, xp.zeros(shape), (0,)), np.ones(shape))


@pytest.mark.parametrize("ddof", [1, 2, 5])
def test_degrees_of_freedom(ddof):
    x = data((3, 4), "float32")
    check(lambda mx, x: [mx.var(x, axis=0, ddof=ddof), mx.std(x, axis=0, ddof=ddof)], x, batch=False)


def test_softmax():
    def every(mx, *xs):
        return [mx.softmax(x, axis=(-1, 0, (0, 1))[k % 3]) for k, x in enumerate(xs)]

    values(every, *inputs((3, 4)))


@pytest.mark.parametrize(("name", "long"), thinned(3, SCANS, [((40_000,), 0), ((1500, 24), 0), ((16, 2100), 1)]))
def test_long_scans(name, long):
    """Compare long scans. XLA computes them sequentially or by pairs; NumPy splits the derivative of cumprod."""
    shape, axis = long
    x, n = data(shape, "float32", low=-1.02, high=1.02), data(shape, "int32")
    x[x > 1] = 0

    def every(mx, x):
        f = getattr(mx, name)
        return [f(x, axis=axis), f(x, axis=axis, reverse=True, inclusive=False)]

    check(every, x, batch=False, tolerance=1e-4)  # sums of tens of thousands of elements in another order
    if name != "logcumsumexp":
        values(every, n)


@pytest.mark.parametrize("name", SCANS)
def test_scans(name):
    dtypes = REAL if name == "logcumsumexp" else DTYPES

    def every(mx, *xs):
        f = getattr(mx, name)
        return [f(x, axis=k % 2, reverse=bool(k & 1), inclusive=bool(k & 2)) for k, x in enumerate(xs)]

    values(every, *inputs((5, 4), dtypes, low=-2, high=2))
    x = data((3, 40), "float32")
    values(lambda mx, x: [getattr(mx, name)(x, axis=0), getattr(mx, name)(x[:2, :3])], x)


@pytest.mark.parametrize("name", SCANS)
def test_derivatives_of_scans(name):
    def every(mx, x, half, *zs):
        f = getattr(mx, name)
        ys = [f(x, axis=0, inclusive=False), f(x), f(half, axis=-1, reverse=True)]
        return ys + [f(z, axis=0, reverse=True, inclusive=False) for z in zs]

    zs = () if name == "logcumsumexp" else (data((4, 2), "complex64"),)
    check(every, data((3, 4), "float32"), data((2, 5), "bfloat16"), *zs, batch=False)


def test_diff():
    def every(mx, *xs):
        return [mx.diff(x, n=n, axis=0) for n, x in enumerate(xs)]

    values(every, *inputs((5, 2)))
    check(lambda mx, x, z: [mx.diff(x), mx.diff(x, n=2, axis=0), mx.diff(z, n=9)], data((4, 3), "float32"),
          data((3,), "complex64"), batch=False)  # fmt: skip


def test_sorts():
    def every(mx, *xs):
        fs = [mx.sort, mx.argsort, lambda x, axis: mx.partition(x, 2, axis), lambda x, axis: mx.topk(x, 2, axis)]
        fs += [lambda x, axis: mx.argpartition(x, 1, axis), lambda x, axis: mx.topk(x, 3, axis)]
        return [fs[(j + k) % 6](x, axis=(0, 1, None)[j % 3]) for k, x in enumerate(xs) for j in range(2)]

    def ordered(mx, *xs):
        return [f(x, axis=0) for x in xs for f in (mx.sort, mx.argsort)]

    values(every, *inputs((4, 3)))
    values(ordered, *inputs((300, 2), ("int32", "uint32", "float32", "bfloat16", "bool")))


def test_derivatives_of_sorts():
    def every(mx, x, half, z):
        return [mx.sort(x, axis=0), mx.partition(x, 1, axis=None), mx.topk(half, 2), mx.topk(x, 3, axis=0), mx.sort(z)]

    check(every, data((3, 4), "float32"), data((2, 5), "bfloat16"), data((4,), "complex64"), batch=False)


def test_partitions_of_long_rows():
    x = data((2, 5000), "float32")
    call = program_outputs(lambda mx, x: [mx.partition(x, 10), mx.argpartition(x, 4990), mx.topk(x, 7)], x)
    part, places, top = call
    assert (part[:, :10].max(1) <= part[:, 10]).all()
    assert (part[:, 10] <= part[:, 11:].min(1)).all()
    np.testing.assert_array_equal(np.sort(part), np.sort(x))
    np.testing.assert_array_equal(np.sort(np.take_along_axis(x, places, 1)[:, 4990:]), np.sort(x)[:, 4990:])
    np.testing.assert_array_equal(top, np.sort(x)[:, -7:])


def test_searchsorted():
    def every(mx, *xs):
        return [mx.searchsorted(mx.sort(x), x, side=side) for x, side in zip(xs, ("left", "right") * 3, strict=True)]

    values(every, *inputs((7,), ("bool", "uint8", "int64", "float16", "float32", "float64")))
    mixed = data((5,), "int64"), data((2, 3), "float32"), data((3,), "bool")
    values(lambda mx, n, x, b: [mx.searchsorted(mx.sort(n), x), mx.searchsorted(mx.sort(n), b)], *mixed)


def test_unique():
    def every(mx, *xs):
        flags = {"return_index": True, "return_inverse": True, "return_counts": True}
        return [y for k, x in enumerate(xs) for y in mx.unique(x, size=3 + 3 * (k % 2), **flags)]

    def filled(mx, x, n, fill):
        return [mx.unique(x, size=6, fill_value=fill), mx.unique(n, size=3, fill_value=5), mx.unique(n, size=0)]

    values(every, *[np.round(x) if x.dtype.kind in "fc" else x for x in inputs((2, 4), DTYPES[::2], low=0, high=4)])
    values(filled, NAN, np.zeros(0, np.int32), np.float32(7))
    x = np.array([3, 1, 1, 2, 3], np.float32)
    check(lambda mx, x, fill: [mx.unique(x, size=5), mx.unique(x, 2), mx.unique(x, 4, fill_value=fill)], x,
          np.float32(9), batch=False)  # fmt: skip


def mapped(call, *xs):
    check(call, *xs, grad=False, jvp=False)


def test_reductions_of_each():
    def every(mx, x, n):
        fs = [getattr(mx, name) for name in (*REDUCTIONS[:9], "var", "std", "median")]
        ys = [f(x, axis=(0, 2)) if k % 2 else f(n, axis=1, keepdims=True) for k, f in enumerate(fs)]
        return [*ys, mx.argmax(x), mx.argmin(x, axis=1), mx.argmax(n, keepdims=True), mx.softmax(x, axis=(0, 1)),
                mx.sum(n, axis=[]), mx.softmax(n, axis=0)]  # fmt: skip

    mapped(every, data((2, 3, 4), "float32"), data((3, 3), "int16"))


def test_scans_and_sorts_of_each():
    def every(mx, x):
        ys = [getattr(mx, name)(x, axis=None if k % 2 else 1, reverse=True) for k, name in enumerate(SCANS)]
        ys += [mx.sort(x, axis=0), mx.argsort(x, axis=None), mx.partition(x, 1, axis=0), mx.topk(x, 2, axis=None)]
        line = mx.array([-1.0, 0.0, 1.0])
        return [*ys, mx.diff(x), mx.argpartition(x, 2, axis=None), mx.searchsorted(line, x)]

    mapped(every, data((3, 4), "float32"))


WITHOUT = {
    "PULLBACK": {"all", "any", "argmax", "argmin", "argpartition", "argsort", "count_nonzero", "searchsorted"},
    "BATCH": {"unique"},
}
"""Ops without a rule: those whose results are no floats have no derivative; `unique` has no axis to run along."""


def test_every_op_has_its_rules():
    family = {op for op in TABLE.values() if LOWERING[op].__module__.startswith("mxcompat._ops.reductions")}
    assert len(family) > 25
    for name, rules in (("HOST", HOST), ("PULLBACK", PULLBACK), ("PUSHFORWARD", PUSHFORWARD), ("BATCH", BATCH)):
        missing = {op.name for op in family if op not in rules}
        assert missing == WITHOUT.get("PULLBACK" if name == "PUSHFORWARD" else name, set()), name


@pytest.mark.parametrize("count", [2, 3, 7, 8, 9, 16, 17])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_short_rows_have_the_bits_that_numpy_gives_them(dtype, count):
    x = np.asarray(data((3, 3000, count), "float64", count, -5, 5)).astype(dtype)
    if x.dtype.kind == "f":
        x[0, ::7, 0], x[0, ::5, 1], x[1] = np.nan, np.inf, -0.0
    kinds = (np.logical_and, np.logical_or) if dtype == "bool" else (np.add, np.multiply, np.maximum, np.minimum)
    for ufunc in kinds:
        for keepdims in (False, True):
            with np.errstate(all="ignore"):
                got, want = reduced(ufunc, x, (2,), keepdims), ufunc.reduce(x, 2, dtype, keepdims=keepdims)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_array_equal(got, want)
            assert ufunc is not np.add or (np.signbit(got) == np.signbit(want)).all()


@pytest.mark.parametrize("shape", [(3000, 3), (40, 50, 2), (5, 600, 16), (7, 40, 17), (1, 300, 1, 7), (20, 30, 2, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool", "complex64"])
def test_what_is_before_short_rows_has_the_bits_that_numpy_gives_it(dtype, shape):
    x = np.asarray(data(shape, "float64", shape[-1], -5, 5)).astype(dtype)
    if x.dtype.kind == "f":
        x[::7, 0], x[0, ..., 1], x[..., 0] = np.nan, np.inf, -0.0
    kinds = (np.logical_and, np.logical_or) if dtype == "bool" else (np.add, np.multiply, np.maximum, np.minimum)
    for ufunc, count, keepdims in itertools.product(kinds, range(1, len(shape)), (False, True)):
        for axes in itertools.combinations(range(len(shape)), count):
            with np.errstate(all="ignore"):
                got, want = reduced(ufunc, x, axes, keepdims), ufunc.reduce(x, axes, dtype, keepdims=keepdims)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            assert got.tobytes() == want.tobytes()


@pytest.mark.skipif(native is None, reason="no compiler of C")
def test_what_is_reduced_in_c():
    reduce = native.reduce_rows
    x, out = np.arange(24, dtype=np.float32).reshape(2, 4, 3), np.zeros((2, 3), np.float32)
    assert reduce(out, x, 0)
    np.testing.assert_array_equal(out, x.sum(1))
    assert reduce(out, -x, 1)
    np.testing.assert_array_equal(out, -x[:, 0])
    assert not reduce(out, x, 4)
    assert reduce(out, x, 3)
    np.testing.assert_array_equal(out, x.prod(1))
    ways = np.array([[[0, 3], [200, 1]]], np.uint8)
    assert reduce(most := np.zeros((1, 2), np.uint8), ways, 1)
    assert most.tolist() == [[200, 3]]
    assert not reduce(most, ways, 0)
    assert not reduce(out.view(np.uint32), x.view(np.uint32), 0)
    for wrong in ((out, x[:1]), (out[:, :2].copy(), x), (out, x[:, :0]), (out, x[0]), (out.astype(float), x)):
        with pytest.raises(ValueError, match="do not fit"):
            reduce(*wrong, 0)
    for wrong in ((), (out, x), (out, x, None), (None, x, 0), (out, None, 0)):
        with pytest.raises(TypeError):
            reduce(*wrong)
    with pytest.raises((ValueError, BufferError)):
        reduce(out, x[:, ::2], 0)


@pytest.mark.parametrize("shapes", [
    ((150, 1, 2), (1, 150, 2)), ((9000, 3), (3,)), ((9000, 3), (1, 3)), ((9000, 1), (1, 4)), ((9000, 1), (9000, 3)),
    ((5, 1, 1), (5, 2000, 4)), ((2, 1, 3), (2, 9000, 1)), ((9000, 5), (5,)), ((3,), (9000, 3)), ((2, 9000, 3), (3,)),
])  # fmt: skip
@pytest.mark.parametrize("name", ["subtract", "add", "maximum", "divide", "less", "power", "floor_divide"])
def test_short_rows_of_two_that_broadcast(name, shapes):
    x, y = (np.asarray(data(shape, "float32", k, 0.5, 2)) for k, shape in enumerate(shapes))
    call = getattr(mx, name)
    got = call(mx.array(x), mx.array(y))
    with host_disabled():
        want = call(mx.array(x), mx.array(y))
        mx.eval(want)
    assert got.shape == want.shape
    assert got.dtype == want.dtype
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-6)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("inclusive", [False, True])
def test_scans_of_short_rows(inclusive, reverse):
    x = np.asarray(data((500, 4), "float32", 1, -1, 1))
    got = mx.cumsum(mx.array(x), axis=1, reverse=reverse, inclusive=inclusive)
    line = x[:, ::-1] if reverse else x
    want = np.cumsum(line, 1) if inclusive else np.cumsum(np.pad(line, ((0, 0), (1, 0)))[:, :-1], 1)
    np.testing.assert_array_equal(np.array(got), want[:, ::-1] if reverse else want)


@pytest.mark.skipif(native is None, reason="no compiler of C")
@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax", "cummin"])
@pytest.mark.parametrize("shape", [(600,), (70, 5), (5, 70), (3, 40, 9), (2, 30, 4, 2), (1, 1, 300), (300, 1)])
def test_scans_in_c_have_the_bits_of_those_in_numpy(name, shape, monkeypatch):
    agreements = []
    for dtype in ("float32", "float64", "int32", "int16", "float16", "bool", "complex64"):
        x = np.asarray(data(shape, "float64", shape[-1], -2, 2)).astype(dtype)
        if x.dtype.kind == "f":
            x.reshape(-1)[::50], x.reshape(-1)[-1] = -0.0, np.nan
        for axis, reverse, inclusive in itertools.product([None, *range(len(shape))], (False, True), (False, True)):
            program, inputs = program_of(
                lambda mx, x, a=axis, r=reverse, i=inclusive: getattr(mx, name)(x, a, reverse=r, inclusive=i), (x,)
            )
            with np.errstate(all="ignore"):
                (got,) = interpret(program, inputs)
                with monkeypatch.context() as without:
                    without.setattr(scans_rules, "native", None)
                    (want,) = interpret(program, inputs)
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            agreements.append(got.tobytes() == want.tobytes())
    assert all(agreements)


@pytest.mark.skipif(native is None, reason="no compiler of C")
def test_what_is_scanned_in_c():
    scan = native.scan_rows
    x, out = np.arange(1, 13, dtype=np.float32).reshape(2, 3, 2), np.zeros((2, 3, 2), np.float32)
    assert scan(out, x, 0, False, True)
    np.testing.assert_array_equal(out, x.cumsum(1))
    assert scan(out, x, 3, True, False)
    np.testing.assert_array_equal(out[:, :2], x[:, :0:-1].cumprod(1)[:, ::-1])
    assert not scan(out, x, 4, False, True)
    assert not scan(out, x, -1, False, True)
    assert not scan(out.view(np.uint32), x.view(np.uint32), 0, False, True)
    for wrong in ((out, x[:1]), (out, x[0]), (out.astype(float), x), (out[:, :2].copy(), x)):
        with pytest.raises(ValueError, match="do not fit"):
            scan(*wrong, 0, False, True)
    for wrong in ((), (out, x, 0), (out, x, None, False, True), (None, x, 0, False, True), (out, None, 0, False, True)):
        with pytest.raises(TypeError):
            scan(*wrong)
