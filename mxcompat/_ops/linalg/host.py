"""Linear algebra with NumPy's LAPACK, on the host.

`numpy.linalg` computes single precision in double precision, which is harmless if the result is unique. Vectors with an
arbitrary sign, or eigenvalues in an arbitrary order, need LAPACK's routine for the exact precision, to give the result
of XLA (and MLX). XLA computes the vectors of `eig`, as their order depends on left eigenvectors, which NumPy lacks. XLA
also computes the problems that LAPACK does not solve: its result for these is NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.rules import HOST
from mxcompat._graph.run.short_rows import reduced
from mxcompat._graph.run.values import in_order

from ..define import as_float
from ..products.contraction import rounded, widened
from .decompositions import CHOLESKY, QR, SINGULAR_VALUES, SVD
from .eigen import EIGH, EIGVALS, EIGVALSH
from .lu import DET, SLOGDET
from .norm import CROSS, NORM, is_spectral
from .solve import CHOLESKY_INV, INV, PINV, SOLVE, SOLVE_TRIANGULAR, TRI_INV

__all__ = ["cross", "induced", "or_xla", "swapped", "triangle", "triangular_inverse"]


def or_xla(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a version of a rule that returns None for empty matrices and for matrices that LAPACK does not solve."""

    @wraps(rule)
    def guarded(*args: Any) -> Any:
        if not all(x.size for x in args[2:] if isinstance(x, np.ndarray)):
            return None
        try:
            return rule(*args)
        except np.linalg.LinAlgError:
            return None

    return guarded


def swapped(x: Any) -> Any:
    """Return the array with its last two axes swapped."""
    return x.swapaxes(-1, -2)


def triangle(x: Any, upper: bool) -> Any:
    return np.triu(x) if upper else np.tril(x)


def _finite(x: Any) -> Any:
    """Return a triangle whose entries are finite, or raise LinAlgError.

    NumPy solves triangular systems like general ones, so an infinity or NaN would affect more of the solution.
    """
    if not np.isfinite(x).all():
        raise np.linalg.LinAlgError("a triangle that is not finite needs a triangular solver")
    return x


def _fill_with_nan(a: Any) -> Any:
    """Fill each matrix that contains a NaN with NaN. LAPACK never chooses a NaN as a pivot, so its result may lack the
    NaN."""
    none = np.isnan(a).any((-2, -1), keepdims=True)
    return np.where(none, a.dtype.type(np.nan), a) if none.any() else a


def triangular_inverse(a: Any, upper: bool) -> Any:
    """Return the inverse of a triangular matrix, which is triangular too."""
    return triangle(np.linalg.inv(_finite(triangle(a, upper))), upper)


def _regular(a: Any) -> Any:
    """Return the matrices if no pivot is zero in their precision, or raise LinAlgError.

    The pivots are those of a determinant, because NumPy factorizes in this precision only for determinants.
    """
    sign, _ = _lapack("slogdet", a, "x->xr") or np.linalg.slogdet(a)
    if not np.all(sign):
        raise np.linalg.LinAlgError("one is singular")
    return a


@HOST.of(INV)
@or_xla
def _host_inv(out: Any, params: tuple, a: Any) -> Any:
    return swapped(np.linalg.inv(_regular(swapped(_fill_with_nan(a)))))


@HOST.of(TRI_INV)
@or_xla
def _host_tri_inv(out: Any, params: tuple, a: Any) -> Any:
    return triangular_inverse(a, *params)


@HOST.of(CHOLESKY_INV)
@or_xla
def _host_cholesky_inv(out: Any, params: tuple, a: Any) -> Any:
    inverse = triangular_inverse(a, *params)
    return np.matmul(inverse, swapped(inverse)) if params[0] else np.matmul(swapped(inverse), inverse)


@HOST.of(PINV)
@or_xla
def _host_pinv(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.pinv(a, 10 * max(a.shape[-2:]) * np.finfo(a.dtype).eps)


def _columns(out: Any, b: Any) -> Any:
    b = rounded(b, out.dtype._numpy)
    return b[:, None] if b.ndim == 1 else b


@HOST.of(SOLVE)
@or_xla
def _host_solve(out: Any, params: tuple, a: Any, b: Any) -> Any:
    a = _regular(_fill_with_nan(rounded(a, out.dtype._numpy)))
    return np.linalg.solve(a, _columns(out, b)).reshape(out.shape)


@HOST.of(SOLVE_TRIANGULAR)
@or_xla
def _host_solve_triangular(out: Any, params: tuple, a: Any, b: Any) -> Any:
    a = _finite(triangle(rounded(a, out.dtype._numpy), *params))
    return np.linalg.solve(a, _finite(_columns(out, b))).reshape(out.shape)


@HOST.of(CHOLESKY)
@or_xla
def _host_cholesky(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.cholesky(a, upper=params[0])


@HOST.of(QR)
@or_xla
def _host_qr(out: Any, params: tuple, a: Any) -> Any:
    return tuple(np.linalg.qr(a))


def _lapack(name: str, a: Any, signature: str) -> Any:
    """Return LAPACK's routine for the precision of `a`; None if NumPy does not have it under this name.

    In the signature, `x` is the dtype of `a`, `r` the dtype of its absolute values, and `c` the complex dtype.
    """
    routine = getattr(np.linalg._umath_linalg, name, None)  # type: ignore[attr-defined]  # no public one keeps float32
    real, full = ("d", "D") if a.dtype == np.float64 else ("f", "F")
    signature = signature.replace("x", a.dtype.char).replace("r", real).replace("c", full)
    if routine is None or signature not in routine.types or not np.isfinite(a).all():
        return None
    return routine(a, signature=signature)


@HOST.of(SVD)
@or_xla
def _host_svd(out: Any, params: tuple, a: Any) -> Any:
    factors = _lapack("svd_f", swapped(a), "x->xrx")
    if factors is None:
        return None
    v, s, uh = factors
    return swapped(uh), s, swapped(v)


@HOST.of(SINGULAR_VALUES)
@or_xla
def _host_singular_values(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.svd(a, compute_uv=False)


@HOST.of(EIGH)
@or_xla
def _host_eigh(out: Any, params: tuple, a: Any) -> Any:
    eigen = _lapack("eigh_up" if params[0] else "eigh_lo", swapped(a), "x->rx")
    if eigen is None:
        return None
    w, v = eigen
    return w, v.conj() if v.dtype.kind == "c" else v


@HOST.of(EIGVALSH)
@or_xla
def _host_eigvalsh(out: Any, params: tuple, a: Any) -> Any:
    return np.linalg.eigvalsh(a, "L" if params[0] else "U")


@HOST.of(EIGVALS)
@or_xla
def _host_eigvals(out: Any, params: tuple, a: Any) -> Any:
    eigenvalues = _lapack("eigvals", swapped(a), "x->c")
    return None if eigenvalues is None else eigenvalues.astype(np.complex64, copy=False)


def _wide(a: Any) -> Any:
    return a if a.dtype == np.float64 else a.astype(np.float32, copy=False)


@HOST.of(DET)
@or_xla
def _host_det(out: Any, params: tuple, a: Any) -> Any:
    return rounded(np.linalg.det(_wide(a)), out.dtype._numpy)


@HOST.of(SLOGDET)
@or_xla
def _host_slogdet(out: Any, params: tuple, a: Any) -> Any:
    sign, logarithm = np.linalg.slogdet(_wide(a))
    if a.shape[-1] <= 3:  # MLX computes small determinants by formulas, without pivots
        sign = np.where(np.isnan(logarithm), 0, sign)
    return tuple([rounded(x, o.dtype._numpy) for x, o in zip((sign, logarithm), out, strict=True)])


def induced(x: Any, order: float, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the sums of absolute values along one axis, and their maximum or minimum along the other; axes are
    kept."""
    along, across = (axes[1], axes[0]) if np.isinf(order) else axes
    sums = x.sum(along, keepdims=True)
    return sums, (sums.max if order > 0 else sums.min)(across, keepdims=True)


@HOST.of(NORM)
def _host_norm(out: Any, params: tuple, a: Any) -> Any:
    order, axes, keepdims = params
    x = in_order(widened(a, as_float(from_numpy(a.dtype))._numpy))  # type: ignore[arg-type]
    if is_spectral(order, axes):
        if not x.size or not np.isfinite(x).all():
            return None
        s = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), compute_uv=False)
        norm = s.sum(-1) if order == "nuc" else s.max(-1) if order == 2 else s.min(-1)
        norm = np.expand_dims(norm, axes) if keepdims else norm
    elif order is None or (order == 2 and len(axes) == 1):
        squares = x.real * x.real + x.imag * x.imag if x.dtype.kind == "c" else x * x
        norm = np.sqrt(reduced(np.add, squares, axes, keepdims))
    elif len(axes) == 2:
        norm = induced(np.abs(x), order, axes)[1]
        norm = norm if keepdims else norm.squeeze(axes)
    else:
        norm = _vector_norm(np.abs(x), order, axes[0], keepdims)
    return norm.astype(out.dtype._numpy, copy=False)


def _vector_norm(x: Any, order: float, axis: int, keepdims: bool) -> Any:
    if np.isinf(order):
        return (x.max if order > 0 else x.min)(axis, keepdims=keepdims)
    if order == 0:
        return (x != 0).sum(axis, keepdims=keepdims)
    if order == 1:
        return x.sum(axis, keepdims=keepdims)
    return (x ** x.dtype.type(order)).sum(axis, keepdims=keepdims) ** x.dtype.type(1 / order)


def cross(a: Any, b: Any, axis: int, shape: tuple[int, ...]) -> Any:
    """Return the cross product of two arrays of one dtype along an axis of size 2 or 3. A missing component is 0. The
    result has 3 components, and is broadcast to `shape`."""

    def rows(x: Any) -> list[Any]:
        x = np.moveaxis(x, axis, 0)
        zero = np.zeros(x.shape[1:], x.dtype)
        return [x[k] if k < len(x) else zero for k in range(3)]

    (a0, a1, a2), (b0, b1, b2) = rows(a), rows(b)
    minus = np.logical_xor if a.dtype == bool else np.subtract
    parts = [minus(a1 * b2, a2 * b1), minus(a2 * b0, a0 * b2), minus(a0 * b1, a1 * b0)]
    product = np.stack(parts, axis)
    return product if product.shape == shape else np.broadcast_to(product, shape)


@HOST.of(CROSS)
def _host_cross(out: Any, params: tuple, a: Any, b: Any) -> Any:
    (axis,) = params
    if a.ndim != b.ndim and axis >= 0:
        return None
    dtype = out.dtype._numpy
    if out.dtype._kind in "fc":
        return rounded(cross(widened(a, dtype), widened(b, dtype), axis, out.shape), dtype)
    return cross(converted_on_host(a, out.dtype), converted_on_host(b, out.dtype), axis, out.shape)
