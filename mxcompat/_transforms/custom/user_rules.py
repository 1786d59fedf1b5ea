"""Run the user's rules on placeholders and close them into Programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mxcompat._array.array import array, handles
from mxcompat._array.errors import bad_cast
from mxcompat._graph.ir.aval import Aval, format_shape
from mxcompat._graph.ir.capture import Body, Capture, Promise
from mxcompat._graph.ir.node import Node
from mxcompat._graph.ir.program import Program
from mxcompat._ops.elementwise.casts import cast_node

from ..programs.split import zeros
from ..trees import nodes_in, rebuilt, restore, visit_by_prefix

__all__ = ["UserCall", "batching_rule", "forward_rule", "reverse_rule"]


@dataclass(frozen=True, eq=False, slots=True)
class UserCall:
    """Facts about one call of a custom function that its rules need. It holds no arrays, because cached structures
    outlive their data.

    Args:
        function: the custom function.
        arguments: the structure of `(args, kwargs)`.
        count: the number of arrays in the arguments.
        value: the structure of the result.
    """

    function: Any
    arguments: Any
    count: int
    value: Any


def reverse_rule(call: UserCall, promises: Sequence[Promise], mode: str) -> Body:
    """Run the vjp rule on promises of the primals, the cotangents and the outputs.

    Args:
        mode: the mode in which the rule is captured, see `Capture`.
    """
    with Capture(promises, mode=mode) as capture:
        following = iter(handles(capture.placeholders))
        args, kwargs = restore(call.arguments, following)
        cotangents = restore(call.value, following)
        outputs = restore(call.value, following)
        result = call.function._vjp(args[0] if len(args) == 1 else args, cotangents, outputs, **kwargs)
        primals = [p.aval for p in promises[: call.count]]
        returned = nodes_in(result)[: len(primals)]  # MLX ignores surplus results
        if any(f.aval.shape != p.shape for f, p in zip(returned, primals, strict=False)):
            raise ValueError(
                f"[custom_function] The vjp rule must return cotangents like the arguments, "
                f"{primals}, but returned {[f.aval for f in returned]}."
            )
        return capture.close(returned)


def forward_rule(
    call: UserCall, promises: Sequence[Promise], active: Sequence[bool], outputs: Sequence[Aval], mode: str
) -> Body:
    """Run the jvp rule on promises of the primals and of the tangents of the `active` ones."""
    with Capture(promises, mode=mode) as capture:
        following = iter(handles(capture.placeholders))
        args, kwargs = restore(call.arguments, following)
        if kwargs:
            raise ValueError("[custom jvp] Function should only accept positional arguments")
        tangents = rebuilt(args, [next(following) if on else None for on in active])
        one = len(args) == 1
        result = call.function._jvp(args[0] if one else args, tangents[0] if one else tangents)
        returned = nodes_in(result)[: len(outputs)]
        returned += [zeros(a) for a in outputs[len(returned) :]]
        if [f.aval.shape for f in returned] != [a.shape for a in outputs]:
            raise ValueError(
                f"[custom_function] The jvp rule must return tangents like the outputs, {list(outputs)}, but "
                f"returned {[f.aval for f in returned]}."
            )
        return capture.close(returned)


def batching_rule(
    call: UserCall, program: Program, inputs: Sequence[Promise | Aval | Node], in_axes: Sequence[int | None], size: int
) -> tuple[Body, tuple[int | None, ...]]:
    """Run the vmap rule on the arguments. Return its body, and the mapped axes of its results.

    Args:
        program: the function's Program.
        in_axes: the mapped axis of each argument; None for an argument that is not mapped.
        size: the size of the mapped axis.
    """
    with Capture(inputs) as capture:
        args, kwargs = restore(call.arguments, handles(capture.placeholders))
        if kwargs:
            raise ValueError("[custom vmap] Function should only accept positional arguments")
        axes = rebuilt(args, in_axes)
        one = len(args) == 1
        result = call.function._vmap(args[0] if one else args, axes[0] if one else axes)
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError("[custom vmap] Vmap function should return a tuple with 2 items.")
        returned = nodes_in(result[0])
        out_axes = _flat_axes(*result)
        shapes = [x.aval.shape for x in returned]
        axes = (*out_axes, *[0] * (len(program.out_avals) - len(returned)))
        expected_shapes = [
            a.shape if axis is None else _with_axis(a.shape, axis, size)
            for a, axis in zip(program.out_avals, axes, strict=False)
        ]
        if shapes != expected_shapes:
            raise ValueError(
                f"[custom_function] The vmap rule must return what the function returns, with an axis more: arrays of "
                f"shapes {[*map(format_shape, expected_shapes)]}, but returned {[*map(format_shape, shapes)]}."
            )
        casts = [cast_node(x, a.dtype) for x, a in zip(returned, program.out_avals, strict=False)]
        return capture.close(casts), out_axes


def _with_axis(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    place = axis % (len(shape) + 1)
    return (*shape[:place], size, *shape[place:])


def _flat_axes(tree: Any, axes: Any) -> tuple[int | None, ...]:
    """Return the axis of each array of a tree, from a prefix tree of axes."""
    flat: list[int | None] = []

    def add(_: array, axis: Any) -> None:
        if axis is not None and not isinstance(axis, int):
            raise bad_cast("an axis is an int or None")
        flat.append(axis)

    visit_by_prefix(add, tree, axes)
    return tuple(flat)
