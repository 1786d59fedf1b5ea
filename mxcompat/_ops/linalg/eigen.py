"""Eigenvalues and eigenvectors of Hermitian and of general matrices, with all derivatives.

LAPACK gets the transposed matrices, as in MLX's own calls. This gives MLX's signs of the vectors and order of the
eigenvalues, which mathematics does not determine.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, aval, complex64
from mxcompat._graph.ir.node import apply, items
from mxcompat._jax import jax, jnp, lazy

from ..arguments import require_text
from ..define import op
from .common import INEXACT, adjoint, check_square, inverse_gaps, matmul, matrix, real_dtype, transpose

__all__ = ["EIG", "EIGH", "EIGVALS", "EIGVALSH", "eig", "eigh", "eigvals", "eigvalsh"]


@partial(lazy.custom_jvp, nondiff_argnums=(1,))
def _eigh(a: Any, lower: bool) -> tuple[Any, Any]:
    if not a.size:
        return jnp.zeros(a.shape[:-1], a.real.dtype), jnp.zeros(a.shape, a.dtype)
    v, w = jax.lax.linalg.eigh(transpose(a), lower=not lower, symmetrize_input=False)
    return w, jnp.conj(v)


@_eigh.defjvp
def _eigh_jvp(lower: bool, primals: tuple, tangents: tuple) -> tuple:
    (a,), (t,) = primals, tangents
    w, v = _eigh(a, lower)
    d = matmul(matmul(adjoint(v), (t + adjoint(t)) / 2), v)
    return (w, v), (jnp.diagonal(d, axis1=-2, axis2=-1).real, matmul(v, inverse_gaps(w) * d))


def _eigh_infer(a: Aval, lower: bool) -> tuple[Aval, Aval]:
    return aval(a.shape[:-1], real_dtype(a.dtype)), aval(a.shape, a.dtype)


EIGH = op("linalg_eigh", _eigh, _eigh_infer, ("lower",))
EIGVALSH = op(
    "linalg_eigvalsh", lambda a, lower: _eigh(a, lower)[0], lambda a, lower: _eigh_infer(a, lower)[0], ("lower",)
)


def _symmetric(name: str, a: Any, UPLO: Any) -> tuple[Any, tuple]:
    lower = require_text(UPLO, name, "UPLO").startswith("L")
    node = matrix(name, a, INEXACT)
    check_square(name, node.aval)
    return (node,), (lower,)


def eigh(a: array, UPLO: str = "L", *, stream: Any = None) -> tuple[array, array]:
    """Return the eigenvalues and eigenvectors of Hermitian (real: symmetric) matrices.

    Args:
        a: matrices `(..., N, N)`, float32, float64 or complex64.
        UPLO: the triangle to read: "L", the lower, or "U", the upper. The other triangle is not checked.
        stream: accepted, and ignored.

    Returns:
        The eigenvalues `(..., N)`, real and ascending, and the eigenvectors `(..., N, N)`, in normalised columns.
        Gradients are those of a function of the whole Hermitian matrix.

    Raises:
        ValueError: for any other dtype or shape.

    Example:
        >>> w, v = mx.linalg.eigh(mx.array([[1.0, -2.0], [-2.0, 1.0]]))
        >>> w
        array([-1, 3], dtype=float32)
    """
    check_stream(stream)
    w, v = items(apply(EIGH, *_symmetric("eigh", a, UPLO)))
    return wrap(w), wrap(v)


def eigvalsh(a: array, UPLO: str = "L", *, stream: Any = None) -> array:
    """Return the eigenvalues of Hermitian (real: symmetric) matrices, real and ascending; see `eigh`.

    Args:
        a: matrices `(..., N, N)`, float32, float64 or complex64.
        UPLO: the triangle to read: "L", the lower, or "U", the upper.
        stream: accepted, and ignored.

    Returns:
        The eigenvalues `(..., N)`.

    Raises:
        ValueError: for any other dtype or shape.

    Example:
        >>> mx.linalg.eigvalsh(mx.array([[1.0, -2.0], [-2.0, 1.0]]))
        array([-1, 3], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(EIGVALSH, *_symmetric("eigvalsh", a, UPLO)))


def _complex(x: Any) -> Any:
    return x.astype(jnp.result_type(x.dtype, jnp.complex64))


def _on_host(a: Any) -> tuple[Any, Any]:
    """Return eigenvalues and right eigenvectors from LAPACK on the host, on any device: XLA has no routine for TPUs."""
    dtype = jnp.result_type(a.dtype, jnp.complex64)
    shapes = jax.ShapeDtypeStruct(a.shape[:-1], dtype), jax.ShapeDtypeStruct(a.shape, dtype)

    def call(x: Any) -> Any:
        return tuple([part.astype(dtype) for part in np.linalg.eig(np.asarray(x))])

    return jax.pure_callback(call, shapes, a, vmap_method="expand_dims")


@lazy.custom_jvp
def _eig(a: Any) -> tuple[Any, Any]:
    """Return the eigenvalues and right eigenvectors, with norm 1 and a real largest component."""
    if not a.size:
        return _complex(jnp.zeros(a.shape[:-1], a.dtype)), _complex(jnp.zeros(a.shape, a.dtype))
    if jax.default_backend() == "tpu":
        return _on_host(a)
    if jax.default_backend() == "cpu":
        w, left = jax.lax.linalg.eig(transpose(a), compute_left_eigenvectors=True, compute_right_eigenvectors=False)
        real = (jnp.imag(w) == 0)[..., None, :] & jnp.isrealobj(a)
        # the conjugate of a real vector would have -0 as its imaginary part
        return w, jnp.where(real, left, jnp.conj(left))
    w, v = jax.lax.linalg.eig(a, compute_left_eigenvectors=False, compute_right_eigenvectors=True)
    return w, v


@_eig.defjvp
def _eig_jvp(primals: tuple, tangents: tuple) -> tuple:
    (a,), (t,) = primals, tangents
    w, v = _eig(a)
    d = jnp.linalg.solve(v, matmul(_complex(t), v))
    dw = jnp.diagonal(d, axis1=-2, axis2=-1)
    dv = matmul(v, inverse_gaps(w) * d)
    dv = dv - v * (jnp.conj(v) * dv).sum(-2, keepdims=True).real
    largest = jnp.argmax(jnp.abs(v), axis=-2, keepdims=True)
    phase = jnp.take_along_axis(dv, largest, -2).imag / jnp.take_along_axis(v, largest, -2).real
    return (w, v), (dw, dv - 1j * v * phase)


@lazy.custom_jvp
def _eigvals(a: Any) -> Any:
    if not a.size:
        return _complex(jnp.zeros(a.shape[:-1], a.dtype))
    if jax.default_backend() == "tpu":
        return _on_host(a)[0]
    return jax.lax.linalg.eig(transpose(a), compute_left_eigenvectors=False, compute_right_eigenvectors=False)[0]


@_eigvals.defjvp
def _eigvals_jvp(primals: tuple, tangents: tuple) -> tuple:
    (a,), (t,) = primals, tangents
    w, v = _eig(a)
    return w, jnp.diagonal(jnp.linalg.solve(v, matmul(_complex(t), v)), axis1=-2, axis2=-1)


EIG = op(
    "linalg_eig",
    lambda a: tuple(x.astype(jnp.complex64) for x in _eig(a)),
    lambda a: (aval(a.shape[:-1], complex64), aval(a.shape, complex64)),
)
EIGVALS = op("linalg_eigvals", lambda a: _eigvals(a).astype(jnp.complex64), lambda a: aval(a.shape[:-1], complex64))


def _general(name: str, a: Any) -> Any:
    node = matrix(name, a, INEXACT)
    check_square(name, node.aval)
    return (node,)


def eig(a: array, *, stream: Any = None) -> tuple[array, array]:
    """Return the eigenvalues and right eigenvectors of square matrices.

    Args:
        a: matrices `(..., N, N)`, float32, float64 or complex64.
        stream: accepted, and ignored.

    Returns:
        The eigenvalues `(..., N)`, in no particular order, and the eigenvectors `(..., N, N)`, in columns of norm 1;
        both complex64.

    Raises:
        ValueError: for any other dtype or shape.

    Example:
        >>> w, v = mx.linalg.eig(mx.array([[0.0, 1.0], [-1.0, 0.0]]))
        >>> w
        array([0+1j, 0-1j], dtype=complex64)

    For complex matrices, these are right eigenvectors; mlx 0.32 returns left eigenvectors of the conjugate matrices.
    """
    check_stream(stream)
    w, v = items(apply(EIG, _general("eig", a)))
    return wrap(w), wrap(v)


def eigvals(a: array, *, stream: Any = None) -> array:
    """Return the eigenvalues of square matrices, complex64, in no particular order; see `eig`.

    Args:
        a: matrices `(..., N, N)`, float32, float64 or complex64.
        stream: accepted, and ignored.

    Returns:
        The eigenvalues `(..., N)`.

    Raises:
        ValueError: for any other dtype or shape.

    Example:
        >>> mx.linalg.eigvals(mx.array([[0.0, 1.0], [-1.0, 0.0]]))
        array([0+1j, 0-1j], dtype=complex64)
    """
    check_stream(stream)
    return wrap(apply(EIGVALS, _general("eigvals", a)))
