"""Host rules of matrix products and related ops."""

import numpy as np
import pytest

from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE

from .harness import DTYPES, check, data

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
        check(matmul, data(shapes[0], dtype), data(shapes[1], dtype, 1), batch=dtype == "float32")


def test_matmul_of_other_dtypes():
    for left, right in [("int32", "float16"), ("bool", "bfloat16"), ("float16", "bfloat16"), ("float32", "complex64")]:
        check(matmul, data((2, 3), left), data((3, 4), right, 1))


@pytest.mark.parametrize("shapes", [((0, 3), (3, 2)), ((2, 0), (0, 3)), ((2, 2, 0), (0, 3)), ((0, 2, 3), (3, 2))])
def test_matmul_of_nothing(shapes):
    check(matmul, data(shapes[0], "float32"), data(shapes[1], "float32"))


def test_matmul_of_transposed_and_cut_matrices():
    x, y = data((6, 8), "float32")[::2, ::2], data((5, 4), "float32", 1).T
    check(matmul, x, y)
    check(matmul, data((2, 3, 4, 5), "float32").swapaxes(1, 2), data((5, 6), "float32", 1))


@pytest.mark.parametrize("dtype", FLOATS)
def test_addmm(dtype):
    operands = data((4,), dtype), data((2, 3), dtype, 1), data((3, 4), dtype, 2)
    full = dtype == "float32"
    check(lambda mx, c, x, y: mx.addmm(c, x, y), *operands, jvp=full, batch=full)
    check(lambda mx, c, x, y: mx.addmm(c, x, y, alpha=0.5, beta=2.0), *operands, batch=False)


def test_addmm_of_vectors():
    for left, right, c in [((3,), (3, 4), (4,)), ((2, 3), (3,), ()), ((2, 3), (3,), (2,)), ((3,), (2, 3, 4), (2, 1))]:
        operands = data(c, "float32"), data(left, "float32", 1), data(right, "float32", 2)
        check(lambda mx, c, x, y: mx.addmm(c, x, y, alpha=0.5), *operands, jvp=False)


def test_addmm_without_the_sum():
    c = np.full((2, 4), np.nan, np.float32)
    x, y = data((2, 3), "float32", 1), data((3, 4), "float32", 2)
    check(lambda mx, c, x, y: mx.addmm(c, x, y, beta=0.0), c, x, y, grad=False, jvp=False)


TENSORDOTS = [
    ((2, 3), (3, 4), 1), ((2, 3), (2, 3), 2), ((2, 3), (4,), 0), ((2, 3, 4), (4, 3, 5), [[1, 2], [1, 0]]),
    ((2, 3, 4), (3, 5, 4, 2), [[2, 0, 1], [2, 3, 0]]), ((2, 3), (3, 4), [[-1], [0]]),
]  # fmt: skip


@pytest.mark.parametrize("case", TENSORDOTS, ids=str)
def test_tensordot(case):
    left, right, axes = case
    for dtype in FLOATS if case is TENSORDOTS[4] else FLOATS[:1]:
        x, y = data(left, dtype), data(right, dtype, 1)
        check(lambda mx, x, y: mx.tensordot(x, y, axes), x, y, jvp=dtype == "float32", batch=dtype == "float32")


def vector_products(mx, x, y):
    return [mx.inner(x, y), mx.outer(x, y), mx.kron(x, y), mx.vecdot(x, y)]


@pytest.mark.parametrize("dtype", FLOATS)
def test_products_of_vectors(dtype):
    check(vector_products, data((2, 3), dtype), data((2, 3), dtype, 1), batch=dtype == "float32")
    check(lambda mx, x, y: [mx.inner(x, y), mx.kron(x, y)], data((), dtype), data((2, 3), dtype, 1), batch=False)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_of_vectors_of_any_dtype(dtype):
    x, y = data((2, 3), dtype), data((2, 3), "int16", 1)

    def calls(mx, x, y):
        return [mx.outer(x, y), mx.kron(x, y), mx.vecdot(x, y, axis=0), mx.outer(x, x), mx.vecdot(x, x)]

    check(calls, x, y, grad=False, jvp=False, batch=dtype == "int8")


def test_vecdot_of_broadcast_vectors():
    check(lambda mx, x, y: mx.vecdot(x, y, axis=1), data((2, 3, 4), "float32"), data((2, 3, 1), "float32"))
    check(lambda mx, x, y: mx.vecdot(x, y, axis=0), data((2, 3), "complex64"), data((2, 1), "float32"))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)), ("bij,bjk->bik", (5, 2, 3), (5, 3, 4)), ("ij->ji", (2, 3)), ("ii->i", (3, 3)),
    ("iij,jk->ik", (3, 3, 2), (2, 4)), ("ij->", (2, 3)), ("ij,j->i", (2, 3), (1,)), ("...ij,jk", (2, 4, 3), (3, 2)),
    ("ij,kj,kl->il", (2, 3), (4, 3), (4, 5)), ("i,j->ji", (2,), (3,)), ("i,i", (3,), (3,)),
    ("bi,bi->b", (2, 3), (2, 3)),
    ("abc,cd,bd,a->d", (2, 3, 4), (4, 5), (3, 5), (2,)), ("ijk,j->ki", (2, 3, 4), (3,)), ("ij,ik->jk", (0, 3), (0, 2)),
    ("bqhd,bkhd->bhqk", (2, 3, 2, 4), (2, 5, 2, 4)), ("i,j,k->ijk", (2,), (3,), (4,)),
]  # fmt: skip


@pytest.mark.parametrize("case", EINSUMS, ids=str)
def test_einsum(case):
    subscripts, *shapes = case
    for dtype in FLOATS if case is EINSUMS[4] else FLOATS[:1]:
        operands = [data(shape, dtype, k) for k, shape in enumerate(shapes)]
        check(lambda mx, *xs: mx.einsum(subscripts, *xs), *operands, batch=dtype == "float32")


@pytest.mark.parametrize("dtype", ["int8", "bool", "uint32"])
def test_einsum_of_integers(dtype):
    x, y = data((3, 3), dtype), data((3,), "int16")
    calls = ("ii->i", 1), ("ij->i", 1), ("ij,k->jik", 2)
    check(lambda mx, *xs: [mx.einsum(text, *xs[:n]) for text, n in calls], x, y, batch=False)
    check(lambda mx, x, y: mx.einsum("ij,j->i", x, y), x, data((3,), "float16"), batch=False)


@pytest.mark.parametrize("dtype", FLOATS[:2] + FLOATS[3:])
def test_gather_mm(dtype):
    x, y = data((2, 3, 4, 5), dtype), data((3, 5, 6), dtype, 1)
    rhs, lhs = np.array([[2, 0], [1, 1], [7, 0]], np.uint32), np.array([[5], [0], [3]], np.int64)
    check(lambda mx, x, y, r: mx.gather_mm(x, y, rhs_indices=r), x, y, rhs[:, 0], batch=False)
    check(lambda mx, x, y, *i: mx.gather_mm(x, y, *i), x, y, lhs, rhs, batch=False)
    check(lambda mx, x, y, i: mx.gather_mm(x, y, i), x, y, lhs, batch=False)


def test_gather_mm_of_vectors_and_of_large_matrices():
    x, y = data((5,), "float32"), data((3, 5), "float32", 1)
    rhs = np.array([2, 0, 2])
    check(lambda mx, x, y, r: mx.gather_mm(x, y, rhs_indices=r), x, data((3, 5, 2), "float32"), rhs, batch=False)
    check(lambda mx, x, y, i: mx.gather_mm(y, x, i), x, y, np.zeros(2, int), batch=False)
    x, y = data((7, 1, 64), "float32"), data((3, 64, 96), "float32", 1)
    rhs = np.array([2, 0, 2, 0, 0, 2, 2])
    check(lambda mx, x, y, r: mx.gather_mm(x, y, rhs_indices=r), x, y, rhs, batch=False)


@pytest.mark.parametrize("kind", ["bool", "float32"])
def test_block_masked_mm(kind):
    x, y = data((2, 5, 4), "float32"), data((4, 7), "float32", 1)
    out, left, right = data((3, 4), kind), data((2, 3, 2), kind, 1), data((2, 1), kind, 2)
    if kind == "bool":
        check(lambda mx, x, y, *m: mx.block_masked_mm(x, y, 2, *m), x, y, out, left, right, jvp=False, batch=False)
    check(
        lambda mx, x, y: mx.block_masked_mm(x, y, 2, mx.array(out), mx.array(left), mx.array(right)), x, y, jvp=False,
        batch=False,
    )  # fmt: skip
    check(lambda mx, x, y: mx.block_masked_mm(x, y, 2, None, mx.array(left[0])), x[0], y[:, 0], jvp=False, batch=False)
    check(lambda mx, x, y: mx.block_masked_mm(x, y, 2), x, y, jvp=False)


def test_segmented_mm():
    for dtype in ("float32", "bfloat16"):
        segments = np.array([[[0, 2]], [[2, 6]], [[4, 3]]], np.uint32)
        x, y = data((2, 6), dtype), data((6, 3), dtype, 1)
        check(lambda mx, x, y, s: mx.segmented_mm(x, y, s), x, y, segments, batch=False)


OPS = (
    "matmul", "addmm", "tensordot", "inner", "outer", "kron", "vecdot", "einsum", "gather_mm", "block_masked_mm",
    "segmented_mm",
)  # fmt: skip


def test_every_product_has_rules():
    for rules in (HOST, PULLBACK, BATCH, PUSHFORWARD):
        missing = {name for name in OPS if TABLE[name] not in rules}
        assert missing == set()
