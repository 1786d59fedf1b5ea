"""Reads and writes of rows, for an index such as `row[i] * 32 + column`.

Some axes of threads walk along a row, and the base of the index chooses the row. The base may differ from thread to
thread, if it is known modulo the length of the rows. A gather of rows is several times faster than one of elements.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .axes import Axes
from .boxes import Start
from .space import Space
from .values import Scalar

__all__ = ["Rows"]


class Window(NamedTuple):
    """The part of each row that is read or written.

    Args:
        width: the length of rows.
        column, size: the part's first element, and its length.
        dims: the axes of threads that walk along a row, as (coefficient, extent, axis) from the largest coefficient on.
    """

    width: int
    column: int
    size: int
    dims: list[tuple[int, int, int]]


class Rows:
    """Reads and writes of rows."""

    # The subclass defines these names.
    axes: Axes
    space: Space
    view: Callable[..., Any]

    def read_rows(self, data: Any, index: Scalar, batch: int) -> Any:
        """Return the elements at an index by a gather of rows, or None if that is not possible."""
        window = None if batch else self._window(index, data.shape[-1])
        if window is None:
            return None
        gathered = self.space.gather(
            data.reshape(-1, window.width), self._row(index, window), window.column, window.size
        )
        part = self.view(gathered, Start(0, 0), [(c, n) for c, n, _ in window.dims])
        rank = self.axes.rank
        order = self._order(window)
        return part.transpose(*order, *[axis for _, _, axis in window.dims]).reshape(
            [part.shape[k] for k in order[:rank]]
        )

    def write_rows(self, data: Any, index: Scalar, value: Any, mask: Scalar, kind: str) -> Any:
        """Return the array after a scatter of rows, or None if that is not possible."""
        window = self._window(index, data.shape[-1])
        if window is None or window.size != math.prod([n for _, n, _ in window.dims]):
            return None
        if any(np.ndim(mask.base) and mask.base.shape[axis] > 1 for _, _, axis in window.dims):
            return None
        row = self._row(index, window)
        if not mask.static:
            row = self.space.where(mask.base, row, row.dtype.type(-1))
        axes = [axis for _, _, axis in window.dims]
        shape = list(np.broadcast_shapes(row.shape, np.shape(value)))
        for _, n, axis in window.dims:
            shape[axis] = n
        value = self.space.broadcast(value, shape).astype(data.dtype)
        others = [k for k in range(self.axes.rank) if k not in axes]
        value = value.transpose(*others, *axes).reshape(-1, window.size)
        row = self.space.broadcast(row, [1 if k in axes else n for k, n in enumerate(shape)]).reshape(-1)
        rows = data.reshape(-1, window.width)
        return self.space.scatter_rows(rows, row, value, kind, window.column).reshape(data.shape)

    def _row(self, index: Scalar, window: Window) -> Any:
        dtype = index.type.dtype
        first = self.space.asarray(index.base) - dtype.type(window.column)
        return self.space.divide(first, self.space.asarray(window.width, dtype))

    def _order(self, window: Window) -> list[int]:
        rank = self.axes.rank
        order = list(range(rank))
        for k, (_, _, axis) in enumerate(window.dims):
            order[axis] = rank + k
        return order

    def _window(self, index: Scalar, count: int) -> Window | None:
        """Return the part of each row that an index reads. Return None if the elements for one base may lie in several
        rows, or are fewer than half of the part."""
        width = math.gcd(index.known[0], count)
        if width < 2 or np.size(index.base) < 2 or not index.coefs or min(c for _, c in index.coefs) < 0:
            return None
        dims = sorted([(c, self.axes.extents[axis], axis) for axis, c in index.coefs], reverse=True)
        size, column = 1, index.known[1] % width
        for c, n, _ in reversed(dims):
            if c < size:
                return None
            size += c * (n - 1)
        dense = 2 * math.prod([n for _, n, _ in dims]) >= size
        return Window(width, column, size, dims) if dense and column + size <= width else None
