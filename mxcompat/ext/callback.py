"""Host code within lazy, mapped and compiled programs: `host_callback`.

A call is one op. NumPy, which runs new programs, calls the function directly; XLA calls it with `jax.pure_callback`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap_all
from mxcompat._graph.ir.aval import Aval, Dtype, aval, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import HOST, INDEX_ERROR
from mxcompat._jax import is_array, jax, jnp
from mxcompat._transforms.functions import check_callable, named_after
from mxcompat._transforms.trees import LEAF, like_tuple, nodes_in, restore, structure

__all__ = ["host_callback"]


def host_callback(fn: Callable[..., Any], result_shapes: Any) -> Callable[..., Any]:
    """Return a lazy function of arrays that is computed by host code: NumPy, SciPy, a solver, a renderer.

    It also works where arrays have no value: under `compile`, and under `vmap`, which calls `fn` for each entry in
    turn. Where arrays have values (under `grad`, for example, and in the rules of a `custom_function`), `np.array(x)`
    is enough.

    Args:
        fn: takes NumPy arrays in place of arrays, and returns a tree of NumPy arrays. It must not write to its
            arguments, and must not call mxcompat. It must be pure, because it may be called more or less often than the
            program says.
        result_shapes: a tree like the result of `fn`, which describes each array by an array, by an object with `shape`
            and `dtype`, or by a pair of these. It may also be a function that maps the arguments to such a tree.

    Returns:
        A function of trees of arrays. Arguments of other types are constants, and must be hashable.

    Raises:
        TypeError: if `result_shapes` contains another object.
        ValueError: at evaluation, if the result of `fn` has another tree, shape or dtype than `result_shapes`. Also
            when it is differentiated; use the rules of a `custom_function` for derivatives. In compiled code these
            errors, and those of `fn`, are raised as JAX's `JaxRuntimeError` with the same text.

    Example:
        >>> import numpy as np
        >>> sort = mx.ext.host_callback(np.sort, lambda x: x)
        >>> mx.compile(lambda x: sort(x) * 2)(mx.array([3.0, 1.0, 2.0]))
        array([2, 4, 6], dtype=float32)
    """
    check_callable(fn, "host_callback")

    def call(*args: Any) -> Any:
        arguments = structure(args)
        value, avals = _described(result_shapes(*args) if callable(result_shapes) else result_shapes)
        callback = _Callback(fn, avals, repr((arguments, value)), arguments, value)
        node = apply(HOST_CALLBACK, tuple(nodes_in(args)), (callback,))
        return restore(value, wrap_all(node))

    return named_after(fn, call)


@dataclass(frozen=True)
class _Callback:
    """A function with the types of its arguments and results. Two callbacks are equal if these and the functions are
    equal."""

    fn: Callable[..., Any]
    avals: tuple[Aval, ...]
    trees: str
    arguments: Any = field(compare=False)
    value: Any = field(compare=False)

    def __repr__(self) -> str:
        return getattr(self.fn, "__name__", repr(self.fn))

    def __call__(self, *values: Any) -> tuple[np.ndarray, ...]:
        """Call the function and check its results."""
        result = self.fn(*restore(self.arguments, [np.asarray(v) for v in values]))
        arrays: list[np.ndarray] = []
        if not _matches(result, self.value, arrays):
            raise ValueError(f"[host_callback] {self} must return a tree like result_shapes, but returned {result!r}.")
        returned = [(f.shape, f.dtype) for f in arrays]
        expected = [(a.shape, a.dtype._numpy) for a in self.avals]
        if returned != expected:
            raise ValueError(
                f"[host_callback] {self} must return {_listed(expected)}, as result_shapes says, but returned "
                f"{_listed(returned)}."
            )
        return tuple(arrays)


def _listed(arrays: Sequence[tuple[tuple[int, ...], Any]]) -> str:
    return ", ".join(f"{dtype}{list(shape)}" for shape, dtype in arrays)


def _matches(result: Any, value: Any, arrays: list[np.ndarray]) -> bool:
    """Return True if a result has the tree of `value`, and append its arrays to `arrays`."""
    if value is LEAF:
        if isinstance(result, (np.ndarray, np.generic)) or is_array(result):
            arrays.append(np.asarray(result))
            return True
        return False
    if isinstance(value, (list, tuple)):
        same = isinstance(result, (list, tuple)) and len(result) == len(value)
        return same and all(_matches(r, v, arrays) for r, v in zip(result, value, strict=True))
    if isinstance(value, dict):
        return (
            isinstance(result, dict)
            and result.keys() == value.keys()
            and all(_matches(result[k], v, arrays) for k, v in value.items())
        )
    return True


def _described(tree: Any) -> tuple[Any, tuple[Aval, ...]]:
    """Return the structure of a tree of array descriptions, and the avals."""
    avals: list[Aval] = []

    def read(item: Any) -> Any:
        described = _aval_of(item)
        if described is not None:
            avals.append(described)
            return LEAF
        if isinstance(item, dict):
            return {k: read(v) for k, v in item.items()}
        if isinstance(item, list):
            return [read(v) for v in item]
        if isinstance(item, tuple):
            return like_tuple(item, [read(v) for v in item])
        raise TypeError(
            "[host_callback] result_shapes must be a tree of arrays, of objects with a shape and a dtype, or of pairs "
            f"(shape, dtype), but there is {item!r} in it."
        )

    return read(tree), tuple(avals)


def _aval_of(item: Any) -> Aval | None:
    shape: Any
    dtype: Any
    if isinstance(item, array):
        return item._node.aval
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[0], (tuple, list)):
        shape, dtype = item
        if not all(isinstance(n, int) for n in shape) or isinstance(dtype, (tuple, list, dict, array)):
            return None
    else:
        shape, dtype = getattr(item, "shape", None), getattr(item, "dtype", None)
        if shape is None or dtype is None:
            return None
    kind = dtype if isinstance(dtype, Dtype) else from_numpy(np.dtype(dtype))
    if kind is None:
        raise TypeError(f"[host_callback] There are no arrays of dtype {dtype!r}.")
    return aval(tuple(shape), kind)


def _lowered(*inputs: Any, callback: _Callback) -> tuple[Any, ...]:
    arrays = [jnp.asarray(x) for x in inputs]
    kinds = [(x.shape, x.dtype) for x in arrays]

    def host(*values: Any) -> list[np.ndarray]:
        joined = [np.asarray(v).view(d).reshape(s) for v, (s, d) in zip(values, kinds, strict=True)]
        return [_halves(r) if _is_wide(r.dtype) else r for r in callback(*joined)]

    structs = [_struct(a.shape, a.dtype._numpy) for a in callback.avals]

    @jax.custom_jvp
    def function(*inputs: Any) -> tuple[Any, ...]:
        parts = [jax.lax.bitcast_convert_type(x, np.uint32) if _is_wide(x.dtype) else x for x in inputs]
        results = jax.pure_callback(host, structs, *parts, vmap_method="sequential")
        return tuple(
            jax.lax.bitcast_convert_type(r, a.dtype._numpy) if _is_wide(a.dtype._numpy) else r
            for r, a in zip(results, callback.avals, strict=True)
        )

    @function.defjvp
    def function_jvp(primals: Any, tangents: Any) -> Any:
        # JAX also traces this when a user's rule replaces it, so it must only fail when it runs.
        def fail(*_: Any) -> Any:
            raise _no_derivative("a derivative")

        def tangent(out: Any) -> Any:
            if not jnp.issubdtype(out.dtype, np.inexact):
                return np.zeros(out.shape, jax.dtypes.float0)
            struct = jax.ShapeDtypeStruct(out.shape, np.float32)
            return jax.pure_callback(fail, struct, out, vmap_method="sequential").astype(out.dtype)

        outs = function(*primals)
        return outs, tuple(map(tangent, outs))

    return function(*arrays)


def _is_wide(dtype: Any) -> bool:
    """Return True if JAX's callback thread would narrow the dtype, because 64-bit types are off there."""
    return dtype.itemsize == 8 and dtype.kind in "iuf"


def _halves(x: np.ndarray) -> np.ndarray:
    return np.asarray(x, order="C")[..., None].view(np.uint32)


def _struct(shape: tuple[int, ...], dtype: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct((*shape, 2), np.uint32) if _is_wide(dtype) else jax.ShapeDtypeStruct(shape, dtype)


HOST_CALLBACK = Op("host_callback", _lowered, lambda *_, callback: callback.avals, ("callback",), indices=0)
"""The op that calls a host function on its inputs. It has no derivative."""


@INDEX_ERROR.of(HOST_CALLBACK)
def _no_derivative(transform: str, *_: Any) -> Exception:
    return ValueError(
        f"[host_callback] Cannot calculate {transform} of a function of the host. Give its derivative with the rules "
        "of a custom_function around it."
    )


@HOST.of(HOST_CALLBACK)
def _on_host(out: tuple[Aval, ...], params: tuple, *inputs: Any) -> tuple[np.ndarray, ...]:
    (callback,) = params
    return callback(*inputs)
