"""Functions with custom transformation rules: `custom_function` and `custom_gradient`.

A call inside a transform makes a CUSTOM node, which holds the function's Program and the user's rules. The enclosing
transforms run the rules, see `derive`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._array.array import handles, wrap, wrap_all
from mxcompat._array.operands import node
from mxcompat._graph.ir.capture import Capture
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.trace_stack import modes_of

from ..calls import PURE_CALL
from ..functions import check_callable, named_after
from ..programs.split_at_effects import called
from ..trees import nodes_in, restore, structure
from .derive import CUSTOM
from .user_rules import UserCall

__all__ = ["custom_function", "custom_gradient"]


class custom_function:
    """A function with custom rules for `vjp`, `jvp` and `vmap`.

    A call computes `f`. A transform uses its rule if one is defined, and otherwise transforms the body of `f`. The
    function is pure: arrays that it captures are constants, without gradient. Each method that defines a rule returns a
    copy of the function, with the rules defined so far.

    The function and its rules may call any code, such as NumPy, a solver or a renderer. They can read values with
    `np.array(x)`, `.item()` or `if`, except under `vmap` and `compile`, where arrays have none. Each rule runs once for
    each call of the function and each derivative. If a rule reads a value, the derivative is computed in parts: the
    code after the call, then the rule, then the code before the call.

    Args:
        f: takes trees of arrays (and keyword arguments) and returns a tree of arrays.

    Raises:
        TypeError: if `f` or a rule is not callable.
        ValueError: under a transform, if the arrays that a rule returns do not fit the function, in number or shape.

    Example:
        >>> @mx.custom_function
        ... def clipped(x):
        ...     return mx.exp(x)
        >>> @clipped.vjp
        ... def clipped_vjp(x, cotangent, output):
        ...     return mx.clip(cotangent * output, -1, 1)

        With other libraries, here NumPy solving a linear system:

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

        `primals` are the positional arguments, or the argument itself if there is only one. `cotangents` and `outputs`
        have the tree of the result. The rule returns the cotangents of the arguments, in their tree and shapes. These
        cotangents keep their dtype, so gradients may have another dtype than the arguments.
        """
        check_callable(f, "vjp")
        self._vjp = f
        return self._copy()

    def jvp(self, f: Callable[..., Any]) -> custom_function:
        """Define the forward-mode rule, `f(primals, tangents)`.

        `tangents` have the tree of the positional arguments, with None for an argument without a tangent. The rule
        returns the tangents of the result, in its tree and shapes. These tangents keep their dtype.
        """
        check_callable(f, "jvp")
        self._jvp = f
        return self._copy()

    def vmap(self, f: Callable[..., Any]) -> custom_function:
        """Define the vectorization rule, `f(inputs, axes)`.

        `axes` have the tree of the positional arguments: the mapped axis of each, or None. The rule returns the result
        and a tree of its mapped axes, with None for an array that is not mapped.
        """
        check_callable(f, "vmap")
        self._vmap = f
        return self._copy()

    def _copy(self) -> custom_function:
        """Return a copy with the current rules; later definitions do not change it."""
        other = custom_function(self._f)
        other._vjp, other._jvp, other._vmap = self._vjp, self._jvp, self._vmap
        return other

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the function."""
        if self._vjp is None and self._jvp is None and self._vmap is None:
            return self._f(*args, **kwargs)
        return _called(self, args, kwargs)


def _called(function: custom_function, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Call the function. Under a transform, make a node that the innermost transform rewrites."""
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
    else:  # the rules are not needed outside transforms
        node = called(PURE_CALL, (body.program, len(reals)), inputs)
    return restore(shape, wrap_all(node))


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function with a custom gradient, like `jax.custom_gradient`.

    Args:
        fun: takes arrays and returns `(value, pull)`, where `pull(cotangent)` returns the tuple of the cotangents of
            the arguments. `pull` may use any value that `fun` computed. It may read values, as the rules of a
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
        # This computes the function again; XLA shares the result with the forward pass.
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
