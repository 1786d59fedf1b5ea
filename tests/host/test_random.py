"""Draws on the host: the random words are equal bit for bit, and the results derived from them agree with XLA's."""

import jax
import numpy as np
import pytest

from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.erf import erf_as_xla, erfinv, erfinv_by_xla
from mxcompat._ops.random.bits import bits
from mxcompat._ops.random.state import _chain
from mxcompat._ops.random.threefry import chain, words

from .harness import check, data

KEY = np.array([7, 0xDEADBEEF], np.uint32)
N = 333
"""An odd number of draws, so that the last counter is hashed alone; more than are hashed as one number."""

HALVES = ("float16", "bfloat16")
FLOATS = (*HALVES, "float32")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 4, 7, 255, 256, 257, 258, 1000, 40001])
def test_words(size):
    for key in (KEY, np.array([0, 0], np.uint32), np.array([0xFFFFFFFF, 0x80000000], np.uint32)):
        got = words(key, size)
        assert got.dtype == np.uint32
        np.testing.assert_array_equal(got, np.asarray(bits(key, (size,))))


def test_chain():
    for count in (0, 1, 5):
        links = chain(KEY, count)
        end, want = jax.jit(lambda key, n=count: _chain(key, n))(KEY)
        np.testing.assert_array_equal(links, np.asarray(want))
        np.testing.assert_array_equal(links[-1, 0] if count else KEY, np.asarray(end))


def test_error_function_and_its_inverse():
    near = np.nextafter(np.float32(1), np.float32(0))
    x = np.concatenate([np.linspace(-1, 1, 20001), [near, -near, 0.0, -0.0, 3.8, -9.0, np.nan, np.inf, -np.inf]])
    x = x.astype(np.float32)
    for ours, theirs in ((erf_as_xla, jax.lax.erf), (erfinv, erfinv_by_xla)):
        with np.errstate(all="ignore"):
            got = ours(x)
            assert ours(x[3]).dtype == np.float32
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, np.asarray(jax.jit(theirs)(x)), rtol=4e-7)


def test_keys():
    check(lambda mx, key: [mx.random.split(key), mx.random.split(key, 5), mx.random.split(key, 0)], KEY)
    first = np.array([1, 2], np.uint32)
    check(lambda mx, key: mx.random.split(mx.random.split(mx.random.split(key)[1])[0]), first, batch=False)


def test_implicit_key():
    def draws(mx, key):
        before = mx.random.state[0]
        mx.random.state[0] = key
        try:
            return [*[mx.random.randint(0, 1000, (3,)) for _ in range(3)], mx.random.state[0]]
        finally:
            mx.random.state[0] = before

    check(draws, KEY, batch=False)  # the batch rule reads one row of a chain per draw


DRAWS = {
    "uniform ()": lambda mx, key: mx.random.uniform(key=key),
    "uniform": lambda mx, key: mx.random.uniform(shape=(N,), key=key),
    "uniform numbers": lambda mx, key: mx.random.uniform(-1.3, 2.7, (2, 3), key=key),
    "uniform empty": lambda mx, key: mx.random.uniform(shape=(0, 3), key=key),
    "normal": lambda mx, key: mx.random.normal((N,), key=key),
    "normal tails": lambda mx, key: mx.random.normal((20_000,), key=key),
    "normal ()": lambda mx, key: mx.random.normal(loc=2.5, scale=1.3, key=key),
    "normal complex": lambda mx, key: mx.random.normal((3,), mx.complex64, loc=1j, scale=2 + 1j, key=key),
    "normal complex empty": lambda mx, key: mx.random.normal((0,), mx.complex64, key=key),
    "truncated": lambda mx, key: mx.random.truncated_normal(-1, 2.5, (N,), key=key),
    "truncated far": lambda mx, key: mx.random.truncated_normal(20, 21, (3,), key=key),
    "truncated reversed": lambda mx, key: mx.random.truncated_normal(2, 1, (3,), key=key),
    "gumbel": lambda mx, key: mx.random.gumbel((N,), key=key),
    "laplace": lambda mx, key: mx.random.laplace((N,), loc=1.5, scale=0.3, key=key),
    "randint": lambda mx, key: mx.random.randint(-5, 70, (N,), key=key),
    "randint big": lambda mx, key: mx.random.randint(0, 2**24 + 5, (N,), key=key),
    "randint int64": lambda mx, key: mx.random.randint(0, 2**62, (N,), mx.int64, key=key),
    "randint beyond": lambda mx, key: mx.random.randint(-10, 2**33, (N,), key=key),
    "randint uint8": lambda mx, key: mx.random.randint(0, 256, (N,), mx.uint8, key=key),
    "randint int8": lambda mx, key: mx.random.randint(-128, 300, (N,), mx.int8, key=key),
    "randint uint32": lambda mx, key: mx.random.randint(-1, 3, (N,), mx.uint32, key=key),
    "randint uint64": lambda mx, key: mx.random.randint(-5, 3, (N,), mx.uint64, key=key),
    "randint bool": lambda mx, key: mx.random.randint(0, 2, (9,), mx.bool_, key=key),
    "randint true": lambda mx, key: mx.random.randint(0, True, (9,), mx.bool_, key=key),
    "randint floats": lambda mx, key: mx.random.randint(0.5, 3.7, (9,), key=key),
    "randint infinite": lambda mx, key: mx.random.randint(float("-inf"), float("nan"), (3,), key=key),
    "bernoulli": lambda mx, key: mx.random.bernoulli(0.3, (N,), key=key),
    "bernoulli ()": lambda mx, key: mx.random.bernoulli(key=key),
    "bernoulli nan": lambda mx, key: mx.random.bernoulli(float("nan"), (3,), key=key),
    "permutation": lambda mx, key: mx.random.permutation(N, key=key),
    "permutation of none": lambda mx, key: mx.random.permutation(0, key=key),
}  # fmt: skip


@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_draws(draw):
    check(draw, KEY, batch=draw in BATCHED)


BATCHED = [DRAWS[name] for name in ("uniform ()", "normal", "gumbel", "randint int64", "permutation")]


def test_float64():
    """Compare draws in float64: they agree with XLA's to float32's precision, in which the noise is drawn."""
    check(
        lambda mx, key: [
            mx.random.normal((N,), mx.float64, loc=2.5, scale=1.3, key=key),
            mx.random.laplace((N,), mx.float64, loc=1.5, scale=0.3, key=key),
        ],
        KEY, tolerance=1e-6, batch=False,
    )  # fmt: skip


def test_half_precision():
    for dtype in HALVES:
        check(
            lambda mx, key, d=dtype: [
                mx.random.uniform(1.3, 2.7, (N,), getattr(mx, d), key),
                mx.random.normal((N,), getattr(mx, d), 0.3, 1.7, key),
                mx.random.truncated_normal(-1, 2.5, (N,), getattr(mx, d), key),
                mx.random.gumbel((N,), getattr(mx, d), key),
                mx.random.laplace((N,), getattr(mx, d), 0.3, 1.7, key),
            ],
            KEY,
            batch=False,
        )


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "complex64"])
def test_uniform_between(dtype):
    low, high = data((3, 1), dtype, 1), data((2,), dtype, 2)
    check(lambda mx, low, high, key: mx.random.uniform(low, high, (3, 2), key=key), low, high, KEY, batch=False)
    if dtype in FLOATS:
        check(
            lambda mx, low, high, key: mx.random.uniform(low, high, (3, 2), getattr(mx, dtype), key),
            low, high, KEY, batch=dtype == "float32",
        )  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS, "float64", "int8", "complex64"])
def test_normal_of(dtype):
    loc, scale = data((3, 1), dtype, 1), data((2, 1, 1), dtype, 2)
    tolerance = 1e-6 if dtype == "float64" else None  # the noise is drawn in float32
    kind = dtype if dtype != "int8" else "float16"
    for k in {"float32", kind}:
        check(
            lambda mx, loc, scale, key, k=k: mx.random.normal((2,), getattr(mx, k), loc=loc, scale=scale, key=key),
            loc, scale, KEY, tolerance=tolerance, batch=dtype == k == "float32",
        )  # fmt: skip


def test_normal_of_one():
    x = data((3, 1), "float32")
    check(lambda mx, scale, key: mx.random.normal((2,), scale=scale, key=key), x, KEY, batch=False)
    check(lambda mx, loc, key: mx.random.normal((2,), loc=loc, key=key), x, KEY, batch=False)


def test_scales_of_zero():
    """Compare derivatives at scales of zero, where JAX's convention is half the slope."""
    zero = np.array([0.0, 1.0], np.float32)
    check(
        lambda mx, loc, scale, key: mx.random.normal((2,), loc=loc, scale=scale, key=key), zero, zero, KEY, batch=False
    )
    check(lambda mx, low, high, key: mx.random.uniform(low, high, (2,), key=key), zero, zero, KEY, batch=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_truncated_between(dtype):
    lower, upper = data((3, 1), dtype, 1, -1.5, 0.5), data((5,), dtype, 2, 0.2, 1.5)
    # XLA rounds intermediate results to half precision, some of them the other way
    tolerance = {"float16": 1e-2, "bfloat16": 8e-2, "float32": 8e-6}[dtype]
    check(
        lambda mx, lower, upper, key: mx.random.truncated_normal(lower, upper, None, getattr(mx, dtype), key),
        lower, upper, KEY, tolerance=tolerance, batch=dtype == "float32",
    )  # fmt: skip


def test_truncated_at_the_bounds():
    same = np.array([-0.5, 0.25], np.float32)
    check(
        lambda mx, a, b, key: mx.random.truncated_normal(a, b, None, key=key),
        same,
        same,
        KEY,
        batch=False,
        tolerance=8e-6,
    )


def covariance(shape, seed=0):
    root = data((*shape, shape[-1]), "float32", seed)
    return root @ root.swapaxes(-1, -2) + np.eye(shape[-1], dtype=np.float32)


def test_multivariate_normal():
    # singular values are found in different ways
    draw = lambda mx, mean, cov, key: mx.random.multivariate_normal(mean, cov, (4, 2), key=key)  # noqa: E731
    only_values = {"tolerance": 2e-5, "grad": False, "jvp": False, "batch": False}
    check(draw, data((3,), "float32"), covariance((3,)), KEY, tolerance=2e-5)
    check(draw, data((4, 1, 2), "float32"), covariance((1, 2, 2)), KEY, tolerance=2e-5, batch=False)
    check(draw, data((2,), "complex64"), covariance((2,)), KEY, tolerance=2e-5, batch=False)
    check(draw, data((2,), "int32"), np.eye(2, dtype=np.int32), KEY, tolerance=2e-5)
    check(draw, data((2,), "float32"), np.array([[1, 2], [2, 1]], np.float32), KEY, **only_values)
    check(draw, data((2,), "float32"), np.zeros((2, 2), np.float32), KEY, **only_values)


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "complex64"])
def test_randint_between(dtype):
    low, high = data((3, 1), dtype, 1), data((2,), dtype, 2, 0, 50)
    check(
        lambda mx, low, high, key: [
            mx.random.randint(low, high, (3, 2), k, key) for k in (mx.int32, mx.uint8, mx.int64)
        ],
        low, high, KEY, batch=dtype == "int32",
    )  # fmt: skip


@pytest.mark.parametrize("dtype", [*FLOATS, "float64"])
def test_bernoulli_of(dtype):
    p = data((4, 3), dtype, 0, -0.1, 1.1)
    check(
        lambda mx, p, key: [mx.random.bernoulli(p, key=key), mx.random.bernoulli(p, (2, 4, 3), key)],
        p,
        KEY,
        batch=dtype == "float32",
    )


@pytest.mark.parametrize("dtype", [*FLOATS, "float64", "int32", "bool", "complex64"])
def test_categorical(dtype):
    logits = data((4, 3, 5), dtype)
    check(
        lambda mx, x, key: [
            mx.random.categorical(x, key=key),
            mx.random.categorical(x, 0, key=key),
            mx.random.categorical(x, 1, (2, 4, 5), key=key),
            mx.random.categorical(x, -2, num_samples=3, key=key),
        ],
        logits,
        KEY,
        batch=dtype == "float32",
    )
    line = data((7,), dtype)
    check(
        lambda mx, x, key: [
            mx.random.categorical(x, key=key),
            mx.random.categorical(x, shape=(N,), key=key),
            mx.random.categorical(x, num_samples=3, key=key),
        ],
        line,
        KEY,
        batch=dtype == "float32",
    )


def test_categorical_of_infinities():
    lines = np.array([[1, np.nan, 2], [0, -np.inf, 0], [np.inf, 0, 1]], np.float32)
    check(lambda mx, x, key: mx.random.categorical(x, num_samples=5, key=key), lines, KEY, batch=False)
    for line in lines:
        check(lambda mx, x, key: mx.random.categorical(x, num_samples=5, key=key), line, KEY, batch=False)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "uint8", "bool"])
def test_permutation_of(dtype):
    x = data((4, 3, 2), dtype)
    check(
        lambda mx, x, key: [
            mx.random.permutation(x, key=key), mx.random.permutation(x, 1, key), mx.random.permutation(x, -1, key)
        ],
        x, KEY, batch=dtype == "float32",
    )  # fmt: skip
    check(lambda mx, x, key: mx.random.permutation(x, key=key), data((0, 2), dtype), KEY, batch=False)


def test_each_has_its_rules():
    ours = {name.removeprefix("random_"): op for name, op in TABLE.items() if name.startswith("random_")}
    assert all(op in HOST for op in ours.values())
    no_inputs_but_keys = {"split", "chain", "link", "gumbel", "permutation"}
    by_xla = {"rows"}
    not_smooth = {"randint", "bernoulli", "categorical", "categorical_line"}
    for rules in (PULLBACK, PUSHFORWARD):
        assert {name for name, op in ours.items() if op not in rules} == no_inputs_but_keys | not_smooth | by_xla
    # "chain" is the op of the implicit random state, which vmap never maps.
    assert {name for name, op in ours.items() if op not in BATCH} == {"chain"} | by_xla
