"""Functions with transformation rules of their own: `custom_function` and `custom_gradient`.

A call inside a transform makes a CUSTOM node that holds the plain Program and the user's rules. The innermost transform
around it closes over it and specializes it: the user's rule is run on placeholders and its Program takes its place.
So what is cached is structure, whether or not the function is defined afresh at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mxcompat._array.array import array, wrap, wrap_all
from mxcompat._array.operands import node
from mxcompat._graph.ir.aval import aval, format_shape
from mxcompat._graph.ir.capture import Capture, modes_of
from mxcompat._graph.ir.node import Node, apply, items
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import SPECIALIZE

from ..calls import CALL, PURE_CALL
from ..functions import check_callable, named_after
from ..trees import flatten, map_arrays, restore, structure
from .lowering import CUSTOM_JVP, CUSTOM_VJP, CUSTOM_VMAP

__all__ = ["CUSTOM", "custom_function", "custom_gradient"]


class custom_function:
    """A function with its own rules for `vjp`, `jvp` and `vmap`.

    Calls behave as calls of `f`. Where a rule is defined, the transform uses it; where not, it acts on the body of
    `f`. The function is pure: arrays it captures are constants, without gradient.

    Args:
        f: takes trees of arrays (and keyword arguments) and returns a tree of arrays.

    Example:
        >>> @mx.custom_function
        ... def clipped(x):
        ...     return mx.exp(x)
        >>> @clipped.vjp
        ... def clipped_vjp(x, cotangent, output):
        ...     return mx.clip(cotangent * output, -1, 1)
    """

    def __init__(self, f: Callable[..., Any]) -> None:
        check_callable(f, "custom_function")
        self._f = f
        self._vjp: Callable[..., Any] | None = None
        self._jvp: Callable[..., Any] | None = None
        self._vmap: Callable[..., Any] | None = None

    def vjp(self, f: Callable[..., Any]) -> custom_function:
        """Define the reverse-mode rule, `f(primals, cotangents, outputs)`.

        `primals` are the positional arguments (the bare argument if there is one), `cotangents` and `outputs` have
        the tree of the result; it returns the cotangents of the arguments, in their tree.
        """
        self._vjp = f
        return self

    def jvp(self, f: Callable[..., Any]) -> custom_function:
        """Define the forward-mode rule, `f(primals, tangents)`.

        `tangents` have the tree of the positional arguments, with None where there is no tangent; it returns the
        tangents of the result, in its tree.
        """
        self._jvp = f
        return self

    def vmap(self, f: Callable[..., Any]) -> custom_function:
        """Define the vectorization rule, `f(inputs, axes)`.

        `axes` have the tree of the positional arguments, with the mapped axis of each or None; it returns the result
        and, in the same tree, the axis of each array in it or None.
        """
        self._vmap = f
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value of the function."""
        if self._vjp is None and self._jvp is None and self._vmap is None:
            return self._f(*args, **kwargs)
        return _called(self, args, kwargs)


@dataclass(frozen=True, eq=False, slots=True)
class _Call:
    """What the rules need to know of one call of a custom function. It holds no array: structures outlive their data.

    Args:
        function: whose rules they are.
        arguments: the tree of `(args, kwargs)`, and `count`, how many arrays are in it.
        value: the tree of the result.
    """

    function: custom_function
    arguments: Any
    count: int
    value: Any


def _called(function: custom_function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of a call: a node that the innermost transform around it will specialize, if there is one."""
    arguments = structure((args, kwargs))
    reals = tuple([x._node for x in flatten((args, kwargs))])
    with Capture(reals) as capture:
        inner_args, inner_kwargs = restore(arguments, iter([wrap(p) for p in capture.placeholders]))
        value = function._f(*inner_args, **inner_kwargs)
        body = capture.close([x._node for x in flatten(value)])
    shape = structure(value)
    inputs = (*reals, *body.captured)
    if modes_of(reals):
        call = _Call(function, arguments, len(reals), shape)
        node = apply(CUSTOM, inputs, (body.program, call))
    else:  # no transform will ever ask for the rules
        node = apply(PURE_CALL, inputs, (body.program, len(reals)))
    return restore(shape, iter(wrap_all(node)))


def _specialize(node: Node, capture: Capture) -> bool:
    """Rewrite the node of a call into what it means under the transform that closes over it."""
    program, call = node.params
    primals = node.inputs[: call.count]
    active = tuple([n.trace >= capture.id for n in primals])
    if capture.mode == "call":
        return False
    if getattr(call.function, f"_{capture.mode}") is None or not any(active):
        if capture.mode == "vmap":
            node.become(CALL, (program,), node.inputs)
        else:
            node.become(PURE_CALL, (program, call.count), node.inputs)
        return True
    rule = {"vjp": _reverse, "jvp": _forward, "vmap": _batched}[capture.mode]
    op, params, captured = rule(node, capture, active)
    node.become(op, params, (*node.inputs, *captured))
    return True


def _reverse(node: Node, outer: Capture, active: tuple[bool, ...]) -> tuple:
    program, call = node.params
    primals = node.inputs[: call.count]
    with Capture((*primals, *program.out_avals, *items(node)), mode="vjp") as capture:
        following = iter([wrap(p) for p in capture.placeholders])
        args, kwargs = restore(call.arguments, following)
        cotangents = restore(call.value, following)
        outputs = restore(call.value, following)
        result = call.function._vjp(args[0] if len(args) == 1 else args, cotangents, outputs, **kwargs)  # type: ignore[misc]
        found = [x._node for x in flatten(result)]
        if len(found) > len(primals) or any(f.aval.shape != p.aval.shape for f, p in zip(found, primals, strict=False)):
            raise ValueError(
                f"[custom_function] The vjp rule must return cotangents like the arguments, "
                f"{[p.aval for p in primals]}, but returned {[f.aval for f in found]}."
            )
        body = capture.close(found)
    return CUSTOM_VJP, (program, body.program, call.count), body.captured


def _forward(node: Node, outer: Capture, active: tuple[bool, ...]) -> tuple:
    program, call = node.params
    primals = node.inputs[: call.count]
    with Capture((*primals, *[p.aval for p, on in zip(primals, active, strict=True) if on]), mode="jvp") as capture:
        following = iter([wrap(p) for p in capture.placeholders])
        args, kwargs = restore(call.arguments, following)
        if kwargs:
            raise ValueError("[custom jvp] Function should only accept positional arguments")
        switch = iter(active)
        tangents = map_arrays(lambda _: next(following) if next(switch) else None, args)
        one = len(args) == 1
        result = call.function._jvp(args[0] if one else args, tangents[0] if one else tangents)  # type: ignore[misc]
        found = [x._node for x in flatten(result)]
        if [f.aval.shape for f in found] != [a.shape for a in program.out_avals]:
            raise ValueError(
                f"[custom_function] The jvp rule must return tangents like the outputs, {list(program.out_avals)}, but "
                f"returned {[f.aval for f in found]}."
            )
        body = capture.close(found)
    return CUSTOM_JVP, (program, body.program, call.count, active), body.captured


def _batched(node: Node, outer: Capture, active: tuple[bool, ...]) -> tuple:
    program, call = node.params
    avals = [
        aval((outer.size, *n.aval.shape), n.aval.dtype) if on else n.aval
        for n, on in zip(node.inputs, active, strict=False)
    ]
    with Capture(avals) as capture:
        args, kwargs = restore(call.arguments, iter([wrap(p) for p in capture.placeholders]))
        if kwargs:
            raise ValueError("[custom vmap] Function should only accept positional arguments")
        switch = iter(active)
        axes = map_arrays(lambda _: 0 if next(switch) else None, args)
        one = len(args) == 1
        result = call.function._vmap(args[0] if one else args, axes[0] if one else axes)  # type: ignore[misc]
        if not isinstance(result, tuple) or len(result) != 2:
            raise ValueError("[custom vmap] Vmap function should return a tuple with 2 items.")
        found = [x._node for x in flatten(result[0])]
        out_axes = tuple(_flat_axes(*result))
        shapes = [x.aval.shape for x in found]
        wanted = [
            a.shape if axis is None else _with_axis(a.shape, axis, outer.size)
            for a, axis in zip(program.out_avals, out_axes, strict=False)
        ]
        if shapes != wanted:
            raise ValueError(
                f"[custom_function] The vmap rule must return what the function returns, with an axis more: arrays of "
                f"shapes {[*map(format_shape, wanted)]}, but returned {[*map(format_shape, shapes)]}."
            )
        body = capture.close(found)
    return CUSTOM_VMAP, (program, body.program, call.count, active, out_axes), body.captured


def _with_axis(shape: tuple[int, ...], axis: int, size: int) -> tuple[int, ...]:
    place = axis % (len(shape) + 1)
    return (*shape[:place], size, *shape[place:])


def _flat_axes(tree: Any, axes: Any) -> Iterator[int | None]:
    """The axis of each array of a tree, from a tree of axes."""
    if isinstance(tree, array):
        yield axes
    elif isinstance(tree, (list, tuple)):
        for item, axis in zip(tree, axes, strict=True):
            yield from _flat_axes(item, axis)
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from _flat_axes(item, axes[key])


CUSTOM = Op(
    "custom_function",
    lambda *inputs, program, call: tuple(program.replay(inputs)),
    lambda *_, program, call: program.out_avals,
    ("program", "call"),
    uncacheable=True,
)
"""A call of a custom function that has not met its transform yet."""

SPECIALIZE[CUSTOM] = _specialize


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its own gradient, in the manner of `jax.custom_gradient`.

    Args:
        fun: takes arrays and returns `(value, pull)`, where `pull(cotangent)` returns the tuple of the cotangents of
            the arguments. `pull` may close over anything `fun` computed; it cannot read values (`.item()`, `if`).

    Returns:
        A function with the arguments of `fun` that returns `value`. It can be differentiated, mapped and compiled.

    Raises:
        ValueError: when differentiated, if `pull` does not return cotangents that fit the arguments.

    Example:
        >>> @mx.custom_gradient
        ... def f(x):
        ...     return x**2, lambda g: (g * x,)
        >>> mx.grad(f)(mx.array(3.0))
        array(3, dtype=float32)
    """
    check_callable(fun, "custom_gradient")

    def value(*args: Any) -> Any:
        return _split(fun(*args))[0]

    def rule(primals: Any, cotangents: Any, outputs: Any) -> Any:
        # The primal computation appears again here; XLA shares it with the forward pass.
        args = primals if isinstance(primals, tuple) else (primals,)
        return _split(fun(*args))[1](cotangents)

    function = custom_function(value).vjp(rule)

    def call(*args: Any) -> Any:
        return function(*[_as_array(a) for a in args])

    return named_after(fun, call)


def _split(result: Any) -> tuple[Any, Callable[..., Any]]:
    if not isinstance(result, tuple) or len(result) != 2 or not callable(result[1]):
        raise ValueError("[custom_gradient] The function must return a pair of its value and a function.")
    return result


def _as_array(value: Any) -> Any:
    return wrap(node(value)) if isinstance(value, (bool, int, float, complex)) else value
