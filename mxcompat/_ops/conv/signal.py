"""Signal processing: one-dimensional convolution and the Hadamard transform."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array import operands
from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jnp

from ..arguments import any_number, require_array, require_text
from ..define import op
from ..products.matmul import common, precision, wide

__all__ = ["CONVOLVE", "HADAMARD_TRANSFORM", "convolve", "factors_of", "hadamard_matrix", "hadamard_transform"]


def _convolve_aval(a: Aval, v: Aval, mode: str) -> Aval:
    if a.ndim != 1 or v.ndim != 1:
        raise ValueError("[convolve] Inputs must be 1D.")
    if a.size == 0 or v.size == 0:
        raise ValueError("[convolve] Inputs cannot be empty.")
    long, short = (a, v) if a.size >= v.size else (v, a)
    if mode not in ("full", "same", "valid"):
        raise ValueError("[convolve] Invalid mode.")
    if long.dtype._kind != "f":
        raise ValueError(
            f"[conv] Invalid input array with type {long.dtype._label}. Convolution currently only supports floating "
            "point types"
        )
    extra = {"full": short.size - 1, "same": 0, "valid": 1 - short.size}[mode]
    return aval((long.size + extra,), promote(a.dtype, v.dtype))


def _convolve_impl(x: Any, y: Any, mode: str) -> Any:
    dtype = common(x, y)
    x, y = jnp.asarray(x, wide(dtype)), jnp.asarray(y, wide(dtype))
    return jnp.convolve(x, y, mode, precision=precision(x.dtype)).astype(dtype)


CONVOLVE = op("convolve", _convolve_impl, _convolve_aval, ("mode",))


def convolve(a: array, v: array, /, mode: str = "full", *, stream: Any = None) -> array:
    """Return the discrete convolution of two sequences.

    Args:
        a: an array of one dimension.
        v: an array of one dimension. If it is longer than `a`, the two are swapped.
        mode: "full": all positions where they overlap. "same": the middle of "full", with the length of the longer one.
            "valid": the positions where they overlap completely.
        stream: accepted, and ignored.

    Returns:
        An array of one dimension.

    Raises:
        ValueError: if an array is not one-dimensional or is empty, if the longer one has no float dtype, or if there is
            no such mode.

    Example:
        >>> mx.convolve(mx.array([1.0, 2.0, 3.0]), mx.array([0.0, 1.0]), mode="same")
        array([0, 1, 2], dtype=float32)
    """
    check_stream(stream)
    require_text(mode, "convolve", "mode")
    return wrap(apply(CONVOLVE, (require_array(a, "convolve"), require_array(v, "convolve")), (mode,)))


_CIRCULANT_BLOCKS = {
    20: "+---- +---- ++--+ +-++- -++++ +---- -+--+ ++--+ --++- +-++- +---- -++++ -+--+ --++- +---- +----",
    28: "+------ ++----+ +-+--+- +--++-- --++++- +------ -++--++ +-+--+- "
    "-+-++-+ +--++-- +------ --++++- -++--++ -+-++-+ ++----+ +------",
}
"""Hadamard matrices of 4 x 4 circulant blocks, by size: the first row of each block."""


@lru_cache(None)
def hadamard_matrix(n: int) -> np.ndarray:
    """Return MLX's Hadamard matrix of 1 and -1, for n a power of two, 12, 20 or 28."""
    if n == 1:
        return np.ones((1, 1), np.int8)
    if n == 12:  # these matrices come from Paley's construction with the squares modulo 5
        conference = np.ones((6, 6), np.int8)
        conference[1:, 1:] = [np.roll([0, 1, -1, -1, 1], k) for k in range(5)]
        conference[0, 0] = 0
        return np.kron(conference, [[1, 1], [1, -1]]) + np.kron(np.eye(6, dtype=np.int8), [[1, -1], [-1, -1]])
    if n in _CIRCULANT_BLOCKS:
        rows = [[1 if c == "+" else -1 for c in row] for row in _CIRCULANT_BLOCKS[n].split()]
        blocks = [np.array([np.roll(row, k) for k in range(n // 4)], np.int8) for row in rows]
        return np.block([blocks[4 * k : 4 * k + 4] for k in range(4)])
    return np.kron(hadamard_matrix(n // 2), [[1, 1], [1, -1]])


def factors_of(n: int) -> list[int]:
    """Return sizes whose Hadamard matrices have the matrix of size n as their Kronecker product; empty if there are
    none."""
    for m in (1, 12, 20, 28):
        if n % m == 0 and (n // m).bit_count() == 1:
            bits = (n // m).bit_length() - 1
            chunks = [1 << min(5, bits - done) for done in range(0, bits, 5)]
            return [m, *chunks]
    return []


def _hadamard_aval(a: Aval, scale: Aval) -> Aval:
    if a.size == 0:
        raise ValueError("[hadamard_transform] Does not support empty arrays.")
    if a.ndim and not factors_of(a.shape[-1]):
        raise ValueError("[hadamard] Only supports n = m*2^k where m in (1, 12, 20, 28).")
    if a.dtype is _d.float64:
        raise ValueError("[hadamard] Unsupported type.")
    return aval(a.shape, a.dtype if a.dtype._kind == "f" else _d.float32)


def _hadamard_impl(x: Any, scale: Any) -> Any:
    x = jnp.asarray(x)
    dtype = x.dtype if jnp.issubdtype(x.dtype, jnp.floating) else jnp.dtype(jnp.float32)
    factors = factors_of(x.shape[-1]) if x.ndim else [1]
    values = (x.real if x.dtype.kind == "c" else x).astype(jnp.float32).reshape(-1, *factors)
    for n in factors:  # each product sums over the first remaining axis and appends a new one
        matrix = hadamard_matrix(n).astype(np.float32)
        values = jnp.tensordot(values, matrix, ((1,), (1,)), precision=precision(matrix.dtype))
    return (values * scale).astype(dtype).reshape(x.shape)


HADAMARD_TRANSFORM = op("hadamard_transform", _hadamard_impl, _hadamard_aval)


def hadamard_transform(a: array, /, scale: float | None = None, *, stream: Any = None) -> array:
    """Return the Walsh-Hadamard transform along the last axis.

    Args:
        a: a nonempty array whose last axis has a size of 2^k times 1, 12, 20 or 28.
        scale: the factor of the result; None for 1 / sqrt(size), which makes the transform orthonormal.
        stream: accepted, and ignored.

    Returns:
        An array with the shape and dtype of `a`; the dtype is float32 if `a` is not a float of at most 32 bits.

    Raises:
        ValueError: for any other size, if `a` is empty, or for float64 unless the last axis has size 1.

    Example:
        >>> mx.hadamard_transform(mx.arange(4.0), scale=1.0)
        array([6, -2, -4, 0], dtype=float32)
    """
    check_stream(stream)
    x = require_array(a, "hadamard_transform")
    size = x.aval.shape[-1] if x.aval.ndim else 1
    factor = 1 / math.sqrt(size or 1) if scale is None else any_number(scale, "hadamard_transform", "scale")
    if size == 1 and x.aval.size:  # a size of 1 needs no sum, so any dtype is allowed
        return wrap(x) if scale is None else wrap(x) * factor
    return wrap(apply(HADAMARD_TRANSFORM, (x, operands.scalar_node(factor, _d.float32))))
