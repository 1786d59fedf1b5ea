"""MLX's primitives for reads and writes by index. See `primitives`, and `_ops/indexing/plan` for plans."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Dtype, uint32
from mxcompat._ops.indexing.scatter import stripped

from .chain import Chain, Constant, Source

__all__ = ["INDEXING"]

_COMBINED = {"set": 4, "add": 2, "multiply": 3, "maximum": 0, "minimum": 1}
"""MLX's numbers for how new values combine with the old ones."""


_ARITHMETIC = {"add": "Add", "multiply": "Multiply", "maximum": "Maximum", "minimum": "Minimum"}
"""MLX's primitive for a combination that covers the whole array."""


def _window(
    shape: Sequence[int], plan: Sequence[Any], numbers: Iterator[Any]
) -> tuple[list[int], list[int], list[int]] | None:
    """Return the starts, stops and steps of a plan's slices, or None if a start is not known."""
    starts, stops, strides = [], [], []
    for entry in plan:
        if entry == "+":
            continue
        n = shape[len(starts)]
        if entry == ":":
            start, stop, step = 0, n, 1
        else:
            size, step, known = (1, 1, None) if entry == "i" else entry
            start = next(numbers) if known is None else known
            if start is None:
                return None
            stop = start + size * step
            stop = min(stop, n) if step > 0 else stop if stop >= 0 else -n - 1
        starts.append(start)
        stops.append(stop)
        strides.append(step)
    rest = shape[len(starts) :]
    return starts + [0] * len(rest), stops + list(rest), strides + [1] * len(rest)


def _lengths(shape: Sequence[int], plan: Sequence[Any]) -> list[int]:
    """Return the number of indices that a plan takes along each axis."""
    entries = [entry for entry in plan if entry != "+"]
    taken = [n if e == ":" else 1 if e == "i" else e[0] for e, n in zip(entries, shape, strict=False)]
    return taken + list(shape[len(taken) :])


def _slice(c: Chain, plan: tuple) -> Any:
    shape = c.of(0).shape
    if plan[0] == "*":
        return _cut(c, c.flat(0), plan[1:], iter(c.numbers[1:]))
    if plan == ("i",):  # MLX uses a gather for a single row
        if c.numbers[1] is None:
            return None
        row = c.gather(0, [Constant(c.numbers[1], uint32)], [0], (1, *shape[1:]))
        return c.squeeze(row, [0])
    return _cut(c, 0, plan, iter(c.numbers[1:]))


def _cut(c: Chain, x: Source, plan: Sequence[Any], numbers: Iterator[Any]) -> Source | None:
    """Apply the slices, ints and new axes of a plan to an array."""
    entries = [entry for entry in plan if entry != "+"]
    if any(entry != ":" for entry in entries):
        shape = c.of(x).shape
        window = _window(shape, plan, numbers)
        if window is None:
            return None
        x = c.add("Slice", [x], _lengths(shape, plan), *map(tuple, window))
        x = c.squeeze(x, [k for k, entry in enumerate(entries) if entry == "i"])
    kept = [entry for entry in plan if entry != "i"]
    new = [k for k, entry in enumerate(kept) if entry == "+"]
    return c.expand(x, new) if new else x


def _slice_update(c: Chain, plan: tuple, mode: str) -> Any:
    shape = c.of(0).shape
    window = None if "+" in plan else _window(shape, plan, iter(c.numbers[2:]))
    if window is None or mode not in _COMBINED:
        return None
    value = c.broadcast(c.cast(1, c.dtype(0)), tuple(_lengths(shape, plan)))
    if mode in _ARITHMETIC and window == ([0] * len(shape), list(shape), [1] * len(shape)):
        return c.op(_ARITHMETIC[mode], 0, value)
    return c.add("SliceUpdate", [0, value], shape, _COMBINED[mode], *map(tuple, window))


def _places(c: Chain, entry: Any, k: int, n: int) -> Source | None:
    """Return the indices for an entry of a plan; input k is the entry's number or array."""
    if entry == "a":
        return k
    number = c.numbers[k] if k < len(c.numbers) else None
    if entry == "i":
        return None if number is None else Constant(number, uint32)
    size, step, start = (n, 1, 0) if entry == ":" else entry
    start = number if start is None else start
    if start is None:
        return None
    stop = start + size * step
    return c.arange(start, min(stop, n) if step > 0 else stop, step, uint32)


def _inputs(plan: Sequence[Any], first: int) -> list[int]:
    """Return the number of the input for each entry."""
    sources = []
    for entry in plan:
        sources.append(first)
        first += entry in ("a", "i") or (type(entry) is tuple and entry[2] is None)
    return sources


def _taken(c: Chain, axis: int) -> Source:
    """Compute `take` along an axis."""
    shape, dims = c.of(0).shape, c.of(1).ndim
    sizes = tuple([1 if k == axis else n for k, n in enumerate(shape)])
    gathered = c.gather(0, [1], [axis], sizes)
    if axis:
        order = [*range(dims, dims + axis), *range(dims), *range(dims + axis, dims + len(shape))]
        gathered = c.transpose(gathered, order)
    return c.squeeze(gathered, [axis + dims])


def _common(c: Chain, indices: Sequence[Source]) -> list[Source]:
    """Broadcast and cast indices to one shape and dtype."""
    return c.of_one_dtype(c.of_one_shape(indices))


def _gather(c: Chain, plan: tuple) -> Any:
    """Append a gather. Slices before the last index array become arrays of indices. Slices after it are applied to the
    result."""
    x: Source = 0
    if plan[0] == "*":
        x, plan = c.flat(0), plan[1:]
    elif plan[-1] == "a" and set(plan[:-1]) <= {":"}:
        return _taken(c, len(plan) - 1)
    shape = c.of(x).shape
    owners = _inputs(plan, 1)
    spots = [k for k, entry in enumerate(plan) if entry in ("a", "i")]
    end = spots[-1] + 1
    # if index arrays are apart, the axes between them come after the axes of the arrays
    first = spots != list(range(spots[0], end))
    new = [k for k in range(end) if plan[k] != "+"]
    dims = max(c.of(owners[k]).ndim for k in new if plan[k] == "a") if "a" in plan else 0
    slices = sum(k not in spots for k in new)
    indices: list[Source] = []
    passed = 0
    for axis, k in enumerate(new):
        place = _places(c, plan[k], owners[k], shape[axis])
        if place is None:
            return None
        if k in spots:
            place = c.reshape(place, (*c.of(place).shape, *[1] * slices)) if first else place
        else:
            at = dims + passed if first else passed
            place = c.reshape(place, [c.of(place).size if n == at else 1 for n in range(dims + slices)])
            passed += 1
        indices.append(place)
    indices = _common(c, indices)
    common = c.of(indices[0]).shape
    count = len(new)
    gathered = c.gather(x, indices, range(count), (*[1] * count, *shape[count:]))
    out = c.squeeze(gathered, range(len(common), len(common) + count))
    left = [("+" if e == "+" else ":") for k, e in enumerate(plan[:end]) if k not in spots and (first or k < spots[0])]
    rest = [*[":"] * dims, *left] if first else [*left, *[":"] * dims]
    return _cut(c, out, [*rest, *plan[end:]], iter(c.numbers[max(owners[end - 1] + 1, 1) :]))


def _scatter(c: Chain, plan: tuple, mode: str) -> Any:
    """Append a scatter. Slices with step 1 after the last index array are written as boxes. Other entries become arrays
    of indices."""
    if mode not in _COMBINED:
        return None
    shape = c.of(0).shape
    owners = _inputs(plan, 2)
    arrays = [k for k, entry in enumerate(plan) if entry == "a"]
    simple = [
        k for k, e in enumerate(plan) if k > arrays[-1] and (e == ":" or (type(e) is tuple and e[1] == 1 and e[0] > 0))
    ]
    # the entry is a slice or a new axis
    ranged = [k for k, e in enumerate(plan) if k not in simple and e not in ("a", "i")]
    dims = max(c.of(owners[k]).ndim for k in arrays) or int(plan != ("a",))
    apart = any(k in ranged or k in simple for k in range(arrays[0], arrays[-1]))
    ahead = 0 if apart else sum(k < arrays[0] for k in ranged)
    total = dims + len(ranged)
    indices: list[Source] = []
    sizes: list[int] = []
    axis = passed = 0
    for k, entry in enumerate(plan):
        if entry == "+":
            passed += 1
            continue
        n = shape[axis]
        if k in simple:
            start = 0 if entry == ":" else c.numbers[owners[k]] if entry[2] is None else entry[2]
            if start is None:
                return None
            place: Any = Constant(start, uint32, (1,) * total)
        else:
            place = _places(c, entry, owners[k], n)
        if place is None:
            return None
        if k in ranged:
            at = passed if passed < ahead else passed + dims
            place = c.reshape(place, [c.of(place).size if j == at else 1 for j in range(total)])
            passed += 1
        elif entry == "a":
            own = c.of(place).shape
            place = c.reshape(place, [1] * (ahead + dims - len(own)) + [*own] + [1] * (len(ranged) - ahead))
        indices.append(place)
        sizes.append((n if entry == ":" else entry[0]) if k in simple else 1)
        axis += 1
    indices = _common(c, indices)
    common = c.of(indices[0]).shape
    kept = [size for size, k in zip(sizes, [k for k, e in enumerate(plan) if e != "+"], strict=True) if k in simple]
    rest = shape[axis:]
    value = c.squeeze(1, range(c.of(1).ndim - len(stripped(c.shape(1)))))
    value = c.reshape(c.broadcast(value, (*common, *kept, *rest)), (*common, *sizes, *rest))
    value = c.cast(value, c.dtype(0))
    return c.add("Scatter", [0, *indices, value], shape, _COMBINED[mode], list(range(axis)))


def _gather_axis(c: Chain, axis: int | None) -> Any:
    x, at = _line(c, axis)
    shape = _beside(c, x, 1, at)
    whole = (*shape[:at], c.shape(x)[at], *shape[at + 1 :])
    x, indices = c.but_for([x, 1], [whole, shape], [at - len(shape)])
    return c.add("GatherAxis", [x, indices], shape, at)


def _scatter_axis(c: Chain, axis: int | None) -> Any:
    x, at = _line(c, axis)
    value = c.cast(1, c.dtype(0))
    indices, value = c.of_one_shape([2, value])
    shapes = [c.shape(x), _beside(c, x, indices, at), _beside(c, x, value, at)]
    inputs = c.but_for([x, indices, value], shapes, [at - c.of(x).ndim])
    return c.reshape(c.add("ScatterAxis", inputs, c.shape(x), 1, at), c.shape(0))


def _beside(c: Chain, x: Source, indices: Source, axis: int) -> tuple[int, ...]:
    """Return the shape of indices that are broadcast with an array in all axes but one."""
    own, sizes = c.shape(indices), list(c.shape(x))
    sizes[axis] = 1
    return np.broadcast_shapes(own, sizes)


def _dynamic_slice(c: Chain, axes: tuple[int, ...], size: tuple[int, ...]) -> Any:
    shape = c.out_avals[0].shape
    return c.add("DynamicSlice", [0, 1], shape, list(axes), shape)


def _dynamic_slice_update(c: Chain, axes: tuple[int, ...]) -> Any:
    return c.add("DynamicSliceUpdate", [0, c.cast(1, c.dtype(0)), 2], c.shape(0), list(axes))


def _fill(c: Chain, shape: tuple[int, ...], dtype: Dtype) -> Any:
    value = c.squeeze(0, range(c.of(0).ndim - len(shape)))
    return c.broadcast(c.cast(value, dtype), shape)


def _line(c: Chain, axis: int | None) -> tuple[Source, int]:
    """Return the indexed array and the axis. If the axis is None, return the flattened array and axis 0."""
    if axis is None:
        return c.reshape(0, (c.of(0).size,), (-1,)), 0
    return 0, axis % c.of(0).ndim


def _masked_scatter(c: Chain) -> Any:
    x, mask = c.of(0), c.of(2)
    value = c.cast(1, x.dtype)
    rest = x.shape[mask.ndim :]
    if c.of(value).ndim <= len(rest):
        row = (1,) * (1 + len(rest) - c.of(value).ndim) + c.of(value).shape
        value = c.broadcast(c.reshape(value, row), (mask.size, *rest))
    where = c.broadcast(c.reshape(2, (*mask.shape, *[1] * len(rest))), x.shape)
    inputs = [c.expand(0, [0]), c.expand(where, [0]), c.expand(value, [0])]
    return c.squeeze(c.add("MaskedScatter", inputs, (1, *x.shape)), [0])


INDEXING: dict[str, Callable[..., Any]] = {
    "dynamic_slice": _dynamic_slice,
    "dynamic_slice_update": _dynamic_slice_update, "fill": _fill, "gather": _gather, "gather_axis": _gather_axis,
    "masked_scatter": _masked_scatter, "scatter": _scatter, "scatter_axis": _scatter_axis, "slice": _slice,
    "slice_update": _slice_update,
}  # fmt: skip
"""`rule(chain, **params)`: appends the primitives of an op and returns its result."""
