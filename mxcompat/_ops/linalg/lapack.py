"""Shared parts of the rules of linear algebra, above all calls of NumPy's LAPACK on the host.

`numpy.linalg` computes single precision in double precision, which is harmless if the result is unique. Vectors with an
arbitrary sign, or eigenvalues in an arbitrary order, need LAPACK's routine for the exact precision, to give the result
of XLA (and MLX). XLA computes the vectors of `eig`, as their order depends on left eigenvectors, which NumPy lacks. XLA
also computes the problems that LAPACK does not solve: its result for these is NaN. It computes the derivatives of `qr`,
`svd`, `pinv`, of complex eigenvectors, and of the ops without a host rule, too.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.policy import FLOP_SECONDS, OP_SECONDS

__all__ = ["batch_matrices", "cubic_cost", "dot", "lapack", "or_xla", "swapped", "triangle", "wide"]

dot = np.matmul


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


def lapack(name: str, a: Any, signature: str) -> Any:
    """Return LAPACK's routine for the precision of `a`; None if NumPy does not have it under this name.

    In the signature, `x` is the dtype of `a`, `r` the dtype of its absolute values, and `c` the complex dtype.
    """
    routine = getattr(np.linalg._umath_linalg, name, None)  # type: ignore[attr-defined]  # no public one keeps float32
    real, full = ("d", "D") if a.dtype == np.float64 else ("f", "F")
    signature = signature.replace("x", a.dtype.char).replace("r", real).replace("c", full)
    if routine is None or signature not in routine.types or not np.isfinite(a).all():
        return None
    return routine(a, signature=signature)


def wide(a: Any) -> Any:
    return a if a.dtype == np.float64 else a.astype(np.float32, copy=False)


def cubic_cost(out: Any, params: tuple, x: Any, *others: Any) -> float:
    return 10 * OP_SECONDS + 10 * FLOP_SECONDS * x.size * (x.shape[-1] if x.ndim else 1)


def batch_matrices(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    return apply(op, inputs, params)
