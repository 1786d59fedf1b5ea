"""`x[...]` and `x[...] = v`: the methods of `array` that turn a subscript into a node.

Ints, slices and lone index arrays are the most common, and are recognised first. A write points the handle (the `array`
object) at a new node. Aliases of the handle see the write; results computed from the old node do not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.nest import nest_of
from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.run.evaluate import evaluated_on_host

from ..movement.shape import RESHAPE
from .at import ArrayAt, at
from .gather import SLICE, read
from .plan import is_full, parse, place
from .put import MASKED_SCATTER
from .scatter import FILL, check_items, fit, stretch, value_node, write

__all__ = ["attach"]

_ONE = (("i",),)


def getitem(self: array, index: Any, /) -> array:
    """Return `x[index]`, by MLX's rules: ints, slices, None, Ellipsis, arrays and lists of ints, and tuples of them.

    Returns:
        An array with the dtype of `x`. It is never a view.

    Raises:
        ValueError: if there are too many indices, or if an item is not a valid index. A mask cannot be used for
            reading.
        IndexError: if an int is out of bounds. (An index out of bounds in an array reads the nearest element.)
    """
    x = self._node
    if type(index) is int:
        shape = x.aval.shape
        if shape and 0 <= index < shape[0]:
            return wrap(apply(SLICE, (x, place(index)), _ONE))
    plan, nodes = parse(index, x.aval.shape, "gather")
    return wrap(read(x, plan, nodes))


def setitem(self: array, index: Any, value: Any, /) -> None:
    """Set the elements at an index: `x[index] = value`.

    The value is cast to the dtype of `x` and broadcasts to the shape of `x[index]`. But `x[...] = value`, `x[None] =
    value`, and any write to a 0-dimensional array replace the array, which takes the dtype of the value. `index` may
    also be a mask: an array of bools (of mxcompat or NumPy, or a list) with the shape of `x` or of its first axes.

    Raises:
        ValueError: as for reading; if the value does not broadcast, or if it is not an array, a number or a NumPy
            value.
        RuntimeError: if there are fewer values than the mask selects.
    """
    x = self._node
    new = value_node(value, x.aval.dtype)
    mask = _mask(index)
    self._node = _assign(x, index, new) if mask is None else _assign_masked(x, mask, new)


def _assign(x: Node, index: Any, value: Node) -> Node:
    plan, nodes = parse(index, x.aval.shape, "scatter")
    if not is_full(plan):
        check_items(index, value, x, plan)
        return write(x, value, plan, nodes)
    dtype = value.aval.dtype if index is None or index is Ellipsis or not x.aval.shape else x.aval.dtype
    if index is None:
        stretch(value.aval.shape, x.aval.shape)
    elif index is not Ellipsis:
        shape, _ = fit(value.aval.shape, x.aval.shape, plan, [])
        if shape != value.aval.shape:  # drop new axes, which the array does not have
            value = apply(RESHAPE, (value,), (shape,))
    if value.aval is aval(x.aval.shape, dtype):
        return value
    return apply(FILL, (value,), (x.aval.shape, dtype))


def _mask(index: Any) -> Node | None:
    """Return the node of an index that is a mask; None for any other index."""
    kind = type(index)
    if kind is int or kind is slice or isinstance(index, tuple):
        return None
    if isinstance(index, array):
        node = index._node
    elif kind is bool or isinstance(index, np.bool_) or (isinstance(index, np.ndarray) and index.dtype == bool):
        node = nest_of(np.asarray(index))
    elif isinstance(index, list) and index:
        node = nest_of(index)
    else:
        return None
    return node if node.aval.dtype._kind == "b" else None


def _assign_masked(x: Node, mask: Node, value: Node) -> Node:
    written = apply(MASKED_SCATTER, (x, value, mask))
    rows = value.aval.shape[0] if value.aval.ndim > x.aval.ndim - mask.aval.ndim else mask.aval.size
    if rows < mask.aval.size and not mask.trace and int(evaluated_on_host(mask).sum()) > rows:
        raise RuntimeError("[MaskedScatter::eval_cpu] Source does not have enough elements for mask.")
    return written


def attach() -> None:
    """Add the subscript methods and `at` to `array`."""
    array.__getitem__ = getitem  # type: ignore[attr-defined]
    array.__setitem__ = setitem  # type: ignore[attr-defined]
    array.at = property(at, doc=ArrayAt.__doc__)  # type: ignore[attr-defined]


attach()
