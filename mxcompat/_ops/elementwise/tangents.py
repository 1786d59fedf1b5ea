"""The dtypes of the tangents that `jvp` returns for bools. As in MLX, the dtype depends on the op that made the bool.

All these tangents are zero. A comparison passes on the dtype of its operands' tangents; a logical op, a cast or a test
gives bool. A bool that MLX would negate has no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat._graph.ir.aval import Aval, Dtype, bool_

__all__ = ["NEGATED", "dtype_of_logical", "dtype_of_result", "refuse_bools"]

NEGATED = "[negative] Not supported for bool, use logical_not instead."


def refuse_bools(tangent: Dtype | None) -> None:
    """Raise MLX's ValueError if the tangent of an operand that is subtracted is a bool."""
    if tangent is bool_:
        raise ValueError(NEGATED)


def dtype_of_logical(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    """Return the dtype of the first tangent that exists if the operands are bools, else bool."""
    return next(filter(None, tangents)) if operands[0].dtype is bool_ else bool_


def dtype_of_result(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    """Return the dtype of the result itself."""
    return result.dtype
