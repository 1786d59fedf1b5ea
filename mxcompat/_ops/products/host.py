"""Host rules of matrix products and related ops."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import aval, from_numpy
from mxcompat._graph.ir.rules import HOST
from mxcompat._graph.policy import MOST_PLANS

from ..define import TABLE
from . import vectors  # noqa: F401  # for their records, in TABLE
from .contraction import Numbers, contract, multiply, rounded, wide_dtype, widened
from .matmul import ADDMM, MATMUL, TENSORDOT, contracted_axes
from .stored import multiply_halves

__all__ = ["VECTORS", "inner_numbers", "interleaved", "tensordot_numbers", "vecdot"]


@HOST.of(MATMUL)
def _host_matmul(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype._numpy
    work = wide_dtype(dtype)
    if x.dtype == work and y.dtype == work:
        return multiply(x, y)
    product = multiply_halves(x, y, dtype)
    return rounded(multiply(widened(x, dtype), widened(y, dtype)), dtype) if product is None else product


def _scaled_sum(product: Any, c: Any, alpha: Any, beta: Any) -> Any:
    """Return the result of addmm: `alpha * product + beta * c`, without `c` if beta is 0."""
    if alpha is None:
        return product + c
    product = product * alpha.astype(product.dtype)
    return product if beta == 0 else product + c * beta.astype(c.dtype)


@HOST.of(ADDMM)
def _host_addmm(out: Any, params: tuple, c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None) -> Any:
    dtype = out.dtype._numpy
    product = multiply_halves(x, y, wide_dtype(dtype))
    if product is None:
        product = multiply(widened(x, dtype), widened(y, dtype))
    return rounded(_scaled_sum(product, widened(c, dtype), alpha, beta), dtype)


@lru_cache(MOST_PLANS)
def tensordot_numbers(x: tuple[int, ...], y: tuple[int, ...], axes: Any) -> Numbers:
    """Return the axes that a tensordot of arrays with these shapes sums over."""
    like = from_numpy(np.float32)
    return contracted_axes(aval(x, like), aval(y, like), axes), ((), ())  # type: ignore[arg-type]


@HOST.of(TENSORDOT)
def _host_tensordot(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype._numpy
    numbers = tensordot_numbers(x.shape, y.shape, params[0])
    return rounded(contract(widened(x, dtype), widened(y, dtype), numbers), dtype)


def inner_numbers(x: Any, y: Any) -> Numbers:
    """Return the axes that `inner` sums over."""
    return ((x.ndim - 1,), (y.ndim - 1,)), ((), ())


def inner(x: Any, y: Any) -> Any:
    return contract(x, y, inner_numbers(x, y)) if x.ndim and y.ndim else x * y


def outer(x: Any, y: Any) -> Any:
    return x.reshape(-1, 1) * y.reshape(1, -1)


def interleaved(x: Any, y: Any) -> tuple[Any, Any]:
    """Return two reshaped arrays whose product has the blocks of their Kronecker product, on pairs of axes."""
    ndim = max(x.ndim, y.ndim)
    shapes = [(1,) * (ndim - a.ndim) + a.shape for a in (x, y)]
    left = [n for m in shapes[0] for n in (m, 1)]
    right = [n for m in shapes[1] for n in (1, m)]
    return x.reshape(left), y.reshape(right)


def kron(x: Any, y: Any) -> Any:
    left, right = interleaved(x, y)
    blocks = left * right
    return blocks.reshape([m * n for m, n in zip(blocks.shape[::2], blocks.shape[1::2], strict=True)])


VECTORS = {TABLE["inner"]: inner, TABLE["outer"]: outer, TABLE["kron"]: kron}
"""Maps ops to their functions for arrays of one dtype."""


def _of_vectors(product: Any) -> Any:
    def rule(out: Any, params: tuple, x: Any, y: Any) -> Any:
        dtype = out.dtype._numpy
        return rounded(product(widened(x, dtype), widened(y, dtype)), dtype)

    return rule


HOST.update({op: _of_vectors(product) for op, product in VECTORS.items()})


def vecdot(x: Any, y: Any, axis: int, dtype: Any) -> Any:
    """Return the dot products of vectors with one dtype, summed in `dtype`."""
    products = x.conj() * y if x.dtype.kind == "c" else x * y
    return np.add.reduce(products, axis, dtype)


@HOST.of(TABLE["vecdot"])
def _host_vecdot(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = promote(from_numpy(x.dtype), from_numpy(y.dtype))  # type: ignore[arg-type]
    total = out.dtype._numpy
    product = vecdot(converted_on_host(x, dtype), converted_on_host(y, dtype), params[0] % x.ndim, wide_dtype(total))
    return rounded(product, total)
