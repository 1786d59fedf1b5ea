"""Host rules of matrix products and their kin."""

import numpy as np
import pytest

from .harness import check, data

FLOATS = ("float32", "float64", "complex64", "float16", "bfloat16")

SHAPES = [
    ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)), ((2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((1, 2, 3), (5, 3, 4)),
]  # fmt: skip


def matmul(mx, x, y):
    return mx.matmul(x, y)


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(shapes):
    for dtype in FLOATS if shapes in (SHAPES[3], SHAPES[8]) else FLOATS[:1]:
        check(matmul, data(shapes[0], dtype), data(shapes[1], dtype, 1), batch=False)


def test_matmul_of_other_dtypes():
    for left, right in [("int32", "float16"), ("bool", "bfloat16"), ("float16", "bfloat16"), ("float32", "complex64")]:
        check(matmul, data((2, 3), left), data((3, 4), right, 1), batch=False)


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 2, 0), (0, 3)), ((0, 2, 3), (3, 2))])
def test_matmul_of_nothing(shapes):
    check(matmul, data(shapes[0], "float32"), data(shapes[1], "float32"), batch=False)


def test_matmul_of_transposed_and_cut_matrices():
    x, y = data((6, 8), "float32")[::2, ::2], data((5, 4), "float32", 1).T
    check(matmul, x, y, batch=False)
    check(matmul, data((2, 3, 4, 5), "float32").swapaxes(1, 2), data((5, 6), "float32", 1), batch=False)


@pytest.mark.parametrize("dtype", FLOATS)
def test_addmm(dtype):
    operands = data((4,), dtype), data((2, 3), dtype, 1), data((3, 4), dtype, 2)
    check(lambda mx, c, x, y: mx.addmm(c, x, y), *operands, batch=False)
    check(lambda mx, c, x, y: mx.addmm(c, x, y, alpha=0.5, beta=2.0), *operands, batch=False)


def test_addmm_without_the_sum():
    c = np.full((2, 4), np.nan, np.float32)
    x, y = data((2, 3), "float32", 1), data((3, 4), "float32", 2)
    check(lambda mx, c, x, y: mx.addmm(c, x, y, beta=0.0), c, x, y, grad=False, jvp=False, batch=False)
