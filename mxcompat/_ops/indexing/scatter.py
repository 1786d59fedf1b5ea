"""Writing by index: the ops behind `x[...] = v` and `x.at[...]`.

A write has three steps. It narrows the array to the block that the slices of the plan cover. It updates the block, as a
whole or at the index arrays. Last, it puts the block back. Indices out of bounds, which are undefined in MLX, write
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.casting import converted
from mxcompat._array.errors import incompatible
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape, from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jax, jnp, lax, lazy

from ..define import broadcast, op
from ..elementwise.by_bits import by_bits
from .gather import layout, locate, narrow, subscript, windows
from .plan import Plan, check_integral, shape_of, source_axes
from .room import PREFIX, buffer_written

__all__ = [
    "FILL", "SCATTER", "SLICE_UPDATE", "as_elements", "block_shape", "check_items", "fit", "is_whole", "scatter",
    "stretch", "stripped", "value_node", "write",
]  # fmt: skip


def value_node(value: Any, dtype: Dtype) -> Node:
    """Return the node of a value to write into an array with this dtype: an array, a number, or a NumPy value."""
    if isinstance(value, (list, tuple, str)):
        raise ValueError(f"Invalid type {type(value).__name__} received in array initialization.")
    if value is None:
        raise incompatible("", "expected an array or a number to write, got None.")
    return operands.node(value, dtype)


def as_elements(value: Any, x: Any) -> Any:
    """Return a value cast to the dtype of the JAX array that it is written into."""
    return converted(value, from_numpy(x.dtype))  # type: ignore[arg-type]


def stretch(shape: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """Return `target` if an array with shape `shape` broadcasts to it; otherwise raise MLX's ValueError."""
    if broadcast(shape, target) != target:
        source, destination = (",".join(map(str, s)) for s in (shape, target))
        raise ValueError(f"Cannot broadcast array of shape ({source}) into shape ({destination}).")
    return target


def stripped(shape: tuple[int, ...], ndim: int = 0) -> tuple[int, ...]:
    """Return the shape without leading ones, but with at least `ndim` dimensions."""
    k = 0
    while len(shape) - k > ndim and shape[k] == 1:
        k += 1
    return shape[k:]


def fit(value: tuple[int, ...], shape: tuple[int, ...], plan: Plan, inputs: list[tuple[int, ...]]) -> tuple[Any, Any]:
    """Return the shape that a value is reshaped to, and the shape it then broadcasts to, before a write at a plan.

    Without index arrays, the second shape is that of the block that the slices cover, with size 1 for each int. With
    index arrays, it is nearly the shape of a read at the same plan.
    """
    if "a" in plan:
        value = stripped(value)
        return value, stretch(value, shape_of(shape, plan, inputs, broadcast, "scatter"))
    value = stripped(value, len(shape))
    if len(plan) > 1 and set(plan) != {"+"}:
        value = _lined_up(value, plan, len(shape))
    return value, stretch(value, block_shape(shape, plan))


def block_shape(shape: tuple[int, ...], plan: Plan) -> tuple[int, ...]:
    """Return the shape of the block that slices and ints select from an array with this shape."""
    entries = source_axes(plan, len(shape))
    return tuple(
        n if entry == ":" else 1 if type(entry) is str else entry[0] for n, entry in zip(shape, entries, strict=True)
    )


def check_items(index: Any, value: Node, x: Node, plan: Plan) -> None:
    """Raise MLX's ValueError if the value has too many axes for `x[0,]`, a tuple with a single int.

    In a tuple, the value gets an axis of size 1 for the int. For the int alone, `x[0]`, it gets none.
    """
    if plan == ("i",) and isinstance(index, tuple):
        shape = x.aval.shape
        value_shape = stripped(value.aval.shape, len(shape))
        stretch(_lined_up(value_shape, plan, len(shape)), block_shape(shape, plan))


def _lined_up(value: tuple[int, ...], plan: Plan, ndim: int) -> tuple[int, ...]:
    """Return a value's shape with a 1 for each int of the plan, and without the plan's new axes."""
    sizes, new = list(value), []  # the places of the new axes are counted from the end
    axis = len(sizes) - (ndim - (len(plan) - plan.count("+")))
    for entry in reversed(plan):
        if entry == "i":
            if axis > 0:
                sizes.insert(axis, 1)
            continue
        axis -= 1
        if entry == "+" and axis >= 0:
            new.append(axis - len(sizes))
    for axis in new:
        if sizes[axis] != 1:
            raise ValueError(f"[squeeze] Cannot squeeze axis {axis} with size {sizes[axis]} which is not equal to 1.")
    for axis in reversed(new):
        del sizes[axis]
    return tuple(sizes)


def _write(x: Any, value: Any, *inputs: Any, plan: Plan, mode: str) -> Any:
    shapes = [np.shape(i) for i in inputs]
    value = as_elements(value, x)
    shape, target = fit(value.shape, x.shape, plan, shapes)
    if 0 in target or 0 in x.shape:
        return jnp.asarray(x)
    value = jnp.broadcast_to(value.reshape(shape), target)
    entries, starts, indices, gathered = locate(x.shape, plan, inputs, "scatter")
    partial_write = any(start is not None for start in starts)
    if gathered:
        block = narrow(x, entries, starts) if partial_write else x
        kept = [n for n, entry in zip(block.shape, entries, strict=True) if entry != "i"]
        items = tuple(entry for entry in plan if entry != "i")
        value = scatter(layout(items, len(kept)), mode, block.reshape(kept), value, *indices).reshape(block.shape)
    else:
        value = value.reshape(block_shape(x.shape, plan))
        inside = _in_bounds(x.shape, entries, starts)
        if mode != "set" or inside is not None:
            block = narrow(x, entries, starts) if partial_write else x
            value = _combine(mode, block, value, last=is_whole(x.shape, plan))
            value = value if inside is None else jnp.where(inside, value, block)
    return _put_back(x, value, entries, starts) if partial_write else value


def is_whole(shape: tuple[int, ...], plan: Plan) -> bool:
    """Return True if MLX treats a write as one of the whole array: slices and ints cover it, with positive steps."""
    backwards = any(type(entry) is tuple and entry[1] < 0 for entry in plan)
    return "a" not in plan and not backwards and block_shape(shape, plan) == shape


def _in_bounds(shape: tuple[int, ...], entries: Sequence[Any], starts: Sequence[Any]) -> Any:
    """Return a mask of the single positions from arrays that are in bounds, or None if there are no such positions."""
    single = [(start, n) for start, entry, n in zip(starts, entries, shape, strict=True) if entry == "a"]
    inside = None
    for start, n in single:
        here = (start >= 0) & (start < n)
        inside = here if inside is None else inside & here
    return inside


def _put_back(x: Any, block: Any, entries: Sequence[Any], starts: Sequence[Any]) -> Any:
    """Return `x` with the block that `narrow` selects replaced by `block`."""
    lows, reach, steps = windows(x.shape, entries, starts)
    backwards = [axis for axis, step in enumerate(steps) if step < 0]
    if backwards:
        block = lax.rev(block, backwards)
    lows = [jnp.asarray(low, np.int32) for low in lows]
    if any(abs(step) != 1 for step in steps):
        gaps = [(0, 0, abs(step) - 1) for step in steps]
        hit = lax.pad(jnp.ones(block.shape, bool), False, gaps)
        block = lax.pad(block, jnp.zeros((), block.dtype), gaps)
        block = jnp.where(hit, block, lax.dynamic_slice(x, lows, reach, allow_negative_indices=False))
    return lax.dynamic_update_slice(x, block, lows, allow_negative_indices=False)


def _combine(mode: str, old: Any, new: Any, last: bool) -> Any:
    """Return the old elements combined with the new values. At a tie both get the gradient, or only the new one if
    `last`."""
    if mode == "set":
        return new
    if mode == "add":
        return jnp.logical_or(old, new) if old.dtype == bool else old + new
    if mode == "multiply":
        return jnp.logical_and(old, new) if old.dtype == bool else old * new
    return _extreme(mode, last, old, new)


@partial(lazy.custom_jvp, nondiff_argnums=(0, 1))
def _extreme(mode: str, last: bool, old: Any, new: Any) -> Any:
    return lax.max(old, new) if mode == "maximum" else lax.min(old, new)


@_extreme.defjvp
def _extreme_jvp(mode: str, last: bool, primals: tuple, tangents: tuple) -> tuple:
    old, new = primals
    result = _extreme(mode, last, old, new)
    if result.dtype.kind not in "fcV":
        return result, np.zeros(result.shape, jax.dtypes.float0)
    zero = jnp.zeros((), result.dtype)
    takes_new = result == new
    takes_old = ~takes_new if last else result == old
    return result, jnp.where(takes_old, tangents[0], zero) + jnp.where(takes_new, tangents[1], zero)


_METHODS = {"set": "set", "add": "add", "multiply": "multiply", "maximum": "max", "minimum": "min"}


@partial(lazy.custom_jvp, nondiff_argnums=(0, 1))
def scatter(layout: tuple[str, ...], mode: str, x: Any, value: Any, *indices: Any) -> Any:
    """Return `x` updated by `value` at a subscript. Every duplicate counts, in order.

    `value` has the shape of a read at the same subscript. The gradient is MLX's: of duplicates that are set, each gets
    the gradient of its place. For a maximum or minimum, every value that equals the result gets it.
    """
    if x.dtype == bool and mode in ("add", "multiply"):
        mode = "maximum" if mode == "add" else "minimum"
    if x.dtype == bool:
        return scatter(layout, mode, x.astype(np.uint8), value.astype(np.uint8), *indices).astype(bool)
    return _at(layout, mode, x, value, indices)


def _at(layout: tuple[str, ...], mode: str, x: Any, value: Any, indices: Sequence[Any], unique: bool = False) -> Any:
    update = getattr(x.at[subscript(layout, indices)], _METHODS[mode])
    return update(value, mode="drop", unique_indices=unique, wrap_negative_indices=False)


@scatter.defjvp
def _scatter_jvp(layout: tuple[str, ...], mode: str, primals: tuple, tangents: tuple) -> tuple:
    x, value, *indices = primals
    result = scatter(layout, mode, x, value, *indices)
    if result.dtype.kind not in "fcV":
        return result, np.zeros(result.shape, jax.dtypes.float0)
    dx, dv = tangents[:2]

    def there(of: Any) -> Any:
        return of.at[subscript(layout, indices)].get(mode="clip", wrap_negative_indices=False)

    if mode == "set":
        return result, _at(layout, "set", dx, dv, indices, unique=True)
    if mode == "add":
        return result, _at(layout, "add", dx, dv, indices)
    zeros, one = jnp.zeros_like(x), jnp.ones((), x.dtype)
    if mode == "multiply":
        # Multiply the other factors at each place. This is exact also if one factor is 0.
        null = value == 0
        factors = jnp.where(null, one, value)
        nulls = _at(layout, "add", jnp.zeros(x.shape, np.int32), null.astype(np.int32), indices)
        product = scatter(layout, "multiply", x, factors, *indices)
        others = there(product) / factors
        others = jnp.where(there(nulls) == null, others, jnp.zeros((), x.dtype))
        scale = scatter(layout, "multiply", jnp.ones_like(x), value, *indices)
        return result, dx * scale + _at(layout, "add", zeros, dv * others, indices)
    kept = jnp.where(result == x, dx, zeros)
    taken = jnp.where(there(result) == value, dv, jnp.zeros((), x.dtype))
    return result, kept + _at(layout, "add", zeros, taken, indices)


def _write_aval(x: Aval, value: Aval, *inputs: Aval, plan: Plan, mode: str) -> Aval:
    _, target = fit(value.shape, x.shape, plan, [i.shape for i in inputs])
    _check_room(x.shape, plan, target)
    for index in inputs:
        check_integral(index, "scatter")
    return x


def _check_room(shape: tuple[int, ...], plan: Plan, picked: tuple[int, ...]) -> None:
    """Raise MLX's ValueError if arrays index an axis of size 0, or an axis after one.

    The message names the shape of MLX's updates. They have a 1 for each axis up to the last axis that is not a whole
    block.
    """
    if "a" not in plan or 0 not in shape:
        return
    last = max(k for k, entry in enumerate(plan) if entry in ("a", "i") or (type(entry) is tuple and entry[1] != 1))
    ones = last + 1 - plan[: last + 1].count("+")
    if 0 not in shape[:ones]:
        return
    behind = len(plan) - last - 1 + len(shape) - (len(plan) - plan.count("+"))
    updates = (*picked[: len(picked) - behind], *[1] * ones, *picked[len(picked) - behind :])
    text = f"Updates with shape {format_shape(updates)} are too large for array with shape {format_shape(shape)}."
    raise ValueError(f"[scatter] {text}")


_set = by_bits(_write, slice(2))


def _written(*inputs: Any, plan: Any, mode: str) -> Any:
    return (_set if mode == "set" else _write)(*inputs, plan=plan, mode=mode)


SLICE_UPDATE = op("slice_update", _written, _write_aval, ("plan", "mode"), in_place=True)
"""`x[plan] = value` (mode "set"), or an update of the elements there, for a plan without index arrays. Inputs: x, the
value, then the inputs of the plan."""

SCATTER = op("scatter", _written, _write_aval, ("plan", "mode"), indices=2, in_place=True)
"""`x[plan] = value`, or an update of the elements there, for a plan with index arrays. It has the inputs of
SLICE_UPDATE."""


def _fill(value: Any, *, shape: tuple[int, ...], dtype: Dtype) -> Any:
    value = converted(value, dtype)
    return jnp.broadcast_to(value.reshape(stripped(value.shape)), shape)


def _fill_aval(value: Aval, *, shape: tuple[int, ...], dtype: Dtype) -> Aval:
    return aval(stretch(stripped(value.shape), shape), dtype)


FILL = op("fill", _fill, _fill_aval, ("shape", "dtype"))
"""A value broadcast to all of an array: the result of `x[:] = value`."""


def write(x: Node, value: Node, plan: Plan, nodes: Sequence[Node], mode: str = "set") -> Node:
    """Return the node of `x` after a write at a plan."""
    op = SCATTER if "a" in plan else SLICE_UPDATE
    written = buffer_written(op, x, (value, *nodes), (plan, mode)) if x.op is PREFIX else None
    return apply(op, (x, value, *nodes), (plan, mode)) if written is None else written
