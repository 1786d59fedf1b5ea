"""The oracle: run the same function on real MLX and on mxcompat, and compare everything visible.

    check(lambda mx: mx.sum(mx.arange(6).reshape(2, 3), axis=1))
    check(lambda mx, a, b: a @ b, np.ones((2, 3)), np.ones((3, 4)))

Arguments are NumPy arrays (or anything else), given to each side as its own arrays. Shapes and dtypes must be equal,
and values within `tol` (default: by dtype). If real MLX raises, the exception's type and message must be equal too.
`mxcompat/testing.py` defines equality and the tolerances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import mlx.core as real
import numpy as np

import mxcompat.core as ours
from mxcompat import testing

__all__ = ["check", "check_together", "ours", "real", "run", "same", "to_numpy"]


def check(fn: Callable[..., Any], *args: Any, tol: float | None = None, message: bool | None = None) -> Any:
    """Assert that `fn(mx, *args)` does the same on both sides, and return mxcompat's result or exception.

    Args:
        tol: tolerance, relative and absolute, instead of the dtype's. State the reason at the call.
        message: True if messages of exceptions must be equal. The default excludes messages of Python and of real MLX's
            binding layer.
    """
    want, got = run(real, fn, args), run(ours, fn, args)
    differences = testing.differences(want, got, tol, messages=message)
    if differences:
        raise AssertionError("\n".join(map(str, differences))) from (got if isinstance(got, Exception) else None)
    return got


def check_together(functions: Mapping[str, Callable[..., Any]], *args: Any, tol: float | None = None) -> None:
    """Check each function, as `check` does. mxcompat evaluates all results at once, so XLA compiles one program.

    Args:
        functions: by their names in messages.
    """
    arrays = [ours.array(a) if isinstance(a, np.ndarray) else a for a in args]
    results = {name: _result_or_error(ours, fn, arrays) for name, fn in functions.items()}
    ours.eval([result for result in results.values() if not isinstance(result, Exception)])
    for name, result in results.items():
        same(result, run(real, functions[name], args), tol, name)


def _result_or_error(mx: Any, fn: Callable[..., Any], arrays: list[Any]) -> Any:
    try:
        return fn(mx, *arrays)
    except Exception as error:
        return error


def run(mx: Any, fn: Callable[..., Any], args: Any = ()) -> Any:
    """Run `fn` on one side, and return the evaluated result or the exception."""
    try:
        arrays = [mx.array(a) if isinstance(a, np.ndarray) else a for a in args]
        out = fn(mx, *arrays)
        mx.eval(out)
        return out
    except Exception as error:
        return error


def to_numpy(x: Any) -> np.ndarray:
    """Return the data of an array of either side, bfloat16 too."""
    return testing.to_numpy(real if isinstance(x, real.array) else ours, x)


def same(got: Any, want: Any, tol: float | None = None, where: str = "") -> None:
    """Assert that two results, trees of arrays and other values, are the same."""
    differences = testing.differences(want, got, tol, where=where)
    assert not differences, "\n".join(map(str, differences))
