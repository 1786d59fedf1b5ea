"""Rules of reads by index.

An element that is read several times gets the sum of the cotangents. For batching: if only the array has the batch
axis, and no indices, the batch axis is one more axis with a full slice. If the indices differ between the elements of
the batch, the batch axis is indexed as well: by 0, 1, 2, … beside the other indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, INDEX_ERROR, PADDING, PULLBACK, PUSHFORWARD, RESIDUALS, Residuals

from ..batching import reshaped, swapped_in
from ..define import broadcast
from ..movement.linear import linear
from ..padding.padded import Exact, Padding, again, axis_read
from .batch_axis import batched_indices, numbered, own_shape, permuted, spot_of
from .gather import DYNAMIC_SLICE, GATHER, GATHER_AXIS, SLICE
from .places import ALL, Places, block_starts, picked_along, positions, raw, window
from .plan import Plan
from .rows import accumulate

__all__: list[str] = []


def slice_index(plan: Plan, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return the NumPy index for a plan without index arrays."""
    rest = iter(inputs)
    index: list[Any] = []
    for entry in plan:
        if entry == ":":
            index.append(ALL)
        elif entry == "i":
            index.append(int(next(rest)))
        elif entry == "+":
            index.append(None)
        else:
            index.append(window(entry, rest))
    return (*index, ...)


@HOST.of(SLICE)
def _slice(out: Aval, params: tuple, x: Any, *inputs: Any) -> np.ndarray:
    (plan,) = params
    if plan == ("i",):
        return x[int(inputs[0]), ...]
    if plan and plan[0] == "*":
        x, plan = x.reshape(-1), plan[1:]
    return x[slice_index(plan, inputs)]


@PULLBACK.of(SLICE)
def _pull_slice(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, *inputs: Any) -> tuple:
    (plan,) = params
    total = np.zeros(x.shape, g.dtype)
    if plan and plan[0] == "*":
        total.reshape(-1)[slice_index(plan[1:], inputs)] = g
    else:
        total[slice_index(plan, inputs)] = g
    return (total, *[None] * len(inputs))


@BATCH.of(SLICE)
def _batch_slice(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    (plan,) = params
    if any(batched[1:]):
        return None
    x, *starts = inputs
    if plan and plan[0] == "*":
        x, plan = reshaped(x, size, x.aval.size // size), plan[1:]
    return apply(op, (x, *starts), ((":", *plan),))


@PADDING.of(SLICE)
def _padded_slice(node: Node, axis: int, pad: Padding) -> Node:
    source = node.inputs[0]
    plan = list(node.params[0])
    plan += [":"] * (source.aval.ndim - len(plan) + plan.count("+"))
    k = [k for k, entry in enumerate(plan) if entry != "i"][axis]
    along = axis_read(plan, k)
    if plan[k] == ":":
        source = pad(source, along)
    elif plan[k] != (pad.n, 1, 0) or source.aval.shape[along] < pad.room:
        raise Exact
    else:
        plan[k] = ":" if source.aval.shape[along] == pad.room else (pad.room, 1, 0)
    while plan and plan[-1] == ":":
        plan.pop()
    return again(node, (source, *node.inputs[1:]), (tuple(plan),)) if plan else source


@HOST.of(GATHER)
def _gather(out: Aval, params: tuple, x: Any, *inputs: Any) -> Any:
    (plan,) = params
    if plan[0] == "*":
        x, plan = x.reshape(-1), plan[1:]
    if not out.size:
        return np.empty(out.shape, x.dtype)
    if plan[-1] == "a" and plan.count(":") == len(plan) - 1 and x.flags.c_contiguous:
        try:
            return x.take(raw(inputs[0]), len(plan) - 1)
        except IndexError:
            pass
    places = Places(x.shape, plan, inputs, "gather")
    x = x[places.basic]
    return places.read(x) if places.gathered else x.reshape(out.shape)


@PULLBACK.of(GATHER)
def _pull_gather(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, *inputs: Any) -> tuple:
    (plan,) = params
    total = np.zeros(x.shape, g.dtype)
    if y.size:
        flat = total
        if plan[0] == "*":
            flat, plan = total.reshape(-1), plan[1:]
        places = Places(flat.shape, plan, inputs, "gather")
        block = flat[places.basic]
        if places.gathered:
            places.update("add", block, g, clip=True)
        else:
            block[...] = g.reshape(block.shape)
    return (total, *[None] * len(inputs))


@BATCH.of(GATHER)
def _batch_gather(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    (plan,) = params
    x, *indices_before = inputs
    if plan[0] == "*":
        n = x.aval.size // size if batched[0] else x.aval.size
        x, plan = reshaped(x, size, n) if batched[0] else reshaped(x, n), plan[1:]
    shapes = [own_shape(i, on) for i, on in zip(indices_before, batched[1:], strict=True)]
    ndim = len(broadcast(*shapes))
    spot, together = spot_of(plan, "i")
    indices = batched_indices(plan, indices_before, batched[1:], size)
    if indices is None:
        return None
    if not any(batched[1:]):
        gathered = apply(op, (x, *indices), ((":", *plan),))
        return gathered if together or not ndim else swapped_in(gathered, ndim)
    if not batched[0]:
        return swapped_in(apply(op, (x, *indices), (plan,)), spot)
    gathered = apply(op, (x, numbered(size, ndim), *indices), (("a", *plan),))
    axes = [*range(gathered.aval.ndim)]
    return permuted(gathered, [0, *axes[1 + ndim : 1 + ndim + spot], *axes[1 : 1 + ndim], *axes[1 + ndim + spot :]])


@HOST.of(GATHER_AXIS)
def _gather_axis(out: Aval, params: tuple, x: Any, indices: Any) -> Any:
    (axis,) = params
    if axis is None:
        x, axis = x.reshape(-1), 0
    if not out.size:
        return np.empty(out.shape, x.dtype)
    axis %= x.ndim
    try:
        return x[picked_along(x.shape, raw(indices), axis)]
    except IndexError:
        n = x.shape[axis]
        return x[picked_along(x.shape, positions(indices, n).clip(0, n - 1), axis)]


@PULLBACK.of(GATHER_AXIS)
def _pull_gather_axis(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, indices: Any) -> tuple:
    shape = (x.size,) if params[0] is None else x.shape
    if not y.size:
        return np.zeros(x.shape, g.dtype), None
    axis = 0 if params[0] is None else params[0] % len(shape)
    n = shape[axis]
    index = picked_along(shape, positions(indices, n).clip(0, n - 1), axis)
    places = np.ravel_multi_index(index, shape)
    return accumulate(x.shape, places, g), None


@BATCH.of(GATHER_AXIS)
def _batch_gather_axis(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node:
    (axis,) = params
    x, indices = inputs
    shape = own_shape(x, batched[0])
    if axis is None:
        shape, axis = (x.aval.size // size if batched[0] else x.aval.size,), 0
    x = reshaped(x, size if batched[0] else 1, *shape)
    indices = reshaped(indices, size if batched[1] else 1, *own_shape(indices, batched[1]))
    return apply(op, (x, indices), (axis % len(shape) + 1,))


@HOST.of(DYNAMIC_SLICE)
def _dynamic_slice(out: Aval, params: tuple, x: Any, starts: Any) -> Any:
    axes, size = params
    return x[block_starts(starts, axes, x.shape, size)] if x.ndim else x


@PULLBACK.of(DYNAMIC_SLICE)
def _pull_dynamic_slice(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any, starts: Any) -> tuple:
    axes, size = params
    if not x.ndim:
        return g, None
    total = np.zeros(x.shape, g.dtype)
    total[block_starts(starts, axes, x.shape, size)] = g
    return total, None


for _op in (SLICE, GATHER, GATHER_AXIS, DYNAMIC_SLICE):
    PUSHFORWARD[_op] = linear(_op, 1)
    RESIDUALS[_op] = Residuals(slice(1, None), False)


@BATCH.of(DYNAMIC_SLICE)
def _batch_dynamic_slice(op: Op, params: tuple, inputs: tuple, batched: tuple, size: int) -> Node | None:
    axes, window = params
    if batched[1]:
        return None
    return apply(op, inputs, (tuple([axis % len(window) + 1 for axis in axes]), (size, *window)))


@INDEX_ERROR.of(DYNAMIC_SLICE)
def _dynamic_slice_error(transform: str, *_: Any) -> Exception | None:
    return None if transform == "JVP" else ValueError("[DynamicSlice::vjp] Not supported for start indices.")
