"""The failures of linear algebra: which inputs cannot be computed, and MLX's messages for them. The codes are
LAPACK's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import FAILURE, Failure
from mxcompat._jax import jnp

__all__ = ["SVD_FAILED", "fails", "holds_nan"]

SVD_FAILED = "[SVD::eval_cpu] SVD failed with error code"

_NAN = -4
"""LAPACK's code for a NaN in its fourth argument, the matrix."""


def holds_nan(a: Any) -> Any:
    return jnp.where(jnp.isnan(a).any((-2, -1)), _NAN, 0).astype(np.int32)


def fails(op: Op, message: str, code: Callable[..., Any], when: Callable[[tuple], bool] = lambda params: True) -> None:
    """Register the failure rule of an op. `code(params, *inputs)` returns the codes, and `when(params)` tells if the op
    may fail."""
    FAILURE[op] = Failure(
        lambda params: (message,) if when(params) else (),
        lambda params, inputs: (op.lower(params, inputs), [code(params, *inputs)]),
    )
