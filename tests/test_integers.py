"""What counts as an integer where an axis, a size or a count is asked for: whatever Python takes as an index."""

from __future__ import annotations

import numpy as np
import pytest

from tests.oracle import check


class Index:
    """An integer by `__index__` alone."""

    def __index__(self) -> int:
        return 1


GIVEN = {
    "array": lambda mx: mx.array(1),
    "NumPy's": lambda mx: np.int64(1),
    "NumPy's 0-d": lambda mx: np.array(1),
    "bool": lambda mx: True,
    "index": lambda mx: Index(),
    "float": lambda mx: 1.0,
    "float array": lambda mx: mx.array(1.0),
    "NumPy's float": lambda mx: np.float32(1),
}

CALLS = [
    "argmax(x, n)", "argpartition(x, 1, n)", "argsort(x, n)", "argsort(x, axis=n)", "as_strided(x, (2,), (n,), n)",
    "broadcast_to(x[:1, :1], (n, n))", "concatenate([x, x], n)", "conv1d(x[None], ones((1, 1, 3)), 1, n)",
    "cumprod(x, axis=n)", "cumsum(x, n)", "diag(x, n)", "diagonal(x, n)", "expand_dims(x, n)", "eye(2, n)",
    "eye(2, 2, n)", "fft.fft(x, axis=n)", "fft.fftn(x, axes=[n])", "flatten(x, n)", "full((n,), 1.0)",
    "identity(n)", "linalg.cross(x, x, n)", "linalg.norm(x, axis=n)", "linspace(0, 1, n)", "linspace(0, 1, num=n)",
    "logcumsumexp(x, n)", "logsumexp(x, n)", "max(x, axis=n)", "moveaxis(x, n, 0)", "pad(x, (n, n))",
    "partition(x, n)", "partition(x, 1, n)", "put_along_axis(x, i, array(1.0), n)", "random.categorical(x, axis=n)",
    "random.key(n)", "random.permutation(x, n)", "random.split(random.key(0), n)",
    "repeat(x, n)", "repeat(x, 2, n)", "reshape(x, (n, -1))", "roll(x, 1, n)", "roll(x, n)", "round(x, n)",
    "slice(x, array([0]), [n], [2, 1])", "slice(x, array([0]), [0], [n, 2])",
    "slice_update(x, ones((1, 1)), array([0, 0]), [n, 0])", "softmax(x, n)", "sort(x, n)", "split(x, n)",
    "split(x, 1, n)", "squeeze(x[:, :1], n)", "stack([x, x], n)", "std(x, n)", "sum(x, n)", "swapaxes(x, n, 0)",
    "take(x, array([0]), n)", "take(x, n, 1)", "take(x, n)", "take_along_axis(x, i, n)", "tensordot(x, x[:, :2], n)",
    "tensordot(x, x, [[n], [n]])", "tile(x, n)", "topk(x, 1, n)", "trace(x, n)", "transpose(x, [n, 0])",
    "tri(2, 2, n)", "tril(x, n)", "triu(x, n)", "unflatten(x, n, (1, 3))", "var(x, ddof=n)", "var(x, n)",
    "zeros((n, 2))",
]  # fmt: skip


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("call", CALLS)
def test_an_integer_is_what_python_takes_as_an_index(call, given):
    def run(mx):
        mx.random.seed(3)
        x = mx.array([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])
        return eval(f"mx.{call}", vars(mx) | {"mx": mx, "x": x, "i": mx.array([[0, 1, 0]]), "n": GIVEN[given](mx)})

    check(run)


@pytest.mark.parametrize("given", GIVEN)
def test_of_settings_too(given):
    def limited(mx):
        before = mx.set_cache_limit(100)
        try:
            mx.set_cache_limit(GIVEN[given](mx))
            return mx.set_cache_limit(100)
        finally:
            mx.set_cache_limit(before)

    def printed(mx):
        with mx.printoptions(precision=GIVEN[given](mx)):
            return str(mx.array(3.14159))

    check(limited)
    check(printed)


@pytest.mark.parametrize("call", ["mx.take(x, n, 1)", "mx.sort(x, n)", "mx.take_along_axis(x, i, n)"])
@pytest.mark.parametrize("n", [2**31, -(2**40), 2])
def test_one_that_is_no_axis(call, n):
    def run(mx):
        names = {"mx": mx, "x": mx.ones((2, 3)), "i": mx.array([[0, 1, 0]]), "n": np.int64(n)}
        return eval(call, names)

    check(run)
