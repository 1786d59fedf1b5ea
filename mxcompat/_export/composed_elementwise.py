"""MLX's primitives for elementwise ops: arithmetic, comparisons, tests of numbers, casts. See `primitives`."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, pi
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Dtype, bool_, complex64, float32

from .chain import ALL, Chain, Constant, Source

__all__ = ["ELEMENTWISE", "absolute", "infinite", "real_dtype", "unknown"]

_BITWISE = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
"""The bitwise ops in the order of MLX's numbers for them."""


def _float(name: str, *arguments: Any) -> Callable[..., Any]:
    """Return the rule of a unary primitive that computes in floats."""
    return lambda c: c.unary(name, c.floating(0), *arguments)


def _binary(name: str, *arguments: Any) -> Callable[..., Any]:
    """Return the rule of a binary primitive that computes in the dtype of the result."""
    return lambda c: c.op(name, 0, 1, arguments=arguments, dtype=c.out_avals[0].dtype)


def _power(c: Chain) -> Any:
    """Append a power. Unlike MLX's other binary ops, it does not broadcast operands of equal shape."""
    dtype = c.out_avals[0].dtype
    sides = c.together([0, 1], dtype) if c.shape(0) != c.shape(1) else c.of_one_dtype([0, 1], dtype)
    return c.add("Power", sides, c.out_avals[0].shape)


def _test(name: str, *arguments: Any) -> Callable[..., Any]:
    return lambda c: c.test(name, 0, 1, arguments=arguments)


def _logical(name: str) -> Callable[..., Any]:
    return lambda c: c.logical(name, 0, 1)


def _scaled(factor: float) -> Callable[..., Any]:
    return lambda c: c.op("Multiply", 0, Constant(factor, c.float_of(0)))


def absolute(c: Chain, x: Source) -> Source:
    return c.cast(c.unary("Abs", x), real_dtype(c.dtype(x)))


def real_dtype(dtype: Dtype) -> Dtype:
    return float32 if dtype is complex64 else dtype


def _reciprocal(c: Chain) -> Any:
    return c.op("Divide", Constant(1.0, c.float_of(0)), 0)


def _bitwise_invert(c: Chain) -> Any:
    return c.unary("LogicalNot" if c.dtype(0) is bool_ else "BitwiseInvert", 0)


def _real(c: Chain) -> Any:
    return c.add("Real", [0], c.shape(0), dtype=float32) if c.dtype(0) is complex64 else 0


def _imag(c: Chain) -> Any:
    if c.dtype(0) is complex64:
        return c.add("Imag", [0], c.shape(0), dtype=float32)
    return c.filled(0, c.shape(0), c.dtype(0))


def _conj(c: Chain) -> Any:
    return c.unary("Conjugate", 0) if c.dtype(0) is complex64 else 0


def unknown(c: Chain, x: Source) -> Source:
    """Return a mask of the elements that are NaN."""
    if c.dtype(x)._kind not in "fc":
        return c.filled(False, c.shape(x), bool_)
    return c.test("NotEqual", x, x)


def at_end(c: Chain, x: Source, end: float) -> Source:
    """Return a mask of the elements that equal the infinity `end`."""
    if c.dtype(x)._kind not in "fc":
        return c.filled(False, c.shape(x), bool_)
    return c.equal(x, c.constant(end, x))


def infinite(c: Chain, x: Source) -> Source:
    """Return a mask of the elements that are infinite."""
    if c.dtype(x)._kind not in "fc":
        return c.filled(False, c.shape(x), bool_)
    if c.dtype(x) is complex64:
        parts = [c.add(name, [x], c.shape(x), dtype=float32) for name in ("Real", "Imag")]
        return c.logical("LogicalOr", *[infinite(c, part) for part in parts])
    return c.logical("LogicalOr", at_end(c, x, inf), at_end(c, x, -inf))


def _isfinite(c: Chain) -> Any:
    if c.dtype(0)._kind not in "fc":
        return c.filled(True, c.shape(0), bool_)
    return c.unary("LogicalNot", c.logical("LogicalOr", infinite(c, 0), unknown(c, 0)))


def _isclose(c: Chain, equal_nan: bool) -> Any:
    away = absolute(c, c.op("Subtract", 0, 1))
    near = c.test("LessEqual", away, c.op("Add", 3, c.op("Multiply", 2, absolute(c, 1))))
    high, low = ([at_end(c, x, end) for x in (0, 1)] for end in (inf, -inf))
    ends = c.logical("LogicalOr", *[c.logical("LogicalOr", *two) for two in zip(high, low, strict=True)])
    same = [c.logical("LogicalAnd", *two) for two in (high, low)]
    finite = c.logical("LogicalAnd", near, c.unary("LogicalNot", ends))
    is_near = c.logical("LogicalOr", finite, c.logical("LogicalOr", *same))
    if not equal_nan:
        return is_near
    return c.logical("LogicalOr", is_near, c.logical("LogicalAnd", unknown(c, 0), unknown(c, 1)))


def _allclose(c: Chain, equal_nan: bool) -> Any:
    near = _isclose(c, equal_nan)
    return c.reduced(near, ALL, range(c.of(near).ndim))


def _nan_to_num(c: Chain) -> Any:
    if c.dtype(0)._kind not in "fc":
        return 0
    if None in c.numbers[1:]:
        return None
    nan, high, low = (c.constant(n, 0) for n in c.numbers[1:])
    out: Source = 0
    for where, number in ((unknown(c, 0), nan), (at_end(c, 0, inf), high), (at_end(c, 0, -inf), low)):
        out = c.select(where, number, out)
    return out


def _round(c: Chain, decimals: int) -> Any:
    if not decimals:
        return c.unary("Round", 0)
    dtype = c.float_of(0)
    raised = c.unary("Round", c.op("Multiply", 0, Constant(10.0**decimals, dtype)))
    return c.cast(c.op("Multiply", raised, Constant(10.0**-decimals, dtype)), c.dtype(0))


def _trunc(c: Chain) -> Any:
    if c.dtype(0)._kind in "iu":
        return 0
    negative = c.test("Less", 0, c.constant(0, 0))
    return c.select(negative, c.unary("Ceil", 0), c.unary("Floor", 0))


def _hadamard(c: Chain) -> Any:
    scale = c.numbers[1]
    return None if scale is None else c.unary("Hadamard", c.cast(0, c.out_avals[0].dtype), float(np.float32(scale)))


def _cast(c: Chain, dtype: Dtype) -> Any:
    return c.copy(0, dtype)


ELEMENTWISE: dict[str, Callable[..., Any]] = {
    **{name: _float("".join(part.capitalize() for part in name.split("_")))
       for name in ("cos", "cosh", "erf", "exp", "expm1", "log1p", "sigmoid", "sin", "sinh", "tan", "tanh")},
    **{f"arc{name}": _float(f"Arc{name.capitalize()}") for name in ("cos", "cosh", "sin", "sinh", "tan", "tanh")},
    **{name: _float("Log", code) for code, name in enumerate(("log2", "log10", "log"))},
    **{name: _binary("BitwiseBinary", code) for code, name in enumerate(_BITWISE)},
    "abs": lambda c: absolute(c, 0), "add": _binary("Add"), "allclose": _allclose, "arctan2": _binary("ArcTan2"),
    "astype": _cast, "bitwise_invert": _bitwise_invert, "cast": _cast, "conj": _conj,
    "copy": lambda c: c.copy(0, c.dtype(0)), "degrees": _scaled(180 / pi), "divide": _binary("Divide"),
    "equal": _test("Equal", False), "erfinv": _float("ErfInv"), "floor_divide": _binary("FloorDivide"),
    "greater": _test("Greater"), "greater_equal": _test("GreaterEqual"), "hadamard_transform": _hadamard,
    "imag": _imag, "isclose": _isclose, "isfinite": _isfinite, "isinf": lambda c: infinite(c, 0),
    "isnan": lambda c: unknown(c, 0), "isneginf": lambda c: at_end(c, 0, -inf),
    "isposinf": lambda c: at_end(c, 0, inf), "less": _test("Less"), "less_equal": _test("LessEqual"),
    "logaddexp": _binary("LogAddExp"), "logical_and": _logical("LogicalAnd"),
    "logical_not": lambda c: c.unary("LogicalNot", c.cast(0, bool_)), "logical_or": _logical("LogicalOr"),
    "logical_xor": _logical("NotEqual"), "maximum": _binary("Maximum"), "minimum": _binary("Minimum"),
    "multiply": _binary("Multiply"), "nan_to_num": _nan_to_num, "not_equal": _test("NotEqual"),
    "positive": lambda c: c.unary("Copy", 0), "power": _power, "radians": _scaled(pi / 180), "real": _real,
    "reciprocal": _reciprocal, "remainder": _binary("Remainder"), "round": _round, "rsqrt": _float("Sqrt", True),
    "sqrt": _float("Sqrt", False), "stop_gradient": lambda c: c.unary("StopGradient", 0),
    "subtract": _binary("Subtract"), "trunc": _trunc, "update_negative": lambda c: c.unary("Negative", 0),
    "update_reciprocal": _reciprocal, "where": lambda c: c.select(0, 1, 2),
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
