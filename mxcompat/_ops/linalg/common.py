"""Shared parts of the linear algebra ops: MLX's checks of their arguments, and derivatives of Hermitian matrices.

The modules `norm`, `decompositions`, `eigen`, `lu` and `solve` use it; `mxcompat.core.linalg` exports their functions.
"""

from __future__ import annotations

from typing import Any

from mxcompat._graph.ir.aval import Aval, Dtype, complex64, float32, float64
from mxcompat._graph.ir.node import Node
from mxcompat._jax import jax, jnp, lazy

from ..arguments import require_array

__all__ = [
    "FLOATS", "INEXACT", "adjoint", "check_matrix", "check_square", "hermitian", "inverse_gaps", "matmul", "matrix",
    "real_dtype", "transpose",
]  # fmt: skip

FLOATS = (float32, float64)
INEXACT = (float32, float64, complex64)


def matmul(a: Any, b: Any) -> Any:
    """Return the product at the highest precision, since a factorization is only as accurate as its least accurate
    step."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def transpose(x: Any) -> Any:
    """Return the array with its last two axes swapped."""
    return jnp.swapaxes(x, -1, -2)


def real_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of the absolute values."""
    return float32 if dtype is complex64 else dtype


def matrix(name: str, a: Any, dtypes: tuple[Dtype, ...] = FLOATS, called: str = "") -> Node:
    """Return the node of an argument that must be an array of matrices with one of these dtypes.

    `name` is the name in the messages; `called` is the name of the function, if it differs.
    """
    node = require_array(a, called or name)
    check_matrix(name, node.aval, dtypes)
    return node


def check_matrix(name: str, a: Aval, dtypes: tuple[Dtype, ...]) -> None:
    """Raise MLX's ValueError for a wrong dtype or fewer than two dimensions."""
    if a.dtype not in dtypes:
        accepted = "float32, float64 or complex64" if complex64 in dtypes else "float32 or float64"
        raise ValueError(
            f"[linalg::{name}] Arrays must have type {accepted}. Received array with type {a.dtype._label}."
        )
    if a.ndim < 2:
        what = "Input array" if name == "svd" else "Arrays"
        raise ValueError(f"[linalg::{name}] {what} must have >= 2 dimensions. Received array with {a.ndim} dimensions.")


def check_square(name: str, a: Aval, message: str = "Only defined for square matrices.") -> None:
    """Raise MLX's ValueError if the matrices are not square."""
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"[linalg::{name}] {message}")


def adjoint(x: Any) -> Any:
    """Return the conjugate transpose of matrices."""
    return jnp.conj(jnp.swapaxes(x, -1, -2))


@lazy.custom_jvp
def hermitian(a: Any) -> Any:
    """Return `a`, which is Hermitian. The gradient through this function is Hermitian, too.

    A function that reads only one triangle of the result gets the gradient of a function of the whole matrix.
    """
    return a


@hermitian.defjvp
def _hermitian_jvp(primals: tuple, tangents: tuple) -> tuple:
    (a,), (t,) = primals, tangents
    return hermitian(a), (t + adjoint(t)) / 2


def inverse_gaps(values: Any) -> Any:
    """Return 1 / (v[j] - v[i]) for each pair, and 0 where two are equal.

    For equal values the entry does not matter: a function that treats both alike does not use it, and any other
    function has no derivative there.
    """
    gaps = values[..., None, :] - values[..., :, None]
    equal = gaps == 0
    return jnp.where(equal, 0, 1 / jnp.where(equal, 1, gaps))
