"""Index plans: the index of `x[...]` as a hashable description and a list of input nodes.

A plan has one entry for each item of the index, from left to right. The ellipsis is expanded, and the plan of a read
omits trailing full axes. A value that changes from call to call (an int, the start of a slice, an index array) is not
part of the plan. It is an input node of the read or write, in the order of the entries. So `x[0]` and `x[1]` have the
same graph structure and share a program.

    ":"                  a full axis
    "+"                  a new axis
    "i"                  one int: a scalar input
    "a"                  an array of ints: an array input
    (size, step, start)  a slice; if `start` is None, the start is a scalar input
"""

from __future__ import annotations

from operator import index as as_int
from typing import Any

import numpy as np

from mxcompat._array.array import array
from mxcompat._array.nest import nest_of
from mxcompat._graph.ir.aval import Aval, aval, int32
from mxcompat._graph.ir.node import Node, scalar

__all__ = ["Plan", "check_integral", "extent", "has_arrays", "is_full", "parse", "place", "shape_of", "source_axes"]

Plan = tuple[Any, ...]

_INT = aval((), int32)
_LIMIT = 1 << 31


def place(value: int) -> Node:
    """Return the scalar input for a position along an axis."""
    return scalar(value, _INT)


def parse(index: Any, shape: tuple[int, ...], op: str) -> tuple[Plan, list[Node]]:
    """Return the plan of an index into an array with this shape, and the input nodes of the plan.

    Args:
        op: "gather" for a read, "scatter" for a write.

    Raises:
        ValueError: in the cases of MLX: too many indices, an item whose type is no index, two ellipses, masks.
        IndexError: for an int out of bounds, which MLX leaves undefined.
    """
    if isinstance(index, tuple):
        return _parse_items(index, shape, op)
    if index is Ellipsis:
        return (), []
    if index is None:
        return ("+",), []
    kind = _kind(index)
    if not kind:
        raise ValueError("Cannot index mlx array using the given type.")
    if not shape:
        raise ValueError("too many indices for array: array is 0-dimensional")
    if kind == ":":
        entry, start = _slice(index, shape[0])
        return (() if entry == ":" else (entry,)), start
    if kind == "i":
        n = _as_int32(as_int(index))
        if not shape[0] and op == "gather":
            raise ValueError("[take] Cannot do a non-empty take from an empty axis.")
        return ("i",), [place(_in_bounds(n, 0, shape[0]))]
    node = _index_array(index)
    if node.aval.dtype._kind == "b":
        raise ValueError("boolean indices are not yet supported")
    if op == "gather":
        check_integral(node.aval, op)
    if not shape[0] and node.aval.size and op == "gather":
        raise ValueError("[take] Cannot do a non-empty take from an empty axis.")
    return ("a",), [node]


def _parse_items(items: tuple, shape: tuple[int, ...], op: str) -> tuple[Plan, list[Node]]:
    kinds = [_KINDS.get(type(item)) or _kind(item) for item in items]
    if "" in kinds:
        raise ValueError("Cannot index mlx array using the given type yet")
    if kinds.count("...") > 1:
        raise ValueError("An index can only have a single ellipsis (...)")
    free = len(shape) - (len(items) - kinds.count("...") - kinds.count("+"))
    if free < 0:
        raise ValueError(f"Too many indices for array with {len(shape)} dimensions.")
    mixed, masked = "a" in kinds, False
    last = len(kinds) - 1 - kinds[::-1].index("a") if mixed and op == "scatter" else len(kinds)
    plan: list[Any] = []
    nodes: list[Node] = []
    axis = 0
    for k, (item, kind) in enumerate(zip(items, kinds, strict=True)):
        if kind == "+":
            plan.append("+")
            continue
        if kind == "...":
            plan += [":"] * free
            axis += free
            continue
        if kind == ":":
            if item.start is None and item.stop is None and item.step is None:
                plan.append(":")
            else:
                entry, start = _slice(item, shape[axis])
                if k > last and entry == (0, 1, 0) and _is_backward(item, shape[axis]):
                    raise ValueError("[broadcast_to] Negative dimensions not allowed.")
                plan.append(entry)
                nodes += start
        elif kind == "i":
            n = _as_int32(as_int(item))
            if op == "gather" and not mixed and not -shape[axis] <= n < shape[axis]:
                raise ValueError(f"[squeeze] Cannot squeeze axis {axis} with size 0 which is not equal to 1.")
            plan.append("i")
            nodes.append(place(_in_bounds(n, axis, shape[axis])))
        else:
            node = _index_array(item)
            if node.aval.dtype._kind == "b":
                masked = True
            elif op == "gather":
                check_integral(node.aval, op)
            plan.append("a")
            nodes.append(node)
        axis += 1
    if masked:
        raise ValueError(f"[{op.capitalize()}] Boolean indices not supported.")
    if op == "gather":
        while plan and plan[-1] == ":":
            plan.pop()
    elif mixed and "+" in plan:
        _advance_new_axes(plan)
    return tuple(plan), nodes


def _advance_new_axes(plan: list[Any]) -> None:
    """Move new axes forward, before the slices of step 1 at the end of the index. MLX puts them there in the value of a
    write."""
    end = len(plan)
    while end and plan[end - 1] != "a" and not (type(plan[end - 1]) is tuple and plan[end - 1][1] != 1):
        end -= 1
    plan[end:] = sorted(plan[end:], key=lambda entry: entry != "+")


_KINDS = {int: "i", slice: ":", type(None): "+", type(Ellipsis): "...", array: "a", list: "a"}


def _kind(item: Any) -> str:
    """Return the kind of an item of an index: ':', 'i', 'a', '+' or '...'; an empty string if it is no index."""
    known = _KINDS.get(type(item))
    if known:
        return known
    if isinstance(item, (array, list)):
        return "a"
    if isinstance(item, (bool, np.bool_)):
        return ""
    try:
        as_int(item)
    except TypeError:
        return ""
    return "i"


def _slice(item: slice, n: int) -> tuple[Any, list[Node]]:
    """Return the plan's entry for a slice of an axis of size n, and the node of its start if the start is an input."""
    start, stop = item.start, item.stop
    if item.step is None and (start is None or type(start) is int) and (stop is None or type(stop) is int):
        begin = 0 if start is None else start + n if start < 0 else start
        end = n if stop is None else stop + n if stop < 0 else stop
        if 0 <= begin < end <= n and end - begin < n:  # this is the usual case
            return (end - begin, 1, 0 if start is None else None), [] if start is None else [scalar(begin, _INT)]
    first, last, stride = slice(_bound(item.start), _bound(item.stop), _bound(item.step)).indices(n)
    size = len(range(first, last, stride))
    if size == 0:
        return (0, 1, 0), []
    if size == n and stride == 1:
        return ":", []
    if size == 1:
        stride = 1
    if start is None:
        return (size, stride, first), []
    return (size, stride, None), [scalar(first, _INT)]


def _is_backward(item: slice, n: int) -> bool:
    """Return True if a slice of step 1 ends before it starts. For such a slice beside an index array, MLX counts a
    negative number of elements when it writes."""
    first, last, stride = slice(_bound(item.start), _bound(item.stop), _bound(item.step)).indices(n)
    return stride == 1 and last < first


def _bound(value: Any) -> int | None:
    """Return a start, stop or step of a slice as an int (or None), after checks."""
    if type(value) is int:
        if -_LIMIT <= value < _LIMIT:
            return value
    elif value is None:
        return None
    elif _kind(value) != "i":
        raise ValueError("Slice indices must be integers or None.")
    return _as_int32(as_int(value))


def _index_array(item: Any) -> Node:
    return item._node if isinstance(item, array) else nest_of(item)


def _as_int32(value: int) -> int:
    """Return the value, or raise if it does not fit in MLX's 32-bit indices."""
    if not -_LIMIT <= value < _LIMIT:
        raise ValueError("Slice indices must be 32-bit integers.")
    return value


def _in_bounds(value: int, axis: int, n: int) -> int:
    """Return the position, counted from the front, of an int index along an axis of size n."""
    if not -n <= value < n:
        raise IndexError(f"Index {value} is out of bounds for axis {axis} with size {n}.")
    return value + n if value < 0 else value


def check_integral(indices: Aval, op: str) -> None:
    """Raise MLX's error if an array cannot be used as indices."""
    if indices.dtype._kind not in "iu":
        raise ValueError(f"[{op}] Got indices with invalid dtype. Indices must be integral.")


def is_full(plan: Plan) -> bool:
    """Return whether the plan selects every element, in order. It may add axes."""
    return all(entry == ":" or entry == "+" for entry in plan)


def has_arrays(plan: Plan, shapes: list[tuple[int, ...]]) -> bool:
    """Return whether the plan has index arrays with more than a single index. `shapes` are the shapes of its inputs."""
    return "a" in plan and any(shapes)


def source_axes(plan: Plan, ndim: int) -> list[Any]:
    """Return the entry of each axis of the indexed array."""
    entries = [entry for entry in plan if entry != "+"]
    return entries + [":"] * (ndim - len(entries))


def extent(size: int, step: int) -> int:
    """Return the distance from the first to the last element of a slice, plus one."""
    return (size - 1) * abs(step) + 1


def shape_of(
    shape: tuple[int, ...], plan: Plan, shapes: list[tuple[int, ...]], broadcast: Any, op: str
) -> tuple[int, ...]:
    """Return the shape of `x[plan]` for an array with this shape and plan inputs with these shapes.

    The dimensions of the index arrays go to the place of the first of them, or to the front if another entry lies
    between them. Beside index arrays, an int counts as one of them in a read (`op` "gather"), and is skipped in a
    write.
    """
    sizes = iter(shape)
    inputs = iter(shapes)
    mixed = has_arrays(plan, shapes)
    out: list[int] = []
    spots: list[int] = []
    indexed: list[tuple[int, ...]] = []
    at = passed = 0
    for k, entry in enumerate(plan):
        if entry == "+":
            out.append(1)
            continue
        size = next(sizes)
        if entry == ":":
            out.append(size)
        elif entry == "i" and op == "scatter":
            next(inputs)
            passed += 1
        elif entry == "i" or entry == "a":
            indexed.append(next(inputs))
            if not spots:
                at = len(out)
            spots.append(k - passed)
        else:
            if entry[2] is None:
                next(inputs)
            out.append(entry[0])
    out += sizes
    if not mixed:
        return tuple(out)
    together = spots[-1] - spots[0] == len(spots) - 1
    if not together:
        at = 0
    try:
        picked = broadcast(*indexed)
    except ValueError:
        reads = op == "gather"
        index_shapes = _as_indices(shape, plan, indexed, together) if reads else _as_places(shape, plan, indexed)
        broadcast(*index_shapes)  # MLX's error names these shapes
        raise
    return (*out[:at], *picked, *out[at:])


def _as_indices(
    shape: tuple[int, ...], plan: Plan, indexed: list[tuple[int, ...]], together: bool
) -> list[tuple[int, ...]]:
    """Return the shapes of the index arrays that MLX makes from the entries of a read, up to the last index array.

    MLX turns each slice into an index array with a dimension of its own. These dimensions come before those of the
    given arrays, or after them if the given arrays are not adjacent.
    """
    plan = tuple([entry for entry in plan if entry != "+"])
    last = max(k for k, entry in enumerate(plan) if entry in ("a", "i"))
    left = sum(entry not in ("a", "i") for entry in plan[: last + 1])
    ones = (1,) * max(map(len, indexed))
    before, after, behind = ((), ones, ()) if together else (ones, (), (1,) * left)
    arrays = iter(indexed)
    shapes = []
    for entry, size in zip(plan[: last + 1], shape, strict=False):
        if entry in ("a", "i"):
            shapes.append((*next(arrays), *behind))
        else:
            left -= 1
            shapes.append((*before, size if entry == ":" else entry[0], *(1,) * left, *after))
    return shapes


def _as_places(shape: tuple[int, ...], plan: Plan, indexed: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the shapes of the index arrays that MLX makes from the entries of a write.

    Each slice has a dimension of its own, at its place. The dimensions of the given arrays come first if a slice stands
    between them. Slices of step 1 at the end of the plan have no dimension.
    """
    first, last = plan.index("a"), max(k for k, entry in enumerate(plan) if entry == "a")
    end = max(k for k, entry in enumerate(plan) if k == last or not (entry == "i" or _is_whole(entry)))
    left = [k for k, entry in enumerate(plan[: end + 1]) if entry not in ("a", "i")]
    together = not any(first < k < last for k in left)
    before = sum(k < first for k in left) if together else 0
    longest = max(map(len, indexed))
    sizes, arrays, shapes = iter(shape), iter(indexed), []
    for k, entry in enumerate(plan):
        size = 1 if entry == "+" else next(sizes)
        places, others = [1] * longest, [1] * len(left)
        if entry == "a":
            array = next(arrays)
            places[longest - len(array) :] = array
        elif k in left:
            others[left.index(k)] = size if entry in (":", "+") else entry[0]
        else:
            continue
        shapes.append((*others[:before], *places, *others[before:]))
    return shapes


def _is_whole(entry: Any) -> bool:
    """Return whether an entry is a slice of step 1 (or a full axis)."""
    return entry == ":" or (isinstance(entry, tuple) and entry[1] == 1)
