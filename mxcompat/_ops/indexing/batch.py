"""Batching rules (``vmap``) of the ops that read and write by index.

If the indices are not batched, the batch axis of the arrays is one more axis with a full slice. If the indices differ
between the elements of the batch, the batch axis is indexed as well: by 0, 1, 2, … beside the other indices.
"""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat._graph.ir.aval import aval, int32
from mxcompat._graph.ir.node import Node, apply, scalar
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH

from ..batching import batched_elementwise, broadcast_unbatched
from ..define import TABLE, broadcast
from ..movement.batch import reshaped, swapped_in
from .gather import DYNAMIC_SLICE, GATHER, GATHER_AXIS, SLICE
from .host import value_shapes
from .plan import Plan
from .put import DYNAMIC_UPDATE, MASKED_SCATTER, SCATTER_AXIS, update_shape
from .room import PREFIX
from .scatter import FILL, SCATTER, SLICE_UPDATE, stripped

__all__: list[str] = []

BATCH[TABLE["update_negative"]] = BATCH[TABLE["update_reciprocal"]] = batched_elementwise


@BATCH.of(PREFIX)
def _prefix(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    axis, count = params
    return apply(op, inputs, (axis + 1, count))


@BATCH.of(SLICE)
def _slice(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    (plan,) = params
    if any(batched[1:]):
        return None
    x, *starts = inputs
    if plan and plan[0] == "*":
        x, plan = reshaped(x, size, x.aval.size // size), plan[1:]
    return apply(op, (x, *starts), ((":", *plan),))


def _shape(x: Node, on: bool) -> tuple[int, ...]:
    """Return the shape of an input, without the batch axis if the input has one."""
    return x.aval.shape[1:] if on else x.aval.shape


def _lined_up(x: Node, on: bool, shape: tuple[int, ...], ndim: int, size: int) -> Node:
    """Return an input reshaped to `shape`. A batched input keeps its batch axis in front. Axes of size 1 follow it, so
    that it has `ndim` further axes."""
    return reshaped(x, size, *[1] * (ndim - len(shape)), *shape) if on else reshaped(x, *shape)


def _with_batch_axis(x: Node, on: bool, size: int) -> Node:
    return x if on else broadcast_unbatched(x, size)


def _spot(plan: Plan, also: str) -> tuple[int, bool]:
    """Return the place in a plan's result at which the dimensions of the index arrays begin, and True if these arrays
    are adjacent.

    Args:
        also: "i" to count ints as arrays; "" to skip them.
    """
    items = [e for e in plan if e != "i"] if not also else [*plan]
    spots = [k for k, e in enumerate(items) if e == "a" or e == "i"]
    together = spots[-1] - spots[0] == len(spots) - 1
    return spots[0] if together else 0, together


def _batched_indices(plan: Plan, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> list[Node] | None:
    """Return the inputs of a plan, reshaped so that they broadcast against each other; None if the start of a slice is
    batched."""
    needed = [e for e in plan if e == "i" or e == "a" or (type(e) is tuple and e[2] is None)]
    if any(on and e != "a" for e, on in zip(needed, batched, strict=True)):
        return None
    ndim = max([len(_shape(x, on)) for x, on in zip(inputs, batched, strict=True)])
    return [_lined_up(x, on, _shape(x, on), ndim, size) for x, on in zip(inputs, batched, strict=True)]


def _numbered(size: int, ndim: int) -> Node:
    """Return the indices 0, 1, 2, … of the batch axis, shaped to broadcast against index arrays with `ndim`
    dimensions."""
    start, step = (scalar(n, aval((), int32)) for n in (0, 1))
    return reshaped(apply(TABLE["arange"], (start, step), (size,)), size, *[1] * ndim)


def _permuted(x: Node, order: Sequence[int]) -> Node:
    return x if [*order] == [*range(len(order))] else apply(TABLE["transpose"], (x,), (tuple(order),))


@BATCH.of(GATHER)
def _gather(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    (plan,) = params
    x, *indices_before = inputs
    if plan[0] == "*":
        n = x.aval.size // size if batched[0] else x.aval.size
        x, plan = reshaped(x, size, n) if batched[0] else reshaped(x, n), plan[1:]
    shapes = [_shape(i, on) for i, on in zip(indices_before, batched[1:], strict=True)]
    ndim = len(broadcast(*shapes))
    spot, together = _spot(plan, "i")
    indices = _batched_indices(plan, indices_before, batched[1:], size)
    if indices is None:
        return None
    if not any(batched[1:]):
        gathered = apply(op, (x, *indices), ((":", *plan),))
        return gathered if together or not ndim else swapped_in(gathered, ndim)
    if not batched[0]:
        return swapped_in(apply(op, (x, *indices), (plan,)), spot)
    gathered = apply(op, (x, _numbered(size, ndim), *indices), (("a", *plan),))
    axes = [*range(gathered.aval.ndim)]
    return _permuted(gathered, [0, *axes[1 + ndim : 1 + ndim + spot], *axes[1 : 1 + ndim], *axes[1 + ndim + spot :]])


@BATCH.of(GATHER_AXIS)
def _gather_axis(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    (axis,) = params
    x, indices = inputs
    shape = _shape(x, batched[0])
    if axis is None:
        shape, axis = (x.aval.size // size if batched[0] else x.aval.size,), 0
    x = reshaped(x, size if batched[0] else 1, *shape)
    indices = reshaped(indices, size if batched[1] else 1, *_shape(indices, batched[1]))
    return apply(op, (x, indices), (axis % len(shape) + 1,))


@BATCH.of(DYNAMIC_SLICE)
def _dynamic_slice(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    axes, window = params
    if batched[1]:
        return None
    return apply(op, inputs, (tuple([axis % len(window) + 1 for axis in axes]), (size, *window)))


@BATCH.of(SLICE_UPDATE)
def _slice_update(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    plan, mode = params
    x, value, *starts = inputs
    if any(batched[2:]):
        return None
    source = _shape(x, batched[0])
    shape, _, _ = value_shapes(_shape(value, batched[1]), source, plan, ())
    value = _lined_up(value, batched[1], shape, len(source), size)
    block = [(1, 1, None) if e == "i" else e for e in plan if e != "+"]
    return apply(op, (_with_batch_axis(x, batched[0], size), value, *starts), ((":", *block), mode))


@BATCH.of(SCATTER)
def _scatter(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    plan, mode = params
    x, value, *positions = inputs
    shapes = tuple([_shape(i, on) for i, on in zip(positions, batched[2:], strict=True)])
    shape, target, _ = value_shapes(_shape(value, batched[1]), _shape(x, batched[0]), plan, shapes)
    indices = _batched_indices(plan, positions, batched[2:], size)
    if indices is None:
        return None
    ndim = len(broadcast(*shapes))
    spot, together = _spot(plan, "")
    value = _lined_up(value, batched[1], shape, len(target), size)
    value = apply(TABLE["broadcast_to"], (value,), ((size, *target),))
    axes = [*range(1 + len(target))]
    x = _with_batch_axis(x, batched[0], size)
    if not any(batched[2:]):
        if ndim and not together:
            value = _permuted(value, [*axes[1 : 1 + ndim], 0, *axes[1 + ndim :]])
        return apply(op, (x, value, *indices), ((":", *plan), mode))
    spot += 1
    value = _permuted(value, [0, *axes[spot : spot + ndim], *axes[1:spot], *axes[spot + ndim :]])
    return apply(op, (x, value, _numbered(size, ndim), *indices), (("a", *plan), mode))


@BATCH.of(MASKED_SCATTER)
def _masked_scatter(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, value, mask = inputs
    if batched[2]:
        return None
    x = _last(_with_batch_axis(x, batched[0], size))
    value = _last(value) if batched[1] else reshaped(value, *value.aval.shape, 1)
    return swapped_in(apply(op, (x, value, mask)), x.aval.ndim - 1)


def _last(x: Node) -> Node:
    """Return a batched node with the batch axis moved to the end."""
    return _permuted(x, [*range(1, x.aval.ndim), 0])


@BATCH.of(SCATTER_AXIS)
def _scatter_axis(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    (axis,) = params
    x, values, indices = inputs
    x = _with_batch_axis(x, batched[0], size)
    shape = x.aval.shape
    if axis is None:
        x, axis = reshaped(x, size, x.aval.size // size), 0
    ndim = x.aval.ndim - 1
    values = _lined_up(values, batched[1], _shape(values, batched[1])[-ndim:], ndim, size)
    indices = reshaped(indices, size if batched[2] else 1, *_shape(indices, batched[2]))
    return reshaped(apply(op, (x, values, indices), (axis % ndim + 1,)), *shape)


@BATCH.of(DYNAMIC_UPDATE)
def _dynamic_update(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    x, update, starts = inputs
    if batched[2]:
        return None
    source, shape = _shape(x, batched[0]), _shape(update, batched[1])
    axes = [axis % len(source) for axis in params[0]]
    update = _lined_up(update, batched[1], shape, len(source), size)
    update = apply(TABLE["broadcast_to"], (update,), ((size, *update_shape(source, shape, axes)),))
    return apply(op, (_with_batch_axis(x, batched[0], size), update, starts), (tuple([axis + 1 for axis in axes]),))


@BATCH.of(FILL)
def _fill(op: Op, params: tuple, inputs: tuple[Node], batched: tuple, size: int) -> Node:
    shape, dtype = params
    value = _lined_up(inputs[0], True, stripped(_shape(inputs[0], True)), len(shape), size)
    return apply(op, (value,), ((size, *shape), dtype))
