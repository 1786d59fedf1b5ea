"""Padding: margins around an array, filled with a constant or with nearby elements."""

from __future__ import annotations

from typing import Any

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.casting import converted
from mxcompat._array.errors import incompatible
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp

from ..arguments import integer, integers, is_sequence, require_array, require_text
from ..define import op
from ..elementwise.by_bits import by_bits

__all__ = ["pad", "widths_by_axis"]

_MODES = ("constant", "edge", "reflect", "symmetric")

_Widths = tuple[tuple[int, int], ...]


def widths_by_axis(widths: _Widths, ndim: int) -> _Widths:
    """Return a pair of widths for each axis. A single pair applies to all axes."""
    return widths * ndim if len(widths) == 1 else widths


def _pad_aval(a: Aval, value: Aval | None = None, *, widths: _Widths, mode: str) -> Aval:
    margins = widths_by_axis(widths, a.ndim)
    if len(margins) != a.ndim:
        raise ValueError(f"Invalid number of padding sizes passed to pad with axes of size {a.ndim}")
    for axis, pair in enumerate(margins):
        for name, n in zip(("low", "high"), pair, strict=True):
            if n < 0:
                raise ValueError(
                    f"Invalid {name} padding size ({n}) passed to pad for axis {axis}. "
                    "Padding sizes must be non-negative"
                )
    if mode not in _MODES:
        raise ValueError(f"Invalid padding mode ({mode}) passed to pad")
    for axis, (n, pair) in enumerate(zip(a.shape, margins, strict=True)):
        if n == 0 and any(pair) and mode in ("reflect", "symmetric"):
            raise ValueError(f"[pad] Cannot pad empty axis {axis} using mode '{mode}'.")
    return aval(tuple([low + n + high for n, (low, high) in zip(a.shape, margins, strict=True)]), a.dtype)


def _pad_impl(x: Any, value: Any = None, *, widths: _Widths, mode: str) -> Any:
    x = jnp.asarray(x)
    margins = widths_by_axis(widths, x.ndim)
    if mode == "constant" or 0 in x.shape:
        fill = jnp.zeros((), x.dtype) if value is None else jnp.ravel(value)[0]
        fill = converted(fill, from_numpy(x.dtype))  # type: ignore[arg-type]
        return jax.lax.pad(x, fill, [(low, high, 0) for low, high in margins])
    return jnp.pad(x, margins, mode) if x.ndim else x


PAD = op("pad", by_bits(_pad_impl, slice(None)), _pad_aval, ("widths", "mode"))


def _widths(pad_width: Any) -> _Widths:
    if not is_sequence(pad_width):
        n = integer(pad_width)
        return ((n, n),)
    entries = [pad_width[k] for k in range(len(pad_width))]
    if not entries:
        return ()
    if not is_sequence(entries[0]):
        flat = integers(pad_width)
        if not 1 <= len(flat) <= 2:
            raise incompatible("pad", "Expected one or two ints, or a pair per axis.")
        return ((flat[0], flat[-1]),)
    pairs = [integers(p) for p in entries]
    if any(len(p) != 2 for p in pairs):
        raise incompatible("pad", "Expected a pair of ints for each axis.")
    return tuple(pairs)  # type: ignore[arg-type]


def pad(a: array, /, pad_width: Any, mode: str = "constant", constant_values: Any = 0, *, stream: Any = None) -> array:
    """Add margins to an array.

    Args:
        a: an array.
        pad_width: the widths: a pair `(before, after)` for each axis, one such pair for all axes, or one int for all
            sides.
        mode: the values in the margins. "constant": `constant_values`. "edge": the outermost elements. "reflect": the
            mirrored array. "symmetric": the mirrored array with the outermost elements repeated.
        constant_values: a number or a 0-d array.
        stream: accepted, and ignored.

    Returns:
        An array with the dtype of `a`.

    Raises:
        ValueError: if the widths do not fit or are negative, or if there is no such mode.

    Example:
        >>> mx.pad(mx.ones((2, 2)), [(1, 1), (0, 2)])
        array([[0, 0, 0, 0],
               [1, 1, 0, 0],
               [1, 1, 0, 0],
               [0, 0, 0, 0]], dtype=float32)
    """
    check_stream(stream)
    x = require_array(a, "pad")
    require_text(mode, "pad", "mode")
    params = (_widths(pad_width), mode)
    value = operands.node(constant_values, x.aval.dtype)
    return wrap(apply(PAD, (x, value) if mode == "constant" else (x,), params))
