"""Rules of one-dimensional convolution and the Hadamard transform."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.rules import HOST, PULLBACK, PUSHFORWARD

from ..products.contraction import bilinear, rounded, widened
from .signal import CONVOLVE, HADAMARD_TRANSFORM, factors_of, hadamard_matrix

__all__: list[str] = []


@HOST.of(CONVOLVE)
def _host_convolve(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype._numpy
    return rounded(np.convolve(widened(x, dtype), widened(y, dtype), params[0]), dtype)


@PULLBACK.of(CONVOLVE)
def _pull_convolve(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    x, y, g = widened(x, dtype), widened(y, dtype), widened(g, dtype)
    whole = np.zeros(x.size + y.size - 1, g.dtype)
    short = min(x.size, y.size) - 1
    start = {"full": 0, "same": short // 2, "valid": short}[params[0]]
    whole[start : start + g.size] = g
    return tuple([np.correlate(whole, other.conj(), "valid") for other in (y, x)])


@PUSHFORWARD.of(CONVOLVE)
def _push_convolve(tangents: Any, out: Any, params: tuple, x: Any, y: Any) -> Any:
    return bilinear(lambda a, b: np.convolve(a, b, params[0]), tangents, out.dtype, x, y)


def _transformed(x: Any, transpose: bool) -> Any:
    """Return the Hadamard transform, or its transpose, in float32."""
    size = x.shape[-1] if x.ndim else 1
    m = factors_of(size)[0]
    values = rounded(x.real if x.dtype.kind == "c" else x, np.float32)
    if m > 1:
        matrix = hadamard_matrix(m).astype(np.float32)
        values = (matrix.T if transpose else matrix) @ values.reshape(-1, m, size // m)
    values = values.reshape(-1, size // m)
    for _ in range((size // m).bit_length() - 1):  # a factor of size 2 takes the sums and differences of neighbours
        before, values = values, np.empty_like(values)
        middle = values.shape[1] // 2
        np.add(before[:, ::2], before[:, 1::2], out=values[:, :middle])
        np.subtract(before[:, ::2], before[:, 1::2], out=values[:, middle:])
    return values.reshape(x.shape)


@HOST.of(HADAMARD_TRANSFORM)
def _host_hadamard(out: Any, params: tuple, x: Any, scale: Any) -> Any:
    return rounded(_transformed(x, False) * scale, out.dtype._numpy)


@PULLBACK.of(HADAMARD_TRANSFORM)
def _pull_hadamard(g: Any, out: Any, params: tuple, needs_grad: tuple, x: Any, scale: Any) -> Any:
    return None if needs_grad[1] else (_transformed(g, True) * scale, None)


@PUSHFORWARD.of(HADAMARD_TRANSFORM)
def _push_hadamard(tangents: Any, out: Any, params: tuple, x: Any, scale: Any) -> Any:
    return None if tangents[1] is not None else _transformed(tangents[0], False) * scale
