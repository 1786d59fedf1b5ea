"""The text of arrays, compared with real MLX's character by character."""

from __future__ import annotations

import array
import reprlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mxcompat._graph.ir import aval as avals
from tests.oracle import check, ours, real

DTYPES = ["bool_", *(d._label for d in avals.DTYPES[1:])]
VALUES = [1, 2.5, 1e-8, 0, -3]
FLOATS = [
    1e5, 1e6, 1e7, 123456, 1234567, 0.0001, 0.00001, 0.1, 1 / 3, 1e16, 3.14159265, 999999, 9999995, 0.99999999, 1e-45,
    3e38, float("inf"), -float("inf"), -0.0,
]  # fmt: skip


def same_text(fn) -> None:
    want, got = fn(real), fn(ours)
    assert got == want, f"mxcompat:\n{got}\nreal MLX:\n{want}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(dtype: str) -> None:
    for value in (VALUES, 1, [[0, 1], [2, 3]], []):
        same_text(lambda mx: repr(mx.array(value, getattr(mx, dtype))))  # noqa: B023
        same_text(lambda mx: str(mx.array(value, getattr(mx, dtype))))  # noqa: B023


def test_floats() -> None:
    for x in FLOATS:
        same_text(lambda mx: repr(mx.array([x, -x])))  # noqa: B023
        same_text(lambda mx: repr(mx.array(x, mx.float64)))  # noqa: B023


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_not_a_number_has_a_sign(sign: float) -> None:
    same_text(lambda mx: repr(mx.array(np.copysign(np.float32("nan"), np.float32(sign)))))


_NOT_NUMBERS = """
inf - inf; 0 * inf; inf / inf; mx.sqrt(-one); mx.log(-one); mx.arcsin(2 * one); mx.arcsin(-2 * one); mx.arccos(2 * one)
mx.arccos(-inf); mx.arcsin(nan); mx.arccos(nan); mx.arcsin(-nan); mx.arccos(-nan); mx.arccosh(0 * one)
mx.arctanh(2 * one); mx.erfinv(2 * one); mx.erfinv(-inf); mx.erfinv(nan); mx.erfinv(-nan)
mx.logaddexp(nan, nan); mx.logaddexp(nan, one); mx.logaddexp(one, -nan)
mx.log2(-one); mx.log(-(one + one)); mx.log2(-(one + one))
mx.power(-one, 0.5); mx.sin(inf); mx.tan(inf); one % 0.0; mx.mean(mx.zeros((0,)))
"""
NOT_NUMBERS = [text.strip() for text in _NOT_NUMBERS.replace("\n", ";").split(";") if text.strip()]


@pytest.mark.parametrize("expression", NOT_NUMBERS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64"])
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_what_is_no_number_has_the_sign_of_mlx(shape: tuple[int, ...], dtype: str, expression: str) -> None:
    def text(mx):
        one, inf, nan = (mx.full(shape, x, getattr(mx, dtype)) for x in (1.0, np.inf, np.nan))
        return str(eval(expression, {"mx": mx, "one": one, "inf": inf, "nan": nan}))

    same_text(text)


@pytest.mark.parametrize("z", [1 + 2j, -1 - 2j, 1e-10 + 1e10j, complex(-0.0, -0.0), complex(0, -1), complex(1, np.inf),
                               complex(1, -np.inf), complex(np.nan, 1), complex(1, np.nan)])  # fmt: skip
def test_complex(z: complex) -> None:
    same_text(lambda mx: repr(mx.array([z])))


SHAPES = [
    (0,), (1,), (6,), (7,), (100,), (0, 0), (1, 0), (0, 1), (2, 0), (8, 0), (2, 0, 3), (0, 2, 3), (2, 3, 0), (8, 2, 0),
    (6, 6), (8, 5), (7, 10), (2, 2, 2), (10, 10, 10), (2, 2, 2, 2), (7, 1, 7, 1), (1, 1, 1),
]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_shapes(shape: tuple[int, ...]) -> None:
    data = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
    same_text(lambda mx: repr(mx.array(data)))


@pytest.mark.parametrize("precision", [-5, -1, 0, 1, 3, 10, 20])
def test_precision(precision: int) -> None:
    def texts(mx) -> list[str]:
        mx.set_printoptions(precision=precision)
        try:
            return [repr(mx.get_printoptions().precision)] + [
                repr(mx.array([1 / 3, 2.5, 100, 1e-8, 12345678.9, float("inf"), -0.0][:n], getattr(mx, d)))
                for d in ("float16", "bfloat16", "float32", "float64", "complex64", "int32")
                for n in (5 if d == "int32" else 7,)
                if d != "int32" or n == 5
            ]
        finally:
            mx.set_printoptions()

    same_text(texts)


def test_options() -> None:
    def story(mx) -> list:
        x = mx.array([1 / 3])
        seen = [mx.PrintOptions().precision, mx.PrintOptions(3).precision, mx.PrintOptions(precision=4).precision]
        mx.set_printoptions(2)
        with mx.printoptions(precision=4):
            seen.append(repr(x))
            with mx.printoptions():
                seen.append(repr(x))
        seen.append(repr(x))
        options = mx.get_printoptions()
        options.precision = 1
        seen += [repr(x), options.precision, mx.get_printoptions().precision]
        try:
            with mx.printoptions(1):
                raise KeyError
        except KeyError:
            seen.append(repr(x))
        mx.set_printoptions()
        return [*seen, repr(x), repr(mx.finfo(mx.float32))]

    same_text(story)


@pytest.mark.parametrize("bad", [1.5, "a", None])
def test_precision_must_be_an_integer(bad: object) -> None:
    check(lambda mx: mx.set_printoptions(precision=bad))
    check(lambda mx: mx.PrintOptions(bad))


@pytest.mark.parametrize(
    "fn",
    [
        lambda mx: f"{mx.array(1.5)}",
        lambda mx: f"{mx.array(1 / 3)}",
        lambda mx: f"{mx.array(1.5):.3f}",
        lambda mx: f"{mx.array(True)}",
        lambda mx: f"{mx.array(2j)}",
        lambda mx: f"{mx.array(7, mx.int8):04d}",
        lambda mx: f"{mx.array([1.5])}",
        lambda mx: f"{mx.array([[1.5]]):.2f}",
        lambda mx: "%d %f %s" % (mx.array(1), mx.array(2), mx.array(3)),  # noqa: UP031
    ],
)
def test_format(fn) -> None:
    check(fn)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(hnp.arrays(st.sampled_from([np.float32, np.float16, np.int64, np.complex64, np.bool_]),
                  hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=9)))  # fmt: skip
def test_any_array(data: np.ndarray) -> None:
    if data.ndim:
        same_text(lambda mx: repr(mx.array(data)))


def test_printing_evaluates() -> None:
    x = ours.array([1.0, 2.0]) + 1
    assert repr(x) == "array([2, 3], dtype=float32)"
    assert x._node.value is not None


@pytest.mark.parametrize("show", [repr, str, lambda x: x.item(), lambda x: x.tolist(), bool, int, float, np.array])
def test_arguments_of_vmap_and_compile_have_no_value(show) -> None:
    check(lambda mx: mx.vmap(lambda x: show(x) and x)(mx.array([1.0, 2.0])))
    check(lambda mx: mx.compile(lambda x: show(x) and x)(mx.array([1.0])), message=False)


def test_reprlib():
    def texts(mx):
        arrays = (mx.zeros(100), mx.zeros((20, 20)), mx.array(3.0), {"a": mx.zeros(30)}, [mx.array([1, 2])])
        return [reprlib.repr(x) for x in (*arrays, array.array("d", [1, 2]))]

    same_text(texts)
