"""Reads and writes of memory by all threads at once.

An index in affine form reads a slice, reshaped, and writes one. Everything else is a gather or a scatter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .boxes import Start, box_of
from .buffers import Memory
from .numbers import Numbers
from .rows import Rows
from .types import BOOL, INT, LONG, ScalarType
from .values import Scalar

__all__ = ["Traffic"]


_JOIN = {
    "add": lambda xp, a, b: a + b, "min": lambda xp, a, b: xp.fmin(a, b), "max": lambda xp, a, b: xp.fmax(a, b),
    "and": lambda xp, a, b: a & b, "or": lambda xp, a, b: a | b, "xor": lambda xp, a, b: a ^ b,
}  # fmt: skip


def _neutral(type: ScalarType, op: str) -> Any:
    if op in ("add", "or", "xor"):
        return type.dtype.type(0)
    if op == "and":
        return type.dtype.type(type.wrap(-1))
    if type.kind == "f":
        return type.dtype.type(np.inf if op == "min" else -np.inf)
    return type.dtype.type(type.high if op == "min" else type.low)


def _reduced(xp: Any, array: Any, axes: tuple[int, ...], op: str, dtype: Any) -> Any:
    if op in ("add", "min", "max"):
        if op == "add":
            return xp.sum(array, axes, dtype=dtype, keepdims=True)
        return (xp.min if op == "min" else xp.max)(array, axis=axes, keepdims=True)
    for axis in axes:
        while array.shape[axis] > 1:
            size = array.shape[axis]
            cut = [tuple([slice(a, b) if k == axis else slice(None) for k in range(array.ndim)]) for a, b in (
                (0, size // 2), (size // 2, size // 2 * 2), (size // 2 * 2, size))]  # fmt: skip
            joined = _JOIN[op](xp, array[cut[0]], array[cut[1]])
            array = joined if size % 2 == 0 else xp.concatenate([joined, array[cut[2]]], axis)
    return array


class Traffic(Rows):
    """Reads and writes."""

    def __init__(self, n: Numbers) -> None:
        self.n, self.space, self.axes = n, n.space, n.axes

    def read(self, memory: Memory, type: ScalarType, index: Scalar) -> Any:
        """Return the elements at an index as an array over the axes of threads, with 0 for an index out of bounds."""
        if not memory.const and self._same_size(memory, type):
            return self.space.bitcast(self.space.asarray(self.read(memory, memory.element, index)), type.dtype)[()]
        data = self.space.recast(memory.data, type.dtype)
        if not self.axes.rank and memory.batch == 0 and index.static:
            i = int(index.base)
            return data[i] if 0 <= i < data.shape[-1] else type.dtype.type(0)
        elements = self._slice(data, index, memory.batch)
        if elements is None:
            elements = self.read_rows(data, index, memory.batch)
        if elements is None:
            elements = self.space.gather(*self.flat(data, index, memory.batch))
        if self.space.traced or elements.ndim == 0:
            return elements
        return elements if elements.base is None else elements.copy()

    def _is_large(self, count: int) -> bool:
        """Return True if NumPy should not pad the array: a copy at every step of a loop costs more than a gather."""
        return not self.space.traced and count > 4 * math.prod(self.axes.extents)

    def _same_size(self, memory: Memory, type: ScalarType) -> bool:
        """Return True if elements are read as another type of the same size."""
        old, new = memory.element.dtype, type.dtype
        return old != new and old.itemsize == new.itemsize and BOOL.dtype not in (old, new)

    def flat(self, data: Any, index: Scalar, batch: int) -> tuple[Any, Any]:
        """Return flat data and an index into them. The first `batch` axes of the data are those of groups, and are
        flattened, too."""
        array = self.n.array(index)
        if not batch:
            return data, array
        count = data.shape[-1]
        array = self.space.asarray(array)
        dtype = array.dtype
        groups: Any = dtype.type(0)
        for axis in range(batch):
            groups = groups * dtype.type(self.axes.extents[axis]) + self.n.positions(
                axis, INT if dtype == np.int32 else LONG
            )
        inside = (array >= 0) & (array < count)
        flat = self.space.where(inside, groups * dtype.type(count) + array, dtype.type(-1))
        return data.reshape(-1), flat

    def _range(self, index: Scalar, batch: int) -> tuple[Start, list[tuple[int, int, int]], int, int] | None:
        """Describe an affine index whose base is one number; return None for another index.

        The result is the start, the axes as (coefficient, extent, axis) from the largest coefficient on, and the bounds
        of the index.
        """
        shape = getattr(index.base, "shape", ())
        if any(n != 1 for n in shape) or index.low is None or index.high is None:
            return None
        if any(axis < batch for axis, _ in index.coefs):
            return None
        dims = sorted(
            [(abs(c), self.axes.extents[axis], axis if c > 0 else ~axis) for axis, c in index.coefs], reverse=True
        )
        base = index.base
        if not isinstance(base, int) and self.space.traced:
            base = base.reshape(())
        elif not isinstance(base, int):
            base = int(np.asarray(base).reshape(()))
        spread = index.high - index.low - sum(c * (n - 1) for c, n, _ in dims)
        start = Start(base, index.low, spread, index.known)
        back = sum(c * (n - 1) for c, n, axis in dims if axis < 0)
        if back:
            start = start.plus(-back)._replace(low=index.low)
        span = 1
        for c, n, _ in reversed(dims):
            if c < span:
                return None
            span += c * (n - 1)
        return start, dims, index.low, index.high

    def _slice(self, data: Any, index: Scalar, batch: int) -> Any:
        """Return the elements at an affine index by slices and reshapes, or None if that is not possible."""
        known = self._range(index, batch)
        if known is None:
            return None
        start, dims, low, high = known
        count = data.shape[-1]
        before, after = max(0, -low), max(0, high + 1 - count)
        if before + after:
            if high < 0 or low >= count:
                return self.space.xp.zeros((1,) * self.axes.rank, data.dtype)
            moves = not isinstance(start.base, int) and self.space.traced
            if before + after > count or self._is_large(count) or moves:
                return None
            data = self.space.pad(data, before, after)
            start = start.plus(before)
        return self._arranged(self.view(data, start, [(c, n) for c, n, _ in dims]), dims, batch)

    def view(self, data: Any, start: Start, dims: list[tuple[int, int]]) -> Any:
        """Return the elements `base + sum(c * i)` of the last axis. In its place, the result has an axis for each pair
        (c, extent) of `dims`."""
        space = self.space
        lead, width = data.shape[:-1], data.shape[-1]
        box = box_of(width, start, dims)
        if box is not None:
            whole = data.reshape((*lead, *box.shape))
            return space.cut(whole, box.starts, box.sizes).reshape((*lead, *[n for _, n in dims]))
        (c, n), inner = dims[0], dims[1:]
        span = 1 + sum(d * (m - 1) for d, m in inner)
        row, column = start.row(c)
        if column.low + column.spread + span <= c:
            rows = space.pad(data, 0, -width % c)
            rows = space.cut(rows.reshape((*lead, rows.shape[-1] // c, c)), (row, 0), (n, c))
            return self.view(rows, column, inner)
        part = space.slice(data, start.base, c * (n - 1) + span)
        return self.view(space.pad(part, 0, c - span).reshape((*lead, n, c)), Start(0, 0), inner)

    def _arranged(self, view: Any, dims: list[tuple[int, int, int]], batch: int) -> Any:
        """Transpose and reshape an array over the axes of groups and of the view to one over all axes of threads."""
        flips = [batch + k for k, (_, _, axis) in enumerate(dims) if axis < 0]
        if flips:
            view = self.space.xp.flip(view, flips)
        places = [axis if axis >= 0 else ~axis for _, _, axis in dims]
        order = sorted(range(len(places)), key=places.__getitem__)
        if order != list(range(len(order))):
            view = view.transpose(*range(batch), *[batch + k for k in order])
        shape = list(view.shape[:batch]) + [1] * (self.axes.rank - batch)
        for k in order:
            shape[places[k]] = self.axes.extents[places[k]]
        return view.reshape(shape)

    def write(
        self, memory: Memory, type: ScalarType, index: Scalar, value: Any, mask: Scalar, kind: str = "set"
    ) -> None:
        """Write the values of the threads in a mask, or combine them with those there (see `combine`)."""
        if mask.static and not mask.base:
            return
        data = memory.data
        value = self.space.asarray(value)
        # without the cast, each iteration of a loop would copy the whole array
        if kind == "set" and self._same_size(memory, type):
            value, type = self.space.bitcast(value, data.dtype), memory.element
        whole = data.shape[-1] * data.dtype.itemsize
        if not self.space.traced and not memory.owned:
            data, memory.owned = np.array(data), True
        seen = self.space.recast(data, type.dtype)
        written = self._place(seen, index, value, mask, kind, memory.batch) if kind == "set" else None
        if written is None:
            written = self._scattered(seen, index, value, mask, kind, memory.batch)
        if seen is not data and (self.space.traced or written.base is None or seen.dtype != data.dtype):
            back = self.space.recast(written, data.dtype)
            used = written.shape[-1] * written.dtype.itemsize
            if used < whole:
                back = self.space.xp.concatenate([back, data[..., used // data.dtype.itemsize :]], -1)
            written = back
        memory.held = written

    def combine(self, memory: Memory, type: ScalarType, index: Scalar, value: Scalar, mask: Scalar, op: str) -> None:
        """Combine the values of the threads in a mask with those in memory, each once.

        Args:
            op: "add", "min", "max", "and", "or" or "xor".
        """
        if mask.static and not mask.base:
            return
        xp, dtype = self.space.xp, type.dtype
        array = self.space.asarray(self.n.array(value), dtype)
        shape = getattr(index.base, "shape", ()) or (1,) * self.axes.rank
        followed = {axis for axis, _ in index.coefs} | {k for k, n in enumerate(shape) if n > 1}
        followed |= set(range(memory.batch))
        extents = [1 if axis in followed else n for axis, n in enumerate(self.axes.extents)]
        if not mask.static:
            array = self.space.where(mask.base, array, _neutral(type, op))
        rest = tuple([axis for axis in range(self.axes.rank) if axis not in followed])
        if rest:
            array = array.reshape((1,) * (self.axes.rank - array.ndim) + array.shape)
            array = self.space.broadcast(array, np.broadcast_shapes(array.shape, extents))
            array = _reduced(xp, array, rest, op, dtype)
        known = self._range(index, memory.batch)
        whole = Scalar(BOOL, True, (), 1, 1)
        count = memory.count * memory.element.dtype.itemsize // dtype.itemsize
        if known is not None and known[2] >= 0 and known[3] < count:
            old = self.read(memory, type, index)
            self.write(memory, type, index, _JOIN[op](xp, old, array).astype(dtype), whole)
            return
        self.write(memory, type, index, array, whole, op)

    def _scattered(self, data: Any, index: Scalar, value: Any, mask: Scalar, kind: str, batch: int) -> Any:
        if kind in ("set", "add") and not batch:
            written = self.write_rows(data, index, value, mask, kind)
            if written is not None:
                return written
        flat, array = self.flat(data, index, batch)
        array = self.space.asarray(array)
        shape = np.broadcast_shapes(np.shape(array), np.shape(value), np.shape(mask.base))
        array = self.space.broadcast(array, shape)
        if not mask.static:
            array = self.space.where(mask.base, array, array.dtype.type(-1))
        return self.space.scatter(flat, array, value.astype(data.dtype), kind).reshape(data.shape)

    def _place(self, data: Any, index: Scalar, value: Any, mask: Scalar, kind: str, batch: int) -> Any:
        """Return the array after a write at an affine index by slices, or None if that is not possible."""
        known = self._range(index, batch)
        if known is None:
            return None
        start, dims, low, high = known
        count = data.shape[-1]
        if low < 0 or high >= count:
            if not isinstance(start.base, int) and self.space.traced:
                return None
            if high < 0 or low >= count:
                return data
        axes = {axis if axis >= 0 else ~axis for _, _, axis in dims} | set(range(batch))
        value, chosen = self._picked(value, mask, axes)
        if value is None:
            return None
        value = self._in_view_order(value, dims, batch)
        if chosen is not None:
            chosen = self._in_view_order(chosen, dims, batch)
        before, after = max(0, -low), max(0, high + 1 - count)
        if before + after > count or (before + after and self._is_large(count)):
            return None
        if before + after:
            data = self.space.pad(data, before, after)
            start = start.plus(before)
        updated = self._updated(data, start, [(c, n) for c, n, _ in dims], value, chosen)
        return updated[..., before : before + count] if before + after else updated

    def _in_view_order(self, value: Any, dims: list[tuple[int, int, int]], batch: int) -> Any:
        """Transpose and reshape values over the axes of threads to values over the axes of groups and of the view."""
        extents = self.axes.extents
        places = [axis if axis >= 0 else ~axis for _, _, axis in dims]
        order = [*range(batch), *places]
        shape = [extents[k] for k in order]
        rest = [k for k in range(self.axes.rank) if k not in order]
        value = value.reshape((1,) * (self.axes.rank - value.ndim) + value.shape)
        value = value.transpose(*order, *rest).reshape([value.shape[k] for k in order])
        value = self.space.broadcast(value, shape)
        flips = [batch + k for k, (_, _, axis) in enumerate(dims) if axis < 0]
        return self.space.xp.flip(value, flips) if flips else value

    def _picked(self, value: Any, mask: Scalar, axes: set[int]) -> tuple[Any, Any]:
        """Return the values and the mask, with one thread left for each index.

        Threads along an axis that the index does not depend on write to the same place. Of these, the first thread in
        the mask is picked.
        """
        chosen = None if mask.static else mask.base
        pins = dict(mask.pins)
        rank = self.axes.rank
        for axis in range(rank):
            if axis in axes or self.axes.extents[axis] == 1:
                continue
            wide = chosen is not None and chosen.ndim and chosen.shape[axis] > 1
            varied = value.ndim and value.shape[axis] > 1
            if not wide and not varied:
                continue
            if axis in pins or not wide:
                k = pins.get(axis, 0)
                cut = tuple([slice(k, k + 1) if j == axis else slice(None) for j in range(rank)])
                value = value[cut] if varied else value
                chosen = chosen[cut] if wide else chosen  # type: ignore[index]
            else:
                first = self.space.xp.argmax(chosen, axis=axis, keepdims=True)
                if varied:
                    shape = list(np.broadcast_shapes(value.shape, first.shape))
                    shape[axis] = value.shape[axis]
                    whole = self.space.broadcast(value, shape)
                    shape[axis] = 1
                    value = self.space.xp.take_along_axis(whole, self.space.broadcast(first, shape), axis)
                chosen = self.space.xp.any(chosen, axis=axis, keepdims=True)
        return value, chosen

    def _updated(self, data: Any, start: Start, dims: list[tuple[int, int]], value: Any, chosen: Any) -> Any:
        """Return the array with the elements `base + sum(c * i)` of the last axis replaced. If `chosen` is not None,
        replace only those where it is True."""
        space = self.space
        lead, width = data.shape[:-1], data.shape[-1]
        box = box_of(width, start, dims)
        if box is not None:
            whole = data.reshape((*lead, *box.shape))
            value = value.reshape((*lead, *box.sizes)).astype(data.dtype)
            if chosen is not None:
                value = space.where(chosen.reshape((*lead, *box.sizes)), value, space.cut(whole, box.starts, box.sizes))
            return space.put(whole, value, box.starts).reshape(data.shape)
        (c, n), inner = dims[0], dims[1:]
        span = 1 + sum(d * (m - 1) for d, m in inner)
        size = c * (n - 1) + span
        rows = space.pad(space.slice(data, start.base, size), 0, c - span).reshape((*lead, n, c))
        rows = rows if space.traced else np.array(rows)
        rows = self._updated(rows, Start(0, 0), inner, value, chosen)
        return space.put(data, rows.reshape((*lead, n * c))[..., :size], (start.base,))
