"""What `jvp` returns as the tangent of a bool: its dtype says how the bool came about, as in MLX. All of them are zero.

A comparison passes on the dtype of what it compares; a logical op, a cast or a test gives bool.
"""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat._array.nest import NEST
from mxcompat._array.promotion import promote, summed_dtype
from mxcompat._graph.ir.aval import Aval, Dtype, bool_, int32
from mxcompat._graph.ir.rules import TANGENT_DTYPE

from ..define import TABLE
from . import casts as _casts  # noqa: F401  their records, in TABLE
from . import comparison as _comparison  # noqa: F401
from . import unary as _unary  # noqa: F401

__all__: list[str] = []


@TANGENT_DTYPE.of(*[TABLE[name] for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")])
def _compared(active: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype | None:
    dtype = operands[0].dtype
    for operand in operands[1:]:
        dtype = promote(dtype, operand.dtype)
    return active[0] if dtype is bool_ else dtype


@TANGENT_DTYPE.of(TABLE["array_equal"])
def _all_compared(active: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype | None:
    dtype = _compared(active, operands, result)
    return dtype if dtype is None or all(a.size == 1 for a in operands) else summed_dtype(dtype)


@TANGENT_DTYPE.of(TABLE["isnan"], TABLE["isposinf"], TABLE["isneginf"])
def _of_floats(active: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype | None:
    return operands[0].dtype if operands[0].dtype._kind in "fc" else None


@TANGENT_DTYPE.of(*[TABLE[name] for name in ("logical_not", "logical_and", "logical_or", "logical_xor")])
def _logical(active: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype | None:
    return active[0] if operands[0].dtype is bool_ else bool_


@TANGENT_DTYPE.of(NEST, *[TABLE[name] for name in ("astype", "isfinite", "isinf", "isclose")])
def _constant(active: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype | None:
    return bool_


@TANGENT_DTYPE.of(TABLE["allclose"])
def _all_of(active: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype | None:
    return int32
