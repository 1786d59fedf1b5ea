"""The failures of linear algebra: which inputs cannot be computed, and MLX's messages for them. The codes are
LAPACK's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import FAILURE, Failure
from mxcompat._jax import jax, jnp

from ..random.continuous import MULTIVARIATE_NORMAL
from .common import transpose
from .decompositions import SINGULAR_VALUES, SVD
from .norm import NORM, is_spectral
from .solve import CHOLESKY_INV, INV, PINV, SOLVE, SOLVE_TRIANGULAR, TRI_INV, fill_with_nan, operands

__all__: list[str] = []

_LU = "[Inverse::eval_cpu] LU factorization failed with error code"
_TRIANGLE = "[Inverse::eval_cpu] triangular inversion failed with error code"
_SVD = "[SVD::eval_cpu] SVD failed with error code"

_NAN = -4
"""LAPACK's code for a NaN in its fourth argument, the matrix."""


def _zero_on_diagonal(a: Any) -> Any:
    """Return, for each matrix, the position of the first zero on its diagonal, counted from 1; 0 if there is none."""
    zero = jnp.diagonal(a, axis1=-2, axis2=-1) == 0
    if not zero.size:
        return jnp.zeros(zero.shape[:-1], np.int32)
    return jnp.where(zero.any(-1), jnp.argmax(zero, -1) + 1, 0).astype(np.int32)


def _zero_pivot(a: Any) -> Any:
    """Return the failure code of the LU factors of the matrix that the op factorizes. XLA merges the two
    factorizations."""
    return _zero_on_diagonal(jax.lax.linalg.lu(a)[0] if a.size else a)


def _holds_nan(a: Any) -> Any:
    return jnp.where(jnp.isnan(a).any((-2, -1)), _NAN, 0).astype(np.int32)


def _fails(op: Op, message: str, code: Callable[..., Any], when: Callable[[tuple], bool] = lambda params: True) -> None:
    """Register the failure rule of an op. `code(params, *inputs)` returns the codes, and `when(params)` tells if the op
    may fail."""
    FAILURE[op] = Failure(
        lambda params: (message,) if when(params) else (),
        lambda params, inputs: (op.lower(params, inputs), [code(params, *inputs)]),
    )


_fails(INV, _LU, lambda _, a: _zero_pivot(transpose(fill_with_nan(a))))
_fails(SOLVE, _TRIANGLE, lambda _, a, b: _zero_pivot(fill_with_nan(operands(a, b)[0])))
for _op in (TRI_INV, CHOLESKY_INV, SOLVE_TRIANGULAR):
    _fails(_op, _TRIANGLE, lambda _, a, *b: _zero_on_diagonal(a))
for _op in (SVD, SINGULAR_VALUES, PINV):
    _fails(_op, _SVD, lambda _, a: _holds_nan(a))
_fails(MULTIVARIATE_NORMAL, _SVD, lambda _, key, mean, cov: _holds_nan(cov))
_fails(
    NORM, _SVD, lambda params, a: _holds_nan(jnp.moveaxis(a, params[1], (-2, -1))),
    when=lambda params: is_spectral(*params[:2]),
)  # fmt: skip
