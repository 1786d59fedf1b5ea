"""`x.at[index].add(value)` and its relatives: updates in which every duplicate index counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from mxcompat._array.array import array, wrap
from mxcompat._graph.ir.aval import aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp

from ..define import as_float, op
from ..elementwise import arithmetic
from ..elementwise.quotient import quotient
from .plan import parse
from .scatter import FILL, check_items, stretch, stripped, value_node, write

__all__ = ["ArrayAt", "at"]

_UNSET = object()

_NEGATE = op("update_negative", lambda x: -jnp.asarray(x), lambda a: a)


def _reciprocal(x: Any) -> Any:
    x = jnp.asarray(x)
    x = x if jnp.issubdtype(x.dtype, jnp.inexact) else x.astype(jnp.float32)
    return quotient(jnp.ones((), x.dtype), x)


_RECIPROCAL = op("update_reciprocal", _reciprocal, lambda a: aval(a.shape, as_float(a.dtype)))


class ArrayAt:
    """Updates of an array at an index: `x.at[index].add(value)`, and the same with `subtract`, `multiply`, `divide`,
    `maximum` and `minimum`.

    Each method returns a new array with the shape and dtype of `x`. The value is cast to that dtype and broadcasts to
    the shape of `x[index]`. If an index occurs several times, every occurrence counts; `x[index] += value` updates the
    element once. As in MLX, `x.at[...]` and `x.at[None]` do not cast the value: they promote, like `x + value`. An
    update of a 0-dimensional array promotes too.

    Raises:
        ValueError: if the index or the value does not fit, or if no index is given.

    Example:
        >>> mx.zeros(2).at[mx.array([0, 1, 0])].add(1)
        array([2, 1], dtype=float32)
    """

    __slots__ = ("_index", "_node")

    if TYPE_CHECKING:
        _node: Node
        _index: Any

    def __new__(cls, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError("mlx.core.ArrayAt: no constructor defined!")

    def __getitem__(self, indices: Any) -> ArrayAt:
        self._index = indices
        return self

    def add(self, value: Any) -> array:
        """Return `x` with the value added at the index."""
        return self._update("add", value)

    def subtract(self, value: Any) -> array:
        """Return `x` with the value subtracted at the index."""
        return self._update("subtract", value)

    def multiply(self, value: Any) -> array:
        """Return `x` multiplied by the value at the index."""
        return self._update("multiply", value)

    def divide(self, value: Any) -> array:
        """Return `x` multiplied, at the index, by the reciprocal of the value.

        The reciprocal is cast to the dtype of `x`. So integers divided by 2 become zero, as in MLX.
        """
        return self._update("divide", value)

    def maximum(self, value: Any) -> array:
        """Return `x` with the maximum of its elements and the value at the index."""
        return self._update("maximum", value)

    def minimum(self, value: Any) -> array:
        """Return `x` with the minimum of its elements and the value at the index."""
        return self._update("minimum", value)

    def _update(self, mode: str, value: Any) -> array:
        index, x = self._index, self._node
        if index is _UNSET:
            raise ValueError("Must give indices to array.at (e.g. `x.at[0].add(4)`).")
        new = value_node(value, x.aval.dtype)
        if index is None or index is Ellipsis:
            return _elementwise(mode, x, new, strip=index is Ellipsis)
        if not x.aval.shape:
            parse(index, (), "scatter")
            return _elementwise(mode, x, new, strip=True)
        if mode == "subtract":
            if new.aval.dtype._kind == "b":
                raise ValueError("[negative] Not supported for bool, use logical_not instead.")
            mode, new = "add", apply(_NEGATE, (new,))
        elif mode == "divide":
            mode, new = "multiply", apply(_RECIPROCAL, (new,))
        plan, nodes = parse(index, x.aval.shape, "scatter")
        check_items(index, new, x, plan)
        return wrap(write(x, new, plan, nodes, mode))


def at(x: array) -> ArrayAt:
    """Return the `x.at` of an array."""
    updates = object.__new__(ArrayAt)
    updates._node, updates._index = x._node, _UNSET
    return updates


def _elementwise(mode: str, x: Node, value: Node, strip: bool) -> array:
    """Return the plain binary op with dtype promotion, which is what `x.at[...]` and `x.at[None]` mean."""
    shape = value.aval.shape
    stretch(stripped(shape) if strip else shape, x.aval.shape)
    if len(shape) > len(x.aval.shape):
        value = apply(FILL, (value,), (x.aval.shape, value.aval.dtype))
    return getattr(arithmetic, mode)(wrap(x), wrap(value))
