"""Products with quantized matrices: `quantized_matmul` and `gather_qmm`.

The lowering for XLA is in `primitive`. There are derivatives with respect to all inputs except the packed words and the
indices, so these are the last inputs of each op.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir import aval as _d
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.rules import INDEX_ERROR

from ..arguments import flag, require_array
from ..define import broadcast, op
from ..padding.padded import pad_contraction
from .primitive import matrix_inputs, multiply
from .quantize import Scheme, check_quantized, scheme

__all__ = [
    "GATHER_QMM", "GATHER_QMM_FP", "QUANTIZED_MATMUL", "QUANTIZED_MATMUL_FP", "check_fit", "gather_qmm",
    "gathered_shape", "integral", "quantized_matmul",
]  # fmt: skip


def check_fit(
    name: str, x: Aval, w: Aval, scales: Aval, biases: Aval | None, how: Scheme, transpose: bool
) -> tuple[int, int]:
    """Return the inner and outer size of a quantized matrix. Raises MLX's ValueError if x, w and scales do not fit."""
    if biases is not None and biases.shape != scales.shape:
        raise ValueError(
            f"[{name}] Scales and biases should have the same shape. Received scales with shape "
            f"{format_shape(scales.shape)} and biases with {format_shape(biases.shape)}"
        )
    if w.ndim < 2 or w.shape[:-2] != scales.shape[:-2]:
        raise ValueError(
            f"[{name}] Weight and scales should have the same batch shape. Received weight with shape "
            f"{format_shape(w.shape)}, scales with {format_shape(scales.shape)}."
        )
    for setting, value in (("bits", how.bits), ("group_size", how.group_size)):
        if value <= 0:
            raise ValueError(f"[{name}] Invalid value for {setting}: {value}")
    columns = w.shape[-1] * 32 // how.bits
    fits = w.shape[-1] * 32 % how.bits == 0 and columns == scales.shape[-1] * how.group_size
    bits = (1, 2, 3, 4, 5, 6, 8) if how.mode == "affine" else (4, 8) if how.mode != "nvfp4" else (4,)
    if not fits or w.shape[-2] != scales.shape[-2] or how.bits not in bits:
        raise ValueError(
            f"[{name}] The shapes of the weight and scales are incompatible based on bits and group_size. "
            f"w.shape() == {format_shape(w.shape)} and scales.shape() == {format_shape(scales.shape)} with "
            f"group_size={how.group_size} and bits={how.bits}"
        )
    if not x.ndim:
        raise IndexError("SmallVector out of range.")
    inner, outer = (columns, w.shape[-2]) if transpose else (w.shape[-2], columns)
    if x.shape[-1] != inner:
        raise ValueError(
            f"[{name}] Last dimension of first input with shape (..., {x.shape[-1]}) does not match the expanded "
            f"quantized matrix ({inner}, {outer}) computed from shape {format_shape(w.shape)} with "
            f"group_size={how.group_size}, bits={how.bits} and transpose={str(transpose).lower()}"
        )
    return inner, outer


def _result(name: str, x: Aval, scales: Aval, biases: Aval | None) -> Dtype:
    """Return the dtype of the product. Raises MLX's errors."""
    dtype = x.dtype if biases is None else promote(x.dtype, promote(scales.dtype, biases.dtype))
    if dtype._kind != "f":
        raise ValueError(f"[{name}] Only real floating types are supported but x.dtype() == {x.dtype._label}.")
    if dtype is _d.float64:
        raise RuntimeError("[quantized_matmul] only floating types are supported")
    return dtype


def _aval(x: Aval, *inputs: Aval, how: Scheme, transpose: bool) -> Aval:
    scales, biases, w, _ = matrix_inputs(how, inputs)
    _, outer = check_fit("quantized_matmul", x, w, scales, biases, how, transpose)
    dtype = _result("quantized_matmul", x, scales, biases)
    # As in MLX, a vector or one matrix is multiplied by the first of several matrices only.
    batch = broadcast(x.shape[:-2], w.shape[:-2]) if x.ndim > 2 and w.ndim > 2 else x.shape[:-2]
    return aval((*batch, *x.shape[-2:-1], outer), dtype)


def _common(x: Any, scales: Any, biases: Any) -> Any:
    dtype = from_numpy(x.dtype)
    if biases is not None:
        for part in (scales, biases):
            dtype = promote(dtype, from_numpy(part.dtype))  # type: ignore[arg-type]
    return dtype._numpy  # type: ignore[union-attr]


def _impl(x: Any, *inputs: Any, how: Scheme, transpose: bool) -> Any:
    scales, biases, w, _ = matrix_inputs(how, inputs)
    x = x.astype(_common(x, scales, biases))
    if x.ndim <= 2 < w.ndim:
        inputs = tuple([a.reshape(-1, *a.shape[-2:])[0] for a in inputs])
    return multiply(x, *inputs, how=how, transpose=transpose)


_PARAMS = ("how", "transpose")
QUANTIZED_MATMUL = op("quantized_matmul", _impl, _aval, _PARAMS, indices=3)
QUANTIZED_MATMUL_FP = op("quantized_matmul_fp", _impl, _aval, _PARAMS, indices=1)


def quantized_matmul(
    x: array, w: array, /, scales: array, biases: array | None = None, transpose: bool = True,
    group_size: int | None = None, bits: int | None = None, mode: str = "affine", *, stream: Any = None,
) -> array:  # fmt: skip
    """Return the product of an array and a quantized matrix.

    Args:
        x: an array of shape (..., M, K), or (K,).
        w: the packed elements from `quantize` of a matrix of shape (..., N, K), or (..., K, N) if not `transpose`.
        scales: its scales.
        biases: its biases, in mode "affine".
        transpose: multiply by the transposed matrix.
        group_size: how many elements share a scale; None for the mode's default.
        bits: bits per element; None for the mode's default.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N) with the promoted dtype of `x`, scales and biases. If scales are codes, it has the
        dtype of `x`.

    Raises:
        ValueError: if the mode, its settings, shapes or dtypes do not fit.
        RuntimeError: if the result would be float64.

    Example:
        >>> mx.quantized_matmul(mx.ones((1, 128)), *mx.quantize(mx.ones((8, 128))))
        array([[128, 128, 128, ..., 128, 128, 128]], dtype=float32)
    """
    check_stream(stream)
    name = "quantized_matmul"
    first, words, scale = require_array(x, name), require_array(w, name), require_array(scales, name)
    transpose = flag(transpose, name, "transpose")
    how = scheme(name, mode, group_size, bits)
    bias = None if biases is None else require_array(biases, name)
    check_quantized(name, scale, bias, words, how)
    if bias is None:
        record, nodes = QUANTIZED_MATMUL_FP, (first, scale, words)
    else:
        record, nodes = QUANTIZED_MATMUL, (first, scale, bias, words)
    out = apply(record, nodes, (how, transpose))
    if words.op is not None and not transpose:
        pad_contraction(out)
    return wrap(out)


def integral(name: str, indices: tuple[Aval, ...]) -> None:
    """Raise MLX's ValueError if indices are not integers."""
    if any(i.dtype._kind not in "iu" for i in indices):
        raise ValueError(f"[{name}] Got indices with invalid dtype. Indices must be integral.")


def gathered_shape(x: Aval, w: Aval, outer: int, indices: tuple[Aval, ...], left: bool, right: bool) -> tuple[int, ...]:
    """Return the shape of the products of selected matrices."""
    shapes = [i.shape for i in indices]
    batch = broadcast(shapes.pop(0) if left else x.shape[:-2], shapes.pop(0) if right else w.shape[:-2])
    return (*batch, x.shape[-2], outer)


def _gather_aval(x: Aval, *inputs: Aval, how: Scheme, transpose: bool, left: bool, right: bool, scaled: bool) -> Aval:
    scales, biases, w, rest = matrix_inputs(how, inputs)
    _, outer = check_fit("gather_qmm", x, w, scales, biases, how, transpose)
    dtype = _result("gather_qmm", x, scales, biases)
    if x.ndim < 2:
        raise ValueError(
            f"[gather_qmm] Input must have at least two dimensions but got input with shape {format_shape(x.shape)}."
        )
    indices = rest[: left + right]
    integral("gather_qmm", indices)
    if scaled and rest[-1].size != math.prod(w.shape[:-2]):
        raise ValueError(
            f"[gather_qmm] Global scale must have one entry per expert with shape ({math.prod(w.shape[:-2])}) but got "
            f"{format_shape(rest[-1].shape)}."
        )
    return aval(gathered_shape(x, w, outer, indices, left, right), dtype)


def _gather_impl(x: Any, *inputs: Any, how: Scheme, **flags: bool) -> Any:
    scales, biases, _, _ = matrix_inputs(how, inputs)
    return multiply(x.astype(_common(x, scales, biases)), *inputs, how=how, **flags)


_GATHER_PARAMS = ("how", "transpose", "left", "right", "scaled")
GATHER_QMM = op("gather_qmm", _gather_impl, _gather_aval, _GATHER_PARAMS, indices=3)
GATHER_QMM_FP = op("gather_qmm_fp", _gather_impl, _gather_aval, _GATHER_PARAMS, indices=1)


def gather_qmm(
    x: array, w: array, /, scales: array, biases: array | None = None, lhs_indices: array | None = None,
    rhs_indices: array | None = None, transpose: bool = True, group_size: int | None = None, bits: int | None = None,
    mode: str = "affine", global_scale: array | None = None, *, sorted_indices: bool = False, stream: Any = None,
) -> array:  # fmt: skip
    """Return products with selected quantized matrices, for example of a mixture of experts.

    Args:
        x: an array of shape (..., M, K).
        w: the packed elements from `quantize` of matrices of shape (..., N, K), or (..., K, N) if not `transpose`.
        scales: their scales.
        biases: their biases, in mode "affine".
        lhs_indices: the numbers of the matrices of `x`, counted through all its leading axes; None for all matrices, in
            place.
        rhs_indices: the same for `w`. The two broadcast against each other.
        transpose: multiply by the transposed matrices.
        group_size: how many elements share a scale; None for the mode's default.
        bits: bits per element; None for the mode's default.
        mode: "affine", "mxfp4", "mxfp8" or "nvfp4".
        global_scale: in mode "nvfp4", the global scales that were given to `quantize`, float32, one for each matrix.
        sorted_indices: accepted, and ignored: True if the indices are in ascending order.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N). Its leading axes are those of the indices.

    Raises:
        ValueError: if the mode, its settings, shapes or dtypes do not fit.
        RuntimeError: if the result would be float64.

    Example:
        >>> mx.gather_qmm(mx.ones((2, 1, 64)), *mx.quantize(mx.ones((4, 8, 64))), rhs_indices=mx.array([3, 0]))
        array([[[64, 64, 64, ..., 64, 64, 64]],
               [[64, 64, 64, ..., 64, 64, 64]]], dtype=float32)
    """
    check_stream(stream)
    name = "gather_qmm"
    flag(sorted_indices, name, "sorted_indices")
    if lhs_indices is None and rhs_indices is None and global_scale is None:
        return quantized_matmul(x, w, scales, biases, transpose, group_size, bits, mode)
    first, words, scale = require_array(x, name), require_array(w, name), require_array(scales, name)
    transpose = flag(transpose, name, "transpose")
    how = scheme(name, mode, group_size, bits)
    bias = None if biases is None else require_array(biases, name)
    check_quantized(name, scale, bias, words, how)
    nodes = [first, scale, words] if bias is None else [first, scale, bias, words]
    nodes += [require_array(i, name) for i in (lhs_indices, rhs_indices) if i is not None]
    if global_scale is not None:
        in_all = require_array(global_scale, name)
        if how.mode != "nvfp4":
            raise ValueError("[gather_qmm] Global scale is only supported for 'nvfp4' quantization mode.")
        if in_all.aval.dtype is not _d.float32:
            raise ValueError(f"[gather_qmm] Global scale must have dtype float32 but got {in_all.aval.dtype._label}.")
        nodes.append(in_all)
    params = (how, transpose, lhs_indices is not None, rhs_indices is not None, global_scale is not None)
    return wrap(apply(GATHER_QMM_FP if bias is None else GATHER_QMM, tuple(nodes), params))


def _no_derivative(primitive: str, forward: str) -> Callable[..., Exception]:
    def rule(transform: str, params: tuple, places: set[int], *_: Any) -> Exception:
        how = params[0]
        words = 3 if how.mode == "affine" else 2
        if transform == "JVP":
            return RuntimeError(forward)
        if words in places:
            return RuntimeError(f"[{primitive}::vjp] no gradient wrt the quantized weights.")
        if min(places) < words:
            return ValueError(f"[{primitive}::vjp] no gradient wrt scales in {how.mode} quantization.")
        return RuntimeError(f"[{primitive}::vjp] cannot compute the gradient wrt the indices.")

    return rule


INDEX_ERROR.of(QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP)(
    _no_derivative("QuantizedMatmul", "[QuantizedMatmul::jvp] No JVP wrt the quantized matrix yet.")
)
INDEX_ERROR.of(GATHER_QMM, GATHER_QMM_FP)(_no_derivative("GatherQMM", "GatherQMM::jvp NYI"))
