"""Nests: arrays from nested lists and tuples of numbers and arrays, for the constructor.

NumPy reads a nest of plain numbers at once. If arrays are among the leaves, the result is a node over them, so that it
stays lazy and gradients flow. Irregular nests raise MLX's errors.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain
from operator import countOf
from struct import pack_into
from typing import Any

import numpy as np

from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import AVALS, Dtype, aval
from mxcompat._graph.ir.node import Node, apply, leaf
from mxcompat._graph.ir.op import Op
from mxcompat._jax import is_tracer, jnp
from mxcompat._native import native

from .casting import converted
from .construct import (
    cast_numpy,
    invalid,
    jax_node,
    natural_dtype,
    node_of,
    number_node,
    numpy_node,
    own,
    rounded,
    type_name,
)  # fmt: skip
from .errors import bad_cast
from .promotion import promote

__all__ = ["NEST", "nest_of", "numbers"]

_SEQUENCES = {list, tuple}


def nest_of(value: Any, dtype: Dtype | None = None) -> Node:
    """Return the node of a constructor argument: all that `node_of` accepts, or nested lists and tuples of numbers and
    arrays.

    Raises:
        ValueError: if lengths differ, if a leaf is neither a number nor an array, or if a tuple follows a number or an
            array.
        RuntimeError: if a number or an array follows a tuple.
    """
    read = _READ.get(type(value))
    if read is not None:
        return read(value, dtype)
    return _sequence(value, dtype) if isinstance(value, (list, tuple)) else node_of(value, dtype)


def _no_numbers(values: Any, dtype: Dtype | None) -> Node | None:
    """Read a regular nest of plain floats, bools or 32-bit integers, in its natural dtype or float32.

    Return None for other values. This is the fast path of `nest_of`, in C. Without the extension it always returns
    None.
    """
    return None


if native:
    _PLAIN = tuple([(d, d._numpy) for d in (_d.float32, _d.int32, _d.bool_)])
    native.connect_numbers(np.empty, AVALS, aval, _PLAIN)

numbers: Callable[[Any, Dtype | None], Node | None] = native.numbers if native else _no_numbers


def _sequence(value: list | tuple, dtype: Dtype | None) -> Node:
    n = len(value)
    if (dtype is None or dtype is _d.float32) and countOf(map(type, value), float) == n and n:
        return leaf(_floats(value), aval((n,), _d.float32))
    kinds = set(map(type, value))
    if kinds <= _NUMBERS and kinds:  # the nest has depth 1
        data, dtype = _numbers_array(value, kinds, dtype)
        return leaf(data, aval((n,), dtype))  # no other array shares the data
    shape: list[int] = []
    first: Any = value
    level = [value]
    while isinstance(first, (list, tuple)):
        n = len(first)
        if not (set(map(type, level)) <= _SEQUENCES and set(map(len, level)) == {n}):
            return _irregular(value, dtype)
        shape.append(n)
        level = list(chain.from_iterable(level))
        if n == 0:
            break
        first = level[0]
    kinds = set(map(type, level))
    if not kinds <= _NUMBERS:
        return _irregular(value, dtype)
    data, dtype = _numbers_array(level, kinds, dtype)
    return leaf(data.reshape(shape), aval(tuple(shape), dtype))


_NUMBERS = {bool, int, float, complex, np.float64}
_FLOATS = {float}


def _floats(numbers: list | tuple) -> np.ndarray:
    """Convert floats to float32, with infinity beyond its range. In NumPy, turning off the overflow warnings would take
    three times as long as converting three numbers."""
    data = np.empty(len(numbers), _SINGLE)
    pack_into(f"{len(numbers)}f", data, 0, *numbers)
    return data


_SINGLE = np.dtype(np.float32)


def _numbers_array(numbers: list | tuple, kinds: set[type], dtype: Dtype | None) -> tuple[np.ndarray, Dtype]:
    """Convert numbers to flat data of a dtype with MLX's rules."""
    if kinds == _FLOATS and (dtype is None or dtype is _d.float32):
        return _floats(numbers), _d.float32
    integral = kinds <= {bool, int}
    natural = _d.float32
    if kinds and kinds <= {bool}:
        natural = _d.bool_
    elif kinds and integral:
        natural = _d.int32
    elif complex in kinds:
        natural = _d.complex64
    want = dtype or natural
    try:
        if not integral:
            data: Any = np.array(numbers, np.complex64 if complex in kinds else np.float64)
        elif dtype is None:
            data = _smallest(numbers, want)
            return data, _d.int64 if data.dtype == np.int64 else want
        elif want._kind in "fc" or want is _d.int64:
            data = np.array(numbers, np.int64)
        else:
            data = np.array(numbers, want._numpy if want in (_d.uint32, _d.uint64) else np.int32)
    except OverflowError:
        raise bad_cast("an integer does not fit in the dtype") from None
    return cast_numpy(rounded(data if want._kind == "c" else data.real, want), want), want


def _smallest(numbers: list | tuple, dtype: Dtype) -> np.ndarray:
    """Convert bools or integers to this dtype, or to int64 if one needs it."""
    try:
        return np.array(numbers, dtype._numpy)
    except OverflowError:
        return np.array(numbers, np.int64)


_READ: dict[type, Callable[[Any, Dtype | None], Node]] = {
    **dict.fromkeys((bool, int, float, complex), number_node),
    **dict.fromkeys((list, tuple), _sequence),
    np.ndarray: numpy_node,
}
"""The reader for each common type of constructor argument."""

NEST = Op(
    "array",
    lambda *parts, shape, dtype: jnp.concatenate([jnp.ravel(converted(p, dtype)) for p in parts]).reshape(shape),
    lambda *parts, shape, dtype: aval(shape, dtype),
    ("shape", "dtype"),
)
"""Assembles an array from arrays, in the order of its elements."""


def _irregular(value: list | tuple, dtype: Dtype | None) -> Node:
    """Convert a nest that contains arrays or instances of subclasses, or raise MLX's error for an irregular one."""
    shape: list[int] = []
    first: Any = value
    while isinstance(first, (list, tuple)):
        shape.append(len(first))
        if not first:
            break
        first = first[0]
    if (node := _array_node(first)) is not None:
        shape += node.aval.shape
    leaves: list[Any] = []
    after_lists: list[tuple] = []
    try:
        _read(value, tuple(shape), leaves, after_lists)
    except (ValueError, RuntimeError):
        if after_lists:  # MLX stops at the first of them
            raise invalid(after_lists[0]) from None
        raise
    natural: Dtype | None = None
    for x in leaves:
        kind = x.aval.dtype if isinstance(x, Node) else natural_dtype(x)
        natural = kind if natural is None else promote(natural, kind)
    want = dtype or natural or _d.float32
    if not any(isinstance(x, Node) for x in leaves):
        data, want = _numbers_array(leaves, {_plain(x) for x in leaves}, dtype)
        return own(data.reshape(shape), want)
    parts: list[Node] = []
    run: list[Any] = []
    for x in [*leaves, None]:
        if x is not None and not isinstance(x, Node):
            run.append(x)
            continue
        if run:
            with np.errstate(all="ignore"):
                data = np.array(run, np.int64 if all(isinstance(n, int) for n in run) else None)
            parts.append(own(cast_numpy(rounded(data, want), want), want))
            run = []
        if x is not None:
            parts.append(x)
    return apply(NEST, tuple(parts), (tuple(shape), want))


def _plain(number: Any) -> type:
    """Return the built-in type that a number is an instance of."""
    return next(t for t in (bool, int, float, complex) if isinstance(number, t))


def _read(values: list | tuple, shape: tuple[int, ...], out: list[Any], after_lists: list[tuple]) -> None:
    """Collect the leaves of a nest that must have this shape: nodes and numbers. Check the elements in MLX's order.

    In MLX, tuples and lists may follow a tuple, but a tuple must not follow anything else. Tuples that follow a list
    are accepted here, and collected in `after_lists`.
    """
    if not shape:
        raise ValueError("Initialization encountered extra dimension.")
    if len(values) != shape[0]:
        raise _not_uniform()
    first = values[0] if values else None
    for x in values:
        if isinstance(x, list):
            _read(x, shape[1:], out, after_lists)
        elif isinstance(x, tuple) and isinstance(first, (list, tuple)):
            if isinstance(first, list):
                after_lists.append(x)
            _read(x, shape[1:], out, after_lists)
        elif isinstance(first, tuple):
            raise bad_cast(f"the first element is a tuple, but another one is of type {type_name(x)}")
        elif (node := _array_node(x)) is not None:
            if node.aval.shape != shape[1:]:
                raise _not_uniform()
            out.append(node)
        elif isinstance(x, (bool, int, float, complex)):
            if len(shape) > 1:
                raise _not_uniform()
            out.append(x)
        else:
            raise ValueError(f"Invalid type {type_name(x)} received in array initialization.")


def _not_uniform() -> ValueError:
    return ValueError("Initialization encountered non-uniform length.")


def _array_node(value: Any) -> Node | None:
    node = getattr(value, "_node", None)
    if isinstance(node, Node):
        return node
    return jax_node(value, None) if is_tracer(value) else None
