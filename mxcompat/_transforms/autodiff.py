"""Automatic differentiation: `grad`, `value_and_grad`, `vjp`, `jvp`.

Each transform captures the user's function into a Program and adds one node to the graph. XLA lowers this node as
`jax.vjp` or `jax.jvp` of the Program's replay. The function's arguments can be evaluated while the function runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat._array.array import array, exchange, handles, nodes_of, plain_handle, wrap, wrap_all
from mxcompat._array.construct import type_name
from mxcompat._array.errors import bad_cast, expected, incompatible
from mxcompat._graph.ir.aval import aval, float32, format_shape
from mxcompat._graph.ir.capture import Body, Capture
from mxcompat._graph.ir.node import Node, apply, scalar
from mxcompat._graph.ir.trace_stack import innermost_trace
from mxcompat._ops.arguments import is_sequence
from mxcompat._ops.creation.filled import FULL
from mxcompat._ops.elementwise.casts import STOP_GRADIENT

from . import host_derivatives  # noqa: F401  registers NumPy's rules for ops that run a Program
from .custom.derive import pulled_back, pushed_forward
from .derivative_dtypes.mixed_forward import pushed
from .functions import argument_numbers, check_callable, transformed
from .programs import split  # noqa: F401  registers the plan that runs large derivatives in segments
from .transform_ops import VJP, check_indices
from .trees import Substitution, TreeSlots, copied, nodes_in, rebuilt

__all__ = ["grad", "jvp", "value_and_grad", "vjp"]


def value_and_grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] = []
) -> Callable[..., Any]:
    """Return a function that computes the value of `fun` and its gradients.

    Args:
        fun: returns a scalar array, or a tuple whose first item is a scalar array. The other items may be anything. An
            enclosing transform treats the arrays among them as constants.
        argnums: the positions of the arguments to differentiate with respect to, which are trees of arrays. The default
            is the first argument if `argnames` is empty, and none otherwise.
        argnames: the keyword arguments to differentiate with respect to.

    Returns:
        A function that takes the arguments of `fun` and returns `(value, gradients)`. The gradients have the tree, the
        shapes and the dtypes of the arguments, unless the rule of a custom function returns other dtypes. With several
        `argnums` they are a tuple. With `argnames` they are a pair: the positional gradients (or None), and a dict by
        name.

    Raises:
        ValueError: for argument numbers or names that do not fit, for leaves that are not arrays, and for a value that
            is not a scalar array.

    Example:
        >>> mx.value_and_grad(lambda w: (w * w).sum())(mx.array([1.0, 2.0]))
        (array(5, dtype=float32), array([2, 4], dtype=float32))
    """
    return _value_and_grad(fun, argnums, argnames, "value_and_grad")


def grad(
    fun: Callable[..., Any], argnums: int | Sequence[int] | None = None, argnames: str | Sequence[str] = []
) -> Callable[..., Any]:
    """Return a function that computes the gradients of `fun`, which must return a scalar array.

    The arguments are the same as for `value_and_grad`, and so is the form of the gradients.

    Raises:
        ValueError: for argument numbers or names that do not fit, for leaves that are not arrays, and for a value that
            is not a scalar array.

    Example:
        >>> mx.grad(mx.sin)(mx.array(0.0))
        array(1, dtype=float32)
    """
    both = _value_and_grad(fun, argnums, argnames, "grad")

    def gradients(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return transformed(fun, gradients)


def _value_and_grad(fun: Any, argnums: Any, argnames: Any, tag: str) -> Callable[..., Any]:
    check_callable(fun, tag)
    numbers, names = _requested(argnums, argnames, tag)

    def call(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        _check_given(args, kwargs, numbers, names, tag)
        slots = TreeSlots()
        positional = list(args)
        positions = slots.add(positional, numbers)
        if kwargs:
            positions += slots.add(kwargs, names)
        if not positions:
            raise ValueError("[grad] Must specify at least one argument.")
        # The user's function may update its arguments in place; the caller's arrays must not change.
        arrays = handles(nodes_of(slots.arrays))
        differentiated = [*map(arrays.__getitem__, positions)]
        reals = nodes_of(differentiated)
        with Capture(reals, mode="vjp") as capture:
            exchange(differentiated, reals, capture.placeholders)
            capture.other_arguments = nodes_of(arrays)
            with Substitution(slots, arrays):
                value = fun(*positional, **kwargs)
            _check_value(value, tag)
            loss, *others = nodes_in(value)
            _check_scalar(loss)
            # the outputs left out do not depend on the arguments
            outputs = [loss, *[n for n in others if n.trace >= capture.id]]
            del arrays
            capture.other_arguments = ()
            cotangents = [scalar(1.0, _ONE)]
            body = capture.close(outputs, keep=True, derive=pulled_back(reals, cotangents))
        exchange(differentiated, capture.placeholders, reals)  # this releases the second reference to the buffers
        node = _pull_back(body, reals, cotangents)
        asked = [*map(args.__getitem__, numbers)], {k: v for k, v in kwargs.items() if k in names} if names else {}
        try:
            trees, named = rebuilt(asked, wrap_all(node, len(body.outputs)))
        except StopIteration:
            raise ValueError("[grad] The function put arrays into an argument that it is differentiated by.") from None
        result: Any = trees[0] if len(trees) == 1 else tuple(trees) if trees else None
        if names:
            result = (result, named)
        return wrap(value._node) if type(value) is array else _detached(value), result

    return transformed(fun, call)


def _detached(value: tuple) -> tuple:
    """Apply `stop_gradient` to every array in a returned tuple except the first, if another transform encloses this
    one."""
    if not innermost_trace():
        return copied(value)
    first, *others = nodes_in(value)
    return rebuilt(value, handles([first, *[apply(STOP_GRADIENT, (n,)) for n in others]]))


_ONE = aval((), float32)


def _pull_back(body: Body, reals: Sequence[Node], cotangents: Sequence[Node]) -> Node:
    """Make the node of a vjp, and turn the body's outputs into outputs of this node."""
    outputs = len(cotangents)
    check_indices(body.program, len(reals), outputs, "VJP")
    node = body.derived
    if node is None:
        node = apply(VJP, (*reals, *body.captured, *cotangents), (body.program, len(reals), outputs))
    body.redirect(node)
    return node


def vjp(fun: Callable[..., Any], primals: list[array], cotangents: list[array]) -> tuple[list[array], list[array]]:
    """Compute the outputs of `fun` at `primals`, and the product of `cotangents` with its Jacobian.

    Args:
        fun: takes as many arrays as there are primals and returns an array or a list (or tuple) of arrays.
        primals: the arrays at which to differentiate.
        cotangents: one array for each output, of the output's shape. Results of `stop_gradient` are skipped: they take
            no cotangent.

    Returns:
        The list of outputs, and the list of products. The products have the shapes and dtypes of the primals.

    Raises:
        ValueError: if there are fewer cotangents than outputs, or one has another shape than its output.
        TypeError: if a primal or cotangent is not an array.

    Example:
        >>> mx.vjp(mx.square, [mx.array(3.0)], [mx.array(1.0)])
        ([array(9, dtype=float32)], [array(6, dtype=float32)])
    """
    check_callable(fun, "vjp")
    primals, cotangents = _arrays(primals, "vjp"), _arrays(cotangents, "vjp")
    reals = nodes_of(primals)
    with Capture(reals, mode="vjp") as capture:
        inner_primals = handles(capture.placeholders)
        result = _as_list(fun(*inner_primals))
        outputs = [x._node for x in result if not _is_stopped(x._node)]
        for k, out in enumerate(outputs):
            if k >= len(cotangents):
                raise ValueError(
                    f"[vjp] Number of outputs to compute gradients for ({len(result)}) does not match number of "
                    f"cotangents ({len(cotangents)})."
                )
            if out.aval.shape != cotangents[k].shape:
                raise _mismatch(out, cotangents[k].shape, only=len(result) == 1)
        cotangent_nodes = _without_repeats(outputs, nodes_of(cotangents[: len(outputs)]))
        body = capture.close(outputs, keep=True, derive=pulled_back(reals, cotangent_nodes))
    exchange(inner_primals, capture.placeholders, reals)
    node = _pull_back(body, reals, cotangent_nodes)
    return copied(result), wrap_all(node, len(body.outputs))


def _without_repeats(outputs: Sequence[Node], cotangents: list[Node]) -> list[Node]:
    """Replace the cotangent of a repeated output by zero: MLX counts each output once."""
    return [c if y not in outputs[:k] else apply(FULL, (scalar(0, aval((), c.aval.dtype)),), (c.aval.shape,))
            for k, (y, c) in enumerate(zip(outputs, cotangents, strict=True))]  # fmt: skip


def jvp(fun: Callable[..., Any], primals: list[array], tangents: list[array]) -> tuple[list[array], list[array]]:
    """Compute the outputs of `fun` at `primals`, and the product of its Jacobian with `tangents`.

    Args:
        fun: takes as many arrays as there are primals and returns an array or a list (or tuple) of arrays.
        primals: the arrays at which to differentiate.
        tangents: one array for each primal, of the primal's shape.

    Returns:
        The list of outputs, and the list of products. The products have the shapes of the outputs. If a tangent's dtype
        differs from its primal's, each op promotes the two.

    Raises:
        ValueError: if the tangents and the primals differ in number or shape.
        TypeError: if a primal or tangent is not an array.

    Example:
        >>> mx.jvp(mx.square, [mx.array(3.0)], [mx.array(1.0)])
        ([array(9, dtype=float32)], [array(6, dtype=float32)])
    """
    check_callable(fun, "jvp")
    primals, tangents = _arrays(primals, "jvp"), _arrays(tangents, "jvp")
    if len(primals) != len(tangents):
        raise ValueError("[jvp] Number of inputs does not match number of tangents.")
    for x, t in zip(primals, tangents, strict=True):
        if x.shape != t.shape:
            raise ValueError("[jvp] Input shape does not match shape of tangent.")
    reals = nodes_of(primals)
    with Capture(reals, mode="jvp") as capture:
        inner_primals = handles(capture.placeholders)
        result = _as_list(fun(*inner_primals))
        outputs = nodes_of(result)
        tangent_nodes = nodes_of(tangents)
        body = capture.close(outputs, keep=True, derive=pushed_forward(reals, tangent_nodes, len(outputs)))
    exchange(inner_primals, capture.placeholders, reals)
    check_indices(body.program, len(reals), len(outputs), "JVP")
    node = body.derived
    if node is None:
        node = pushed(body.program, (*reals, *body.captured), tangent_nodes, len(outputs))
    body.redirect(node)
    return copied(result), wrap_all(node, len(body.outputs))


def _arrays(values: Any, tag: str) -> list[array]:
    """Return the arrays of an argument that must be a sequence of arrays."""
    if not is_sequence(values):
        raise expected(tag, "a list of arrays", values)
    arrays = list(values)
    for x in arrays:
        if not isinstance(x, array):
            raise incompatible(tag, f"Expected a list of arrays, got {type(x).__name__} in it.")
    return [plain_handle(x) for x in arrays]


def _as_list(value: Any) -> list[array]:
    if isinstance(value, array):
        return [value]
    if isinstance(value, (list, tuple)) and all(isinstance(x, array) for x in value):
        return list(value)
    raise bad_cast(f"the function must return an array or a list of arrays, not {type(value).__name__}")


def _is_stopped(node: Node) -> bool:
    return node.op is STOP_GRADIENT


def _requested(argnums: Any, argnames: Any, tag: str) -> tuple[list[int], list[str]]:
    names: list[Any] = [argnames]
    if not isinstance(argnames, str) and hasattr(argnames, "__iter__"):
        names = list(argnames)
    if not all(isinstance(name, str) for name in names):
        raise incompatible(tag, f"argnames must be a string or a sequence of strings, not {argnames!r}.")
    if argnums is None:
        numbers = [] if names else [0]
    else:
        numbers = sorted(argument_numbers(argnums, tag))
    if not numbers and not names:
        raise ValueError(f"[{tag}] Gradient wrt no argument requested")
    if numbers and numbers[0] < 0:
        raise ValueError(f"[{tag}] Can't compute the gradient of negative argument index {numbers[0]}")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"[{tag}] Duplicate argument index {numbers[0]} is not allowed.")
    return numbers, names


def _check_given(args: tuple, kwargs: dict[str, Any], numbers: list[int], names: list[str], tag: str) -> None:
    if numbers and numbers[-1] >= len(args):
        raise ValueError(
            f"[{tag}] Can't compute the gradient of argument index {numbers[-1]} because the function is called with "
            f"only {len(args)} positional arguments."
        )
    for name in reversed(names):  # MLX checks the names in this order
        if name not in kwargs:
            raise ValueError(
                f"[{tag}] Can't compute the gradient of keyword argument '{name}' because the function is called with "
                f"the following keyword arguments {{{''.join(k + ',' for k in kwargs)}}}"
            )


def _check_value(value: Any, tag: str) -> None:
    if isinstance(value, array):
        return
    kind = type_name(value)
    if tag == "grad":
        raise ValueError(
            "[grad] The return value of the function whose gradient we want to compute should be a scalar array; but "
            f"{kind} was returned."
        )
    either = (
        f"[{tag}] The return value of the function whose gradient we want to compute should be either a scalar array "
        "or a "
    )
    first = "tuple with the first value being a scalar array (Union[array, tuple[array, Any, ...]]); but "
    if not isinstance(value, tuple):
        raise ValueError(f"{either}{first}{kind} was returned.")
    if not value:
        raise ValueError(
            f"{either}non-empty tuple. The first value should be a scalar array and the rest can be anything. Instead, "
            "we got an empty tuple."
        )
    if not isinstance(value[0], array):
        raise ValueError(f"{either}{first}it was a tuple with the first value being of type {type_name(value[0])} .")


def _check_scalar(node: Node) -> None:
    if node.aval.shape != ():
        raise _mismatch(node, (), only=True)


def _mismatch(out: Node, shape: tuple[int, ...], only: bool) -> ValueError:
    """Return the error for a cotangent of the wrong shape; `only` is True if the function has a single output."""
    text = f"[vjp] Output shape {format_shape(out.aval.shape)} does not match cotangent shape {format_shape(shape)}."
    if only and out.aval.size == 1:
        text += " If you are using grad your function must return a scalar."
    return ValueError(text)
