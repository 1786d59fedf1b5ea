"""The ways to run a case: plainly, with special values, by XLA alone, and under each transform.

A way is a name. `vmap 0e-:1` maps the first axis of `x`, the last of `y` and none of `z`, and puts the new axis second.
The two sides get the same NumPy data.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np

from mxcompat.ext.debug import host_disabled
from tests.nn_oracle import OURS, REAL
from tests.oracle import real
from tests.sweep.cases import DTYPES, Case, special
from tests.sweep.helpers import HELPERS, counting

__all__ = ["prepared", "row_by_row", "run", "ways_of"]

CATEGORIES = (
    "generic", "number", "integer", "signedinteger", "unsignedinteger", "inexact", "floating", "complexfloating",
)  # fmt: skip

COMPILED = ("bool_", "int32", "uint8", "bfloat16", "float32", "complex64")
"""Dtypes for which XLA is tested alone: one of each kind, since every cell is a compile."""


def ways_of(case: Case, dtype: str) -> list[str]:
    """Return the names of the ways that make sense for a case."""
    if case.plain_only or not case.operands:
        return ["plain"]
    smooth = case.smooth()
    names = ["plain", "compile"]
    if dtype in COMPILED:
        names.append("xla")
    if case.elementwise:
        names.append("special")
    if smooth:
        names += ["vjp", "jvp"]
    arrays = len(case.operands)
    axes = ["0" * arrays, "e" * arrays]
    if arrays > 1:
        axes += ["".join("0" if k == one else "-" for k in range(arrays)) for one in range(arrays)]
    return names + [f"vmap {a}:0" for a in axes] + [f"vmap {'0' * arrays}:-1"]


def environment(mx: Any, dtype: str) -> dict[str, Any]:
    """Return the names that an expression may use, besides its arrays."""
    lib = REAL if mx is real else OURS
    return {
        "mx": mx, "nn": lib.nn, "optim": lib.optim, "utils": lib.utils, "np": np, "A": mx.array,
        "D": getattr(mx, dtype), "DTYPES": DTYPES, "CATEGORIES": CATEGORIES, "copy": copy, "pickle": pickle,
        "nan": float("nan"), "inf": float("inf"), **{name: _bound(f, mx, lib, dtype) for name, f in HELPERS.items()},
    }  # fmt: skip


def _bound(helper: Callable[..., Any], mx: Any, lib: Any, dtype: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: helper(mx, lib, getattr(mx, dtype), *args, **kwargs)


def prepared(mx: Any, values: list[np.ndarray], dtypes: list[str]) -> list[Any]:
    """Return evaluated arrays of one side."""
    arrays = [mx.array(v).astype(getattr(mx, d)) for v, d in zip(values, dtypes, strict=True)]
    mx.eval(arrays)
    return arrays


def run(mx: Any, case: Case, dtype: str, way: str) -> Any:
    """Return the evaluated result of a case on one side, or its exception."""
    values = _special_values(case, dtype) if way == "special" else _values(case, dtype, way)
    arrays = prepared(mx, values, [g.dtype or dtype for g in case.operands])
    mx.random.seed(7)
    with host_disabled() if way == "xla" and mx is not real else nullcontext():
        try:
            out = _transformed(mx, case, dtype, way, arrays)
            mx.eval(out)
        except Exception as error:
            return error
    return out


def row_by_row(mx: Any, case: Case, dtype: str, way: str) -> Any:
    """Return the definition of a `vmap` result: the results of the rows, stacked, or the exception of one."""
    axes, _, out_axis = way.split()[1].partition(":")
    values = _values(case, dtype, way)
    places = [{"0": 0, "e": -1, "-": None}[a] for a in axes]
    rows = []
    for k in range(2):
        operands = [v if axis is None else np.take(v, k, axis) for v, axis in zip(values, places, strict=True)]
        try:
            arrays = prepared(mx, operands, [g.dtype or dtype for g in case.operands])
            rows.append(_transformed(mx, case, dtype, "plain", arrays))
            mx.eval(rows[-1])
        except Exception as error:
            return error
    return _stacked(mx, rows, int(out_axis))


def _stacked(mx: Any, rows: list[Any], axis: int) -> Any:
    if isinstance(rows[0], (list, tuple)):
        return type(rows[0])(_stacked(mx, list(parts), axis) for parts in zip(*rows, strict=True))
    return mx.stack(rows, axis=axis) if isinstance(rows[0], mx.array) else rows[0]


def _values(case: Case, dtype: str, way: str) -> list[np.ndarray]:
    if not way.startswith("vmap"):
        return [g.values(dtype, case.seed + k) for k, g in enumerate(case.operands)]
    axes = way.split()[1].partition(":")[0]
    arrays = []
    for k, (g, axis) in enumerate(zip(case.operands, axes, strict=True)):
        x = g.values(dtype, case.seed + k, () if axis == "-" else (2,))
        arrays.append(np.moveaxis(x, 0, -1) if axis == "e" else x)
    return arrays


def _special_values(case: Case, dtype: str) -> list[np.ndarray]:
    x = special(dtype)
    if len(case.operands) == 1:
        return [x]
    return [np.repeat(x, len(x)), np.tile(x, len(x))]


def _transformed(mx: Any, case: Case, dtype: str, way: str, arrays: list[Any]) -> Any:
    names = environment(mx, dtype)

    def function(*xs: Any) -> Any:
        return eval(case.code, names | dict(zip("xyz", xs, strict=False)))

    if way in ("plain", "xla", "special"):
        return function(*arrays)
    if way == "compile":
        return mx.compile(function)(*arrays)
    if way.startswith("vmap"):
        axes, _, out = way.split()[1].partition(":")
        into = tuple({"0": 0, "e": -1, "-": None}[a] for a in axes)
        return mx.vmap(function, in_axes=into[0] if len(into) == 1 else into, out_axes=int(out))(*arrays)
    return _derivative(mx, function, way, arrays, case.smooth())


def _derivative(mx: Any, function: Callable[..., Any], way: str, arrays: list[Any], smooth: list[int]) -> Any:
    def of_smooth(*xs: Any) -> Any:
        operands = list(arrays)
        for k, x in zip(smooth, xs, strict=True):
            operands[k] = x
        return function(*operands)

    primals = [arrays[k] for k in smooth]
    if way == "jvp":
        return mx.jvp(of_smooth, primals, [counting(mx, x) for x in primals])
    mx.random.seed(7)
    out = of_smooth(*primals)
    outs = list(out) if isinstance(out, (list, tuple)) else [out]
    mx.random.seed(7)
    return mx.vjp(of_smooth, primals, [counting(mx, y) for y in outs])
