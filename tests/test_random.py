"""Random numbers: equal to real MLX's for the same key and seed."""

from __future__ import annotations

import copy
import operator
import threading
from functools import partial
from typing import Any

import numpy as np
import pytest

from mxcompat._graph.run import background
from mxcompat.ext.debug import clear_cache, compiles
from tests.oracle import check, ours, real, run
from tests.thinned import thinned

N = 777
"""An odd number of draws, so that the last counter is hashed alone."""


def key(mx: Any) -> Any:
    return mx.random.key(7)


EXACT = {
    "key": lambda mx: [mx.random.key(n) for n in (0, 7, True, 2**33, 2**64 - 1)],
    "key of numpy": lambda mx: mx.random.key(np.int32(3)),
    "key of array": lambda mx: mx.random.key(mx.array(3)),
    "split": lambda mx: [mx.random.split(key(mx)), mx.random.split(key(mx), num=1), mx.random.split(key(mx), 5)],
    "split 0": lambda mx: mx.random.split(key(mx), 0),
    "split chain": lambda mx: mx.random.split(mx.random.split(mx.random.split(key(mx))[1])[0]),
    "uniform": lambda mx: mx.random.uniform(shape=(N,), key=key(mx)),
    "uniform ()": lambda mx: mx.random.uniform(key=key(mx)),
    "uniform even": lambda mx: mx.random.uniform(shape=(2, 3, 4), key=key(mx)),
    "uniform list shape": lambda mx: mx.random.uniform(shape=[3, 2], key=key(mx), dtype=None),
    "uniform array shape": lambda mx: mx.random.uniform(shape=mx.array([3, 2]), key=key(mx)),
    "uniform empty": lambda mx: mx.random.uniform(shape=(0, 3), key=key(mx)),
    "uniform numbers": lambda mx: mx.random.uniform(1.3, 2.7, (N,), key=key(mx)),
    "uniform negative": lambda mx: mx.random.uniform(-1e-3, 1e3, (N,), key=key(mx)),
    "uniform reversed": lambda mx: mx.random.uniform(5, 1, (N,), key=key(mx)),
    "uniform equal": lambda mx: mx.random.uniform(1, 1, (3,), key=key(mx)),
    "uniform arrays": lambda mx: mx.random.uniform(
        mx.array([0.1, 3.0]), mx.array([[1.3], [4.7]]), (3, 2, 2), key=key(mx)
    ),
    "uniform int and half": lambda mx: mx.random.uniform(mx.array(1), mx.array(3, mx.float16), (9,), key=key(mx)),
    "uniform complex": lambda mx: mx.random.uniform(1j, mx.array(2 + 1j), (9,), key=key(mx)),
    "uniform numpy": lambda mx: mx.random.uniform(np.float32(0.3), np.array([1, 2]), (2,), key=key(mx)),
    "uniform half": lambda mx: mx.random.uniform(1.3, 2.7, (N,), mx.float16, key(mx)),
    "uniform bfloat": lambda mx: mx.random.uniform(0.1, 0.7, (N,), mx.bfloat16, key(mx)),
    "randint": lambda mx: mx.random.randint(-5, 70, (N,), key=key(mx)),
    "randint ()": lambda mx: mx.random.randint(0, 10, key=key(mx), dtype=None),
    "randint big": lambda mx: mx.random.randint(0, 2**24 + 5, (N,), key=key(mx)),
    "randint int64": lambda mx: mx.random.randint(0, 2**62, (N,), mx.int64, key=key(mx)),
    "randint top of int64": lambda mx: mx.random.randint(2**62, 2**62 + 2**40, (N,), mx.int64, key=key(mx)),
    "randint uint8": lambda mx: mx.random.randint(0, 256, (N,), mx.uint8, key=key(mx)),
    "randint int8": lambda mx: mx.random.randint(-128, 127, (N,), mx.int8, key=key(mx)),
    "randint wraps": lambda mx: [
        mx.random.randint(0, 300, (3,), mx.uint8, key=key(mx)), mx.random.randint(-1, 3, (3,), mx.uint32, key=key(mx))
    ],
    "randint empty range": lambda mx: [mx.random.randint(5, 3, (3,), key=key(mx)), mx.random.randint(3, 3, (3,))],
    "randint bool": lambda mx: [mx.random.randint(0, n, (9,), mx.bool_, key=key(mx)) for n in (1, 2, 10, True)],
    "randint beyond the dtype": lambda mx: mx.random.randint(0, 2**33, (9,), key=key(mx)),
    "randint floats": lambda mx: mx.random.randint(0.5, 3.7, (9,), key=key(mx)),
    "randint arrays": lambda mx: mx.random.randint(mx.array([0.5, 10]), mx.array([[5], [50]]), (2, 2), key=key(mx)),
    "bernoulli": lambda mx: mx.random.bernoulli(0.3, (N,), key=key(mx)),
    "bernoulli default": lambda mx: mx.random.bernoulli(key=key(mx)),
    "bernoulli array": lambda mx: mx.random.bernoulli(mx.array([0.1, 0.9]), key=key(mx)),
    "bernoulli broadcast": lambda mx: mx.random.bernoulli(mx.array([0.1, 0.9]), [5, 2], key=key(mx)),
    "bernoulli half": lambda mx: mx.random.bernoulli(mx.full((N,), 0.3, mx.bfloat16), key=key(mx)),
    "bernoulli beyond": lambda mx: [mx.random.bernoulli(p, (3,)) for p in (-1.0, 2.0, float("nan"))],
    "permutation": lambda mx: mx.random.permutation(100, key=key(mx)),
    "permutation of none": lambda mx: [mx.random.permutation(0), mx.random.permutation(mx.zeros((0,)))],
    "permutation of one": lambda mx: mx.random.permutation(True, key=key(mx)),
    "permutation of array": lambda mx: mx.random.permutation(mx.arange(24).reshape(4, 6), key=key(mx)),
    "permutation of axis": lambda mx: mx.random.permutation(mx.arange(24).reshape(4, 6), 1, key=key(mx)),
    "permutation of last": lambda mx: mx.random.permutation(mx.arange(24).reshape(2, 3, 4), axis=-1, key=key(mx)),
    "stream": lambda mx: mx.random.uniform(0, 1, [], mx.float32, key(mx), mx.cpu),
}  # fmt: skip


@pytest.mark.parametrize("fn", EXACT.values(), ids=EXACT)
def test_exact(fn: Any) -> None:
    check(fn, tol=0)


CLOSE = {
    "normal": lambda mx: mx.random.normal((N,), key=key(mx)),
    "normal ()": lambda mx: mx.random.normal(key=key(mx), dtype=None),
    "normal numbers": lambda mx: mx.random.normal((N,), loc=2.5, scale=1.3, key=key(mx)),
    "normal loc": lambda mx: mx.random.normal((2, 3), loc=mx.array([1, 2, 3]), key=key(mx)),
    "normal wider": lambda mx: mx.random.normal((2,), loc=mx.zeros((3, 1)), scale=mx.ones((2, 1, 1)), key=key(mx)),
    "normal complex loc": lambda mx: mx.random.normal((2,), loc=1j, key=key(mx)),
    "normal complex": lambda mx: mx.random.normal((N,), mx.complex64, key=key(mx)),
    "normal complex scaled": lambda mx: mx.random.normal((3,), mx.complex64, loc=1j, scale=2 + 1j, key=key(mx)),
    "normal half": lambda mx: mx.random.normal((N,), mx.float16, key=key(mx)),
    "normal bfloat": lambda mx: mx.random.normal((N,), mx.bfloat16, loc=2.0, scale=3.0, key=key(mx)),
    "normal loc of other dtype": lambda mx: mx.random.normal((2,), mx.float16, loc=mx.array([1.5, 2.0]), key=key(mx)),
    "laplace": lambda mx: mx.random.laplace((N,), key=key(mx)),
    "laplace numbers": lambda mx: mx.random.laplace((N,), mx.bfloat16, 2.5, 1.3, key(mx)),
    "laplace of arrays": lambda mx: mx.random.laplace((3,), loc=mx.array(2), scale=np.float32(2), key=key(mx)),
    "gumbel": lambda mx: mx.random.gumbel((N,), key=key(mx)),
    "gumbel half": lambda mx: mx.random.gumbel([N], mx.float16, key=key(mx)),
    "truncated": lambda mx: mx.random.truncated_normal(-1, 2.5, (N,), key=key(mx)),
    "truncated ()": lambda mx: mx.random.truncated_normal(-1, 1, key=key(mx), dtype=None),
    "truncated half": lambda mx: mx.random.truncated_normal(-1, 2.5, (N,), mx.float16, key=key(mx)),
    "truncated arrays": lambda mx: mx.random.truncated_normal(mx.array([-1.0, 0]), mx.array([[1.0], [2]]), key=key(mx)),
    "truncated far": lambda mx: [mx.random.truncated_normal(a, a + 1, (3,), key=key(mx)) for a in (20, -21)],
    "truncated reversed": lambda mx: mx.random.truncated_normal(2, 1, (3,), key=key(mx)),
    "multivariate asymmetric": lambda mx: mx.random.multivariate_normal(
        mx.zeros(2), mx.array([[1.0, 0.5], [0, 1]]), (3,), key=key(mx)
    ),
    "multivariate indefinite": lambda mx: mx.random.multivariate_normal(
        mx.zeros(2), mx.array([[1.0, 2], [2, 1]]), (3,), key=key(mx)
    ),
    "multivariate ints": lambda mx: mx.random.multivariate_normal(
        mx.array([1, 2]), mx.array([[1, 0], [0, 1]]), key=key(mx)
    ),
    "multivariate complex": lambda mx: mx.random.multivariate_normal(mx.array([1j, 2]), mx.eye(2), key=key(mx)),
    "multivariate zero": lambda mx: mx.random.multivariate_normal(mx.zeros(3), mx.zeros((3, 3)), key=key(mx)),
}


@pytest.mark.parametrize("fn", CLOSE.values(), ids=CLOSE)
def test_close(fn: Any) -> None:
    check(fn)


@pytest.mark.parametrize("fn", [
    lambda mx: mx.random.normal((9,), mx.float64, 0.1, 1.3, key=key(mx)),
    lambda mx: mx.random.laplace((9,), mx.float64, 0.1, 1.3, key=key(mx)),
])  # fmt: skip
def test_float64(fn: Any) -> None:
    check(fn, tol=1e-6)  # in both libraries the noise itself has float32 precision


@pytest.mark.parametrize("shape", [(), (4,), (2, 4), (1,), (2, 1)])
def test_multivariate_normal_shapes(shape: tuple[int, ...]) -> None:
    cov = np.array([[2, 0.5, 0.1], [0.5, 1, 0.3], [0.1, 0.3, 3]], np.float32)
    mean = np.arange(12, dtype=np.float32).reshape(4, 3)
    check(lambda mx, m, c: mx.random.multivariate_normal(m, c, shape, key=key(mx)), mean, cov)


LOGITS = np.random.RandomState(0).randn(3, 4, 5).astype(np.float32)


@pytest.mark.parametrize("kwargs", [
    {}, {"axis": 0}, {"axis": 1}, {"axis": -3}, {"num_samples": 1}, {"num_samples": 7}, {"axis": 1, "num_samples": 2},
    {"shape": (3, 4)}, {"shape": [7, 3, 4]}, {"axis": 1, "shape": (7, 3, 5)}, {"axis": 0, "shape": (2, 4, 5)},
], ids=str)  # fmt: skip
def test_categorical(kwargs: dict) -> None:
    check(lambda mx, x: mx.random.categorical(x, key=key(mx), **kwargs), LOGITS)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int32", "bool_"])
def test_categorical_dtypes(dtype: str) -> None:
    logits = np.random.RandomState(0).randn(50, 9).astype(np.float32)
    check(lambda mx, x: mx.random.categorical(x.astype(getattr(mx, dtype)), key=key(mx)), logits)


@pytest.mark.parametrize("spread", [0.1, 1.0, 3.0])
def test_categorical_of_a_large_vocabulary(spread: float) -> None:
    """Compare draws from a large vocabulary, in NumPy. A rounding of the cumulative sums moves bounds by several
    tokens."""
    clear_cache()  # on a busy machine XLA may have compiled it by the third case
    logits = (spread * np.random.RandomState(0).randn(1, 151936)).astype(np.float32)
    drawn = [mx.random.categorical(mx.array(logits), num_samples=400, key=key(mx)) for mx in (real, ours)]
    assert (np.array(drawn[0]) != np.array(drawn[1])).mean() < 0.02


def test_categorical_of_one_distribution_for_many() -> None:
    check(lambda mx, x: mx.random.categorical(x[:1], shape=(7, 4), key=key(mx)), LOGITS)
    check(lambda mx: mx.random.categorical(mx.array([-np.inf, 0, -np.inf]), key=key(mx)))


ERRORS = {
    "uniform integers, a bound too low": lambda r, mx: r.uniform(-1, 2, (2,), mx.uint16),
    "normal integers, a mean too low": lambda r, mx: r.normal((2,), mx.uint16, -1, 2),
    "negative seed": lambda r, mx: r.key(-1),
    "large seed": lambda r, mx: r.seed(2**64),
    "float seed": lambda r, mx: r.seed(1.5),
    "float array seed": lambda r, mx: r.key(mx.array(3.0)),
    "str seed": lambda r, mx: r.key("a"),
    "key dtype": lambda r, mx: r.uniform(key=mx.array([1, 2])),
    "key shape": lambda r, mx: r.uniform(key=mx.zeros(3, mx.uint32)),
    "key number": lambda r, mx: r.uniform(key=3),
    "split number": lambda r, mx: r.split(3),
    "split shape": lambda r, mx: r.split(mx.zeros((2, 2), mx.uint32)),
    "split negative": lambda r, mx: r.split(r.key(0), -1),
    "split float": lambda r, mx: r.split(r.key(0), 2.0),
    "shape int": lambda r, mx: r.uniform(shape=5),
    "shape float": lambda r, mx: r.normal((2.0,)),
    "shape str": lambda r, mx: r.normal("ab"),
    "shape None": lambda r, mx: r.uniform(shape=None),
    "shape negative": lambda r, mx: r.uniform(shape=(-1,)),
    "dtype str": lambda r, mx: r.uniform(dtype="float32"),
    "uniform int": lambda r, mx: r.uniform(dtype=mx.int32),
    "uniform complex": lambda r, mx: r.uniform(dtype=mx.complex64),
    "uniform float64": lambda r, mx: r.uniform(dtype=mx.float64),
    "uniform bounds": lambda r, mx: r.uniform(mx.zeros(3), mx.zeros(2)),
    "uniform bounds and shape": lambda r, mx: r.uniform(mx.zeros(3), 1, (2,)),
    "uniform small shape": lambda r, mx: r.uniform(mx.zeros(3), 1),
    "uniform flat shape": lambda r, mx: r.uniform(mx.zeros((2, 3)), 1, (3,)),
    "uniform list": lambda r, mx: r.uniform([1, 2], 3, (2,)),
    "uniform str": lambda r, mx: r.uniform("a", 3),
    "uniform None": lambda r, mx: r.uniform(None, 3),
    "normal int": lambda r, mx: r.normal((2,), mx.int32, loc=mx.zeros(3)),
    "normal negative": lambda r, mx: r.normal((-2,), loc=mx.zeros(3)),
    "normal loc": lambda r, mx: r.normal((2,), loc=mx.zeros(3)),
    "normal scale": lambda r, mx: r.normal((2,), loc=mx.zeros(3), scale=mx.zeros(4)),
    "normal str": lambda r, mx: r.normal((2,), loc="a"),
    "laplace int": lambda r, mx: r.laplace((2,), mx.int32),
    "laplace array": lambda r, mx: r.laplace((2,), loc=mx.array([1.0, 2])),
    "laplace None": lambda r, mx: r.laplace((2,), loc=None),
    "laplace complex": lambda r, mx: r.laplace((2,), loc=1j),
    "gumbel int": lambda r, mx: r.gumbel((2,), mx.int32),
    "gumbel float64": lambda r, mx: r.gumbel((2,), mx.float64),
    "randint float": lambda r, mx: r.randint(0, 10, (2,), mx.float32),
    "randint one bound": lambda r, mx: r.randint(0),
    "randint small shape": lambda r, mx: r.randint(mx.array([0, 1]), 5),
    "randint None": lambda r, mx: r.randint(None, 2),
    "bernoulli int": lambda r, mx: r.bernoulli(1, (2,)),
    "bernoulli bools": lambda r, mx: r.bernoulli(mx.array([True])),
    "bernoulli complex": lambda r, mx: r.bernoulli(1j),
    "bernoulli shape": lambda r, mx: r.bernoulli(mx.array([0.1, 0.9]), (3,)),
    "bernoulli small shape": lambda r, mx: r.bernoulli(mx.array([0.1, 0.9]), ()),
    "bernoulli negative": lambda r, mx: r.bernoulli(0.5, (-1,)),
    "truncated int": lambda r, mx: r.truncated_normal(-1, 1, (2,), mx.int32),
    "truncated float64": lambda r, mx: r.truncated_normal(-1, 1, (2,), mx.float64),
    "truncated bounds": lambda r, mx: r.truncated_normal(mx.zeros(3), mx.zeros(2)),
    "truncated small shape": lambda r, mx: r.truncated_normal(mx.zeros(3), 1, (1,)),
    "categorical 0-d": lambda r, mx: r.categorical(mx.array(1.0)),
    "categorical axis": lambda r, mx: r.categorical(mx.zeros((3, 4)), -3),
    "categorical float axis": lambda r, mx: r.categorical(mx.zeros((3, 4)), axis=1.0),
    "categorical list": lambda r, mx: r.categorical([1.0, 2.0]),
    "categorical both": lambda r, mx: r.categorical(mx.zeros((3, 4)), shape=(3,), num_samples=2),
    "categorical shape": lambda r, mx: r.categorical(mx.zeros((3, 4)), shape=(4,)),
    "categorical small shape": lambda r, mx: r.categorical(mx.zeros((3, 4)), shape=()),
    "categorical none": lambda r, mx: r.categorical(mx.zeros((3, 4)), num_samples=0),
    "categorical empty": lambda r, mx: r.categorical(mx.zeros((0,))),
    "categorical negative": lambda r, mx: r.categorical(mx.zeros((3, 4)), num_samples=-1),
    "permutation negative": lambda r, mx: r.permutation(-1),
    "permutation float": lambda r, mx: r.permutation(2.0),
    "permutation list": lambda r, mx: r.permutation([1, 2]),
    "permutation numpy": lambda r, mx: r.permutation(np.arange(3)),
    "permutation numpy int": lambda r, mx: r.permutation(np.int64(3)),
    "multivariate mean": lambda r, mx: r.multivariate_normal(mx.array(1.0), mx.eye(3)),
    "multivariate cov": lambda r, mx: r.multivariate_normal(mx.zeros(3), mx.zeros(3)),
    "multivariate square": lambda r, mx: r.multivariate_normal(mx.zeros(3), mx.zeros((3, 4))),
    "multivariate sizes": lambda r, mx: r.multivariate_normal(mx.zeros(2), mx.eye(3)),
    "multivariate batch": lambda r, mx: r.multivariate_normal(mx.zeros((4, 3)), mx.zeros((2, 3, 3))),
    "multivariate shape": lambda r, mx: r.multivariate_normal(mx.zeros((4, 3)), mx.eye(3), (2,)),
    "multivariate dtype": lambda r, mx: r.multivariate_normal(mx.zeros(3), mx.eye(3), dtype=mx.float16),
    "multivariate list": lambda r, mx: r.multivariate_normal([1.0], mx.eye(1)),
}  # fmt: skip


@pytest.mark.parametrize("fn", ERRORS.values(), ids=ERRORS)
def test_errors(fn: Any) -> None:
    error = check(lambda mx: fn(mx.random, mx))
    assert isinstance(error, Exception)


@pytest.mark.parametrize("axis", [2, -3])
def test_permutation_axis_out_of_range(axis: int) -> None:
    error = check(lambda mx: mx.random.permutation(mx.zeros((2, 3)), axis), message=False)
    assert isinstance(error, IndexError)


def sequence(mx: Any) -> list[Any]:
    """Return draws of every kind in sequence, and the final key."""
    r = mx.random
    r.seed(11)
    return [
        r.uniform(shape=(3,)), r.normal((2,)), r.laplace((2,)), r.gumbel((2,)), r.categorical(mx.zeros(4)),
        r.permutation(4), r.permutation(mx.arange(3)), r.truncated_normal(0, 1), r.randint(0, 9), r.bernoulli(),
        r.normal((2,), mx.complex64), r.multivariate_normal(mx.zeros(2), mx.array([[2.0, 1], [1, 3]])), r.state[0],
    ]  # fmt: skip


def test_seeded_sequence() -> None:
    check(sequence)


def test_a_failing_draw_advances_the_key() -> None:
    def fail(mx: Any) -> Any:
        mx.random.seed(3)
        with pytest.raises(ValueError):
            mx.random.uniform(dtype=mx.int32)
        with pytest.raises(ValueError):
            mx.random.categorical(mx.zeros(3), shape=(3,), num_samples=3)
        return mx.random.state[0]

    check(fail, tol=0)


def test_another_state_in_its_place_is_taken_away_by_del() -> None:
    def use(mx: Any) -> list[Any]:
        mx.random.seed(3)
        results = ["state" in vars(mx.random), "state" in dir(mx.random)]
        mx.random.state = [mx.array([7, 9], mx.uint32)]
        results += [mx.random.state[0], mx.random.uniform()]
        del mx.random.state
        return [*results, mx.random.state[0], mx.random.uniform()]

    check(use, tol=0)


def test_state() -> None:
    def use(mx: Any) -> list[Any]:
        state = mx.random.state
        mx.random.seed(3)
        before = state[0]
        same = state[0] is before
        mx.random.uniform()
        after = state[-1]
        state[0][0] = 5  # the next draw reads this array
        return [same, len(state), before, after, *list(state), mx.random.uniform(), state is mx.random.state]

    check(use, tol=0)
    check(lambda mx: mx.random.state[1])
    check(lambda mx: copy.deepcopy(mx.random.state))
    check(lambda mx: mx.random.state.append(1), message=False)
    check(lambda mx: mx.random.state.copy(), message=False)
    check(lambda mx: mx.random.state.index(0), message=False)
    check(lambda mx: operator.add(mx.random.state, [1]), message=False)
    check(lambda mx: operator.add([1], mx.random.state), message=False)
    check(lambda mx: mx.random.state * 2, message=False)
    check(lambda mx: mx.random.state[0] in mx.random.state)
    check(lambda mx: mx.random.nothing)
    assert ours.random.state == ours.random.state
    assert ours.random.state != []


def test_state_can_be_put_back() -> None:
    state = ours.random.state
    ours.random.seed(5)
    kept = state[0]
    first = ours.random.normal((3,))
    state[0] = kept
    assert np.array_equal(first, ours.random.normal((3,)))
    state[:] = [ours.random.key(5)]
    assert np.array_equal(first, ours.random.normal((3,)))
    with pytest.raises(ValueError):
        state[:] = []


def test_kept_states_and_draws_in_any_order() -> None:
    """Keep states and draws. Pending draws share one growing loop, and results taken earlier must keep their values."""

    def use(mx: Any) -> list[Any]:
        mx.random.seed(9)
        states, draws = [mx.random.state[0]], []
        for n in range(6):
            draws.append(mx.random.uniform())
            states.append(mx.random.state[0])
            if n == 2:
                mx.eval(draws[1])
            if n == 4:
                mx.eval(states[4])
        return [draws[5], draws[0], states[::-1], draws[1:5], mx.random.state[0]]

    check(use, tol=0)


def test_many_draws_in_one_program() -> None:
    def last(mx: Any) -> Any:
        mx.random.seed(9)
        for _ in range(3000):
            x = mx.random.uniform()
        return x

    check(last, tol=0)


def test_draws_under_transforms() -> None:
    def use(mx: Any) -> list[Any]:
        mx.random.seed(9)
        first = mx.random.uniform()

        def loss(x: Any) -> Any:
            y = x * mx.random.uniform()
            inner = mx.grad(lambda z: z * mx.random.normal())(x)
            return y * inner + mx.random.uniform()

        value, grad = mx.value_and_grad(loss)(mx.array(2.0))
        between = mx.random.uniform()
        mapped = mx.vmap(lambda x: x + mx.random.uniform() + mx.random.uniform())(mx.zeros(2))
        return [value, grad, between, mapped, first, mx.random.uniform(), mx.random.state[0]]

    check(use)


def test_state_of_threads() -> None:
    def use(mx: Any) -> list[Any]:
        mx.random.seed(1)
        state, out = mx.random.state, []

        def other() -> None:
            mx.random.seed(2)
            out.append(mx.random.uniform())
            out.append(state[0])
            mx.eval(out)

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        return [*out, state[0]]

    check(use, tol=0)


def test_first_key_is_the_time() -> None:
    out: list[Any] = []

    def look() -> None:
        out.append(np.array(ours.random.state[0]))

    for _ in range(2):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    milliseconds = [int(k[0]) << 32 | int(k[1]) for k in out]
    assert 0 <= milliseconds[1] - milliseconds[0] < 60_000
    assert milliseconds[0] > 1_700_000_000_000


def test_compile() -> None:
    def use(mx: Any) -> list[Any]:
        mx.random.seed(3)
        frozen = mx.compile(lambda: mx.random.uniform(shape=(2,)))
        out = [frozen(), frozen()]

        @partial(mx.compile, inputs=mx.random.state, outputs=mx.random.state)
        def drawing(x: Any) -> Any:
            return x + mx.random.uniform(shape=(2,))

        mx.random.seed(3)
        out += [drawing(mx.zeros(2)), drawing(mx.zeros(2)), mx.random.uniform(), drawing(mx.zeros(2))]
        return [*out, mx.random.state[0]]

    check(use, tol=0)


def test_vmap() -> None:
    keys = lambda mx: mx.random.split(key(mx), 3)  # noqa: E731
    r = lambda mx: mx.random  # noqa: E731
    check(lambda mx: mx.vmap(lambda k: r(mx).uniform(shape=(2,), key=k))(keys(mx)), tol=0)
    check(lambda mx: mx.vmap(r(mx).split)(keys(mx)), tol=0)
    check(lambda mx: mx.vmap(lambda k: r(mx).permutation(4, key=k))(keys(mx)))
    check(lambda mx: mx.vmap(lambda k: r(mx).categorical(mx.zeros(5), key=k))(keys(mx)))
    check(lambda mx: mx.vmap(lambda a, k: r(mx).uniform(a, 5.0, (2,), key=k), in_axes=(0, 1))(
        mx.array([0.0, 1]), mx.array([[2, 3], [4, 5]], mx.uint32)))  # fmt: skip
    check(lambda mx: mx.vmap(lambda a, b: r(mx).uniform(a, b, (2,), key=key(mx)))(mx.zeros(2), mx.array([2.0, 3])))
    check(lambda mx: mx.vmap(lambda p: r(mx).bernoulli(p, key=key(mx)))(mx.full((3, 2), 0.5)))

    def implicit(mx: Any) -> list[Any]:
        mx.random.seed(3)
        return [mx.vmap(lambda x: x + mx.random.uniform(shape=(2,)))(mx.zeros((3, 2))), mx.random.state[0]]

    check(implicit, tol=0)


@pytest.mark.parametrize("keys", [40, 1500])
def test_vmap_over_many_keys(keys: int) -> None:
    def draws(mx: Any) -> list[Any]:
        r, many = mx.random, mx.random.split(key(mx), keys)
        bounds = mx.arange(keys) / keys
        shared = [mx.vmap(lambda a: r.uniform(a, 2.0, (2,), key=key(mx)))(bounds)] if keys < 100 else []
        return [
            mx.vmap(lambda k: r.uniform(shape=(2,), dtype=mx.bfloat16, key=k), in_axes=1, out_axes=1)(many.T),
            mx.vmap(lambda k, a: r.normal((3,), loc=a, scale=a, key=k))(many, bounds),
            mx.vmap(lambda k, p: r.bernoulli(p, (2,), key=k))(many, bounds),
            mx.vmap(r.split)(many),
            mx.vmap(lambda k: r.permutation(4, key=k))(many),
            mx.vmap(mx.vmap(lambda k: r.randint(0, 9, (2,), key=k)))(many.reshape(20, -1, 2)),
            mx.grad(lambda a: mx.vmap(lambda k, a: r.normal((3,), loc=a, scale=a, key=k))(many, a).sum())(bounds),
            *shared,
        ]

    check(draws)


@pytest.mark.usefixtures("xla_only")
def test_vmap_over_many_keys_as_xla_does_it() -> None:
    check(lambda mx: mx.vmap(lambda k, a: mx.random.normal((3,), loc=a, key=k))(
        mx.random.split(key(mx), 40), mx.arange(40)))  # fmt: skip


def test_a_long_walk_from_many_keys_needs_no_compiler() -> None:
    """Assert that a long walk from many keys runs in NumPy. Compiling thousands of hash rounds takes minutes."""

    def walk(x: Any, key: Any) -> Any:
        for step in ours.random.split(key, 300):
            x = x + ours.random.normal(key=step)
        return x

    keys = ours.random.split(ours.random.key(1), 60)
    before = compiles()
    ours.eval(ours.vmap(walk)(ours.zeros(60), keys))
    assert compiles() == before


GRADIENTS = {
    "uniform": lambda mx, a, b: mx.random.uniform(a, b, (3,), key=key(mx)),
    "normal": lambda mx, a, b: mx.random.normal((3,), loc=a, scale=b, key=key(mx)),
    "truncated": lambda mx, a, b: mx.random.truncated_normal(-a, b, (3,), key=key(mx)),
    "bernoulli": lambda mx, a, b: mx.random.bernoulli(a * 0.3, key=key(mx)) * b,
    "permutation": lambda mx, a, b: mx.random.permutation(mx.stack([a, b, a]), key=key(mx))[:2],
    "randint": lambda mx, a, b: mx.random.randint(a, 10, (3,), key=key(mx)).astype(mx.float32) * b,
}


@pytest.mark.parametrize("fn", GRADIENTS.values(), ids=GRADIENTS)
def test_gradients(fn: Any) -> None:
    check(lambda mx: mx.grad(lambda a, b: fn(mx, a, b).sum(), (0, 1))(mx.array(1.0), mx.array(2.0)))


@pytest.mark.parametrize("form", ["plain", "compiled", "forward"])
def test_gradients_where_there_is_no_width(form: str) -> None:
    def use(mx: Any) -> list[Any]:
        losses = [
            lambda s: mx.random.normal((3,), scale=s, key=key(mx)).sum(),
            lambda s: mx.random.laplace((3,), scale=s, key=key(mx)).sum(),
            lambda s: mx.random.uniform(2.0, 2.0 + s, (3,), key=key(mx)).sum(),
        ]
        if form == "forward":
            return [mx.jvp(loss, [mx.array(0.0)], [mx.array(1.0)])[1] for loss in losses]
        return [(mx.compile(mx.grad(loss)) if form == "compiled" else mx.grad(loss))(mx.array(0.0)) for loss in losses]

    check(use)


@pytest.mark.usefixtures("xla_only")
def test_gradients_where_there_is_no_width_as_xla_does_it() -> None:
    check(lambda mx: mx.grad(lambda s: mx.random.normal((3,), scale=s, key=key(mx)).sum())(mx.array(0.0)))


def test_gradient_of_multivariate_normal() -> None:
    """Compare the gradient by the covariance with finite differences, as real MLX has none; also at equal
    eigenvalues."""
    direction = np.array([[0.3, 0.2], [0.2, -0.4]], np.float32)

    def draw(t: Any) -> Any:
        cov = 2 * ours.eye(2) + t * ours.array(direction)
        return (ours.random.multivariate_normal(ours.zeros(2), cov, (3,), key=key(ours)) * ours.array([1.0, 2])).sum()

    step = 1e-2
    slope = (draw(ours.array(step)) - draw(ours.array(-step))).item() / (2 * step)
    np.testing.assert_allclose(ours.grad(draw)(ours.array(0.0)).item(), slope, rtol=1e-3)


def test_numbers_stay_the_same_when_compiled_for_speed() -> None:
    def draw(mx: Any) -> Any:
        return mx.random.uniform(0.1, 0.7, (N,), key=key(mx))

    want = np.array(run(real, draw))
    for _ in range(3):
        assert np.array_equal(want, np.array(draw(ours)))
        background.settle()


@pytest.mark.usefixtures("xla_only")
def test_the_next_step_does_not_compile() -> None:
    ours.random.seed(0)
    counts = []
    for _ in range(4):
        x = ours.random.normal((5,)) + ours.random.uniform(-1, 1, (5,))
        ours.eval(x)
        counts.append(compiles())
    assert counts[-1] == counts[1]


@pytest.mark.usefixtures("xla_only")
def test_draws_that_differ_only_in_their_place_are_one_program() -> None:
    def draws(mx: Any) -> list[Any]:
        mx.random.seed(3)
        return [mx.random.uniform(-2, 3, (6,)) for _ in range(12)]

    numbers = draws(ours)
    counts = []
    for x in numbers:  # together they take one chain of keys, of which each reads another row
        ours.eval(x)
        counts.append(compiles())
    assert counts[-1] == counts[4]
    assert np.array_equal(np.array(numbers), np.array(run(real, draws)))


@pytest.mark.parametrize("shape", [(4,), (1, 4), (4, 1), (1, 4, 1), (2, 4)])
@pytest.mark.parametrize("how", [{}, {"num_samples": 6}, {"shape": (6,)}, {"shape": (1, 6)}, {"shape": ()}])
def test_categorical_of_one_distribution_is_drawn_in_another_way(shape: tuple[int, ...], how: dict[str, Any]) -> None:
    """Compare draws from one distribution along every axis; they are exactly equal."""
    logits = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    for axis in range(len(shape)):
        check(lambda mx, x, axis=axis: mx.random.categorical(x, axis, key=key(mx), **how), logits)


@pytest.mark.usefixtures("xla_only")
def test_integers_of_every_dtype_compiled() -> None:
    """Compare compiled integers of every dtype, as XLA has no clamp for bools."""

    def run(mx):
        dtypes = [mx.bool_, mx.uint8, mx.int8, mx.uint16, mx.int16, mx.uint32, mx.int32, mx.uint64, mx.int64]
        bounds = [(0, 2), (0, 1), (1, 2), (0, 5), (False, True), (0.5, 2.5)]
        drawn = [mx.random.randint(*b, (12,), dtype=d, key=mx.random.key(3)) for d in dtypes for b in bounds]
        return drawn, mx.random.randint(mx.array(0), mx.array([2, 1, 0]), (3,), dtype=mx.bool_, key=mx.random.key(1))

    check(run)


@pytest.mark.parametrize("draw", ["uniform", "normal", "randint", "gumbel", "laplace", "truncated_normal", "split"])
def test_a_key_has_no_derivative(draw: str) -> None:
    args = {"randint": (0, 5), "truncated_normal": (0.0, 1.0)}.get(draw, ())

    def fn(mx, key):
        if draw == "split":
            return mx.random.split(key) * 1.0
        return getattr(mx.random, draw)(*args, shape=(2, 2), key=key) * 1.0

    key = np.array([0, 1], np.uint32)
    check(lambda mx, key: mx.vjp(lambda k: fn(mx, k), [key], [mx.ones((2, 2))]), key)
    check(lambda mx, key: mx.jvp(lambda k: fn(mx, k), [key], [key]), key)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("place", [0, 2, [1, 3]])
def test_categorical_of_one_line_with_nan(place) -> None:
    logits = np.zeros(5, np.float32)
    logits[place] = np.nan
    check(lambda mx, x: mx.random.categorical(x, shape=(9,), key=mx.random.key(3)), logits)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("logits", [[np.inf, 0, 0], [np.inf, np.inf, 0], [-np.inf] * 3, [0, np.inf], [1e38, 0]])
def test_categorical_of_one_line_with_infinities(logits) -> None:
    """Compare draws with a forced token, or with every token excluded."""
    line = np.array(logits, np.float32)
    check(lambda mx, x: mx.random.categorical(x, num_samples=30, key=mx.random.key(3)), line)
    check(lambda mx, x: [mx.random.categorical(x, key=mx.random.key(k)) for k in range(9)], line[None])


MANY = {
    "normal": lambda mx, k: mx.random.normal((2, 3), key=k),
    "normal of one": lambda mx, k: mx.random.normal(key=k),
    "normal in half precision": lambda mx, k: mx.random.normal((3,), mx.float16, loc=1, scale=2, key=k),
    "complex normal": lambda mx, k: mx.random.normal((3,), mx.complex64, key=k),
    "normal by a location": lambda mx, k: mx.random.normal((3,), loc=mx.arange(6.0).reshape(2, 3), key=k),
    "uniform": lambda mx, k: mx.random.uniform(-1, mx.arange(3.0), (2, 3), key=k),
    "bernoulli": lambda mx, k: mx.random.bernoulli(0.3, (5,), key=k),
    "randint": lambda mx, k: mx.random.randint(-5, 50, (7,), key=k),
    "gumbel": lambda mx, k: mx.random.gumbel((3,), key=k),
    "laplace": lambda mx, k: mx.random.laplace((3,), loc=2, scale=3, key=k),
    "split": lambda mx, k: mx.random.split(k, 3),
    "truncated normal": lambda mx, k: mx.random.truncated_normal(-1, 2, (2, 3), key=k),
    "permutation": lambda mx, k: mx.random.permutation(7, key=k),
    "categorical": lambda mx, k: mx.random.categorical(mx.zeros((2, 5)), key=k),
    "categorical, first axis": lambda mx, k: mx.random.categorical(mx.zeros((2, 5)), axis=0, key=k),
    "categories": lambda mx, k: mx.random.categorical(mx.zeros((2, 5)), num_samples=3, key=k),
    "nothing": lambda mx, k: mx.random.normal((0, 3), key=k),
    "two draws": lambda mx, k: mx.random.normal((2,), key=mx.random.split(k)[0]) + mx.random.uniform(key=k),
}


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize(("name", "count"), thinned(2, MANY, [3, 40]))
def test_a_key_for_each(name, count) -> None:
    check(lambda mx: mx.vmap(lambda k: MANY[name](mx, k))(mx.random.split(mx.random.key(7), count)))


BETWEEN = {
    "uniform": lambda mx, k, x: mx.random.uniform(x, x + 2, (2, 3), key=k),
    "normal": lambda mx, k, x: mx.random.normal((2, 3), loc=x, scale=x, key=k),
    "normal of fewer": lambda mx, k, x: mx.random.normal((3,), loc=mx.broadcast_to(x, (2, 3)), key=k),
    "randint": lambda mx, k, x: mx.random.randint(x.astype(mx.int32), 90, (2, 3), key=k),
    "truncated normal": lambda mx, k, x: mx.random.truncated_normal(x / 9, x / 9 + 1, (2, 3), key=k),
    "bernoulli": lambda mx, k, x: mx.random.bernoulli(x / 9, (2, 3), key=k),
    "categorical": lambda mx, k, x: mx.random.categorical(mx.broadcast_to(x, (4, 3)), key=k),
    "categories": lambda mx, k, x: mx.random.categorical(mx.broadcast_to(x, (4, 3)), shape=(2, 4), key=k),
}


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize(
    ("name", "shape", "axes"), thinned(3, BETWEEN, [(), (3,), (2, 1)], [(0, 0), (0, None), (None, 0)])
)
def test_a_key_and_a_setting_for_each(name, shape, axes) -> None:
    def run(mx, x):
        keys = mx.random.split(mx.random.key(7), 20)
        return mx.vmap(lambda k, x: BETWEEN[name](mx, k, x), in_axes=axes)(
            keys if axes[0] == 0 else keys[0], x if axes[1] == 0 else x[0]
        )

    check(run, np.linspace(0, 3, 20 * max(1, int(np.prod(shape))), dtype=np.float32).reshape(20, *shape), tol=1e-5)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("low", [2**31 - 100, 2**31 - 3, -(2**31)])
def test_integers_near_the_ends_of_their_range(low: int) -> None:
    check(lambda mx: mx.random.randint(low, min(low + 99, 2**31 - 1), (50,), key=mx.random.key(1)))


WRONG = {
    "uniform": {}, "normal": {}, "gumbel": {}, "laplace": {}, "truncated_normal": {"lower": -1, "upper": 1},
    "randint": {"low": 0, "high": 5}, "bernoulli": {"p": 0.5},
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_call_with_a_wrong_type_draws_no_key(name: str) -> None:
    for shape in (5, "a", [1.5], [[2]], [None], {}, [-1]):

        def draw(mx, shape=shape):
            mx.random.seed(7)
            with pytest.raises((TypeError, ValueError)):
                getattr(mx.random, name)(shape=shape, **WRONG[name])
            return mx.random.uniform(shape=(2,))

        check(draw)


BOUNDS = (
    ("uniform", "low"), ("uniform", "high"), ("truncated_normal", "upper"), ("randint", "high"), ("bernoulli", "p"),
)  # fmt: skip


@pytest.mark.parametrize("value", [None, "a", 2**70, [1, 2]], ids=str)
@pytest.mark.parametrize(("name", "bound"), BOUNDS)
def test_whether_a_call_with_a_wrong_bound_draws_a_key(name: str, bound: str, value: Any) -> None:
    def draw(mx):
        mx.random.seed(7)
        with pytest.raises((TypeError, ValueError, RuntimeError)) as caught:
            getattr(mx.random, name)(**{**WRONG[name], bound: value})
        return caught.type.__name__, mx.random.uniform(shape=(2,))

    check(draw)


@pytest.mark.parametrize("value", ["a", 1.0, [1], 2**70, 2**31], ids=str)
@pytest.mark.parametrize("argument", ["axis", "num_samples", "num"])
def test_whether_a_call_with_a_wrong_count_draws_a_key(argument: str, value: Any) -> None:
    def drawn(mx):
        mx.random.seed(7)
        draw, operand = (mx.random.split, mx.random.key(0)) if argument == "num" else (mx.random.categorical, mx.eye(2))
        with pytest.raises(TypeError):
            draw(operand, **{argument: value})
        return mx.random.uniform(shape=(2,))

    check(drawn)


@pytest.mark.parametrize("size", [2**31, 2**40, 2**70, -1, -(2**31), -(2**31) - 1])
def test_a_size_to_permute(size: int) -> None:
    check(lambda mx: mx.random.permutation(size))


@pytest.mark.parametrize("axis", ["a", 1.0, None, 2, -3, 1])
def test_an_axis_to_permute(axis: Any) -> None:
    def permute(mx):
        mx.random.seed(7)
        try:
            return mx.random.permutation(mx.arange(6).reshape(2, 3), axis=axis)
        except (TypeError, IndexError) as error:
            return type(error).__name__, mx.random.uniform(shape=(2,))

    check(permute)


def test_threads_without_a_seed_draw_the_same():
    def run(mx):
        drawn = []
        for _ in range(2):
            thread = threading.Thread(target=lambda: drawn.append(mx.random.uniform(shape=(3,)).tolist()))
            thread.start()
            thread.join()
        return drawn[0] == drawn[1]

    assert check(run)
