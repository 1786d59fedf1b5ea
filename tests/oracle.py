"""The oracle: run the same function on real MLX and on mxcompat, and compare everything that can be seen.

    check(lambda mx: mx.sum(mx.arange(6).reshape(2, 3), axis=1))
    check(lambda mx, a, b: a @ b, np.ones((2, 3)), np.ones((3, 4)))

Arguments are NumPy arrays (or anything else), given to each side as its own arrays. Shapes and dtypes must be equal,
values within `tol` (default: by dtype), and where real MLX raises, the exception's type and message must be equal too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import mlx.core as real
import numpy as np

import mxcompat.core as ours

__all__ = ["check", "ours", "real", "run"]

TOLERANCE = {
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float32": 2e-5,
    "float64": 1e-10,
    "complex64": 2e-5,
}
"""Relative and absolute, by dtype: a few units in the last place, since XLA and MLX order sums differently."""


def check(fn: Callable[..., Any], *args: Any, tol: float | None = None, message: bool | None = None) -> Any:
    """Assert that `fn(mx, *args)` does the same on both sides; returns what mxcompat returned (or raised).

    Args:
        tol: tolerance, relative and absolute, instead of the dtype's. Say why where it is used.
        message: whether the messages of exceptions must be equal; by default all but those of TypeErrors, whose text
            real MLX's binding layer generates.
    """
    want = run(real, fn, args)
    got = run(ours, fn, args)
    if isinstance(want, Exception):
        assert isinstance(got, Exception), f"real MLX raised {want!r}; mxcompat returned {got!r}"
        assert type(got) is type(want), f"real MLX raised {want!r}; mxcompat raised {got!r}"
        if message or (message is None and not isinstance(want, TypeError)):
            assert str(got) == str(want), f"messages differ:\n  real: {want}\n  ours: {got}"
        return got
    if isinstance(got, Exception):
        raise AssertionError(f"real MLX returned {want!r}; mxcompat raised {got!r}") from got
    same(got, want, tol)
    return got


def run(mx: Any, fn: Callable[..., Any], args: Any = ()) -> Any:
    """`fn` on one side, evaluated; or the exception it raised."""
    try:
        given = [mx.array(a) if isinstance(a, np.ndarray) else a for a in args]
        out = fn(mx, *given)
        mx.eval(out)
        return out
    except Exception as error:
        return error


def to_numpy(x: Any) -> np.ndarray:
    """The data of an array of either side, bfloat16 too."""
    if str(x.dtype) == "mlx.core.bfloat16":
        mx = real if isinstance(x, real.array) else ours
        return np.array(x.view(mx.uint16)).view(ml_dtypes.bfloat16)
    return np.array(x)


def same(got: Any, want: Any, tol: float | None = None, where: str = "") -> None:
    """Assert that two results, trees of arrays and other values, are the same."""
    if isinstance(want, real.array):
        assert isinstance(got, ours.array), f"{where}: real MLX gave an array, mxcompat {type(got)}"
        assert str(got.dtype) == str(want.dtype), f"{where}: dtype {got.dtype}, real MLX {want.dtype}"
        assert tuple(got.shape) == tuple(want.shape), f"{where}: shape {got.shape}, real MLX {want.shape}"
        limit = TOLERANCE.get(str(want.dtype).rpartition(".")[2], 0) if tol is None else tol
        g, w = to_numpy(got), to_numpy(want)
        if g.dtype.kind in "fcV":
            kind = np.complex128 if g.dtype.kind == "c" else np.float64
            g, w = g.astype(kind), w.astype(kind)
        np.testing.assert_allclose(g, w, rtol=limit, atol=limit, err_msg=where)
    elif isinstance(want, dict):
        assert isinstance(got, dict), f"{where}: {got!r}, real MLX {want!r}"
        assert list(got) == list(want), f"{where}: keys {list(got)}, real MLX {list(want)}"
        for key in want:
            same(got[key], want[key], tol, f"{where}[{key!r}]")
    elif isinstance(want, (list, tuple)):
        assert type(got) is type(want), f"{where}: {type(got)}, real MLX {type(want)}"
        assert len(got) == len(want), f"{where}: {len(got)} items, real MLX {len(want)}"
        for k, (g, w) in enumerate(zip(got, want, strict=True)):
            same(g, w, tol, f"{where}[{k}]")
    elif isinstance(want, (real.Dtype, real.Device, real.Stream)):
        assert str(got) == str(want), f"{where}: {got}, real MLX {want}"
    elif isinstance(want, float):
        limit = 1e-5 if tol is None else tol
        np.testing.assert_allclose(got, want, rtol=limit, atol=limit, err_msg=where)
    else:
        assert got == want, f"{where}: {got!r}, real MLX {want!r}"
