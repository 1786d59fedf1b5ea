"""Rules of bitwise ops and shifts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import HOST, INDEX_ERROR

from ..define import TABLE
from .two_operands import Ufunc, in_result

__all__: list[str] = []


def _shift(function: Ufunc) -> Ufunc:
    """Return a function that shifts integers. It widens types narrower than 32 bits, and takes the distance modulo the
    width."""

    def shifted(x: Any, y: Any) -> Any:
        dtype = x.dtype
        if dtype.itemsize < 4:
            x, y = x.astype(np.int32), y.astype(np.int32)
        return function(x, y & x.dtype.type(x.dtype.itemsize * 8 - 1)).astype(dtype, copy=False)

    return shifted


_OPS: dict[str, Ufunc] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": _shift(np.left_shift),
    "right_shift": _shift(np.right_shift),
}

for _name, _function in _OPS.items():
    HOST.of(TABLE[_name])(in_result(_function))
HOST[TABLE["bitwise_invert"]] = lambda out, params, x: np.invert(x)


@INDEX_ERROR.of(TABLE["bitwise_invert"])
def _no_derivative(transform: str, *_: Any) -> Exception:
    return ValueError(f"[Primitive::{transform.lower()}] Not implemented for BitwiseInvert.")
