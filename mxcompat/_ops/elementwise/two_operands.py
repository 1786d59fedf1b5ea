"""NumPy's rules of two operands: their casts, and the order of complex numbers.

Operands of different dtypes are cast as the lowering casts them. Usually the dtypes are equal, and each op is one ufunc
or a few.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import Aval, from_numpy
from mxcompat._graph.policy import CACHED_BYTES
from mxcompat._graph.run.layout import combined

__all__ = ["Ufunc", "alike", "at_least", "in_floats", "in_result", "larger", "of_kinds", "readable"]

Ufunc = Callable[[Any, Any], Any]

_FLOAT32 = np.dtype(np.float32)


def in_result(function: Ufunc) -> Callable[..., Any]:
    """Return the host rule of an op that computes in the dtype of its result."""
    of_large = partial(combined, function, in_place=isinstance(function, np.ufunc))

    def rule(out: Aval, params: tuple, x: Any, y: Any) -> Any:
        dtype = out.dtype
        numpy = dtype._numpy
        if x.dtype is not numpy:
            x = converted_on_host(x, dtype)
        if y.dtype is not numpy:
            y = converted_on_host(y, dtype)
        return function(x, y) if out.nbytes < CACHED_BYTES else of_large(x, y)

    return rule


def in_floats(function: Ufunc) -> Callable[..., Any]:
    """Return a version of a rule that computes half precision in float32."""
    rule = in_result(function)

    def wide(out: Aval, params: tuple, x: Any, y: Any) -> Any:
        if out.dtype._kind != "f" or out.dtype.size != 2:
            return rule(out, params, x, y)
        x, y = converted_on_host(x, out.dtype), converted_on_host(y, out.dtype)
        return function(x.astype(_FLOAT32), y.astype(_FLOAT32)).astype(out.dtype._numpy)

    return wide


def alike(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the operands in their promoted dtype."""
    if x.dtype == y.dtype:
        return x, y
    dtype = promote(from_numpy(x.dtype), from_numpy(y.dtype))  # type: ignore[arg-type]
    return converted_on_host(x, dtype), converted_on_host(y, dtype)


def readable(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the operands, in float32 if NumPy is several times slower in their dtype: bfloat16, and float16 that
    broadcasts."""
    if x.dtype.kind == "V" or (x.dtype == np.float16 and x.shape != y.shape):
        return x.astype(_FLOAT32), y.astype(_FLOAT32)
    return x, y


def of_kinds(kinds: str, special: Ufunc, function: Ufunc) -> Ufunc:
    """Return a function that is `special` for operands whose NumPy dtypes have one of these kinds, and `function` for
    others."""
    return lambda x, y: special(x, y) if x.dtype.kind in kinds else function(x, y)


def larger(x: Any, y: Any) -> Any:
    """Return a mask of the elements where x is larger than y. Complex numbers are ordered by their real part, then by
    their imaginary part."""
    if x.dtype.kind == "c":
        return (x.real > y.real) | ((x.real == y.real) & (x.imag > y.imag))
    return x > y


def at_least(x: Any, y: Any) -> Any:
    return (x.real > y.real) | ((x.real == y.real) & (x.imag >= y.imag))
