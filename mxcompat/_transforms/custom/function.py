"""Functions with transformation rules of their own: `custom_function` and `custom_gradient`.

A call inside a transform makes a CUSTOM node that holds the plain Program and the user's rules; the transforms around
it run these, see `derive`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._array.array import handles, wrap, wrap_all
from mxcompat._array.operands import node
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.traces import modes_of

from ..calls import PURE_CALL
from ..functions import check_callable, named_after
from ..stepwise import called
from ..trees import nodes_in, restore, structure
from .derive import CUSTOM
from .rules import UserCall

__all__ = ["custom_function", "custom_gradient"]


class custom_function:
    """A function with its own rules for `vjp`, `jvp` and `vmap`.

    Calls behave as calls of `f`. Where a rule is defined, the transform uses it; where not, it acts on the body of
    `f`. The function is pure: arrays it captures are constants, without gradient. What defines a rule returns a copy of
    the function, with the rules defined so far.

    The function and its rules may call anything: where arrays have values (everywhere but under `vmap` and `compile`)
    they can read these, with `np.array(x)`, `.item()` or `if`, and make arrays of what NumPy, a solver or a renderer
    returns. Each rule is run once for each call of the function and each derivative. A derivative in which a rule has
    read is computed in parts: what is behind the call, the rule, what is before it.

    Args:
        f: takes trees of arrays (and keyword arguments) and returns a tree of arrays.

    Raises:
        TypeError: if `f`, or a rule, cannot be called.
        ValueError: under a transform, if its rule does not return what fits the function, in number and shapes.

    Example:
        >>> @mx.custom_function
        ... def clipped(x):
        ...     return mx.exp(x)
        >>> @clipped.vjp
        ... def clipped_vjp(x, cotangent, output):
        ...     return mx.clip(cotangent * output, -1, 1)

        With foreign code, here the solution of a linear system by NumPy:

        >>> import numpy as np
        >>> A = np.array([[2.0, 1.0], [0.0, 1.0]], np.float32)
        >>> @mx.custom_function
        ... def solve(b):
        ...     return mx.array(np.linalg.solve(A, np.array(b)))
        >>> @solve.vjp
        ... def solve_vjp(b, cotangent, output):
        ...     return mx.array(np.linalg.solve(A.T, np.array(cotangent)))
        >>> mx.grad(lambda b: solve(2 * b).sum())(mx.array([3.0, 1.0]))
        array([1, 1], dtype=float32)
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
        the tree of the result; it returns the cotangents of the arguments, in their tree and shapes. The gradients have
        the dtype of these, or what the ops before the call make of it.
        """
        check_callable(f, "vjp")
        self._vjp = f
        return self._copy()

    def jvp(self, f: Callable[..., Any]) -> custom_function:
        """Define the forward-mode rule, `f(primals, tangents)`.

        `tangents` have the tree of the positional arguments, with None where there is no tangent; it returns the
        tangents of the result, in its tree and shapes. They keep the dtype that it gave them.
        """
        check_callable(f, "jvp")
        self._jvp = f
        return self._copy()

    def vmap(self, f: Callable[..., Any]) -> custom_function:
        """Define the vectorization rule, `f(inputs, axes)`.

        `axes` have the tree of the positional arguments, with the mapped axis of each or None; it returns the result
        and, in the same tree, the axis of each array in it or None.
        """
        check_callable(f, "vmap")
        self._vmap = f
        return self._copy()

    def _copy(self) -> custom_function:
        """The function with the rules that it has by now: what is defined of one later is not of the other."""
        other = custom_function(self._f)
        other._vjp, other._jvp, other._vmap = self._vjp, self._jvp, self._vmap
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The value of the function."""
        if self._vjp is None and self._jvp is None and self._vmap is None:
            return self._f(*args, **kwargs)
        return _called(self, args, kwargs)


def _called(function: custom_function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """The result of a call: a node that the innermost transform around it will specialize, if there is one."""
    arguments = structure((args, kwargs))
    reals = tuple(nodes_in((args, kwargs)))
    with Capture(reals) as capture:
        inner_args, inner_kwargs = restore(arguments, handles(capture.placeholders))
        value = function._f(*inner_args, **inner_kwargs)
        body = capture.close(nodes_in(value))
    shape = structure(value)
    inputs = (*reals, *body.captured)
    if modes_of(reals):
        call = UserCall(function, arguments, len(reals), shape)
        node = apply(CUSTOM, inputs, (body.program, call))
    else:  # no transform will ever ask for the rules
        node = called(PURE_CALL, (body.program, len(reals)), inputs)
    return restore(shape, wrap_all(node))


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function with its own gradient, in the manner of `jax.custom_gradient`.

    Args:
        fun: takes arrays and returns `(value, pull)`, where `pull(cotangent)` returns the tuple of the cotangents of
            the arguments. `pull` may close over anything `fun` computed, and read values as the rules of a
            `custom_function` may.

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
