"""Rules of the scans.

Each scan is reduced to the plain scan: along the last axis, forward, inclusive. A reverse scan reads the array from its
end. An exclusive scan drops the element that no result includes. Half precision is accumulated in float32.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._graph.policy import FEW_ELEMENTS, MANY_ROWS, SHORT_ROW
from mxcompat._graph.run.layout import contiguous
from mxcompat._native import native

from ..define import TABLE
from .axes import along_axis
from .blocks import widened
from .precision import inexact, narrowed

__all__: list[str] = []

_BACKWARD = (..., slice(None, None, -1))


_FIRST = (..., slice(None, 1))


_BUT_FIRST, _BUT_LAST = (..., slice(1, None)), (..., slice(None, -1))


def _line(x: Any, axis: int | None, reverse: bool) -> Any:
    """Return a view of the elements with the axis last, in forward order."""
    x = x.reshape(-1) if axis is None else x.swapaxes(axis, -1)
    return x[_BACKWARD] if reverse else x


def _lowest(dtype: np.dtype) -> Any:
    return _limit(dtype, -np.inf) if dtype.kind not in "iu" else np.iinfo(dtype).min


def _highest(dtype: np.dtype) -> Any:
    return _limit(dtype, np.inf) if dtype.kind not in "iu" else np.iinfo(dtype).max


def _limit(dtype: np.dtype, value: float) -> Any:
    return value > 0 if dtype.kind == "b" else complex(value, value) if dtype.kind == "c" else value


def _scan(step: np.ufunc, identity: Callable[[np.dtype], Any]) -> Any:
    """Return the rule of a scan by this ufunc."""

    def rule(out: Aval, params: tuple, x: Any) -> Any:
        axis, reverse, inclusive = params
        dtype = np.dtype(np.float32) if out.dtype._kind == "f" and out.dtype.size == 2 else out.dtype._numpy
        if step is np.logaddexp and out.dtype._kind == "c":
            return None
        if native is not None and step in _IN_C and x.size >= MANY_ROWS:
            scanned = _in_c(step, out.shape, x.astype(dtype, copy=False), params, identity(dtype))
            if scanned is not None:
                return narrowed(scanned, out)
        short = axis is not None and 1 < x.shape[axis] <= SHORT_ROW
        if inclusive and not reverse and not short and (axis is None or axis == x.ndim - 1):
            return narrowed(step.accumulate(x.reshape(out.shape), -1, dtype), out)
        y = np.empty(out.shape, dtype)
        source, target = _line(x, axis, reverse), _line(y, axis, reverse)
        if not inclusive:
            target[_FIRST] = identity(dtype)
            source, target = source[_BUT_LAST], target[_BUT_FIRST]
        if source.ndim > 1 and source.size >= MANY_ROWS * source.shape[-1] and (short or axis != x.ndim - 1):
            _by_columns(step, source, target)
        else:
            step.accumulate(source, -1, dtype, target)
        return narrowed(y, out)

    return rule


_IN_C = {np.add: 0, np.maximum: 1, np.minimum: 2, np.multiply: 3}


def _in_c(step: np.ufunc, shape: tuple[int, ...], x: Any, params: tuple, identity: Any) -> Any:
    """Return the scan from `_native/rows.c`, with NumPy's order of operations; None if it does not have the dtype."""
    axis, reverse, inclusive = params
    x, k = contiguous(x.reshape(shape)), axis or 0
    y = np.empty(shape, x.dtype)
    lines = (math.prod(shape[:k]), shape[k], math.prod(shape[k + 1 :]))
    if not native.scan_rows(y.reshape(lines), x.reshape(lines), _IN_C[step], reverse, inclusive):
        return None
    if not inclusive:
        y.swapaxes(k, -1)[..., -1 if reverse else 0] = identity
    return y


def _by_columns(step: np.ufunc, source: Any, target: Any) -> None:
    """Scan along the last axis, one position at a time. This is fast if the last axis is not the contiguous one."""
    before = None
    for k in range(source.shape[-1]):
        now = target[..., k]
        if before is None:
            now[...] = source[..., k]
        else:
            step(before, source[..., k], out=now, dtype=target.dtype, casting="unsafe")
        before = now


def _derivatives(name: str, back: Callable[..., Any], forth: Callable[..., Any]) -> None:
    """Register the derivative rules of a scan. `back(g, x)` and `forth(t, x)` are the pullback and the pushforward of
    the inclusive scan, from the first to the last element of the last axis."""
    op = TABLE[name]

    def pullback(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
        result = _derivative(back, g, x, x.shape, params, _BUT_LAST, _BUT_FIRST)
        return None if result is None else (result,)

    def pushforward(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
        return _derivative(forth, tangents[0], x, y.shape, params, _BUT_FIRST, _BUT_LAST)

    PULLBACK[op] = pullback
    PUSHFORWARD[op] = pushforward


def _derivative(
    rule: Callable[..., Any], moved: Any, x: Any, shape: tuple[int, ...], params: tuple, to: Any, of: Any
) -> Any:
    """Apply `back` or `forth` to a scan along any axis, in either direction, inclusive or exclusive. Return an array of
    this shape, or None if the rule returns None.

    Args:
        moved: the cotangent or tangent that the rule moves.
        to, of: for an exclusive scan, the part of each line that the rule's result fills, and the part of `moved` that
            it reads.
    """
    x, moved = inexact(x), inexact(moved)
    axis, reverse, inclusive = params
    result = np.zeros(shape, moved.dtype)
    filled, moved, x = [_line(v, axis, reverse) for v in (result, moved, x)]
    if not inclusive:
        filled, moved, x = filled[to], moved[of], x[_BUT_LAST]
    derivative = rule(moved, x) if filled.size else filled
    if derivative is None:
        return None
    filled[...] = derivative
    return result


def _sum_onwards(g: Any) -> Any:
    """Return, for each element, the sum of it and those after it."""
    return np.add.accumulate(g[_BACKWARD], -1)[_BACKWARD]


HOST[TABLE["cumsum"]] = _scan(np.add, lambda dtype: 0)
_derivatives("cumsum", lambda g, x: _sum_onwards(g), lambda t, x: np.add.accumulate(t, -1))
BATCH[TABLE["cumsum"]] = along_axis(0)


def _products_before(x: Any) -> Any:
    before = np.ones_like(x)
    np.multiply.accumulate(x[_BUT_LAST], -1, None, before[_BUT_FIRST])
    return before


def _cumprod_back(g: Any, x: Any) -> Any:
    """Return the cotangent of the input of a running product. There is no division, since elements may be 0.

    A recurrence runs from the last product backwards. To the cotangent of a product, it adds that of the next product,
    times the next element.
    """
    factors = np.zeros_like(x)
    factors[_BUT_LAST] = x[_BUT_FIRST]
    return _recurrence(factors[_BACKWARD], g[_BACKWARD])[_BACKWARD] * _products_before(x)


def _cumprod_forth(t: Any, x: Any) -> Any:
    return _recurrence(x, t * _products_before(x))


def _recurrence(factors: Any, terms: Any) -> Any:
    """Return the recurrence in which each element is the one before it times a factor, plus a term."""
    return np.moveaxis(_recurrence_of_rows(np.moveaxis(factors, -1, 0), np.moveaxis(terms, -1, 0)), 0, -1)


def _recurrence_of_rows(factors: Any, terms: Any) -> Any:
    """Compute `_recurrence` along the first axis instead of the last.

    A long axis is cut into pieces, which are computed side by side, each from a start of 0. Then the contribution of
    the piece before it is added to each piece.
    """
    n, *others = terms.shape
    if n <= FEW_ELEMENTS:
        out = np.array(terms, order="C")
        size = math.prod(others)
        rows = out.reshape(n, size)
        for before, now, factor in zip(rows, rows[1:], factors[1:].reshape(n - 1, size), strict=False):
            now += before * factor
        return out
    length = math.isqrt(n - 1) + 1
    count = -(-n // length)
    pieces = []
    for whole in (factors, terms):
        padded = np.zeros((count * length, *others), whole.dtype)
        padded[:n] = whole
        pieces.append(padded.reshape(count, length, *others).swapaxes(0, 1))
    products = np.multiply.accumulate(pieces[0], 0)
    out = _recurrence_of_rows(*pieces)
    ends = _recurrence_of_rows(products[-1], out[-1])[:-1]
    # a factor of 0 drops the value, even if a product is infinite
    out[:, 1:] += np.where(ends != 0, products[:, 1:] * ends, 0)
    return out.swapaxes(0, 1).reshape(count * length, *others)[:n]


HOST[TABLE["cumprod"]] = _scan(np.multiply, lambda dtype: 1)
_derivatives("cumprod", _cumprod_back, _cumprod_forth)
BATCH[TABLE["cumprod"]] = along_axis(0)


def _hits(x: Any, extreme: np.ufunc) -> Any:
    """Return a mask of the elements that equal the running extreme. The first element of a line always does."""
    return (x == extreme.accumulate(x, -1)) | (x != x)


def _extreme_back(extreme: np.ufunc) -> Callable[..., Any]:
    def back(g: Any, x: Any) -> Any:
        """Return, for each element that equals the running extreme, the sum of the cotangents up to the next such
        element."""
        starts = np.flatnonzero(_hits(x, extreme))
        out = np.zeros(g.size, g.dtype)
        out[starts] = np.add.reduceat(g.reshape(-1), starts)
        return out.reshape(g.shape)

    return back


def _extreme_forth(extreme: np.ufunc) -> Callable[..., Any]:
    def forth(t: Any, x: Any) -> Any:
        latest = np.maximum.accumulate(np.where(_hits(x, extreme), np.arange(x.shape[-1]), 0), -1)
        return np.take_along_axis(t, latest, -1)

    return forth


HOST[TABLE["cummax"]] = _scan(np.maximum, _lowest)
HOST[TABLE["cummin"]] = _scan(np.minimum, _highest)
_derivatives("cummax", _extreme_back(np.maximum), _extreme_forth(np.maximum))
_derivatives("cummin", _extreme_back(np.minimum), _extreme_forth(np.minimum))
BATCH[TABLE["cummax"]] = along_axis(0)
BATCH[TABLE["cummin"]] = along_axis(0)


def _in_two_parts(weighted: Callable[[Any], Any], values: Any) -> Any:
    """Return a weighted sum of values of both signs. `weighted` works on logarithms, so it is called once for the
    positive values and once for the negated negative ones."""
    return np.exp(weighted(np.log(np.maximum(values, 0)))) - np.exp(weighted(np.log(np.maximum(-values, 0))))


def _logcumsumexp_back(g: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return None
    y = np.logaddexp.accumulate(x, -1)
    return _in_two_parts(lambda part: x + np.logaddexp.accumulate((part - y)[_BACKWARD], -1)[_BACKWARD], g)


def _logcumsumexp_forth(t: Any, x: Any) -> Any:
    if x.dtype.kind == "c":
        return None
    y = np.logaddexp.accumulate(x, -1)
    return _in_two_parts(lambda part: np.logaddexp.accumulate(part + x, -1) - y, t)


HOST[TABLE["logcumsumexp"]] = _scan(np.logaddexp, lambda dtype: -np.inf)
_derivatives("logcumsumexp", _logcumsumexp_back, _logcumsumexp_forth)
BATCH[TABLE["logcumsumexp"]] = along_axis(0)


@HOST.of(TABLE["diff"])
def _diff(out: Aval, params: tuple, x: Any) -> Any:
    n, axis = params
    wider = _differences(widened(x), n, axis)
    return narrowed(wider, out)


def _differences(x: Any, n: int, axis: int) -> Any:
    minus = np.logical_xor if x.dtype.kind == "b" else np.subtract
    for _ in range(min(n, x.shape[axis])):
        line = x.swapaxes(axis, -1)
        x = minus(line[_BUT_FIRST], line[_BUT_LAST]).swapaxes(axis, -1)
    return x


@PULLBACK.of(TABLE["diff"])
def _diff_back(g: Any, y: Any, params: tuple, needs_grad: Any, x: Any) -> Any:
    n, axis = params
    g = widened(g).swapaxes(axis, -1)
    for _ in range(min(n, x.shape[axis])):
        c = np.zeros((*g.shape[:-1], g.shape[-1] + 1), g.dtype)
        c[_BUT_FIRST] += g
        c[_BUT_LAST] -= g
        g = c
    return (g.swapaxes(axis, -1),)


@PUSHFORWARD.of(TABLE["diff"])
def _diff_forth(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _differences(widened(tangents[0]), *params)


BATCH[TABLE["diff"]] = along_axis(1)
