"""The places of an index plan, for NumPy: a basic index that gives a view (the block), and index arrays into that
block.

A read clips indices out of bounds; a write ignores them. Negative indices count from the end first, once, as in XLA.
NumPy itself raises IndexError for indices out of bounds, so the usual case needs no check.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..define import broadcast
from ..movement.spread import spread
from .gather import layout, subscript
from .plan import Plan, has_arrays, source_axes
from .rows import update_rows

__all__ = ["ALL", "Places", "block_starts", "picked_along", "positions", "raw", "window"]

ALL = slice(None)


def positions(index: Any, n: int) -> Any:
    """Return indices as int32 positions along an axis of size n, counted from the front. They may be out of bounds."""
    places = index.astype(np.int32)
    return places if index.dtype.kind == "u" else np.where(places < 0, places + np.int32(n), places)


def raw(index: Any) -> Any:
    """Return indices in the form that NumPy takes.

    Negative indices count from the end, and an index out of bounds stays out of bounds. Of 64-bit indices only the
    lower 32 bits count.
    """
    return index.astype(np.int32) if index.dtype.itemsize == 8 else index


def window(entry: tuple, starts: Any) -> slice:
    """Return the slice for an entry of a plan. If the entry has no start, the next of `starts` is the start."""
    size, step, start = entry
    if start is None:
        start = int(next(starts))
    if not size:
        return slice(0)
    end = start + (size - 1) * step + (1 if step > 0 else -1)
    return slice(start, end if end >= 0 else None, step)


class _Form(NamedTuple):
    """The part of a plan's analysis that depends on shapes only, not on the values of the inputs.

    Args:
        gathered: whether the plan has index arrays with more than a single index.
        basic: the basic index of the block; None for an entry that an input gives.
        given: for each input, its axis and its entry in the plan; axis -1 for an index array.
        layout: the kind of each axis of the block, see `gather.layout`.
        sizes: the sizes of the indexed axes.
        picked: the shape that the index arrays broadcast to.
        order: the axes of the block with the indexed ones first; None if they are first already.
        width: the number of elements along the other axes.
        target: the shape of a read at the index arrays.
        turn: the axes of `target` with those of `picked` first; None if they are first already.
        spot: the position of the axes of `picked` in `target`.
    """

    gathered: bool
    basic: tuple[Any, ...]
    given: tuple[tuple[int, Any], ...]
    layout: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    picked: tuple[int, ...] = ()
    order: tuple[int, ...] | None = None
    width: int = 0
    target: tuple[int, ...] = ()
    turn: tuple[int, ...] | None = None
    spot: int = 0


@lru_cache(4096)
def _form(shape: tuple[int, ...], plan: Plan, shapes: tuple[tuple[int, ...], ...], op: str) -> _Form:
    gathered = has_arrays(plan, [*shapes])
    basic: list[Any] = []
    parts: list[tuple[int, Any]] = []
    block: list[int] = []
    arrays = []
    for n, entry in zip(shape, source_axes(plan, len(shape)), strict=True):
        if entry == ":":
            basic.append(ALL)
        elif gathered and (entry == "a" or (entry == "i" and op == "gather")):
            arrays.append(shapes[len(parts)])
            parts.append((-1, entry))
            basic.append(ALL)
        elif type(entry) is tuple and entry[2] is not None:
            basic.append(window(entry, iter(())))
        else:
            parts.append((len(basic), entry))
            basic.append(None)
        if not (gathered and entry == "i" and op == "scatter"):
            block.append(entry[0] if type(entry) is tuple else n)
    if not gathered:
        return _Form(False, tuple(basic), tuple(parts))
    items = plan if op == "gather" else tuple([e for e in plan if e != "i"])
    axes = layout(items, len(block))
    indexed = [k for k, e in enumerate([e for e in axes if e != "+"]) if e == "@"]
    others = [k for k in range(len(block)) if k not in indexed]
    order = (*indexed, *others)
    picked = broadcast(*arrays)
    spots = [k for k, e in enumerate(axes) if e == "@"]
    spot = spots[0] if spots[-1] - spots[0] == len(spots) - 1 else 0
    rest = iter([block[k] for k in others])
    kept = [1 if e == "+" else next(rest) for e in axes if e != "@"]
    turn = (*range(spot, spot + len(picked)), *range(spot), *range(spot + len(picked), len(kept) + len(picked)))
    return _Form(
        True, tuple(basic), tuple(parts), axes, tuple([block[k] for k in indexed]), picked,
        order if indexed != [*range(len(indexed))] else None, prod([block[k] for k in others]),
        (*kept[:spot], *picked, *kept[spot:]), turn if spot else None, spot,
    )  # fmt: skip


class Places:
    """The places of a plan in an array with a given shape.

    Args:
        op: "gather" for a read, "scatter" for a write.

    Attributes:
        basic: the basic index of the block that the slices and single positions cover. In a write without index arrays,
            a single position keeps an axis of size 1.
        gathered: whether index arrays with more than a single index select elements of that block.
        inside: whether the single positions from 0-dimensional arrays are in bounds. They are clipped if not.
        indices: the index arrays, as they were given.
    """

    __slots__ = ("_form", "basic", "gathered", "indices", "inside")

    def __init__(self, shape: tuple[int, ...], plan: Plan, inputs: Sequence[Any], op: str) -> None:
        self._form = form = _form(shape, plan, tuple([i.shape for i in inputs]), op)
        self.gathered = form.gathered
        self.inside = True
        self.indices: list[Any] = []
        basic = [*form.basic]
        for (axis, entry), value in zip(form.given, inputs, strict=True):
            if axis < 0:
                self.indices.append(value)
            elif type(entry) is tuple:
                basic[axis] = window(entry, iter((value,)))
            else:
                at = int(value) if entry == "i" else self._single(value, shape[axis])
                basic[axis] = slice(at, at + 1) if op == "scatter" and not form.gathered else at
        self.basic = (*basic, ...)

    def _single(self, index: Any, n: int) -> int:
        at = int(positions(index, n))
        if not 0 <= at < n:
            self.inside = False
            at = min(max(at, 0), n - 1)
        return at

    def read(self, block: Any, clip: bool = True) -> np.ndarray:
        """Return the elements of the block that the index arrays select.

        Args:
            clip: whether indices out of bounds are clipped. If not, they read zero.
        """
        form = self._form
        try:
            return block[subscript(form.layout, [raw(i) for i in self.indices])]
        except IndexError:
            places, inside = self._positions()
            values = block[subscript(form.layout, places)]
            if not clip:
                inside = inside.reshape(*inside.shape, *[1] * (values.ndim - form.spot - inside.ndim))
                values = np.where(inside, values, np.zeros((), values.dtype))
            return values

    def update(self, mode: str, block: np.ndarray, value: Any, clip: bool = False) -> None:
        """Update the block in place by a value that broadcasts to the shape of a read at the same places.

        Every duplicate counts, in order.

        Args:
            clip: whether indices out of bounds are clipped. If not, they are ignored.
        """
        form = self._form
        if mode == "set":
            index = [np.ascontiguousarray(raw(i), np.intp).reshape(i.shape) for i in self.indices]
            # the value must be contiguous: NumPy orders the axes by their strides in memory
            if len(index) > 1 or index[0].ndim > 1:
                value = np.ascontiguousarray(value).reshape(value.shape)
            try:
                block[subscript(form.layout, index)] = value
                return
            except IndexError:
                pass
        rows, inside = self._rows()
        turned = block if form.order is None else block.transpose(form.order)
        matrix = turned.reshape(prod(form.sizes), form.width)
        value = spread(value, form.target)
        values = (value if form.turn is None else value.transpose(form.turn)).reshape(prod(form.picked), form.width)
        if inside is not None and not clip:
            kept = np.flatnonzero(inside)
            rows, values = rows[kept], values[kept]
        # without this, `matrix` is a copy of the block
        if matrix.flags.c_contiguous and np.may_share_memory(matrix, block):
            update_rows(mode, matrix, rows, values)
        else:
            matrix = np.ascontiguousarray(matrix)
            update_rows(mode, matrix, rows, values)
            turned[...] = matrix.reshape(turned.shape)

    def _rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the selected rows of the block, clipped, and a mask of the rows in bounds, or None if all are in
        bounds.

        The rows treat the indexed axes as one axis.
        """
        sizes = self._form.sizes
        if len(sizes) == 1:
            rows = raw(self.indices[0]).reshape(-1).astype(np.intp)
            if not rows.size or (rows.min() >= 0 and rows.max() < sizes[0]):
                return rows, None
        places, inside = self._positions()
        rows = np.zeros((), np.intp)
        for place, n in zip(places, sizes, strict=True):
            rows = rows * n + place
        return np.ascontiguousarray(rows).reshape(-1), None if inside.all() else inside

    def _positions(self) -> tuple[list[Any], np.ndarray]:
        """Return the clipped positions along the indexed axes, and a mask of the positions in bounds."""
        sizes, picked = self._form.sizes, self._form.picked
        places = [positions(i, n) for i, n in zip(self.indices, sizes, strict=True)]
        inside = np.ones(picked, bool)
        for k, (place, n) in enumerate(zip(places, sizes, strict=True)):
            here = (place >= 0) & (place < n)
            if not here.all():
                inside &= here
                places[k] = place.clip(0, n - 1)
        return places, inside


def picked_along(shape: tuple[int, ...], index: Any, axis: int) -> tuple[Any, ...]:
    """Return the index that selects elements along one axis of an array with this shape and broadcasts along the
    others."""
    ndim = len(shape)
    return tuple(
        [
            index if k == axis else 0 if n == 1 else np.arange(n).reshape(-1, *[1] * (ndim - 1 - k))
            for k, n in enumerate(shape)
        ]
    )


def block_starts(starts: Any, axes: Sequence[int], shape: tuple[int, ...], size: Sequence[int]) -> tuple[slice, ...]:
    """Return the index of a block whose starts are in an array. A start is moved if the block would not fit."""
    index = [slice(0, s) for s in size]
    for start, axis in zip(starts.reshape(-1), axes, strict=True):
        n, s = shape[axis], size[axis]
        low = min(max(int(positions(start, n)), 0), n - s)
        index[axis] = slice(low, low + s)
    return tuple(index)
