"""The dtypes of the tangents that `jvp` returns for bools. As in MLX, the dtype depends on the op that made the bool.

All these tangents are zero. A comparison passes on the dtype of its operands' tangents; a logical op, a cast or a test
gives bool. A bool that MLX would negate has no derivative.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from mxcompat._array.nest import NEST
from mxcompat._array.promotion import promote, summed_dtype
from mxcompat._graph.ir.aval import Aval, Dtype, bool_, int32
from mxcompat._graph.ir.rules import INDEX_ERROR, TANGENT_DTYPE

from ..define import TABLE
from . import casts as _casts  # noqa: F401  their records, in TABLE
from . import comparison as _comparison  # noqa: F401
from . import unary as _unary  # noqa: F401

__all__ = ["refuse_bools"]

_NEGATED = "[negative] Not supported for bool, use logical_not instead."


def refuse_bools(tangent: Dtype | None) -> None:
    """Raise MLX's ValueError if the tangent of an operand that is subtracted is a bool."""
    if tangent is bool_:
        raise ValueError(_NEGATED)


@TANGENT_DTYPE.of(*[TABLE[name] for name in ("equal", "not_equal", "greater", "greater_equal", "less", "less_equal")])
def _compared(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    """Return the tangent dtype of a comparison: that of the first operand with a tangent, or the promoted dtype if the
    op casts this operand."""
    dtype = reduce(promote, [operand.dtype for operand in operands])
    cast = [t if t is None or a.dtype is dtype else dtype for t, a in zip(tangents, operands, strict=True)]
    return next(filter(None, cast))


@TANGENT_DTYPE.of(TABLE["array_equal"])
def _all_compared(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    dtype = _compared(tangents, operands, result)
    return dtype if all(a.size == 1 for a in operands) else summed_dtype(dtype)


@TANGENT_DTYPE.of(TABLE["isnan"], TABLE["isposinf"], TABLE["isneginf"])
def _of_floats(tangents: Sequence[Dtype], operands: Sequence[Aval], result: Aval) -> Dtype:
    return tangents[0] if operands[0].dtype._kind in "fc" else bool_


@TANGENT_DTYPE.of(TABLE["logical_not"], TABLE["logical_xor"])
def _logical(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    return next(filter(None, tangents)) if operands[0].dtype is bool_ else bool_


@TANGENT_DTYPE.of(NEST, *[TABLE[name] for name in ("astype", "isfinite", "isinf", "logical_and", "logical_or")])
def _cast(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    return result.dtype


@TANGENT_DTYPE.of(TABLE["isclose"])
def _close(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    refuse_bools(tangents[1])
    return bool_


@TANGENT_DTYPE.of(TABLE["allclose"])
def _all_close(tangents: Sequence[Dtype | None], operands: Sequence[Aval], result: Aval) -> Dtype:
    refuse_bools(tangents[1])
    return int32


@INDEX_ERROR.of(TABLE["isclose"], TABLE["allclose"])
def _subtracted(transform: str, params: tuple, places: set[int], operands: Sequence[Aval]) -> Exception | None:
    """Return the error of a VJP: MLX negates the cotangent of the second operand, which it refuses for bools."""
    bools = all(a.dtype is bool_ for a in operands[:2])
    return ValueError(_NEGATED) if transform == "VJP" and bools and 1 in places else None
