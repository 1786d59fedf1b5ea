"""In-place host rules of elementwise ops, for an operand that nothing else reads any more. See `rules.OVERWRITE`.

An op that is one ufunc in the dtype of the result writes into the operand. For other dtypes the host rule makes a new
array.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST, OVERWRITE
from mxcompat._graph.run.layout import lie_alike

from ..define import TABLE
from . import host_binary, host_precise, host_unary  # noqa: F401  # their rules, in HOST
from .select import select

__all__: list[str] = []


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f"


def _is_wide_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" and dtype.itemsize > 2  # half precision is computed in float32


def _is_float32(dtype: np.dtype) -> bool:
    return dtype == np.float32


def _is_number(dtype: np.dtype) -> bool:
    return dtype.kind != "b"


def _is_real(dtype: np.dtype) -> bool:
    return dtype.kind != "c"


_Applies = Callable[[np.dtype], bool]

_UFUNCS: tuple[tuple[_Applies, dict[str, Callable[..., Any]]], ...] = (
    (_is_float32, {"log": np.log, "log2": np.log2}),  # for float64, NumPy's NaN has another sign than MLX's
    (_is_wide_float, {
        "sqrt": np.sqrt, "reciprocal": np.reciprocal, "exp": np.exp, "expm1": np.expm1, "log1p": np.log1p,
        "log10": host_precise.log10, "sin": np.sin, "cos": np.cos, "tan": host_precise.tan,
        "arctan": host_precise.arctan, "sinh": np.sinh, "cosh": host_precise.cosh, "tanh": np.tanh,
        "arcsinh": np.arcsinh, "arccosh": np.arccosh, "arctanh": np.arctanh, "arctan2": host_precise.arctan2,
    }),
    (_is_float, {
        "abs": np.abs, "square": np.square, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    }),
    (_is_number, {"negative": np.negative, "add": np.add, "subtract": np.subtract, "multiply": np.multiply}),
    (_is_real, {"divide": np.divide, "maximum": np.maximum, "minimum": np.minimum}),
)  # fmt: skip


def _writing(ufunc: Callable[..., Any], applies: _Applies, host: Callable[..., Any]) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, place: int, *inputs: Any) -> Any:
        target = inputs[place]
        dtype = target.dtype
        if applies(dtype) and all(x.dtype == dtype and lie_alike(x, target) for x in inputs):
            return ufunc(*inputs, out=target)
        return host(out, params, *inputs)

    return rule


for _applies, _named in _UFUNCS:
    for _name, _ufunc in _named.items():
        OVERWRITE.of(TABLE[_name])(_writing(_ufunc, _applies, HOST[TABLE[_name]]))


@OVERWRITE.of(TABLE["where"])
def _where(out: Aval, params: tuple, place: int, condition: Any, x: Any, y: Any) -> Any:
    if place == 0 or condition.dtype.kind != "b" or x.dtype != y.dtype:
        return HOST[TABLE["where"]](out, params, condition, x, y)
    return select(condition, x, y, (x, y)[place - 1])
