"""What the linear algebra ops share: MLX's checks of their arguments, and derivatives of Hermitian matrices.

Sits under `linalg_norm`, `linalg_decompositions` and `linalg_solve`, which `mxcompat.core.linalg` re-exports.
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
    """The product, at the highest precision: a factorisation is worth no more than its least accurate step."""
    return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)


def transpose(x: Any) -> Any:
    """The last two axes exchanged."""
    return jnp.swapaxes(x, -1, -2)


def real_dtype(dtype: Dtype) -> Dtype:
    """The dtype of the absolute values."""
    return float32 if dtype is complex64 else dtype


def matrix(name: str, a: Any, dtypes: tuple[Dtype, ...] = FLOATS, called: str = "") -> Node:
    """The node of an argument that must be an array of matrices of one of these dtypes.

    `name` is the name in the messages, `called` the function's own if that is another.
    """
    node = require_array(a, called or name)
    check_matrix(name, node.aval, dtypes)
    return node


def check_matrix(name: str, a: Aval, dtypes: tuple[Dtype, ...]) -> None:
    """Raise MLX's ValueError for a wrong dtype or fewer than two dimensions."""
    if a.dtype not in dtypes:
        wanted = "float32, float64 or complex64" if complex64 in dtypes else "float32 or float64"
        raise ValueError(f"[linalg::{name}] Arrays must have type {wanted}. Received array with type {a.dtype._label}.")
    if a.ndim < 2:
        what = "Input array" if name == "svd" else "Arrays"
        raise ValueError(f"[linalg::{name}] {what} must have >= 2 dimensions. Received array with {a.ndim} dimensions.")


def check_square(name: str, a: Aval, message: str = "Only defined for square matrices.") -> None:
    """Raise MLX's ValueError if the matrices are not square."""
    if a.shape[-1] != a.shape[-2]:
        raise ValueError(f"[linalg::{name}] {message}")


def adjoint(x: Any) -> Any:
    """The conjugate transpose of the last two axes."""
    return jnp.conj(jnp.swapaxes(x, -1, -2))


@lazy.custom_jvp
def hermitian(a: Any) -> Any:
    """`a` itself, known to be Hermitian: whatever reads only one of its triangles has the gradient of a function of
    the whole matrix, so that gradients are Hermitian too."""
    return a


@hermitian.defjvp
def _hermitian_jvp(primals: tuple, tangents: tuple) -> tuple:
    (a,), (t,) = primals, tangents
    return hermitian(a), (t + adjoint(t)) / 2


def inverse_gaps(values: Any) -> Any:
    """1 / (v[j] - v[i]) for each pair, and 0 where two are equal: a function of both that does not tell them apart
    has no use for it, and one that does has no derivative."""
    gaps = values[..., None, :] - values[..., :, None]
    equal = gaps == 0
    return jnp.where(equal, 0, 1 / jnp.where(equal, 1, gaps))
