"""JAX in both directions: arrays, and functions with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

from mxcompat._array.array import wrap, wrap_all
from mxcompat._array.construct import node_of
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.run.evaluate import evaluated
from mxcompat._transforms.trees import flatten, map_arrays, restore, structure

__all__ = ["from_jax", "jax_function", "to_jax"]


def to_jax(tree: Any) -> Any:
    """The tree with a `jax.Array` for each array, without a copy.

    Example:
        >>> import jax
        >>> jax.numpy.linalg.norm(mx.ext.to_jax(mx.ones((3,))))
        Array(1.7320508, dtype=float32)
    """
    return map_arrays(lambda x: evaluated(x._node), tree)


def from_jax(tree: Any) -> Any:
    """The tree (of lists, tuples and dicts) with an array for each `jax.Array`, without a copy.

    Example:
        >>> import jax
        >>> mx.ext.from_jax(jax.numpy.ones(3))
        array([1, 1, 1], dtype=float32)
    """
    if isinstance(tree, jax.Array):
        return wrap(node_of(tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)([from_jax(t) for t in tree])
    if isinstance(tree, dict):
        return {k: from_jax(t) for k, t in tree.items()}
    return tree


def jax_function(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function of JAX arrays as a function of mx arrays: lazy, differentiable, mappable, and compiled with the rest.

    Args:
        fun: a pure, traceable function of trees of JAX arrays that returns a tree of JAX arrays. Arguments that are
            not arrays must be hashable, and are constants.

    Returns:
        The same function of trees of mx arrays.

    Example:
        >>> import jax
        >>> softplus = mx.ext.jax_function(jax.nn.softplus)
        >>> mx.grad(softplus)(mx.array(0.0))
        array(0.5, dtype=float32)
    """
    ops: dict[Any, tuple[Op, list[Any]]] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = (args, kwargs)
        shape = structure(arguments)
        key = repr(shape)
        if key not in ops:
            value: list[Any] = [None]

            def impl(*arrays: Any) -> tuple:
                inner_args, inner_kwargs = restore(shape, iter(arrays))
                leaves, value[0] = jax.tree.flatten(fun(*inner_args, **inner_kwargs))
                return tuple(leaves)

            ops[key] = (Op(getattr(fun, "__name__", "jax_function"), impl), value)
        op, value = ops[key]
        results = wrap_all(apply(op, tuple([x._node for x in flatten(arguments)])))
        return jax.tree.unflatten(value[0], results)

    return call
