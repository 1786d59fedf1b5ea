"""More derivatives, built from MLX's transforms: Jacobians, Hessians, products with Hessians, linearization.

Arguments and results may be trees. The derivative of a tree with respect to a tree is the result's tree, with the
argument's tree in place of each array.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mxcompat import core as mx
from mxcompat._array.array import handles, nodes_of, wrap_all
from mxcompat._array.errors import expected
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program
from mxcompat._jax import jax
from mxcompat._transforms.control.customs import close_specialized, modes_around
from mxcompat._transforms.functions import argument_numbers, check_callable, named_after
from mxcompat._transforms.transform_ops import check_indices
from mxcompat._transforms.trees import flatten, nodes_in, restore, structure

__all__ = ["hessian", "hvp", "jacfwd", "jacrev", "linearize", "value_and_jac"]

Argnums = int | Sequence[int]


def jacrev(fun: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `fun` in reverse mode, row by row. It suits functions with few
    outputs.

    Args:
        fun: returns an array of shape `out`, or a tree of arrays.
        argnums: the position of the argument to differentiate with respect to, which is an array of shape `in` or a
            tree of arrays. It may be a sequence of positions.

    Returns:
        A function that returns an array of shape `out + in`. For trees it returns the tree of results, with the tree of
        arguments in place of each array. With several `argnums`, the tree of arguments is a tuple.

    Raises:
        TypeError: if `fun` is not callable, or `argnums` is neither an int nor a sequence of ints.
        ValueError: when called, if there is no such argument, or if an argument to differentiate with respect to, or
            the result, contains a leaf that is not an array.

    Example:
        >>> mx.ext.jacrev(lambda x: x**2)(mx.array([1.0, 2.0]))
        array([[2, 0],
               [0, 4]], dtype=float32)
    """
    return _jacobian_function("jacrev", fun, argnums, lambda *parts: _reverse(*parts)[1])


def jacfwd(fun: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the Jacobian of `fun` in forward mode, column by column. It suits functions with
    few inputs.

    Args:
        fun: returns an array of shape `out`, or a tree of arrays.
        argnums: the position of the argument to differentiate with respect to, which is an array of shape `in` or a
            tree of arrays. It may be a sequence of positions.

    Returns:
        A function that returns an array of shape `out + in`, or a tree of such arrays, as for `jacrev`.

    Raises:
        TypeError, ValueError: as `jacrev` does.

    Example:
        >>> mx.ext.jacfwd(lambda t: mx.stack([t, t**2]))(mx.array(3.0))
        array([1, 6], dtype=float32)
    """
    return _jacobian_function("jacfwd", fun, argnums, lambda *parts: _forward(*parts)[1])


def value_and_jac(fun: Callable[..., Any], argnums: Argnums = 0, mode: str = "reverse") -> Callable[..., Any]:
    """Return a function that computes the value of `fun` and its Jacobian together.

    Args:
        fun, argnums: as for `jacrev`.
        mode: "reverse", for few outputs, or "forward", for few inputs.

    Raises:
        ValueError: for another mode.
        TypeError, ValueError: as `jacrev` does.

    Example:
        >>> mx.ext.value_and_jac(mx.square)(mx.array([1.0, 3.0]))
        (array([1, 9], dtype=float32), array([[2, 0],
               [0, 6]], dtype=float32))
    """
    if mode not in ("reverse", "forward"):
        raise ValueError(f"[value_and_jac] mode must be 'reverse' or 'forward', not {mode!r}.")
    return _jacobian_function("value_and_jac", fun, argnums, _reverse if mode == "reverse" else _forward)


def hessian(fun: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """Return a function that computes the second derivatives of `fun`, which returns a scalar array (or any result that
    `jacrev` accepts).

    Returns:
        A function that returns an array of shape `in + in`. For trees, or several `argnums`, it returns the tree of
        arguments with that tree in place of each array.

    Raises:
        TypeError, ValueError: as `jacrev` does.

    Example:
        >>> mx.ext.hessian(lambda x: (x**3).sum())(mx.array([1.0, 2.0]))
        array([[6, 0],
               [0, 12]], dtype=float32)
    """
    check_callable(fun, "hessian")
    return jacfwd(jacrev(fun, argnums), argnums)


def hvp(fun: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """Return a function that computes the product of the Hessian of `fun` with a vector. It uses forward over reverse
    mode, and does not build the matrix.

    Args:
        fun: returns a scalar array.
        argnums: the position of the argument to differentiate with respect to, which is an array or a tree of arrays.

    Returns:
        A function of the arguments of `fun` and of the vector, which comes last. The vector and the product have the
        tree and shapes of the argument.

    Raises:
        TypeError: if `fun` is not callable, or `argnums` is not an int.
        ValueError: when called, if there is no such argument, or the vector has another tree or other shapes.

    Example:
        >>> mx.ext.hvp(lambda x: (x**3).sum())(mx.array([1.0, 2.0]), mx.array([1.0, 1.0]))
        array([6, 12], dtype=float32)
    """
    check_callable(fun, "hvp")
    if not isinstance(argnums, int):
        raise expected("hvp", "an int as argnums", argnums)

    def product(*arguments: Any, **kwargs: Any) -> Any:
        args, vector = arguments[:-1], arguments[-1:]
        if not -len(args) <= argnums < len(args):
            raise ValueError(f"[hvp] There is no argument {argnums} before the vector; the call has {len(args)}.")
        place = argnums % len(args)
        point, direction = flatten(args[place]), flatten(vector)
        if [x.shape for x in point] != [v.shape for v in direction]:
            raise ValueError(
                f"[hvp] The vector must have the shapes of argument {argnums}, {[x.shape for x in point]}, but has "
                f"{[v.shape for v in direction]}."
            )
        shape = structure(args[place])

        def gradient(*leaves: mx.array) -> list[mx.array]:
            inner = [*args]
            inner[place] = restore(shape, leaves)
            return flatten(mx.grad(fun, place)(*inner, **kwargs))

        return restore(shape, mx.jvp(gradient, point, direction)[1])

    return named_after(fun, product)


def _jacobian_function(name: str, fun: Any, argnums: Any, way: Callable[..., Any]) -> Callable[..., Any]:
    check_callable(fun, name)
    numbers = argument_numbers(argnums, name)
    positions = argnums if isinstance(argnums, int) else numbers
    return named_after(fun, lambda *args, **kwargs: way(fun, positions, args, kwargs))


class _Flat:
    """The user's function as a function from a list of arrays to a list of arrays."""

    def __init__(self, fun: Callable[..., Any], argnums: Argnums, args: tuple, kwargs: dict[str, Any]) -> None:
        numbers = [argnums] if isinstance(argnums, int) else list(argnums)
        if not numbers or any(not -len(args) <= k < len(args) for k in numbers):
            raise ValueError(f"[jacobian] argnums {argnums} do not fit a call with {len(args)} positional arguments.")
        self._fun, self._args, self._kwargs = fun, list(args), kwargs
        self._numbers = [k % len(args) for k in numbers]
        differentiated = tuple([args[k] for k in self._numbers])
        self.leaves = flatten(differentiated, require_array=True)
        self.arguments = structure(differentiated[0] if isinstance(argnums, int) else differentiated)
        self._differentiated = structure(differentiated)
        self.result: Any = None

    def __call__(self, *leaves: mx.array) -> list[mx.array]:
        for k, value in zip(self._numbers, restore(self._differentiated, leaves), strict=True):
            self._args[k] = value
        value = self._fun(*self._args, **self._kwargs)
        self.result = structure(value)
        return flatten(value, require_array=True)

    def tree(self, values: Sequence[mx.array], blocks: Sequence[Sequence[mx.array]]) -> tuple[Any, Any]:
        """Return the value, and the tree of Jacobians: a block for each pair of a result and an argument array."""
        rows = [restore(self.arguments, row) for row in blocks]
        return restore(self.result, values), restore(self.result, rows)


def _reverse(fun: Callable[..., Any], argnums: Argnums, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    flat = _Flat(fun, argnums, args, kwargs)
    values = flat(*flat.leaves)
    blocks = []
    for k, out in enumerate(values):

        def pull(cotangent: mx.array, k: int = k) -> list[mx.array]:
            return mx.vjp(lambda *leaves: flat(*leaves)[k], flat.leaves, [cotangent])[1]

        rows = mx.vmap(pull)(mx.eye(out.size, dtype=out.dtype).reshape(out.size, *out.shape))
        blocks.append([g.reshape(*out.shape, *x.shape) for g, x in zip(rows, flat.leaves, strict=True)])
    return flat.tree(values, blocks)


def _forward(fun: Callable[..., Any], argnums: Argnums, args: tuple, kwargs: dict[str, Any]) -> tuple[Any, Any]:
    flat = _Flat(fun, argnums, args, kwargs)
    values = flat(*flat.leaves)
    columns = []
    for k, x in enumerate(flat.leaves):

        def push(tangent: mx.array, k: int = k) -> list[mx.array]:
            tangents = [tangent if j == k else mx.zeros_like(y) for j, y in enumerate(flat.leaves)]
            return mx.jvp(flat, flat.leaves, tangents)[1]

        pushed = mx.vmap(push, out_axes=-1)(mx.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape))
        columns.append([t.reshape(*t.shape[:-1], *x.shape) for t in pushed])
    return flat.tree(values, list(zip(*columns, strict=True)))


def linearize(fun: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """Compute the value of `fun` and its derivative there, as a linear function that does not run `fun` again.

    `mx.jvp` computes the function again for every product. `linearize` keeps the intermediates that the products need.
    It is for solvers that compute many products at one point.

    Args:
        fun: takes and returns trees of arrays.
        primals: the point: trees of arrays of floats.

    Returns:
        The value, and a function that maps tangents (with the trees and shapes of the primals) to the tangent of the
        value. This function can be differentiated, mapped and compiled.

    Raises:
        ValueError: if a primal is not an array of floats; if `fun` reads the value of an array; and if the tangents
            differ from the primals in tree, shapes or dtypes.

    Example:
        >>> value, push = mx.ext.linearize(mx.square, mx.array(3.0))
        >>> value, push(mx.array(1.0)), push(mx.array(2.0))
        (array(9, dtype=float32), array(6, dtype=float32), array(12, dtype=float32))
    """
    check_callable(fun, "linearize")
    point, shape = nodes_in(primals, require_array=True), structure(primals)
    if any(n.aval.dtype._kind not in "fc" for n in point):
        raise ValueError(f"[linearize] Primals must be arrays of floats, not {[n.aval for n in point]}.")
    with Capture([n.aval for n in point]) as capture:
        value = fun(*restore(shape, handles(capture.placeholders)))
        result = structure(value)
        outputs = nodes_in(value, require_array=True)
        body = close_specialized(capture, outputs, (("jvp", 0), *modes_around(point)))
    check_indices(body.program, len(point), len(outputs), "JVP")
    forward, linear = _linearized(body.program, len(point))
    results = wrap_all(apply(forward, (*point, *body.captured)))
    values, kept = results[: len(outputs)], results[len(outputs) :]

    def push(*tangents: Any) -> Any:
        tangent_nodes = nodes_in(tangents, require_array=True)
        if [n.aval for n in tangent_nodes] != [n.aval for n in point] or len(tangents) != len(primals):
            raise ValueError(
                f"[linearize] Tangents must be like the primals, {[n.aval for n in point]}, not "
                f"{[n.aval for n in tangent_nodes]}."
            )
        return restore(result, wrap_all(apply(linear, (*nodes_of(kept), *tangent_nodes))))

    return restore(result, values), push


@analysis
def _linearized(program: Program, primals: int) -> tuple[Op, Op]:
    """Return two ops for a derivative in two steps.

    The first computes a Program's outputs and the residuals. The second maps residuals and tangents to output tangents.
    """
    trees: list[Any] = []

    def forward(*inputs: Any) -> tuple[Any, ...]:
        rest = inputs[primals:]
        outs, push = jax.linearize(lambda *xs: tuple(program.replay([*xs, *rest])), *inputs[:primals])
        kept, tree = jax.tree.flatten(push)
        trees.append(tree)
        return (*outs, *kept)

    with jax.enable_x64(True):
        specs = [_spec(a) for a in program.in_avals]
        first = jax.make_jaxpr(forward)(*specs)
        kept = first.out_avals[len(program.out_avals) :]
        tree = trees[-1]

        def linear(*inputs: Any) -> tuple[Any, ...]:
            return jax.tree.unflatten(tree, inputs[: len(kept)])(*inputs[len(kept) :])

        second = jax.make_jaxpr(linear)(*[jax.ShapeDtypeStruct(a.shape, a.dtype) for a in kept], *specs[:primals])
    return Op("linearized", _as_lowering(first)), Op("linear", _as_lowering(second))


def _spec(a: Aval) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(a.shape, a.dtype._numpy)


def _as_lowering(jaxpr: Any) -> Callable[..., tuple[Any, ...]]:
    from jax.extend.core import jaxpr_as_fun  # imported here because the import is slow

    run = jaxpr_as_fun(jaxpr)
    return lambda *inputs: tuple(run(*[jax.numpy.asarray(x) for x in inputs]))
