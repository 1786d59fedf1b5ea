"""Matrix products.

Float32 is multiplied in full float32 on every device (GPUs and TPUs also have cheaper, less accurate ways). Products of
half precision are summed in float32 and rounded once, as every XLA backend does. The derivatives of a half-precision
product are half-precision products too, for which accelerators have fast units.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp, lazy

from ..arguments import any_number, axis_of, integer, integers, is_sequence, require_array
from ..define import broadcast, op
from ..elementwise.casts import ASTYPE
from ..padding.padded import pad_contraction
from ..reductions.softmax import SOFTMAX

__all__ = [
    "ADDMM", "MATMUL", "TENSORDOT", "addmm", "common", "contract", "contracted_axes", "inexact", "matmul", "precision",
    "product", "product_shape", "tensordot", "wide",
]  # fmt: skip


def precision(dtype: Any) -> jax.lax.Precision | None:
    """Return the precision for a product: bfloat16 needs none, other dtypes must not be reduced to bfloat16 (or
    TF32)."""
    return None if dtype == jnp.bfloat16 else jax.lax.Precision.HIGHEST


def inexact(*dtypes: Dtype, name: str = "matmul") -> Dtype:
    """Return the dtype of a matrix product. Raises MLX's ValueError if it is not a float."""
    dtype = dtypes[0]
    for other in dtypes[1:]:
        dtype = promote(dtype, other)
    if dtype._kind not in "fc":
        labels = " and ".join(d._label for d in dtypes)
        raise ValueError(
            f"[{name}] Only inexact types are supported but {labels} were provided which results in {dtype._label}, "
            "which is not a floating point type."
        )
    return dtype


def wide(dtype: Any) -> Any:
    """Return the NumPy dtype to sum products in."""
    return np.dtype(np.float32) if dtype.kind != "c" and dtype.itemsize == 2 else np.dtype(dtype)


def product_shape(a: tuple[int, ...], b: tuple[int, ...], name: str = "matmul") -> tuple[int, ...]:
    """Return the shape of a matrix product. Raises MLX's errors."""
    if not a or not b:
        raise ValueError(f"[{name}] Got 0 dimension input. Inputs must have at least one dimension.")
    left = (1, *a) if len(a) == 1 else a
    right = (*b, 1) if len(b) == 1 else b
    if left[-1] != right[-2]:
        raise ValueError(
            f"[{name}] Last dimension of first input with shape {format_shape(left)} must match second to last "
            "dimension of "
            f"second input with shape {format_shape(right)}."
        )
    batch = broadcast(left[:-2], right[:-2]) if left[:-2] != right[:-2] else left[:-2]
    return (*batch, *(left[-2:-1] if len(a) > 1 else ()), *(right[-1:] if len(b) > 1 else ()))


def _matmul_aval(a: Aval, b: Aval) -> Aval:
    shape = product_shape(a.shape, b.shape)
    return aval(shape, inexact(a.dtype, b.dtype))


def product(x: Any, y: Any, dtype: Any) -> Any:
    """Return the matrix product of inputs that are first cast to `dtype`."""
    return jnp.matmul(jnp.asarray(x, dtype), jnp.asarray(y, dtype), precision=precision(dtype))


@lazy.custom_jvp
def _unrounded(x: Any, y: Any) -> Any:
    """Return the matrix product in the dtype of its sums. Its derivatives are products in the dtype of the inputs."""
    return jnp.matmul(x, y, precision=precision(x.dtype), preferred_element_type=wide(x.dtype))


@_unrounded.defjvp
def _unrounded_jvp(primals: tuple[Any, Any], tangents: tuple[Any, Any]) -> tuple[Any, Any]:
    (x, y), (dx, dy) = primals, tangents
    change = product(dx, y, x.dtype) + product(x, dy, x.dtype)
    return _unrounded(x, y), change.astype(wide(x.dtype))


def common(*xs: Any) -> Any:
    dtype = from_numpy(xs[0].dtype)
    for x in xs[1:]:
        dtype = promote(dtype, from_numpy(x.dtype))  # type: ignore[arg-type]
    return dtype._numpy  # type: ignore[union-attr]


def _matmul_impl(x: Any, y: Any) -> Any:
    return product(x, y, common(x, y))


MATMUL = op("matmul", _matmul_impl, _matmul_aval)
_WEIGHTS = (SOFTMAX, ASTYPE)
"""Ops that produce the attention weights in a program that computes attention by two products."""


def matmul(a: array, b: array, /, *, stream: Any = None) -> array:
    """Return the matrix product, with leading axes that broadcast.

    Args:
        a: an array of shape (..., M, K), or (K,), which counts as a row.
        b: an array of shape (..., K, N), or (K,), which counts as a column.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N) with the promoted dtype of `a` and `b`. For a (K,) operand, its axis M or N is
        missing.

    Raises:
        ValueError: if the shapes do not fit, or if the promoted dtype is not a float.

    Example:
        >>> mx.matmul(mx.ones((2, 3)), mx.ones((3, 4)))
        array([[3, 3, 3, 3],
               [3, 3, 3, 3]], dtype=float32)
    """
    if stream is not None:
        check_stream(stream)
    x = a._node if type(a) is array else require_array(a, "matmul")
    y = b._node if type(b) is array else require_array(b, "matmul")
    product = apply(MATMUL, (x, y))
    if y.op is not None and x.op in _WEIGHTS:
        pad_contraction(product)
    return wrap(product)


matmul.op = MATMUL  # type: ignore[attr-defined]


def _addmm_aval(c: Aval, a: Aval, b: Aval, *scales: Aval) -> Aval:
    dtype = promote(promote(a.dtype, b.dtype), c.dtype)
    shape = product_shape(a.shape, b.shape, "matmul" if dtype._kind == "c" and a.shape and b.shape else "addmm")
    if dtype._kind not in "fc":
        raise ValueError(
            f"[addmm] Only real floating point types are supported but {c.dtype._label}, {a.dtype._label} and "
            f"{b.dtype._label} were provided which results in {dtype._label}, which is not a real floating point type."
        )
    if dtype._kind == "c":  # for complex numbers, MLX computes a product, then a sum that broadcasts
        return aval(broadcast(shape, c.shape), dtype)
    if broadcast(c.shape, shape) != shape:
        raise ValueError("[addmm] input c must broadcast to the output shape")
    return aval(shape, dtype)


def _addmm_impl(c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None) -> Any:
    dtype = common(x, y, c)
    out = _unrounded(jnp.asarray(x, dtype), jnp.asarray(y, dtype))
    c = jnp.asarray(c, dtype).astype(out.dtype)
    if alpha is not None:
        out = out * alpha.astype(out.dtype)
        zero = jnp.zeros((), out.dtype)
        if isinstance(beta, np.generic):
            c = zero if beta == 0 else c * beta.astype(out.dtype)
        else:
            c = jnp.where(beta == 0, zero, c * beta.astype(out.dtype))
    return (out + c).astype(dtype)


ADDMM = op("addmm", _addmm_impl, _addmm_aval)


def addmm(c: array, a: array, b: array, /, alpha: float = 1.0, beta: float = 1.0, *, stream: Any = None) -> array:
    """Return a matrix product and a sum: `alpha * (a @ b) + beta * c`.

    Args:
        c: an array that broadcasts to the shape of the product. If it is complex, the product may also broadcast to its
            shape.
        a: an array of shape (..., M, K), or (K,).
        b: an array of shape (..., K, N), or (K,).
        alpha: the factor of the product.
        beta: the factor of `c`. If it is 0, `c` is ignored, even if it has NaN or infinities.
        stream: accepted, and ignored.

    Returns:
        An array with the shape of the product and the promoted dtype of the three arrays.

    Raises:
        ValueError: if the shapes do not fit, or if the promoted dtype is not a float.

    Example:
        >>> mx.addmm(mx.ones(4), mx.ones((2, 3)), mx.ones((3, 4)), alpha=0.5)
        array([[2.5, 2.5, 2.5, 2.5],
               [2.5, 2.5, 2.5, 2.5]], dtype=float32)
    """
    if stream is not None:
        check_stream(stream)
    nodes = (
        c._node if type(c) is array else require_array(c, "addmm"),
        a._node if type(a) is array else require_array(a, "addmm"),
        b._node if type(b) is array else require_array(b, "addmm"),
    )
    if type(alpha) is not float or type(beta) is not float:
        alpha, beta = any_number(alpha, "addmm", "alpha"), any_number(beta, "addmm", "beta")
    if alpha != 1.0 or beta != 1.0:
        nodes += tuple([operands.scalar_node(s, _d.float32) for s in (alpha, beta)])  # type: ignore[assignment]
    return wrap(apply(ADDMM, nodes))


_Axes = tuple[tuple[int, ...], tuple[int, ...]]


def contracted_axes(a: Aval, b: Aval, axes: int | tuple[tuple[int, ...], ...]) -> _Axes:
    """Return the axes to sum over, counted from 0. Raises MLX's errors."""
    if isinstance(axes, int):
        if axes < 0:
            raise ValueError("[tensordot] axis must be greater or equal to 0.")
        if axes > min(a.ndim, b.ndim):
            raise ValueError("[tensordot] axis must be less than the number of dimensions of a and b.")
        first, second = tuple(range(a.ndim - axes, a.ndim)), tuple(range(axes))
    else:
        if len(axes) != 2:
            raise ValueError("[tensordot] axes must be a list of two lists.")
        if len(axes[0]) != len(axes[1]):
            raise ValueError("[tensordot] axes must have the same size.")
        first, second = (
            tuple([axis_of(k, x.ndim, message="SmallVector out of range.") for k in listed])
            for listed, x in zip(axes, (a, b), strict=True)
        )
    if any(a.shape[i] != b.shape[j] for i, j in zip(first, second, strict=True)):
        raise ValueError("[tensordot] a and b must have the same shape on the contracted axes.")
    for x, used in ((a, first), (b, second)):
        if len(set(used)) < len(used):
            kept = x.ndim - len(set(used))
            raise ValueError(f"[transpose] Received {kept + len(used)} axes for array with {x.ndim} dimensions.")
    return first, second


def _tensordot_aval(a: Aval, b: Aval, axes: Any) -> Aval:
    first, second = contracted_axes(a, b, axes)
    kept = [n for k, n in enumerate(a.shape) if k not in first] + [n for k, n in enumerate(b.shape) if k not in second]
    return aval(tuple(kept), inexact(a.dtype, b.dtype))


def contract(x: Any, y: Any, axes: Any) -> Any:
    dtype = common(x, y)
    x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    axes = contracted_axes(_aval_of(x), _aval_of(y), axes)
    return jax.lax.dot_general(x, y, (axes, ((), ())), precision=precision(dtype))


def _aval_of(x: Any) -> Aval:
    return aval(x.shape, from_numpy(x.dtype))  # type: ignore[arg-type]


TENSORDOT = op("tensordot", contract, _tensordot_aval, ("axes",))


def tensordot(a: array, b: array, /, axes: int | Sequence[Sequence[int]] = 2, *, stream: Any = None) -> array:
    """Return the sum of products over selected axes of two arrays.

    Args:
        a: an array.
        b: an array.
        axes: the number of axes: the last ones of `a` with the first ones of `b`. It may also be two sequences, which
            list the axes of each array.
        stream: accepted, and ignored.

    Returns:
        An array whose shape has the remaining axes of `a`, then those of `b`.

    Raises:
        ValueError: if the sizes along the axes differ, or if the promoted dtype is not a float.
        IndexError: if there is no such axis.

    Example:
        >>> mx.tensordot(mx.ones((2, 3)), mx.ones((3, 4)), axes=[[1], [0]])
        array([[3, 3, 3, 3],
               [3, 3, 3, 3]], dtype=float32)
    """
    check_stream(stream)
    nodes = (require_array(a, "tensordot"), require_array(b, "tensordot"))
    pairs = tuple([integers(group) for group in axes]) if is_sequence(axes) else integer(axes)  # type: ignore[arg-type, union-attr]
    return wrap(apply(TENSORDOT, nodes, (pairs,)))
