"""Whole derivative matrices, from the transforms that MLX has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat import core as mx

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacrev(fun: Callable[..., mx.array], argnums: int = 0) -> Callable[..., mx.array]:
    """The Jacobian of `fun`, a row per output: reverse mode, for functions with few outputs.

    Args:
        fun: returns one array, of shape `out`.
        argnums: the argument to differentiate with respect to, an array of shape `in`.

    Returns:
        A function that returns an array of shape `out + in`.

    Example:
        >>> mx.ext.jacrev(lambda x: x**2)(mx.array([1.0, 2.0]))
        array([[2, 0],
               [0, 4]], dtype=float32)
    """

    def jacobian(*args: Any) -> mx.array:
        x = args[argnums]
        out = fun(*args)

        def pull(cotangent: mx.array) -> mx.array:
            return mx.vjp(lambda a: fun(*args[:argnums], a, *args[argnums + 1 :]), [x], [cotangent])[1][0]

        basis = mx.eye(out.size, dtype=out.dtype).reshape(out.size, *out.shape)
        return mx.vmap(pull)(basis).reshape(*out.shape, *x.shape)

    return jacobian


def jacfwd(fun: Callable[..., mx.array], argnums: int = 0) -> Callable[..., mx.array]:
    """The Jacobian of `fun`, a column per input: forward mode, for functions with few inputs.

    Args, result and example are those of `jacrev`.
    """

    def jacobian(*args: Any) -> mx.array:
        x = args[argnums]

        def push(tangent: mx.array) -> mx.array:
            return mx.jvp(lambda a: fun(*args[:argnums], a, *args[argnums + 1 :]), [x], [tangent])[1][0]

        columns = mx.vmap(push, out_axes=-1)(mx.eye(x.size, dtype=x.dtype).reshape(x.size, *x.shape))
        return columns.reshape(*columns.shape[:-1], *x.shape)

    return jacobian


def hessian(fun: Callable[..., mx.array], argnums: int = 0) -> Callable[..., mx.array]:
    """The matrix of second derivatives of `fun`, which returns a scalar array.

    Returns:
        A function that returns an array of shape `in + in`.

    Example:
        >>> mx.ext.hessian(lambda x: (x**3).sum())(mx.array([1.0, 2.0]))
        array([[6, 0],
               [0, 12]], dtype=float32)
    """
    return jacfwd(jacrev(fun, argnums), argnums)
