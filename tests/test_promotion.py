"""Result dtypes: arrays with arrays, with Python numbers, and with NumPy's values."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from mxcompat._array.promotion import promote, scalar_dtype
from mxcompat._graph.ir import aval as avals
from tests.oracle import check, ours, real

NAMES = ["bool_", *(d._label for d in avals.DTYPES[1:])]


def test_arrays_promote_as_in_mlx() -> None:
    wrong = []
    for a, b in itertools.product(NAMES, NAMES):
        want = real.add(real.zeros((), getattr(real, a)), real.zeros((), getattr(real, b))).dtype
        got = promote(getattr(ours, a), getattr(ours, b))
        if str(got) != str(want):
            wrong.append((a, b, got, want))
    assert not wrong


@pytest.mark.parametrize("number", [True, 1, 1.5, 1j], ids=lambda n: type(n).__name__)
def test_numbers_are_weak(number: complex) -> None:
    wrong = []
    for name in NAMES:
        want = (real.zeros((), getattr(real, name)) + number).dtype
        got = scalar_dtype(type(number), getattr(ours, name))
        got_sum = (ours.array(0, getattr(ours, name)) + number).dtype
        if str(promote(got, getattr(ours, name))) != str(want) or str(got_sum) != str(want):
            wrong.append((name, got, got_sum, want))
    assert not wrong


@pytest.mark.parametrize("pair", [(1, 2), (1, 2.5), (True, True), (True, 1), (1.5, 1), (1, 1j), (2**31, 1), (1, 2**31)])
def test_two_numbers(pair: tuple) -> None:
    check(lambda mx: mx.add(*pair))


NUMPY = [
    np.int64(300), np.uint8(200), np.float16(1.5), np.float32(1.5), np.float64(1.5), np.bool_(True),
    np.complex64(1 + 2j), np.complex128(2j), np.array(2.5), np.array([1.5, 300.0]), np.array([1, 300]),
    np.array([1.5, 2.0], np.float32),
    np.array([1j, 2.0], np.complex64), memoryview(b"ab"), b"ab",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool_", "int8", "float16", "float32"])
def test_numpy_operands_take_the_arrays_dtype(dtype: str) -> None:
    for value in NUMPY:
        check(lambda mx: mx.array([1, 0], getattr(mx, dtype)) + value)  # noqa: B023


def test_float64_of_numpy_is_a_weak_number() -> None:
    check(lambda mx: mx.array([1, 2], mx.int8) + np.float64(1.5))


def test_bfloat16_of_numpy_takes_the_arrays_dtype() -> None:
    """Assert that a bfloat16 number of NumPy takes the array's dtype. Real MLX takes it for complex."""
    x = ours.array([1.0, 2.0], ours.float16)
    assert (x + ml_dtypes.bfloat16(1.5)).dtype is ours.float16
    assert (x + np.ones(2, ml_dtypes.bfloat16)).tolist() == [2.0, 3.0]


@pytest.mark.parametrize(
    "pair",
    [
        (np.ones(2), 1), (np.ones(2), np.ones(2, np.float16)), (np.ones(2), np.ones(2, np.int64)),
        (1.5, np.ones(2, np.int64)),
        (np.float64(1), np.int64(1)), (1, np.ones(2, np.int8)), (True, np.ones(2, np.int64)),
    ],
)  # fmt: skip
def test_two_operands_that_are_no_arrays(pair: tuple) -> None:
    check(lambda mx: mx.add(*pair))


@pytest.mark.parametrize("number", [300, -1, -129, 2**31, 2**40])
def test_numbers_out_of_range(number: int) -> None:
    for name in ("uint8", "int8", "uint32", "int32"):
        check(lambda mx: mx.array([1, 2], getattr(mx, name)) + number)  # noqa: B023


@pytest.mark.parametrize("dtype", ["int64", "float32", "bool_"])
def test_numbers_beyond_64_bits(dtype: str) -> None:
    check(lambda mx: mx.array([1, 0], getattr(mx, dtype)) + 2**64)
    check(lambda mx: mx.array([1, 0], getattr(mx, dtype)) == -(2**63) - 1)


@pytest.mark.parametrize("number", [2**31, 2**32 + 5, -(2**40) - 3, 2**62, -(2**63), 2**63])
def test_a_number_too_large_beside_bools_wraps(number: int) -> None:
    x = np.array([True, False])
    check(lambda mx, x: [x + number, number - x, x == number, mx.maximum(x, number), mx.where(x, number, x)], x)
    check(lambda mx, x: [mx.clip(x, 0, number), mx.full((2,), number, mx.bool_), mx.full_like(x, number)], x)


def test_both_bounds_of_clip_are_beside_the_array() -> None:
    check(lambda mx: mx.clip(mx.array([1], mx.int8), mx.array(0), 2**10))
    check(lambda mx: mx.clip(mx.array([1], mx.int8), 0.5, 2**40))


def test_large_integers_are_exact() -> None:
    check(lambda mx: mx.array([1, 2], mx.int64) + (2**62 + 1))
    check(lambda mx: mx.array([1, 2], mx.uint64) + (2**63 - 1))
    check(lambda mx: mx.array([1, 2], mx.float32) + (2**63 - 1))


def test_negative_zero_is_not_zero() -> None:
    x = ours.array([0.0])
    assert str((x * 0.0).item()) == "0.0"
    assert str((x * -0.0).item()) == "-0.0"
    assert str((x * 0.0).item()) == "0.0"


class Holder:
    """An object with an array inside."""

    def __init__(self, mx) -> None:
        self.mx = mx

    def __mlx_array__(self):
        return self.mx.array([1.5, 2.0])


class Liar:
    def __mlx_array__(self):
        return 3


class Number:
    def __complex__(self) -> complex:
        return 2.0 + 1.0j


@pytest.mark.parametrize(
    "fn",
    [
        lambda mx: mx.array([1, 2], mx.int8) + Holder(mx),
        lambda mx: Holder(mx) + mx.array([1, 2], mx.int8),
        lambda mx: mx.exp(Holder(mx)),
        lambda mx: mx.array(Holder(mx)),
        lambda mx: mx.array(Holder(mx), mx.int32),
        lambda mx: mx.asarray(Holder(mx)),
        lambda mx: mx.array(Liar()),
        lambda mx: mx.array([1, 2]) + Liar(),
        lambda mx: mx.array([1, 2]) == Liar(),
        lambda mx: mx.array([1, 2]) + Number(),
        lambda mx: mx.array(Number()),
    ],
)
def test_objects(fn) -> None:
    check(fn)


@pytest.mark.parametrize("value", ["a", [1, 2], (1, 2), {}, object(), range(2), None, real.int32])
def test_what_is_no_operand(value: object) -> None:
    message = False if value is real.int32 else None
    check(lambda mx: mx.add(value, 1), message=message)
    check(lambda mx: mx.exp(value), message=message)
