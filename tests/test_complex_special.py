"""Complex numbers with NaN, infinities and signed zeros as parts: functions, comparisons, sorts and reductions against
real MLX, in NumPy and in XLA.

Calls are evaluated together, so that XLA compiles once for each group. A number with NaN in either part counts as NaN:
which part of a result is NaN is compared where MLX only moves numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.oracle import check, ours, real, run, same

INF, NAN = np.inf, np.nan
PARTS = (NAN, INF, -INF, 0.0, -0.0, 1.0, -2.5)
PLANE = np.array([complex(a, b) for a in PARTS for b in PARTS], np.complex64)
FIRST, SECOND = (grid.ravel().copy() for grid in np.meshgrid(PLANE, PLANE))
NUMBERS = PLANE[~np.isnan(PLANE)]

UNARY = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "conj", "cos", "cosh", "degrees", "exp",
    "imag", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "log", "log10", "log1p", "log2", "logical_not",
    "negative", "radians", "real", "reciprocal", "round", "rsqrt", "sign", "sin", "sinh", "sqrt", "tan", "tanh",
)  # fmt: skip
BINARY = (
    "add", "array_equal", "divide", "equal", "floor_divide", "greater", "greater_equal", "less", "less_equal",
    "logaddexp", "logical_and", "logical_or", "maximum", "minimum", "not_equal", "subtract",
)  # fmt: skip

Call = Callable[[Any, Any], Any]


def rows_of(x: np.ndarray, count: int = 6, length: int = 9) -> np.ndarray:
    """Return rows of random elements of x, always the same."""
    return np.random.default_rng(5).choice(x, (count, length))


def bits(x: Any) -> np.ndarray:
    """Return the real and imaginary parts of complex numbers, stacked; other arrays are unchanged."""
    x = np.array(x)
    return np.stack([x.real, x.imag]) if x.dtype.kind == "c" else x


def check_parts(call: Call, *arrays: np.ndarray) -> None:
    """Compare part by part with real MLX. Zeros of either sign are equal."""
    want, got = run(real, call, arrays), run(ours, call, arrays)
    for one in (want, got):
        if isinstance(one, Exception):
            raise one
    for k, (a, b) in enumerate(zip(want, got, strict=True)):
        np.testing.assert_array_equal(bits(b), bits(a), f"result {k}")


@pytest.mark.usefixtures("tier")
def test_functions() -> None:
    want, got = (run(mx, lambda mx, z: {name: getattr(mx, name)(z) for name in UNARY}, (PLANE,)) for mx in (real, ours))
    for name in UNARY:
        same(got[name], want[name], 1e-5, name)


@pytest.mark.usefixtures("tier")
def test_functions_of_two() -> None:
    def every(mx: Any, x: Any, y: Any) -> dict[str, Any]:
        results = {name: getattr(mx, name)(x, y) for name in BINARY}
        return {**results, "with NaN": mx.array_equal(x, x, equal_nan=True), "where": mx.where(x, y, 2j)}

    want, got = (run(mx, every, (FIRST, SECOND)) for mx in (real, ours))
    for name in want:
        same(got[name], want[name], 1e-5, name)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", ["multiply", "square", "power"])
def test_products(name: str) -> None:
    """Compare products, which use the formula as JAX and NumPy do: with an infinite operand they may be NaN, unlike
    MLX's."""

    def call(mx: Any, x: Any, y: Any) -> Any:
        return mx.square(x) if name == "square" else getattr(mx, name)(x, y)

    want, got = (np.array(run(mx, call, (FIRST, SECOND))) for mx in (real, ours))
    apart = ~np.isclose(got, want, 1e-5, 1e-5, equal_nan=True)
    wild = ~np.isfinite(FIRST) | (~np.isfinite(SECOND) & (name != "square"))
    if name == "power":
        wild |= (FIRST == 0) | (SECOND == 0)  # MLX gives 1 for a number to the power 0
    assert apart.any() == (name != "square")
    assert (wild | ~apart).all()
    assert name == "power" or np.isnan(got[apart]).all()


SORTS: dict[str, Call] = {
    "sort": lambda mx, x: [mx.sort(x), mx.sort(x, axis=0), mx.sort(x, axis=None)],
    "argsort": lambda mx, x: [mx.argsort(x), mx.argsort(x, axis=0), mx.argsort(x, axis=None)],
    "unique": lambda mx, x: mx.unique(x, 60, True, True, True),
    "some unique": lambda mx, x: [mx.unique(x, 11, fill_value=complex(1, NAN))],
    "searchsorted": lambda mx, x: [
        mx.searchsorted(mx.sort(x, axis=None), mx.array(PLANE), side) for side in ("left", "right")
    ],
    "median": lambda mx, x: [mx.isnan(mx.median(x, axis=1)), mx.median(x, axis=0)],
}


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", SORTS)
def test_sorts(name: str) -> None:
    """Compare sorts: NaN in either part comes last, and NaNs keep their order."""
    x = rows_of(PLANE)
    if name == "median":
        x[0] = 1  # gives some columns without NaN
        x[1:] = rows_of(np.array([1, 1j, 2 - 3j, complex(-2, 1)], np.complex64), 5)
    check_parts(SORTS[name], x)


@pytest.mark.usefixtures("tier")
def test_sorts_within_transforms() -> None:
    x = rows_of(PLANE)
    for name in ("sort", "argsort"):

        def sort(mx: Any, row: Any, name: str = name) -> Any:
            return getattr(mx, name)(row)

        check_parts(lambda mx, x, sort=sort: [mx.vmap(lambda row: sort(mx, row))(x)], x)
        check_parts(lambda mx, x, sort=sort: [mx.compile(lambda x: sort(mx, x))(x)], x)
    weights = np.arange(1, 10).astype(np.complex64)
    check_parts(lambda mx, x, w: mx.vjp(mx.sort, [x], [mx.broadcast_to(w, x.shape)])[1], x, weights)
    check_parts(lambda mx, x, w: mx.jvp(mx.sort, [x], [mx.broadcast_to(w, x.shape)])[1], x, weights)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("n", [9, 5000], ids=["short", "long"])
def test_partitions(n: int) -> None:
    """Compare which elements are on either side of a partition. MLX's order within a side is arbitrary."""
    x = rows_of(PLANE, 3, n)
    order = np.array(real.argsort(real.array(x)))
    rank = np.empty_like(order)  # equal numbers, and NaNs, differ in rank
    np.put_along_axis(rank, order, np.arange(n, dtype=order.dtype)[None], 1)
    ordered = np.take_along_axis(x, order, 1)
    for kth in (0, 3, n - 2):
        moved, places = (np.array(f(ours.array(x), kth)) for f in (ours.partition, ours.argpartition))
        np.testing.assert_array_equal(np.sort(places), np.broadcast_to(np.arange(n), x.shape))
        np.testing.assert_array_equal(bits(np.take_along_axis(x, places.astype(int), 1)), bits(moved))
        kinds = bits(np.where(np.isnan(ordered), NAN, ordered)), bits(np.where(np.isnan(moved), NAN, moved))
        np.testing.assert_array_equal(kinds[0][..., kth], kinds[1][..., kth])
        largest = np.array(ours.topk(ours.array(x), n - kth))
        for part, expected in ((moved[:, :kth], ordered[:, :kth]), (largest, ordered[:, kth:])):
            check_parts(lambda mx, a, b: [mx.isnan(mx.sort(a)), mx.isnan(mx.sort(b))], part, expected)
            for one, other in zip(np.sort(part), np.sort(expected), strict=True):
                np.testing.assert_array_equal(one[~np.isnan(one)], other[~np.isnan(other)])


EXTREMES = ("max", "min", "argmax", "argmin", "cummax", "cummin")


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_infinities(name: str) -> None:
    check_parts(lambda mx, x: [getattr(mx, name)(x, axis=k) for k in (0, 1, None)], rows_of(NUMBERS))


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_with_nan(name: str) -> None:
    """Assert that an extreme is NaN if any element is, at the first NaN's place. MLX's result depends on the memory
    layout."""
    x = rows_of(PLANE)
    x[0] = rows_of(NUMBERS, 1)
    nan = np.isnan(x)
    first = np.argmax(nan, 1)
    got = np.array(getattr(ours, name)(ours.array(x), axis=1))
    if name.startswith("cum"):
        behind = np.logical_or.accumulate(nan, 1)
        np.testing.assert_array_equal(np.isnan(got), behind)
        kept = np.broadcast_to(np.take_along_axis(x, first[:, None], 1), x.shape)
        np.testing.assert_array_equal(bits(got[behind]), bits(kept[behind]))
        check_parts(lambda mx, x: [getattr(mx, name)(x)], x[0])
    elif name.startswith("arg"):
        np.testing.assert_array_equal(got[nan.any(1)], first[nan.any(1)])
    else:
        np.testing.assert_array_equal(np.isnan(got), nan.any(1))


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_one(name: str) -> None:
    check_parts(lambda mx, z: [getattr(mx, name)(z[:, None], axis=1), getattr(mx, name)(z[2:3])], PLANE)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("name", ["cummax", "cummin"])
@pytest.mark.parametrize("reverse", [False, True])
def test_derivatives_of_running_extremes(name: str, reverse: bool) -> None:
    """Assert that the gradient goes to the latest of equal elements, as it does for floats."""
    parts = np.array([3, 1, NAN, 2, NAN, 5], np.float32)

    def slope(mx: Any, x: Any) -> Any:
        return mx.grad(lambda x: mx.real(getattr(mx, name)(x, reverse=reverse) * mx.arange(1, 7)).sum())(x)

    got, want = (np.array(slope(ours, ours.array(parts.astype(dtype)))) for dtype in (np.complex64, np.float32))
    np.testing.assert_array_equal(got, want.astype(np.complex64))


@pytest.mark.usefixtures("tier")
def test_sums_of_exponentials() -> None:
    check(lambda mx, z: mx.logcumsumexp(z.reshape(-1, 2), axis=1), FIRST[np.isfinite(FIRST.real)][:600], tol=1e-5)
    check(lambda mx, z: mx.logcumsumexp(z), np.array([1j, -INF, complex(-INF, 0), 2], np.complex64), tol=1e-5)


def test_printing() -> None:
    check(lambda mx, z: [repr(z), str(z[0]), *[repr(z[k].item()) for k in range(len(PLANE))]], PLANE)
