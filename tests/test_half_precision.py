"""Elementwise ops in half precision, compared with float64: the error is at most one rounding, or real MLX's.

In float32 it is a few units of the last place.
"""

from __future__ import annotations

import math
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest

from mxcompat._ops.elementwise.erf import erfinv
from mxcompat.ext.debug import host_disabled
from tests.oracle import check, ours, real
from tests.thinned import thinned

UNARY = {
    **{name: getattr(np, name) for name in (
        "sqrt", "exp", "expm1", "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh",
        "arccosh", "arctanh", "log", "log2", "log10", "log1p", "degrees", "radians", "square", "abs", "negative",
        "reciprocal", "floor", "ceil", "trunc", "sign",
    )},
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "erf": np.vectorize(math.erf, otypes=[float]),
    "erfinv": erfinv,
}  # fmt: skip
BINARY = {name: getattr(np, name) for name in (
    "add", "subtract", "multiply", "divide", "logaddexp", "arctan2", "power", "remainder", "floor_divide", "maximum",
    "minimum",
)}  # fmt: skip
KINDS = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16)}
FEW = 6
"""Limit of the error of XLA's and NumPy's functions in float32, in units of the last place; MLX's reach 2."""
TINY = 2.0**-120
"""Smallest operand. XLA flushes float32 subnormals to 0, and bfloat16 has the same range."""


def operands(dtype: str, count: int) -> list[np.ndarray]:
    """Return all numbers, or pairs of arbitrary and ordinary ones, without those that are subnormal in float32."""
    bits = np.arange(65536, dtype=np.uint16).view(KINDS[dtype])
    every = bits[~((bits != 0) & (np.abs(bits.astype(np.float64)) < TINY))]
    if count == 1:
        return [every]
    rng = np.random.default_rng(0)
    ordinary = rng.uniform(-8, 8, (2, 8000)).astype(KINDS[dtype])
    return [np.concatenate([rng.choice(every, 8000), ordinary[k]]) for k in range(2)]


def error(got: np.ndarray, want: np.ndarray, dtype: str) -> tuple[float, int]:
    """Return the largest error, in units of the last place, and the number of wrong infinities and NaNs."""
    kind = KINDS.get(dtype) or np.dtype(dtype)
    info = ml_dtypes.finfo(kind)
    smallest = max(float(info.smallest_normal), TINY)
    rounded = want.astype(kind).astype(np.float64)
    finite = np.isfinite(want) & np.isfinite(rounded) & np.isfinite(got) & (np.abs(want) >= smallest)
    unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(want), smallest))) - info.nmant)
    wrong = (np.isnan(got) != np.isnan(rounded)) | (np.isinf(got) & (np.abs(rounded) < float(info.max) * 0.99))
    return np.where(finite, np.abs(got - want) / unit, 0.0).max(), int(wrong.sum())


@pytest.mark.parametrize(("name", "dtype"), thinned(2, [*UNARY, *BINARY], KINDS))
def test_one_rounding(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        inputs = operands(dtype, 1 if name in UNARY else 2)
        exact = (UNARY | BINARY)[name](*[x.astype(np.float64) for x in inputs])

        def measured(mx) -> tuple[float, int]:
            xs = [mx.array(x.astype(np.float32)).astype(getattr(mx, dtype)) for x in inputs]
            y = getattr(mx, name)(*xs)
            assert y.dtype == getattr(mx, dtype)
            return error(np.array(y.astype(mx.float32)).astype(np.float64), exact, dtype)

        units, wrong = measured(real)
        for tier in (nullcontext, host_disabled):
            with tier():
                ours_units, ours_wrong = measured(ours)
            assert ours_units <= max(units, 0.51), f"{tier.__name__}: {ours_units} units, real MLX {units}"
            assert ours_wrong <= wrong


@pytest.mark.parametrize("name", UNARY)
def test_few_units_in_float32(name: str) -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=4000), rng.uniform(-88, 88, 4000), 10 ** rng.uniform(-30, 30, 4000)])
    x = x.astype(np.float32)
    with np.errstate(all="ignore"):
        exact = UNARY[name](x.astype(np.float64))
        units, wrong = error(np.array(getattr(real, name)(real.array(x))).astype(np.float64), exact, "float32")
        for tier in (nullcontext, host_disabled):
            with tier():
                got = np.array(getattr(ours, name)(ours.array(x))).astype(np.float64)
            ours_units, ours_wrong = error(got, exact, "float32")
            assert ours_units <= max(units, FEW), f"{tier.__name__}: {ours_units} units, real MLX {units}"
            assert ours_wrong <= wrong


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("base", [2, 10])
def test_logarithms_of_powers_of_the_base_are_whole(base: int, dtype: str) -> None:
    most = {"float32": {2: 126, 10: 37}, "float64": {2: 1022, 10: 300}}[dtype][base]
    powers = np.arange(-most, most + 1)
    # This includes rounded powers, like 0.01: the logarithm of the nearest float rounds to the integer.
    x = (np.float64(base) ** powers if base == 2 else np.array([float(f"1e{k}") for k in powers])).astype(dtype)
    for mx, tier in ((real, nullcontext), (ours, nullcontext), (ours, host_disabled)):
        with tier():
            got = np.array(getattr(mx, f"log{base}")(mx.array(x, getattr(mx, dtype))))
        np.testing.assert_array_equal(got, powers, err_msg=f"{mx.__name__}, {tier.__name__}")


@pytest.mark.parametrize("name", ["log2", "log10"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_derivatives_of_logarithms(name: str, dtype: str) -> None:
    x = np.array([1e-30, 0.3, 1.0, 1.5, 7e20], dtype)

    def derivatives(mx):
        function, at = getattr(mx, name), mx.array(x, getattr(mx, dtype))
        slope = mx.grad(lambda a: function(a).sum())
        return slope(at), mx.grad(lambda a: slope(a).sum())(at), mx.jvp(function, [at], [mx.ones_like(at)])

    for tier in (nullcontext, host_disabled):
        with tier():
            check(derivatives, tol=1e-6)


def test_roots_and_angles_are_those_of_real_mlx() -> None:
    """Assert that roots are rounded once, and angles in NumPy too."""
    for tier in (nullcontext, host_disabled):
        with tier():
            check(lambda mx: mx.array([27.0, 64.0, 1000.0, 9.0]) ** mx.array([1 / 3, 1 / 3, 1 / 3, 0.5]), tol=0)
            check(lambda mx: mx.array([3.0, 1.1, -7.0]) ** mx.array([5.0, 7.0, -3.0]), tol=0)
    check(lambda mx: [mx.arctan2(mx.array(1.0), mx.array(1.0)), mx.arctan(mx.array([1.0, 3.0**0.5]))], tol=0)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["sinh", "cosh"])
def test_hyperbolic_functions_up_to_the_largest_number(name: str, dtype: str) -> None:
    top = {"float32": 89.41, "float64": 710.47}[dtype]
    x = np.concatenate([np.linspace(-top, top, 999), [0.0, -0.0, 0.999999, 1.000001, math.inf, -math.inf, math.nan]])
    x = x.astype(dtype)

    def value_and_slope(mx):
        at = mx.array(x, getattr(mx, dtype))
        return mx.vjp(getattr(mx, name), [at], [mx.ones_like(at)])

    with host_disabled():
        check(value_and_slope, tol=1e-6 if dtype == "float32" else 1e-14)


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
def test_sigmoid_of_half_precision_does_not_saturate_early(tier) -> None:
    with tier():
        assert float(ours.sigmoid(ours.array(7.0, ours.float16))) == np.float16(1 / (1 + math.exp(-7)))


BITS = {"float32": "uint32", "float16": "uint16", "bfloat16": "uint16"}


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
@pytest.mark.parametrize("dtype", BITS)
def test_subnormal_numbers_are_true(dtype: str, tier) -> None:
    def run(mx):
        x = mx.array([1, 0, 3], getattr(mx, BITS[dtype])).view(getattr(mx, dtype))
        return (
            x.astype(mx.bool_), mx.any(x), mx.all(x), mx.all(x[::2]), mx.logical_not(x), mx.logical_and(x, x),
            mx.logical_or(x, 0 * x), mx.where(x, 1, 2), bool(x[0]), mx.any(x, axis=0),
        )  # fmt: skip

    with tier():
        check(run)
        check(lambda mx: [mx.any(mx.array([1e-40j])), mx.array([1e-40 + 0j]).astype(mx.bool_)])


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
@pytest.mark.parametrize("name", ["arccos", "arcsin", "arctanh", "arccosh"])
def test_gradients_near_the_ends_of_the_domain(name: str, tier) -> None:
    near = np.array([1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 0.1], np.float32)
    x = 1 + near if name == "arccosh" else np.concatenate([1 - near, near - 1, [1, -1, 0]]).astype(np.float32)
    with tier():
        check(lambda mx, x: mx.grad(lambda x: getattr(mx, name)(x).sum())(x), x, tol=1e-6)
        check(lambda mx, x: mx.jvp(getattr(mx, name), [x], [mx.ones_like(x)])[1], x, tol=1e-6)


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
def test_linspace_ends_at_its_stop(tier) -> None:
    rng = np.random.default_rng(0)
    with tier():
        for start, stop in rng.uniform(-10, 10, (12, 2)).tolist():
            num = int(rng.integers(2, 200))
            got = np.array(ours.linspace(start, stop, num))
            assert got[0] == np.float32(start)
            assert got[-1] == np.float32(stop)
            check(lambda mx, start=start, stop=stop, num=num: mx.linspace(start, stop, num), tol=1e-6)


@pytest.mark.parametrize("tier", [nullcontext, host_disabled])
@pytest.mark.parametrize("dtype", KINDS)
def test_quotients_are_rounded_before_they_are_rounded_down(dtype: str, tier) -> None:
    """Assert that quotients are rounded before floor: 38.9 is 39 in bfloat16, and so is its floor."""
    rng = np.random.default_rng(0)
    a, b = (50 * rng.normal(size=500)).astype(np.float32), rng.normal(size=500).astype(np.float32)

    def in_half(fn):
        return lambda mx, *xs: fn(mx, *[x.astype(getattr(mx, dtype)) for x in xs])

    with tier():
        check(in_half(lambda mx, a, b: [a // b, a // 0.1, 7 // b, a % b, *mx.divmod(a, b)]), a, b, tol=0)
        check(in_half(lambda mx, a, b: mx.grad(lambda a, b: (a % b).sum(), argnums=(0, 1))(a, b)), a, b, tol=0)
        check(in_half(lambda mx, a, b: mx.jvp(lambda a, b: a % b, [a, b], [a, b])), a, b, tol=0)
