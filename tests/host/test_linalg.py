"""Host rules of linear algebra."""

from functools import partial

import numpy as np
import pytest

from mxcompat._graph.ir.rules import BATCH, COST, HOST, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE

from .harness import DTYPES, check, data

LOOSE = 2e-5
"""Tolerance of float32: NumPy computes in double, XLA in single precision with many roundings."""


def positive(shape, dtype="float32"):
    x = data(shape, dtype)
    return np.matmul(x, x.swapaxes(-1, -2)) + np.eye(shape[-1], dtype=dtype)


def steady(shape, dtype="float32"):
    """Return matrices that are far from singular."""
    return data(shape, dtype, low=-1, high=1) + 4 * np.eye(shape[-1], dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_inverses(dtype):
    full = dtype == "float32"
    a = steady((2, 3, 3), dtype)
    calls = [
        lambda mx, a: mx.linalg.inv(a), lambda mx, a: mx.linalg.tri_inv(a), lambda mx, a: mx.linalg.tri_inv(a, True),
        lambda mx, a: mx.linalg.cholesky_inv(a), lambda mx, a: mx.linalg.cholesky_inv(a, True),
    ]  # fmt: skip
    check(lambda mx, a: [call(mx, a) for call in calls], a, tolerance=LOOSE if full else None, batch=full)
    check(lambda mx, a: mx.linalg.pinv(a), data((2, 3, 4), dtype), tolerance=LOOSE, grad=False, jvp=False, batch=full)


SYSTEMS = [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3,)), ((2, 3, 3), (3, 2)), ((3, 3), (2, 3, 1))]


@pytest.mark.parametrize("shapes", SYSTEMS, ids=str)
def test_systems(shapes):
    a, b = steady(shapes[0]), data(shapes[1], "float32", 1)
    check(lambda mx, a, b: mx.linalg.solve(a, b), a, b, tolerance=LOOSE)
    check(lambda mx, a, b: mx.linalg.solve_triangular(a, b, upper=True), a, b, batch=False, tolerance=LOOSE)
    if shapes is SYSTEMS[3]:
        a, b, half = steady(shapes[0]), data(shapes[1], "float64", 1), data(shapes[1], "float16", 1)
        check(lambda mx, a, b: mx.linalg.solve_triangular(a, b), a, b, jvp=False, batch=False, tolerance=LOOSE)
        check(lambda mx, a, b: mx.linalg.solve(a, b), a, half, jvp=False, batch=False, tolerance=4e-3)


@pytest.mark.parametrize("upper", [False, True])
def test_cholesky(upper):
    for dtype in ("float32", "float64"):
        check(lambda mx, a: mx.linalg.cholesky(a, upper=upper), positive((2, 3, 3), dtype), tolerance=LOOSE)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_decompositions(dtype):
    tolerance = 1e-10 if dtype == "float64" else LOOSE
    a = data((2, 4, 3), dtype)
    calls = [lambda mx, a: mx.linalg.svd(a), lambda mx, a: mx.linalg.svd(a, compute_uv=False)]
    if dtype != "complex64":
        calls.append(lambda mx, a: mx.linalg.qr(a))
        check(calls[2], a.swapaxes(-1, -2), grad=False, jvp=False, batch=False, tolerance=tolerance)
    for call in calls:
        check(call, a, grad=False, jvp=False, batch=dtype == "float32", tolerance=tolerance)
    for size in (12, 40):  # the signs agree with XLA's, too
        check(calls[0], data((size, size), dtype), grad=False, jvp=False, batch=False, tolerance=30 * tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(1, 1), (5, 5), (2, 3, 6, 4), (3, 4, 6), (40, 40)], ids=str)
def test_lu_factors(shape, dtype):
    a = data(shape, dtype)
    a[..., 1 % shape[-2], :] = 2 * a[..., 0, :]  # makes square matrices singular, with a zero pivot
    tolerance = 1e-10 if dtype == "float64" else 4 * LOOSE
    for call in (lambda mx, a: mx.linalg.lu(a), lambda mx, a: mx.linalg.lu_factor(a)):
        check(call, a, grad=False, jvp=False, batch=shape == (5, 5), tolerance=tolerance)


def eigh(mx, a, UPLO):
    return mx.linalg.eigh(a, UPLO)


def eigvalsh(mx, a, UPLO):
    return mx.linalg.eigvalsh(a, UPLO)


def sorted_eigenvalues(mx, a):
    return mx.sort(mx.linalg.eigvals(a), axis=-1)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_eigenvalues(dtype):
    tolerance = 1e-10 if dtype == "float64" else 2 * LOOSE
    a = data((2, 4, 4), dtype)
    both = a + a.swapaxes(-1, -2).conj()
    for UPLO in "LU":
        plain, batch = dtype != "complex64", dtype == "float32" and UPLO == "L"
        check(partial(eigh, UPLO=UPLO), both, grad=plain, jvp=False, batch=batch, tolerance=tolerance)
        check(partial(eigvalsh, UPLO=UPLO), both, jvp=False, batch=batch, tolerance=tolerance)
    b = data((20, 20), dtype)
    if dtype != "complex64":
        # Sorted, because their order depends on the BLAS kernels, which OpenBLAS chooses by processor.
        check(sorted_eigenvalues, a, grad=False, jvp=False, tolerance=2 * LOOSE)
        check(sorted_eigenvalues, b, grad=False, jvp=False, batch=False, tolerance=5 * LOOSE)
    check(lambda mx, a: mx.linalg.eigh(a), b + b.T.conj(), grad=False, jvp=False, batch=False, tolerance=30 * tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int32"])
def test_determinants(dtype):
    tolerance = {"float64": 1e-12, "bfloat16": 4e-2}.get(dtype, LOOSE)
    for size in (1, 2, 3, 5) if dtype == "float32" else (3,):
        a = data((2, size, size), dtype)
        batch = dtype == "float32" and size == 3
        check(lambda mx, a: [mx.linalg.det(a), *mx.linalg.slogdet(a)], a, tolerance=tolerance, jvp=False, batch=batch)


NORMS = [
    {}, {"axis": 1}, {"ord": 1, "axis": -1}, {"ord": float("inf"), "axis": 0}, {"ord": float("-inf"), "axis": 0},
    {"ord": 0, "axis": 0}, {"ord": 3, "axis": 1, "keepdims": True}, {"ord": "fro", "axis": (0, 1), "keepdims": True},
    {"ord": 1, "axis": (0, 1)}, {"ord": -1, "axis": (1, 0), "keepdims": True}, {"ord": float("inf"), "axis": (2, 0)},
    {"ord": float("-inf"), "axis": (1, 2)}, {"ord": 1.5, "axis": 0},
]  # fmt: skip


@pytest.mark.parametrize("settings", NORMS, ids=str)
def test_norms(settings):
    x = data((3, 4, 2), "float32")
    batch = "axis" not in settings or settings["axis"] == 1
    check(lambda mx, x: mx.linalg.norm(x, **settings), x, jvp=False, batch=batch, tolerance=5e-6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_of_any_dtype(dtype):
    x = data((3, 4), dtype)
    x.flat[:2] = x.flat[2]  # a tie

    def norms(mx, x):
        orders = [None, 1, 2, float("inf"), float("-inf"), 0, 3.0]
        return [mx.linalg.norm(x, order, axis=1) for order in orders] + [mx.linalg.norm(x, 1)]

    check(norms, x, grad=False, jvp=False, batch=False, tolerance={"float64": 1e-12}.get(dtype, 1e-2))
    check(lambda mx, x: mx.linalg.norm(x, axis=1), x, jvp=False, batch=False)


def test_norms_with_ties_and_zeros():
    x = np.array([[1, -1, 0.5], [0, 0, 0], [2, 2, 2]], np.float32)
    orders = [None, 1, float("inf"), float("-inf"), 3.0]
    check(lambda mx, x: [mx.linalg.norm(x, order, axis=1) for order in orders], x, jvp=False, batch=False)
    check(lambda mx, x: [mx.linalg.norm(x, order) for order in (1, -1, float("inf"))], x, jvp=False, batch=False)
    check(lambda mx, x: [mx.linalg.norm(x, order, axis=1) for order in orders], x, grad=False, batch=False)
    check(lambda mx, x: [mx.linalg.norm(x, order) for order in (1, -1, float("inf"))], x, grad=False, batch=False)


@pytest.mark.parametrize("order", ["nuc", 2, -2])
def test_spectral_norms(order):
    x = data((2, 3, 4), "float32")
    check(lambda mx, x: mx.linalg.norm(x, order, axis=(2, 1)), x, grad=False, jvp=False, tolerance=LOOSE)
    check(lambda mx, x: mx.linalg.norm(x, order, axis=(0, 1), keepdims=True), x, grad=False, jvp=False, tolerance=LOOSE)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cross(dtype):
    x, y = data((4, 3), dtype), data((1, 3), dtype, 1)
    check(lambda mx, x, y: mx.linalg.cross(x, y), x, y, jvp=False, batch=dtype == "float32")
    check(lambda mx, x, y: mx.linalg.cross(x, y, axis=0), x[:2], y[:1, :1].repeat(2, 0), jvp=False, batch=False)


def rule(name):
    return HOST[TABLE[name]]


def test_what_lapack_does_not_solve_is_left_to_xla():
    singular, nan = np.ones((2, 2), np.float32), np.full((2, 2), np.nan, np.float32)
    aval = mx_aval((2, 2))
    assert rule("linalg_inv")(aval, (), singular) is None
    assert rule("linalg_solve")(aval, (), singular, np.eye(2, dtype=np.float32)) is None
    assert rule("linalg_cholesky")(aval, (False,), -singular) is None
    with np.errstate(all="ignore"):
        for name, params in [("linalg_svd", ()), ("linalg_eigh", (True,)), ("linalg_eigvals", ())]:
            assert rule(name)(aval, params, nan) is None
    assert rule("linalg_inv")(mx_aval((0, 0)), (), singular[:0, :0]) is None


def mx_aval(shape):
    from mxcompat._graph.ir.aval import aval, float32

    return aval(shape, float32)


def test_rules():
    ops = {name for name in TABLE if name.startswith("linalg_")}
    assert {n[7:] for n in ops if TABLE[n] not in HOST} == {
        "eig",  # NumPy has no left eigenvectors, by which XLA's CPU lowering orders its results
    }  # fmt: skip
    assert {n[7:] for n in ops if TABLE[n] not in PULLBACK} == {
        "eig", "eigvals", "lu", "lu_factor", "pinv", "qr", "svd", "singular_values",  # long rules for rarely used ops
    }  # fmt: skip
    assert {n[7:] for n in ops if (TABLE[n] in PUSHFORWARD) != (TABLE[n] in PULLBACK)} == set()
    assert {n[7:] for n in ops if TABLE[n] not in BATCH} == set()


def test_what_lapack_does_is_priced():
    """Assert that LAPACK's ops have a cost, so that they run in one thread.

    Threads that wait for each other on a busy machine took a hundred times as long. The rest need none: `norm`
    rarely uses singular values, and `cross` is arithmetic.
    """
    ops = [op for name, op in TABLE.items() if name.startswith("linalg_") and op in HOST]
    assert [op.name for op in ops if op not in COST] == ["linalg_norm", "linalg_cross"]
