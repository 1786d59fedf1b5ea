"""How NumPy does the ops that only move data: exactly what XLA does, without a compiler. See `_graph/run/host.py`.

Each is a function of the result's aval, the op's params and NumPy arrays, and may give None: this had better be
compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST

from ..define import TABLE
from .transposition import order

__all__ = ["attach"]


def _reshape(out: Aval, params: tuple, x: np.ndarray) -> np.ndarray:
    return x.reshape(out.shape)


def _broadcast(out: Aval, params: tuple, x: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, out.shape)


def _constant(out: Aval, params: tuple, *like: np.ndarray) -> np.ndarray:
    return np.full(out.shape, params[-1], out.dtype.numpy)


def _transpose(out: Aval, params: tuple, x: np.ndarray) -> np.ndarray:
    return x.transpose(order(x.ndim, *params))


def _astype(out: Aval, params: tuple, x: np.ndarray) -> np.ndarray | None:
    exact = x.dtype == out.dtype.numpy or (x.dtype.kind in "biu" and out.dtype.kind in "iu")
    return x.astype(out.dtype.numpy) if exact else None


def _joined(join: Callable[..., np.ndarray]) -> Callable[..., np.ndarray | None]:
    def joined(out: Aval, params: tuple, *inputs: np.ndarray) -> np.ndarray | None:
        cast = [_astype(out, (), x) for x in inputs]
        return None if any(x is None for x in cast) else join(cast, *params)

    return joined


def _slice(out: Aval, params: tuple, x: np.ndarray, *inputs: Any) -> np.ndarray | None:
    (plan,) = params
    if "a" in plan or "*" in plan:
        return None
    starts = iter(inputs)
    index: list[slice] = []
    for entry in plan:
        if entry == "+":
            continue  # the last reshape puts it in
        if entry == ":":
            index.append(slice(None))
            continue
        size, step, start = (1, 1, None) if entry == "i" else entry
        start = int(next(starts)) if start is None else start
        end = start + (size - 1) * step + (1 if step > 0 else -1)
        index.append(slice(start, end if end >= 0 else None, step) if size else slice(0))
    return x[tuple(index)].reshape(out.shape)


def attach() -> None:
    """Give the ops their functions."""
    named: dict[str, Callable[..., np.ndarray | None]] = {
        **dict.fromkeys(("reshape", "flatten", "unflatten", "squeeze", "expand_dims"), _reshape),
        **dict.fromkeys(("broadcast_to", "full"), _broadcast),
        **dict.fromkeys(("constant", "constant_like"), _constant),
        "transpose": _transpose,
        "concatenate": _joined(np.concatenate),
        "stack": _joined(np.stack),
        "slice": _slice,
    }
    for name, function in named.items():
        HOST[TABLE[name]] = function
