"""Where an index plan points, for NumPy: basic indices that give a view, and arrays of indices into that.

A read clips indices out of bounds, a write passes them over; both, as XLA, after negative ones were counted from the
end once. NumPy itself raises IndexError for them, so that the usual case costs no check. """

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ..define import broadcast
from .gather import layout, subscript
from .plan import Plan, has_arrays, source_axes
from .rows import update_rows

__all__ = ["Places", "positions", "raw", "window"]

_ALL = slice(None)


def positions(index: Any, n: int) -> Any:
    """Indices as int32 positions along an axis of size n, counted from the front; they may be out of bounds."""
    places = index.astype(np.int32)
    return places if index.dtype.kind == "u" else np.where(places < 0, places + np.int32(n), places)


def raw(index: Any) -> Any:
    """Indices as NumPy takes them: negative ones count from the end, and what is out of bounds is so there too, except
    that of 64 bits the lower 32 count."""
    return index.astype(np.int32) if index.dtype.itemsize == 8 else index


def window(entry: tuple, starts: Any) -> slice:
    """The slice that a plan's entry means; its start may be the next of the inputs."""
    size, step, start = entry
    if start is None:
        start = int(next(starts))
    if not size:
        return slice(0)
    end = start + (size - 1) * step + (1 if step > 0 else -1)
    return slice(start, end if end >= 0 else None, step)


class Places:
    """Where a plan points in an array of a shape.

    Args:
        op: "gather" for a read, "scatter" for a write.

    Attributes:
        basic: the basic index of the block that the slices cover, and single positions, which of a write keep an axis
            of size one unless arrays of indices stand beside them.
        gathered: whether arrays of indices, more than single ones, point into that block.
        inside: whether the single positions that arrays of no dimension give are in bounds; clipped if not.
        indices: those arrays, as they were given.
        layout: what each of its axes is, see `gather.layout`.
    """

    __slots__ = ("basic", "gathered", "indices", "inside", "layout")

    def __init__(self, shape: tuple[int, ...], plan: Plan, inputs: Sequence[Any], op: str) -> None:
        self.gathered = gathered = has_arrays(plan, [i.shape for i in inputs])
        self.inside = True
        self.indices: list[Any] = []
        basic: list[Any] = []
        rest = iter(inputs)
        for n, entry in zip(shape, source_axes(plan, len(shape)), strict=True):
            if type(entry) is tuple:
                basic.append(window(entry, rest))
            elif entry == ":":
                basic.append(_ALL)
            elif gathered and (entry == "a" or op == "gather"):
                self.indices.append(next(rest))
                basic.append(_ALL)
            else:
                at = int(next(rest)) if entry == "i" else self._single(next(rest), n)
                basic.append(slice(at, at + 1) if op == "scatter" and not gathered else at)
        self.basic = (*basic, ...)
        items = plan if op == "gather" else tuple([e for e in plan if e != "i"])
        self.layout = layout(items, len(shape) - len(plan) + len(items)) if gathered else ()

    def _single(self, index: Any, n: int) -> int:
        at = int(positions(index, n))
        if not 0 <= at < n:
            self.inside = False
            at = min(max(at, 0), n - 1)
        return at

    def read(self, block: Any, clip: bool = True) -> np.ndarray:
        """What the arrays of indices pick of the block. What is out of bounds is clipped, or else reads zero."""
        try:
            return block[subscript(self.layout, [raw(i) for i in self.indices])]
        except IndexError:
            places, inside = self._positions(block.shape)
            found = block[subscript(self.layout, places)]
            if not clip:
                shape = (*inside.shape, *[1] * (found.ndim - self._spot() - inside.ndim))
                found = np.where(inside.reshape(shape), found, np.zeros((), found.dtype))
            return found

    def update(self, mode: str, block: np.ndarray, value: Any, clip: bool = False) -> None:
        """Update the block, in place, by a value that broadcasts to what would be read: every duplicate counts, in
        order.

        Every duplicate counts, in order. What is out of bounds is passed over, or else clipped.
        """
        if mode == "set":
            index = [np.ascontiguousarray(raw(i), np.intp).reshape(i.shape) for i in self.indices]
            if len(index) > 1 or index[0].ndim > 1:  # NumPy chooses an order of the axes by how they lie in memory
                value = np.ascontiguousarray(value).reshape(value.shape)
            try:
                block[subscript(self.layout, index)] = value
                return
            except IndexError:
                pass
        places, inside = self._positions(block.shape)
        indexed = [axis for axis, e in enumerate(e for e in self.layout if e != "+") if e == "@"]
        sizes = [block.shape[axis] for axis in indexed]
        rows = np.zeros((), np.intp)
        for place, n in zip(places, sizes, strict=True):
            rows = rows * n + place
        others = [axis for axis in range(block.ndim) if axis not in indexed]
        turned = block.transpose(*indexed, *others)
        matrix = turned.reshape(prod(sizes), -1)
        values = self._as_rows(value, rows.shape, turned.shape[len(sizes) :], matrix.shape[1])
        rows = rows.reshape(-1)
        if not clip and not inside.all():
            kept = np.flatnonzero(inside)
            rows, values = rows[kept], values[kept]
        contiguous = matrix.flags.c_contiguous
        updated = matrix if contiguous else np.ascontiguousarray(matrix)
        update_rows(mode, updated, np.ascontiguousarray(rows), values)
        if not (contiguous and np.may_share_memory(matrix, block)):
            turned[...] = updated.reshape(turned.shape)

    def _spot(self) -> int:
        """Where the dimensions of the indices stand in what is read."""
        spots = [k for k, e in enumerate(self.layout) if e == "@"]
        return spots[0] if spots[-1] - spots[0] == len(spots) - 1 else 0

    def _as_rows(self, value: Any, picked: tuple[int, ...], rest: tuple[int, ...], width: int) -> np.ndarray:
        """A value as one row for each place that the indices pick."""
        spot, ndim = self._spot(), len(picked)
        sizes = iter(rest)
        kept = [1 if e == "+" else next(sizes) for e in self.layout if e != "@"]
        target = (*kept[:spot], *picked, *kept[spot:])
        value = np.broadcast_to(value, target)
        order = (*range(spot, spot + ndim), *range(spot), *range(spot + ndim, len(target)))
        return value.transpose(order).reshape(prod(picked), width)

    def _positions(self, shape: tuple[int, ...]) -> tuple[list[Any], np.ndarray]:
        """The positions along the axes that are indexed, clipped, and whether they were in bounds."""
        axes = [n for n, e in zip(shape, [e for e in self.layout if e != "+"], strict=True) if e == "@"]
        places = [positions(i, n) for i, n in zip(self.indices, axes, strict=True)]
        inside = np.ones(broadcast(*[i.shape for i in self.indices]), bool)
        for k, (place, n) in enumerate(zip(places, axes, strict=True)):
            here = (place >= 0) & (place < n)
            if not here.all():
                inside &= here
                places[k] = np.clip(place, 0, n - 1)
        return places, inside
