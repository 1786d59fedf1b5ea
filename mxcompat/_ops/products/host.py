"""Matrix products and their kin in NumPy."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._graph.ir.aval import aval, from_numpy
from mxcompat._graph.ir.rules import HOST

from ..define import TABLE
from . import einsum, gathered, vectors  # noqa: F401  # for their records, in TABLE
from .contraction import Numbers, contract, multiply, rounded, wide_dtype, widened
from .matmul import _addmm, _contracted, _matmul, _tensordot

__all__ = ["inner_numbers", "scaled_sum", "tensordot_numbers"]


@HOST.of(_matmul)
def _host_matmul(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype.numpy
    work = wide_dtype(dtype)
    if x.dtype == work and y.dtype == work:
        return multiply(x, y)
    return rounded(multiply(widened(x, dtype), widened(y, dtype)), dtype)


def scaled_sum(product: Any, c: Any, alpha: Any, beta: Any) -> Any:
    """What addmm makes of a product: `alpha * product + beta * c`, without `c` where beta is 0."""
    if alpha is None:
        return product + c
    product = product * alpha.astype(product.dtype)
    return product if beta == 0 else product + c * beta.astype(c.dtype)


@HOST.of(_addmm)
def _host_addmm(out: Any, params: tuple, c: Any, x: Any, y: Any, alpha: Any = None, beta: Any = None) -> Any:
    dtype = out.dtype.numpy
    product = multiply(widened(x, dtype), widened(y, dtype))
    return rounded(scaled_sum(product, widened(c, dtype), alpha, beta), dtype)


@lru_cache(1024)
def tensordot_numbers(x: tuple[int, ...], y: tuple[int, ...], axes: Any) -> Numbers:
    """The axes that a tensordot of arrays of these shapes sums over."""
    like = from_numpy(np.float32)
    return _contracted(aval(x, like), aval(y, like), axes), ((), ())  # type: ignore[arg-type]


@HOST.of(_tensordot)
def _host_tensordot(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype.numpy
    numbers = tensordot_numbers(x.shape, y.shape, params[0])
    return rounded(contract(widened(x, dtype), widened(y, dtype), numbers), dtype)


def inner_numbers(x: Any, y: Any) -> Numbers:
    """The axes that `inner` sums over."""
    return ((x.ndim - 1,), (y.ndim - 1,)), ((), ())


@HOST.of(TABLE["inner"])
def _host_inner(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype.numpy
    if not x.ndim or not y.ndim:
        return converted_on_host(x, out.dtype) * converted_on_host(y, out.dtype)
    return rounded(contract(widened(x, dtype), widened(y, dtype), inner_numbers(x, y)), dtype)


@HOST.of(TABLE["outer"])
def _host_outer(out: Any, params: tuple, x: Any, y: Any) -> Any:
    dtype = out.dtype
    return converted_on_host(x, dtype).reshape(-1, 1) * converted_on_host(y, dtype).reshape(1, -1)
