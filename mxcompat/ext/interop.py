"""Interoperability with JAX in both directions: arrays, and functions with their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._array.array import wrap, wrap_all
from mxcompat._array.construct import natural_dtype, node_of
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.run.evaluate import evaluated
from mxcompat._jax import is_array, jax
from mxcompat._transforms.functions import check_callable, named_after
from mxcompat._transforms.trees import nodes_in, rebuilt, restore, structure

__all__ = ["from_jax", "jax_function", "to_jax"]


def to_jax(tree: Any) -> Any:
    """Replace each array in a tree by a `jax.Array`, without a copy.

    Args:
        tree: lists, tuples and dicts of arrays; other leaves stay unchanged.

    Raises:
        ValueError: within `vmap` and `compile`, where arrays have no value.

    Example:
        >>> import jax
        >>> jax.numpy.linalg.norm(mx.ext.to_jax(mx.ones((3,))))
        Array(1.7320508, dtype=float32)
    """
    return rebuilt(tree, [evaluated(n) for n in nodes_in(tree)])


def from_jax(tree: Any) -> Any:
    """Replace each `jax.Array` in a tree (of lists, tuples and dicts) by an array, without a copy.

    Raises:
        RuntimeError: for a dtype that mx arrays do not have.

    Example:
        >>> import jax
        >>> mx.ext.from_jax(jax.numpy.ones(3))
        array([1, 1, 1], dtype=float32)
    """
    if is_array(tree):
        return wrap(node_of(tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)([from_jax(t) for t in tree])
    if isinstance(tree, dict):
        return {k: from_jax(t) for k, t in tree.items()}
    return tree


def jax_function(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Convert a function of JAX arrays to one of mx arrays. The result is lazy, can be differentiated and mapped, and
    is compiled with the ops around it.

    Args:
        fun: a pure, traceable function of trees of JAX arrays that returns a tree of JAX arrays. Arguments that are not
            arrays must be hashable, and are constants.

    Returns:
        A function that does the same with trees of mx arrays.

    Raises:
        TypeError: if `fun` is not callable; when called, if a result is neither an array nor a number.

    Errors that JAX raises while it traces `fun` are raised unchanged, at the first call with arguments of each kind.

    Example:
        >>> import jax
        >>> softplus = mx.ext.jax_function(jax.nn.softplus)
        >>> mx.grad(softplus)(mx.array(0.0))
        array(0.5, dtype=float32)
    """
    check_callable(fun, "jax_function")
    ops: dict[Any, tuple[Op, list[Any]]] = {}

    def call(*args: Any, **kwargs: Any) -> Any:
        arguments = (args, kwargs)
        shape = structure(arguments)
        key = repr(shape)
        if key not in ops:
            value: list[Any] = [None]

            def impl(*arrays: Any) -> tuple:
                inner_args, inner_kwargs = restore(shape, arrays)
                leaves, value[0] = jax.tree.flatten(fun(*inner_args, **inner_kwargs))
                return tuple(map(_result, leaves))

            ops[key] = (Op(getattr(fun, "__name__", "jax_function"), impl), value)
        op, value = ops[key]
        results = wrap_all(apply(op, tuple(nodes_in(arguments))))
        return jax.tree.unflatten(value[0], results)

    return named_after(fun, call)


def _result(leaf: Any) -> jax.Array:
    """Convert a leaf that a JAX function returned to a JAX array."""
    if not (is_array(leaf) or isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex))):
        raise TypeError(f"[jax_function] The function must return a tree of arrays, not one with {leaf!r} in it.")
    number = None if is_array(leaf) or isinstance(leaf, (np.ndarray, np.generic)) else natural_dtype(leaf)._numpy
    value = jax.numpy.asarray(leaf, number)
    if from_numpy(value.dtype) is None:
        raise TypeError(f"[jax_function] There are no arrays of dtype {value.dtype}, which the function returned.")
    return value
