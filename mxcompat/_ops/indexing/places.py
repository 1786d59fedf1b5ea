"""Where an index plan points, for NumPy: basic indices that give a view, and arrays of indices into that.

A read clips indices out of bounds, a write passes them over; both, as XLA, after negative ones were counted from the
end once. NumPy itself raises IndexError for them, so that the usual case costs no check."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..define import broadcast
from ..movement.host import spread
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


class _Form(NamedTuple):
    """What a plan makes of an array of a shape, whatever its inputs are.

    Args:
        gathered: whether arrays of indices, more than single ones, are in it.
        basic: the basic index of the block that is narrowed to; None where an input tells.
        given: for each input, the axis it is for and the plan's entry; axis -1 for an array of indices.
        layout: what each axis of the block is, see `gather.layout`.
        sizes: of the axes that are indexed.
        picked: the shape that the arrays of indices broadcast to.
        order: the axes of the block, those that are indexed first; None if they are anyway.
        width: how many elements the other axes have.
        target: the shape of what is read at the indices.
        turn: its axes, those of `picked` first; None if they are anyway.
        spot: where these are.
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
    given: list[tuple[int, Any]] = []
    block: list[int] = []
    arrays = []
    for n, entry in zip(shape, source_axes(plan, len(shape)), strict=True):
        if entry == ":":
            basic.append(_ALL)
        elif gathered and (entry == "a" or (entry == "i" and op == "gather")):
            arrays.append(shapes[len(given)])
            given.append((-1, entry))
            basic.append(_ALL)
        elif type(entry) is tuple and entry[2] is not None:
            basic.append(window(entry, iter(())))
        else:
            given.append((len(basic), entry))
            basic.append(None)
        if not (gathered and entry == "i" and op == "scatter"):
            block.append(entry[0] if type(entry) is tuple else n)
    if not gathered:
        return _Form(False, tuple(basic), tuple(given))
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
        True, tuple(basic), tuple(given), axes, tuple([block[k] for k in indexed]), picked,
        order if indexed != [*range(len(indexed))] else None, prod([block[k] for k in others]),
        (*kept[:spot], *picked, *kept[spot:]), turn if spot else None, spot,
    )  # fmt: skip


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
    """

    __slots__ = ("_form", "basic", "gathered", "indices", "inside")

    def __init__(self, shape: tuple[int, ...], plan: Plan, inputs: Sequence[Any], op: str) -> None:
        self._form = form = _form(shape, plan, tuple([i.shape for i in inputs]), op)
        self.gathered = form.gathered
        self.inside = True
        self.indices: list[Any] = []
        basic = [*form.basic]
        for (axis, entry), given in zip(form.given, inputs, strict=True):
            if axis < 0:
                self.indices.append(given)
            elif type(entry) is tuple:
                basic[axis] = window(entry, iter((given,)))
            else:
                at = int(given) if entry == "i" else self._single(given, shape[axis])
                basic[axis] = slice(at, at + 1) if op == "scatter" and not form.gathered else at
        self.basic = (*basic, ...)

    def _single(self, index: Any, n: int) -> int:
        at = int(positions(index, n))
        if not 0 <= at < n:
            self.inside = False
            at = min(max(at, 0), n - 1)
        return at

    def read(self, block: Any, clip: bool = True) -> np.ndarray:
        """What the arrays of indices pick of the block. What is out of bounds is clipped, or else reads zero."""
        form = self._form
        try:
            return block[subscript(form.layout, [raw(i) for i in self.indices])]
        except IndexError:
            places, inside = self._positions()
            found = block[subscript(form.layout, places)]
            if not clip:
                inside = inside.reshape(*inside.shape, *[1] * (found.ndim - form.spot - inside.ndim))
                found = np.where(inside, found, np.zeros((), found.dtype))
            return found

    def update(self, mode: str, block: np.ndarray, value: Any, clip: bool = False) -> None:
        """Update the block, in place, by a value that broadcasts to what would be read: every duplicate counts, in
        order.

        Every duplicate counts, in order. What is out of bounds is passed over, or else clipped.
        """
        form = self._form
        if mode == "set":
            index = [np.ascontiguousarray(raw(i), np.intp).reshape(i.shape) for i in self.indices]
            if len(index) > 1 or index[0].ndim > 1:  # NumPy chooses an order of the axes by how they lie in memory
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
        if matrix.flags.c_contiguous and np.may_share_memory(matrix, block):  # or else it is a copy
            update_rows(mode, matrix, rows, values)
        else:
            matrix = np.ascontiguousarray(matrix)
            update_rows(mode, matrix, rows, values)
            turned[...] = matrix.reshape(turned.shape)

    def _rows(self) -> tuple[np.ndarray, np.ndarray | None]:
        """The rows of the block, its indexed axes taken for one, that are picked; clipped. And, unless they are all in
        bounds, whether they were."""
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
        """The positions along the axes that are indexed, clipped, and whether they were in bounds."""
        sizes, picked = self._form.sizes, self._form.picked
        places = [positions(i, n) for i, n in zip(self.indices, sizes, strict=True)]
        inside = np.ones(picked, bool)
        for k, (place, n) in enumerate(zip(places, sizes, strict=True)):
            here = (place >= 0) & (place < n)
            if not here.all():
                inside &= here
                places[k] = place.clip(0, n - 1)
        return places, inside
