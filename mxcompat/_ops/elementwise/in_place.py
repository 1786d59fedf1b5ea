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

__all__ = ["is_float", "is_float32", "is_number", "is_real", "is_wide_float", "register_in_place"]


def is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f"


def is_wide_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" and dtype.itemsize > 2  # half precision is computed in float32


def is_float32(dtype: np.dtype) -> bool:
    return dtype == np.float32


def is_number(dtype: np.dtype) -> bool:
    return dtype.kind != "b"


def is_real(dtype: np.dtype) -> bool:
    return dtype.kind != "c"


_Applies = Callable[[np.dtype], bool]


def register_in_place(applies: _Applies, ufuncs: dict[str, Callable[..., Any]]) -> None:
    """Register an in-place rule for each op, given the ufunc that computes it. For dtypes that `applies` rejects, the
    rule calls the op's host rule, which must be registered before."""
    for name, ufunc in ufuncs.items():
        OVERWRITE.of(TABLE[name])(_writing(ufunc, applies, HOST[TABLE[name]]))


def _writing(ufunc: Callable[..., Any], applies: _Applies, host: Callable[..., Any]) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, place: int, *inputs: Any) -> Any:
        target = inputs[place]
        dtype = target.dtype
        if applies(dtype) and all(x.dtype == dtype and lie_alike(x, target) for x in inputs):
            return ufunc(*inputs, out=target)
        return host(out, params, *inputs)

    return rule
