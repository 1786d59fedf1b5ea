"""Rules of comparisons and of logical ops. Some also say what dtype the tangent of their bool has: see `tangents`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from mxcompat._array.promotion import promote, summed_dtype
from mxcompat._graph.ir.aval import Aval, Dtype, bool_, int32
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, INDEX_ERROR, TANGENT_DTYPE
from mxcompat._graph.policy import CACHED_BYTES
from mxcompat._graph.run.layout import combined

from ..batching import aligned, batched_elementwise, rank
from ..define import TABLE
from .tangents import NEGATED, dtype_of_logical, dtype_of_result, refuse_bools
from .two_operands import Ufunc, alike, at_least, larger, of_kinds, readable

__all__: list[str] = []

_FLOAT32 = np.dtype(np.float32)


def _comparison(function: Ufunc) -> Callable[..., Any]:
    def rule(out: Aval, params: tuple, x: Any, y: Any) -> Any:
        if x.dtype is not y.dtype:
            x, y = alike(x, y)
        if out.size < CACHED_BYTES:
            return function(x, y)
        return combined(function, *readable(x, y))

    return rule


_COMPARISONS: dict[str, Ufunc] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": of_kinds("c", lambda x, y: larger(y, x), np.less),
    "less_equal": of_kinds("c", lambda x, y: at_least(y, x), np.less_equal),
    "greater": of_kinds("c", larger, np.greater),
    "greater_equal": of_kinds("c", at_least, np.greater_equal),
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

for _name, _function in _COMPARISONS.items():
    HOST.of(TABLE[_name])(_comparison(_function))


@TANGENT_DTYPE.of(*[TABLE[name] for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")])
def _compared(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    """Return the tangent dtype of a comparison: that of the first operand with a tangent, or the promoted dtype if the
    op casts this operand."""
    dtype = reduce(promote, [operand.dtype for operand in operands])
    cast = [t if t is None or a.dtype is dtype else dtype for t, a in zip(tangents, operands, strict=True)]
    return next(filter(None, cast))


TANGENT_DTYPE.of(TABLE["logical_and"], TABLE["logical_or"])(dtype_of_result)
TANGENT_DTYPE.of(TABLE["logical_xor"])(dtype_of_logical)


@HOST.of(TABLE["array_equal"])
def _array_equal(out: Aval, params: tuple, x: Any, y: Any) -> Any:
    x, y = alike(x, y)
    same = x == y
    if params[0]:
        same = same | ((x != x) & (y != y))
    return same.all()


@BATCH.of(TABLE["array_equal"])
def _array_equal_batched(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node:
    x, y = aligned(inputs, batched, rank(inputs, batched))
    same = apply(TABLE["equal"], (x, y))
    if params[0]:
        both = apply(TABLE["logical_and"], (apply(TABLE["isnan"], (x,)), apply(TABLE["isnan"], (y,))))
        same = apply(TABLE["logical_or"], (same, both))
    return _all(same)


def _all(node: Node) -> Node:
    """Return whether all elements are true, over all axes but the first."""
    return apply(TABLE["all"], (node,), (tuple(range(1, node.aval.ndim)), False))


@TANGENT_DTYPE.of(TABLE["array_equal"])
def _all_compared(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    dtype = _compared(tangents, operands, result)
    return dtype if all(a.size == 1 for a in operands) else summed_dtype(dtype)


@HOST.of(TABLE["isclose"])
def _isclose(out: Aval, params: tuple, x: Any, y: Any, rtol: Any, atol: Any) -> Any:
    x, y = alike(x, y)
    kind = x.dtype.kind
    wide = np.dtype(np.float64) if x.dtype == np.float64 else _FLOAT32
    if kind == "b":
        return (x ^ y).astype(wide) <= atol + rtol * y.astype(wide)
    scale = atol + rtol * np.abs(y).astype(wide, copy=False)
    near = np.abs(x - y).astype(wide, copy=False) <= scale
    if kind in "iu":
        return near
    near = np.where(np.isfinite(x) & np.isfinite(y), near, x == y)
    return near | ((x != x) & (y != y)) if params[0] else near


@BATCH.of(TABLE["isclose"])
def _isclose_batched(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node | None:
    """Batch an op whose last inputs are numbers that do not broadcast."""
    return None if any(batched[2:]) else batched_elementwise(op, params, inputs, batched, size)


@TANGENT_DTYPE.of(TABLE["isclose"])
def _close_tangent(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    refuse_bools(tangents[1])
    return bool_


@INDEX_ERROR.of(TABLE["isclose"], TABLE["allclose"])
def _subtracted(transform: str, params: tuple, places: set[int], operands: Sequence[Aval]) -> Exception | None:
    """Return the error of a VJP: MLX negates the cotangent of the second operand, which it refuses for bools."""
    bools = all(a.dtype is bool_ for a in operands[:2])
    return ValueError(NEGATED) if transform == "VJP" and bools and 1 in places else None


@HOST.of(TABLE["allclose"])
def _allclose(out: Aval, params: tuple, *inputs: Any) -> Any:
    return _isclose(out, params, *inputs).all()


@BATCH.of(TABLE["allclose"])
def _allclose_batched(op: Op, params: tuple, inputs: tuple, batched: tuple[bool, ...], size: int) -> Node | None:
    near = _isclose_batched(TABLE["isclose"], params, inputs, batched, size)
    return near and _all(near)


@TANGENT_DTYPE.of(TABLE["allclose"])
def _all_close_tangent(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    refuse_bools(tangents[1])
    return int32
