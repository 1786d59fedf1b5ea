"""Derivatives at special points, in both modes: 0 and -0, ties, kinks, poles, infinities and NaN.

All ops are compared with real MLX, in NumPy and in XLA. The calls of a group are evaluated together, so that XLA
compiles once for each.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest

from mxcompat.ext.debug import host_disabled
from tests.oracle import check, ours, real, run, same

INF, NAN = np.inf, np.nan
POINTS = np.array(
    [0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 2.5, -1.5, INF, -INF, NAN, 1e5, -1e5, 3.7, -3.7, 1e-6], np.float32
)
FIRST, SECOND = (grid.ravel().copy() for grid in np.meshgrid(POINTS, POINTS))
WHOLE = np.array([0, 1, -1, 2, -2, 3, 5, -5, 7], np.int32)
ROWS = np.array(
    [[1, 1, 0], [2, 2, 2], [0, 0, 3], [-1, -1, -1], [0, -0.0, 1], [5, 4, 5], [0, 0, 0], [-1, 0, -2]], np.float32
)
WILD = np.array([[INF, 1, INF], [-INF, -INF, -INF], [NAN, 1, 2], [-INF, 1, 2]], np.float32)

UNARY = (
    "abs", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "ceil", "conj", "cos", "cosh", "degrees",
    "erf", "erfinv", "exp", "expm1", "floor", "imag", "log", "log10", "log1p", "log2", "nan_to_num", "negative",
    "radians", "real", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square",
    "stop_gradient", "tan", "tanh", "trunc",
)  # fmt: skip
TESTS = ("isfinite", "isinf", "isnan", "isneginf", "isposinf", "logical_not")
BINARY = (
    "add", "arctan2", "divide", "floor_divide", "logaddexp", "maximum", "minimum", "multiply", "power", "remainder",
    "subtract",
)  # fmt: skip
COMPARISONS = (
    "equal", "greater", "greater_equal", "less", "less_equal", "logical_and", "logical_or", "not_equal",
)  # fmt: skip

BACKWARD_ONLY = ("cumprod", "cumprod backward")
"""Ops without a `jvp` in real MLX."""

Case = tuple[Callable[..., Any], tuple[np.ndarray, ...]]


def named(names: tuple[str, ...], *points: np.ndarray) -> dict[str, Case]:
    return {name: (lambda mx, *xs, name=name: getattr(mx, name)(*xs), points) for name in names}


def along(name: str, x: np.ndarray, **options: Any) -> Case:
    return lambda mx, x: getattr(mx, name)(x, axis=-1, **options), (x,)


def reductions(names: tuple[str, ...], x: np.ndarray) -> dict[str, Case]:
    kept = {f"{name} keepdims": along(name, x, keepdims=True) for name in names}
    return {**{name: along(name, x) for name in names}, **kept}


GROUPS: dict[str, dict[str, Case]] = {
    "unary": named(UNARY, POINTS),
    "tests": named(TESTS, POINTS),
    "binary": named(BINARY, FIRST, SECOND),
    "comparisons": named(COMPARISONS, FIRST, SECOND),
    "powers": {
        **{f"x ** {n!r}": (lambda mx, x, n=n: x**n, (POINTS,)) for n in (2, 3, 0.5, -1, 0, 1, 2.0)},
        **{f"{n!r} ** x": (lambda mx, x, n=n: n**x, (POINTS,)) for n in (2, 0.5, 0, 1)},
    },
    "selections": {
        "where": (lambda mx, x: mx.where(x > 0, mx.sqrt(x), 0), (POINTS,)),
        "where of two": (lambda mx, x, y: mx.where(x > y, x, mx.log(y)), (FIRST, SECOND)),
        "where of floats": (lambda mx, x, y: mx.where(x, x * 2, y), (FIRST, SECOND)),
        "clip": (lambda mx, x: mx.clip(x, -1, 1), (POINTS,)),
        "clip below": (lambda mx, x: mx.clip(x, 0.5, None), (POINTS,)),
        "clip above": (lambda mx, x: mx.clip(x, None, 0.5), (POINTS,)),
        "clip by arrays": (lambda mx, x, y: mx.clip(x, y, y), (FIRST, SECOND)),
        "divmod": (lambda mx, x, y: mx.divmod(x, y)[0] + mx.divmod(x, y)[1], (FIRST, SECOND)),
        "nan_to_num": (lambda mx, x: mx.nan_to_num(x, 1.0, 2.0, 3.0), (POINTS,)),
        "sqrt of ceil": (lambda mx, x: mx.sqrt(mx.stop_gradient(mx.ceil(x)) + x), (POINTS,)),
    },
    "reductions": reductions(("sum", "mean", "max", "min", "prod", "var", "std", "logsumexp"), ROWS),
    "reductions of the wild": reductions(("sum", "mean", "max", "min", "logsumexp"), WILD),
    "others over an axis": {
        "all axes": (lambda mx, x: mx.stack([mx.max(x), mx.min(x, axis=(1, 0)), mx.prod(x)]), (ROWS,)),
        "ddof": along("var", ROWS, ddof=1),
        "std ddof": along("std", ROWS, ddof=2),
        **{name: along(name, ROWS) for name in ("softmax", "sort", "cumsum", "cumprod", "logcumsumexp")},
        "argmax": along("argmax", ROWS),
        "argsort": along("argsort", ROWS),
        "cumprod backward": along("cumprod", ROWS, reverse=True, inclusive=False),
        "norm": (lambda mx, x: mx.linalg.norm(x, axis=-1), (ROWS,)),
        "norm 1": (lambda mx, x: mx.linalg.norm(x, 1, axis=-1), (ROWS,)),
        "norm 3": (lambda mx, x: mx.linalg.norm(x, 3, axis=-1), (ROWS,)),
        "norm of all": (lambda mx, x: mx.linalg.norm(x * 0), (ROWS,)),
        "allclose": (lambda mx, x: mx.allclose(x, x), (ROWS,)),
    },
    "unary of integers": named(tuple(n for n in UNARY if n != "trunc"), WHOLE),
}


def derivatives(mx: Any, name: str, case: Case) -> Any:
    function, points = case
    xs = [mx.array(x) for x in points]
    y = function(mx, *xs)
    cotangent = (mx.arange(y.size).reshape(y.shape) % 5 + 1).astype(y.dtype)
    tangents = [(mx.arange(x.size).reshape(x.shape) % 3 + 1 + k).astype(x.dtype) for k, x in enumerate(xs)]
    pulled = mx.vjp(lambda *a: function(mx, *a), xs, [cotangent])[1]
    pushed = [] if name in BACKWARD_ONLY else mx.jvp(lambda *a: function(mx, *a), xs, tangents)[1]
    return [pulled, pushed]


@pytest.mark.parametrize("tier", ["NumPy", "XLA"])
@pytest.mark.parametrize("group", GROUPS)
def test_derivatives(group: str, tier: str) -> None:
    def every(mx: Any) -> dict[str, Any]:
        return {name: derivatives(mx, name, case) for name, case in GROUPS[group].items()}

    want = run(real, every)
    with nullcontext() if tier == "NumPy" else host_disabled():
        got = run(ours, every)
    for result in (want, got):
        if isinstance(result, Exception):
            raise result
    for name in want:
        same(got[name], want[name], 1e-4, name)  # slopes reach 1e5, and are rounded differently


@pytest.mark.parametrize("tier", ["NumPy", "XLA"])
@pytest.mark.parametrize("name", [*BINARY, *COMPARISONS])
def test_one_operand_for_all(name: str, tier: str) -> None:
    """Compare ops with a number or a one-element array as operand; NumPy has special paths for these."""

    def every(mx: Any) -> list[Any]:
        function, x = getattr(mx, name), mx.array(POINTS)
        points = POINTS if tier == "NumPy" else POINTS[::3]  # `test_derivatives` has all pairs
        ones = [one for n in points.tolist() for one in (n, mx.array(n), mx.array([n]))]
        return mx.stack([function(*pair) for one in ones for pair in ((x, one), (one, x))])

    with nullcontext() if tier == "NumPy" else host_disabled():
        got = run(ours, every)
    same(got, run(real, every), 1e-5, name)


def test_what_is_constant_has_no_tangent_that_is_infinite() -> None:
    """Assert that a constant adds no tangent, although 0 * inf is NaN: in NumPy as in XLA."""
    x = np.array([0.0, 1.0], np.float32)
    call = GROUPS["selections"]["divmod"][0]
    for tier in (nullcontext(), host_disabled()):
        with tier:
            tangent = ours.jvp(lambda x: call(ours, x, x), [ours.array(x)], [ours.ones(2)])[1][0]
            assert np.array(tangent).tolist() == [0.0, 0.0]


PARTS = np.array([0.0, -0.0, 1, -2, 1e30, INF, -INF, NAN], np.float32)
PLANE = np.array([complex(a, b) for a in PARTS for b in PARTS], np.complex64)

QUOTIENTS = {
    "reciprocal": lambda mx, z: mx.reciprocal(z),
    "1 / z": lambda mx, z: 1 / z,
    "2 / z": lambda mx, z: mx.array(2.0) / z,
    "0 / z": lambda mx, z: mx.array(0j) / z,
    "z / z": lambda mx, z: z / z,
    "z / 0": lambda mx, z: z / mx.array(0j),
    "z / 1j": lambda mx, z: z / mx.array(1j),
    "i / z": lambda mx, z: mx.array(1 + 1j) / z,
    "z / inf": lambda mx, z: z / mx.array(complex(INF)),
    "of all": lambda mx, z: z[:, None] / z,
    "rows": lambda mx, z: (z[:, None] + mx.zeros((1, 3))).T / z,
    "one": lambda mx, z: [z[k] / z[k + 1] for k in range(4)],
    "floor": lambda mx, z: (1 - 2j) // z,
    "rsqrt": lambda mx, z: mx.rsqrt(z),
}


@pytest.mark.parametrize("tier", ["NumPy", "XLA"])
@pytest.mark.parametrize("name", QUOTIENTS)
def test_complex_quotients(name: str, tier: str) -> None:
    """Compare complex quotients: infinite if the dividend is, and zero if the divisor is infinite, as in C."""
    with nullcontext() if tier == "NumPy" else host_disabled():
        same(run(ours, QUOTIENTS[name], (PLANE,)), run(real, QUOTIENTS[name], (PLANE,)))


@pytest.mark.parametrize("exponent", [-1, -2, -3, -0.5, 10, 0.5])
def test_complex_powers_in_numpy(exponent: float) -> None:
    """Assert that overflow within a complex power does not give NaN."""

    def raised(mx: Any, z: Any) -> Any:
        return z**exponent

    infinite = exponent < 0 or exponent == 0.5
    points = PLANE[np.isfinite(PLANE) | (np.isinf(PLANE) & ~np.isnan(PLANE) & infinite)]
    # MLX computes it through a float32 logarithm
    same(run(ours, raised, (points,)), run(real, raised, (points,)), tol=1e-4)


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_tangent_of_expm1_is_an_exponential(dtype):
    """Compare the tangent of expm1 far below 0, where its cotangent is 0."""

    def run(mx, x):
        x = x.astype(getattr(mx, dtype))
        one = mx.ones_like(x)

        def push(x):
            return mx.jvp(mx.expm1, [x], [one])[1][0]

        return push(x), mx.vjp(mx.expm1, [x], [one]), mx.jvp(push, [x], [one]), mx.grad(lambda x: push(x).sum())(x)

    check(run, np.array([-20, -9, -3, 0, 1, 5, np.inf, -np.inf, np.nan], np.float32))


@pytest.mark.usefixtures("tier")
def test_signs_of_zero() -> None:
    """Compare the signs of NaN and of zero, which the reciprocal shows."""

    def inverses(mx: Any, x: Any) -> Any:
        slope = mx.grad(lambda x: mx.abs(x).sum())(x)
        return [1 / mx.sign(x), 1 / (mx.sign(x) * mx.abs(x)), 1 / mx.abs(x), 1 / slope]

    x = np.array([-0.0, 0.0, np.nan, -np.nan, -2, 3, np.inf, -np.inf], np.float32)
    check(inverses, x)
    check(inverses, x.astype(np.float16))
