"""Accepted integers, numbers and flags of arguments.

An integer is anything that Python accepts as an index. A number is anything that converts to float, without text. A
flag is a bool.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np
import pytest

from tests.oracle import check


class Index:
    """An integer that only has `__index__`."""

    def __index__(self) -> int:
        return 1


class Float:
    """A number that only has `__float__`."""

    def __float__(self) -> float:
        return 0.5


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


def check_call(call, argument):
    """Compare a call in which n stands for `argument(mx)`."""

    def run(mx):
        mx.random.seed(3)
        x = mx.array([[3.0, 1.0, 2.0], [5.0, 4.0, 6.0]])
        names = {"mx": mx, "numpy": np, "x": x, "i": mx.array([[0, 1, 0]]), "n": argument(mx)}
        return eval(f"mx.{call}", vars(mx) | names)

    check(run)


@pytest.mark.parametrize("kind", GIVEN)
@pytest.mark.parametrize("call", CALLS)
def test_an_integer_is_what_python_takes_as_an_index(call, kind):
    check_call(call, GIVEN[kind])


@pytest.mark.parametrize("kind", GIVEN)
def test_of_settings_too(kind):
    def limited(mx):
        before = mx.set_cache_limit(100)
        try:
            mx.set_cache_limit(GIVEN[kind](mx))
            return mx.set_cache_limit(100)
        finally:
            mx.set_cache_limit(before)

    def printed(mx):
        with mx.printoptions(precision=GIVEN[kind](mx)):
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


NUMBERS = GIVEN | {
    "float by method": lambda mx: Float(), "text": lambda mx: "2", "bytes": lambda mx: b"2", "huge": lambda mx: 10**400,
    "complex": lambda mx: 1 + 0j, "list": lambda mx: [1.0],
}  # fmt: skip

NUMBER_CALLS = [
    "addmm(ones((2, 3)), x, ones((3, 3)), 1.0, n)", "addmm(x, x, ones((3, 3)), n)", "allclose(x, x, n)",
    "fast.layer_norm(x, None, None, n)", "fast.rms_norm(x, None, n)",
    "fast.rope(x[None, None, :, :2], 2, traditional=False, base=n, scale=1.0, offset=0)",
    "fast.rope(x[None, None, :, :2], 2, traditional=False, base=10.0, scale=n, offset=0)",
    "fast.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], scale=n)",
    "hadamard_transform(x[:, :2], n)", "isclose(x, x, atol=n)", "linalg.norm(x, n)", "linspace(0, n, 3)",
    "linspace(n, 4, 3)", "nan_to_num(x, n)", "nan_to_num(x, posinf=n)", "random.laplace((2,), loc=n)",
    "random.laplace((2,), scale=n)", "random.normal((2,), loc=n)", "random.uniform(n, 3.0, (2,))",
]  # fmt: skip


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("call", NUMBER_CALLS)
def test_a_number_is_what_python_makes_a_float_of(call, kind):
    check_call(call, NUMBERS[kind])


FLAG_CALLS = [
    "asarray(x, copy=n)", "from_dlpack(numpy.ones(2), copy=n)", "gather_mm(x, x.T, array([0]), sorted_indices=n)",
    "gather_qmm(ones((1, 64)), *quantize(ones((1, 8, 64))), None, array([0]), sorted_indices=n)",
    "unique(x, 3, n)", "unique(x, 3, False, n)", "unique(x, 3, return_counts=n)",
    "fast.scaled_dot_product_attention(x[None, None], x[None, None], x[None, None], scale=1.0, force_fused=n)",
    "allclose(x, x, equal_nan=n)", "argmax(x, 0, n)", "array_equal(x, x, equal_nan=n)", "contiguous(x, n)",
    "cumsum(x, 0, inclusive=n)", "cummax(x, 0, reverse=n)",
    "fast.rope(x[None, None, :, :2], 2, traditional=n, base=10.0, scale=1.0, offset=0)", "isclose(x, x, equal_nan=n)",
    "linalg.norm(x, keepdims=n)", "logsumexp(x, 0, n)", "max(x, keepdims=n)", "mean(x, keepdims=n)",
    "median(x, keepdims=n)", "softmax(x, precise=n)", "std(x, keepdims=n)", "sum(x, 0, n)", "var(x, keepdims=n)",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["array", "NumPy's", "bool", "float", "text", "NumPy's bool", "nothing"])
@pytest.mark.parametrize("call", FLAG_CALLS)
def test_a_flag_is_a_bool(call, kind):
    kinds = NUMBERS | {"NumPy's bool": lambda mx: np.bool_(True), "nothing": lambda mx: None}

    check_call(call, kinds[kind])


class Coordinates(NamedTuple):
    row: int
    column: int


class Listed(list):
    pass


class Sequenced:
    """An object with the minimal methods of a sequence."""

    def __init__(self, *items):
        self._items = items

    def __len__(self):
        return len(self._items)

    def __getitem__(self, k):
        return self._items[k]


def _written(mx, index):
    x = mx.zeros((3, 3))
    x[index] = 5
    x[index] += 1
    return x


@pytest.mark.parametrize(
    "call",
    [
        lambda mx: mx.stack(deque([mx.ones(2), mx.zeros(2)], maxlen=4), axis=-1),
        lambda mx: mx.concatenate(Sequenced(mx.ones(2), mx.zeros(1))),
        lambda mx: mx.compile(lambda x: mx.concatenate(deque([x, x])))(mx.ones(2)),
        lambda mx: mx.stack(mx.ones((2, 2)), axis=1),
        lambda mx: mx.stack(mx.array(1.0)),
        lambda mx: mx.stack(np.ones((2, 2))),
        lambda mx: mx.stack({0: mx.ones(2)}),
        lambda mx: mx.concatenate("ab"),
        lambda mx: mx.concatenate(x for x in [mx.ones(2)]),
        lambda mx: mx.arange(6).reshape(2, 3)[Coordinates(1, 2)],
        lambda mx: mx.arange(6).reshape(2, 3)[Listed([1, 0])],
        lambda mx: mx.arange(6).reshape(2, 3)[:, Listed([1, 0])],
        lambda mx: mx.arange(6).reshape(2, 3)[Listed([1, 0]), 0],
        lambda mx: mx.arange(6).reshape(2, 3).at[Coordinates(0, 1)].add(4),
        lambda mx: mx.vmap(lambda x: x[Coordinates(0, 1)])(mx.arange(12).reshape(2, 2, 3)),
        lambda mx: _written(mx, Coordinates(0, 1)),
        lambda mx: _written(mx, Listed([1, 0])),
        lambda mx: _written(mx, Listed([True, False, True])),
        *[
            lambda mx, sizes=sizes, name=name: mx.conv2d(mx.ones((1, 9, 9, 1)), mx.ones((1, 2, 2, 1)), **{name: sizes})
            for name in ("stride", "padding", "dilation")
            for sizes in (np.array([1, 2]), range(1, 3), Sequenced(1, 2), np.array([1.0, 2.0]), {1, 2}, "ab")
        ],
        lambda mx: mx.conv2d(mx.ones((1, 9, 9, 1)), mx.ones((1, 2, 2, 1)), mx.array([1, 2])),
        lambda mx: mx.conv2d(mx.ones((1, 9, 9, 1)), mx.ones((1, 2, 2, 1)), np.array([1, 2, 3])),
        lambda mx: mx.conv_transpose2d(mx.ones((1, 4, 4, 1)), mx.ones((1, 2, 2, 1)), deque([2, 1])),
        lambda mx: mx.conv_general(mx.ones((1, 9, 9, 1)), mx.ones((1, 2, 2, 1)), padding=np.array([[1, 1], [0, 2]])),
        lambda mx: mx.conv_general(mx.ones((1, 9, 9, 1)), mx.ones((1, 2, 2, 1)), padding=([1, 1], np.array([0, 2]))),
        lambda mx: mx.conv_general(mx.ones((1, 9, 9, 1)), mx.ones((1, 2, 2, 1)), kernel_dilation=range(1, 3)),
        lambda mx: mx.depends(mx.ones(2), None),
        lambda mx: mx.array(1) == np.str_("a"),
        lambda mx: mx.array(1) in list(np.array(["a", "b"])),
        lambda mx: mx.array(97) == np.bytes_(b"a"),
        lambda mx: mx.array(1) + np.str_("1"),
        lambda mx: mx.exp(np.str_("1")),
    ],
)
def test_sequences_of_other_types(call):
    check(call)
