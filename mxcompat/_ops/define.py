"""Defining ops: from a record to the public function.

Each helper takes what distinguishes an op (its JAX implementation, its dtype rule, its docstring) and returns the
function that users call, with the `Op` record at `function.op`. `TABLE` holds every record; tests walk it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._graph.aval import Aval, Dtype, aval
from mxcompat._graph.aval import float32 as _float32
from mxcompat._graph.aval import from_numpy
from mxcompat._graph.node import Node, apply
from mxcompat._graph.op import Op

__all__ = ["TABLE", "as_float", "binary", "broadcast", "op", "same", "unary"]

TABLE: dict[str, Op] = {}
"""Every op, by name."""


def op(name: str, impl: Callable[..., Any], infer: Callable[..., Any] | None = None, params: tuple[str, ...] = ()) -> Op:
    """A new entry of the table. Raises ValueError if the name is taken."""
    if name in TABLE:
        raise ValueError(f"op {name} is defined twice")
    TABLE[name] = record = Op(name, impl, infer, params)
    return record


def same(dtype: Dtype) -> Dtype:
    """Result dtype: the operand's own."""
    return dtype


def as_float(dtype: Dtype) -> Dtype:
    """Result dtype: the operand's own if it is inexact, else float32."""
    return dtype if dtype.kind in "fc" else _float32


def broadcast(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that these broadcast to. Raises MLX's ValueError."""
    out = shapes[0]
    for shape in shapes[1:]:
        if shape == out:
            continue
        longer, shorter = (out, shape) if len(out) >= len(shape) else (shape, out)
        offset = len(longer) - len(shorter)
        sizes = list(longer)
        for k, n in enumerate(shorter):
            m = longer[offset + k]
            if m == 1:
                sizes[offset + k] = n
            elif n not in (1, m):
                shown = " and ".join("(" + ",".join(map(str, s)) + ")" for s in (out, shape))
                raise ValueError(f"[broadcast_shapes] Shapes {shown} cannot be broadcast.")
        out = tuple(sizes)
    return out


def unary(name: str, impl: Callable[..., Any], result: Callable[[Dtype], Dtype], doc: str) -> Callable[..., array]:
    """The public function of an elementwise op of one array.

    `impl` is given its input already cast to `result(dtype)`, unless the result is bool.
    """

    def lower(x: Any) -> Any:
        want = result(from_numpy(x.dtype))  # type: ignore[arg-type]
        x = jnp.asarray(x)
        return impl(x if want.kind == "b" else x.astype(want.numpy))

    record = op(name, lower, lambda a: aval(a.shape, result(a.dtype)))

    def function(a: Any, /, *, stream: Any = None) -> array:
        return wrap(apply(record, (operands.node(a),)))

    return _named(function, record, doc)


def binary(
    name: str, impl: Callable[..., Any], doc: str, result: Callable[[Dtype, Dtype], Dtype] = promote,
    compute: Callable[[Dtype, Dtype], Dtype] | None = None,
) -> Callable[..., array]:  # fmt: skip
    """The public function of an elementwise op of two arrays.

    `impl` is given its inputs broadcast and cast to `compute(dtype, dtype)`, by default the dtype of the result.
    """
    compute = compute or result

    def infer(a: Aval, b: Aval) -> Aval:
        return aval(broadcast(a.shape, b.shape), result(a.dtype, b.dtype))

    def lower(x: Any, y: Any) -> Any:
        want = compute(from_numpy(x.dtype), from_numpy(y.dtype)).numpy  # type: ignore[arg-type]
        return impl(jnp.asarray(x, want), jnp.asarray(y, want))

    record = op(name, lower, infer)

    def function(a: Any, b: Any, *, stream: Any = None) -> array:
        return wrap(apply(record, operands.pair(a, b)))

    return _named(function, record, doc)


def operator(function: Any, swapped: bool = False) -> Callable[[array, Any], array]:
    """The operator method (`__add__` …) of a binary op, as fast as it can be: this is what programs call most."""
    record: Op = function.op
    memo = record.memo
    new = array.__new__
    convert = operands.node

    def method(self: array, other: Any) -> array:
        x = self._node
        y = other._node if type(other) is array else convert(other, x.aval.dtype)
        if swapped:
            x, y = y, x
        key = ((), x.aval, y.aval)
        result = memo.get(key)
        if result is None:
            result = record.infer(key)
        trace = x.trace
        if y.trace > trace:
            trace = y.trace
        out = new(array)
        out._node = Node(record, (), (x, y), result, trace)
        return out

    return method


def _named(function: Callable[..., array], record: Op, doc: str) -> Callable[..., array]:
    function.__name__ = function.__qualname__ = record.name
    function.__doc__ = doc
    function.op = record  # type: ignore[attr-defined]
    return function
