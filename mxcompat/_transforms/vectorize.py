"""Automatic vectorization: `vmap`.

The function is captured on placeholders without the mapped axis and without a value. XLA lowers the node as `jax.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._array.array import array, handles, nodes_of, wrap_all
from mxcompat._array.errors import bad_cast, incompatible
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval, aval, format_shape
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import ITEM, Node, apply
from mxcompat._graph.ir.program import Program
from mxcompat._jax import jax
from mxcompat._ops.arguments import axis_of

from .calls import has_effects
from .custom.ops import CUSTOM_VMAP
from .functions import check_callable, transformed
from .programs.split_at_effects import mapped_over
from .transform_ops import VMAP
from .trees import flatten, raised_recursion_limit, rebuilt, visit_by_prefix

__all__ = ["flat_axes", "vmap"]


def vmap(fun: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Return a vectorized version of `fun`.

    Args:
        fun: takes trees of arrays and returns a tree of arrays.
        in_axes: the axis of each argument to map over, or None for an argument that is not mapped. An int holds for all
            arguments. A tree must be a prefix of the tuple of arguments (with one argument, of that argument).
        out_axes: the position of the mapped axis in each output, in the same form. Axes may be negative. None is for an
            output that does not depend on a mapped argument: it is repeated along a new last axis, as with -1.

    Returns:
        A function with the positional arguments of `fun`. Each mapped array has one more axis, and so has each output.
        While `fun` runs, its arrays have no value: reading one raises ValueError.

    Raises:
        IndexError: if an axis is out of range.
        TypeError: for keyword arguments, which the returned function does not take.
        ValueError: if axes do not fit their tree, if a leaf is not an array, if mapped axes differ in size, or if an
            output that depends on a mapped argument has None as its axis.

    Example:
        >>> mx.vmap(lambda x, y: x + y, in_axes=(1, 0))(mx.zeros((100, 8)), mx.ones((8, 100))).shape
        (8, 100)
    """
    check_callable(fun, "vmap")
    for name, axes in (("in_axes", in_axes), ("out_axes", out_axes)):
        if axes is None:
            raise incompatible("vmap", f"{name} must be an int or a tree of ints or None.")

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            raise TypeError("[vmap] Keyword arguments are not supported.")
        leaves = flatten(args, require_array=True)
        axes = flat_axes(args[0] if len(args) == 1 else args, leaves, in_axes, "")
        reals = nodes_of(leaves)
        mapped = [n for n, axis in zip(reals, axes, strict=True) if axis is not None]
        along = [axis for axis in axes if axis is not None]
        if not mapped:
            value = fun(*args)  # call the function first: MLX raises its errors and those of `out_axes` before this one
            flat_axes(value, flatten(value, require_array=True), out_axes, "output ")
            raise ValueError("At least one of in_axes must be non-None.")
        size = _size(mapped, along)
        with Capture([*map(_without, mapped, along)], mode="vmap", size=size) as capture:
            capture.mapped = mapped, along
            following = iter(capture.placeholders)
            nodes = [n if axis is None else next(following) for n, axis in zip(reals, axes, strict=True)]
            value = fun(*rebuilt(args, handles(nodes)))
            outputs = flatten(value, require_array=True)
            flat_out = flat_axes(value, outputs, out_axes, "output ")
            body = capture.close(nodes_of(outputs))
        flat_out = _output_axes(body.program, len(mapped), flat_out)
        inputs = (*mapped, *body.captured)
        flat_in = (*along, *[None] * len(body.captured))
        over = mapped_over if has_effects(body.program) else _over_axis
        node = over(body.program, inputs, flat_in, flat_out, size)
        return rebuilt(value, wrap_all(node))

    return transformed(fun, call)


def _over_axis(
    program: Program, inputs: tuple[Node, ...], in_axes: tuple[int | None, ...], out_axes: tuple[int | None, ...],
    size: int,
) -> Node:  # fmt: skip
    return apply(VMAP, inputs, (program, in_axes, out_axes, size))


def _output_axes(program: Program, inputs: int, axes: list[int | None]) -> tuple[int | None, ...]:
    """Return the axes of a Program's outputs, with the new last axis for outputs that have None."""
    if None not in axes:
        return tuple(axes)
    mapped = {~k for k in range(inputs)}
    unmapped = set()
    for slot, (op, params, slots) in enumerate(program.instructions):
        producer, settings, _ = program.instructions[slots[0]] if op is ITEM and slots[0] >= 0 else (op, params, slots)
        # the user's batching rule returned None for this result
        if producer is CUSTOM_VMAP and op is ITEM and settings[-1][params[0]] is None:
            unmapped.add(slot)
        if not mapped.isdisjoint(slots[op.reads]):
            mapped.add(slot)
    placed: list[int | None] = []
    for k, (slot, axis, out) in enumerate(zip(program.out_slots, axes, program.out_avals, strict=True)):
        if axis is not None or slot in unmapped:
            placed.append(axis)
        elif slot in mapped and k in _dependent(program, inputs):
            raise ValueError(f"[vmap] Axis -1 invalid for output with {out.ndim + 1} dimensions.")
        else:
            placed.append(out.ndim)
    return tuple(placed)


@analysis
def _dependent(program: Program, inputs: int) -> frozenset[int]:
    """Return the outputs that depend on the first inputs. The analysis uses JAX's jaxpr, so it sees inside transforms:
    the gradient of a linear function does not depend on the point."""
    with jax.enable_x64(True):
        structs = [jax.ShapeDtypeStruct(a.shape, a.dtype._numpy) for a in program.in_avals]
        jaxpr = jax.make_jaxpr(lambda *xs: tuple(program.replay(xs)))(*structs).jaxpr
    reached = {*map(id, jaxpr.invars[:inputs])}
    for equation in jaxpr.eqns:
        if not reached.isdisjoint(map(id, equation.invars)):
            reached.update(map(id, equation.outvars))
    return frozenset(k for k, out in enumerate(jaxpr.outvars) if id(out) in reached)


def _without(node: Node, axis: int) -> Aval:
    whole = node.aval
    return aval((*whole.shape[:axis], *whole.shape[axis + 1 :]), whole.dtype)


def _size(nodes: list[Node], axes: list[int]) -> int:
    """Return the common size of the mapped axes, or raise MLX's error."""
    sizes = [n.aval.shape[axis] for n, axis in zip(nodes, axes, strict=True)]
    if sizes.count(sizes[-1]) < len(sizes):  # MLX compares with the last size
        other = next(size for size in sizes if size != sizes[-1])
        raise ValueError(f"[vmap] Inconsistent axis sizes: {other} and {sizes[-1]}.")
    return sizes[-1]


def flat_axes(tree: Any, leaves: list[array], axes: Any, what: str) -> list[int | None]:
    """Return the axis of each leaf of `tree`, from the prefix tree `axes`, with negative axes made non-negative."""
    if isinstance(tree, array) and isinstance(axes, tuple) and len(axes) == 1:
        axes = axes[0]  # treat the single argument or output as a tuple of one
    if not isinstance(axes, (list, tuple, dict)):
        return [_axis(x, axes, what) for x in leaves]
    flat: list[int | None] = []

    def add(x: array, axis: Any) -> None:
        flat.append(_axis(x, axis, what))

    try:
        visit_by_prefix(add, tree, axes)
    except RecursionError:
        flat.clear()
        with raised_recursion_limit():
            visit_by_prefix(add, tree, axes)
    return flat


def _axis(x: array, axis: Any, what: str) -> int | None:
    if axis is None:
        return None
    if not isinstance(axis, int):
        raise ValueError("[vmap] axis must be int or None.")
    shape = x._node.aval.shape
    ndim = len(shape) + bool(what)
    if 0 <= axis < ndim:
        return int(axis)  # this converts a bool
    if not -(2**31) <= axis < 2**31:
        raise bad_cast("an axis is a number of 32 bits")
    message = f"[vmap] Invalid {what}vectorization axis {{place}} for array with shape {format_shape(shape)}"
    return axis_of(axis, ndim, message=message)
