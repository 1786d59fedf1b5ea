"""On CPUs, compute convolutions in C (`_native/convolve.c`), which is several times as fast as XLA's own code.

JAX derives the gradients of a convolution as convolutions in other layouts. The pass knows two layouts: channels last,
and the one of gradients of weights. XLA computes all others, such as the gradients of weights for each image of a
batch. Its code for CPUs may return wrong numbers if a padding is negative, so the input is cut before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._compat.dialects import ir, stablehlo
from mxcompat._native.convolutions import Convolution

from ..run.foreign import CONVOLVE, register
from .modules import called_in_c, named

__all__ = ["convolve_in_c", "cut_before_convolving"]


_FLOATS = {"f64", "f32", "f16", "bf16"}


def convolve_in_c(module: Any) -> None:
    """Replace convolutions by calls of C, in place in a StableHLO module."""
    with module.context, ir.Location.unknown():
        for op in named(module, "stablehlo.convolution"):
            numbers = _described(op)
            if numbers is not None and register():
                with ir.InsertionPoint(op):
                    op.results[0].replace_all_uses_with(_call(numbers, *op.operands, op.results[0].type))
                op.erase()


def cut_before_convolving(module: Any) -> None:
    """Cut the input of each convolution with a negative padding, in place in a StableHLO module.

    JAX makes such convolutions for gradients of inputs, if a padding is longer than the kernel minus 1. If the two
    sides differ, XLA's results for float32 on a CPU are wrong (jaxlib 0.10).
    """
    with module.context, ir.Location.unknown():
        for op in named(module, "stablehlo.convolution"):
            padding = np.array(op.attributes["padding"]).reshape(-1, 2)
            if padding.min(initial=0) < 0 and _element(op.operands[0]) in _FLOATS:
                with ir.InsertionPoint(op):
                    _crop_input(op, padding)


def _crop_input(op: Any, padding: Any) -> None:
    """Replace the negative paddings of a convolution by those of a `stablehlo.pad` before it. This also inserts the
    gaps of the axes that are cut, as a padding counts gaps, too."""
    x = op.operands[0]
    kind = ir.RankedTensorType(x.type)
    axes = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"]).input_spatial_dimensions
    low, high, gaps = ([0] * kind.rank for _ in range(3))
    spread = _sizes(op, "lhs_dilation")
    for k, axis in enumerate(axes):
        if padding[k].min() < 0:
            low[axis], high[axis] = map(int, np.minimum(padding[k], 0))
            gaps[axis], spread[k] = spread[k] - 1, 1
    zero = stablehlo.constant(ir.DenseElementsAttr.get_splat(
        ir.RankedTensorType.get([], kind.element_type), ir.FloatAttr.get(kind.element_type, 0.0)
    ))  # fmt: skip
    op.operands[0] = stablehlo.pad(x, zero, low, high, gaps)
    op.attributes["padding"] = ir.DenseElementsAttr.get(np.maximum(padding, 0).astype(np.int64))
    op.attributes["lhs_dilation"] = ir.DenseI64ArrayAttr.get(spread)


def _described(op: Any) -> Any | None:
    """Return the numbers that describe a convolution to C, or None if XLA must compute it."""
    kinds = [ir.RankedTensorType(value.type) for value in (*op.operands, op.results[0])]
    known = all(kind.has_static_shape and 0 not in kind.shape for kind in kinds)
    elements = {str(kind.element_type) for kind in kinds}
    spatial = kinds[0].rank - 2
    reversal = op.attributes.get("window_reversal", ())
    if not known or len(elements) > 1 or not elements <= {"f32", "f16", "bf16"} or any(reversal):
        return None
    if not 1 <= spatial <= 3:
        return None
    d = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    x, w, y = ([*kind.shape] for kind in kinds)
    axes = list(range(1, 1 + spatial))
    if list(d.input_spatial_dimensions) != axes:
        return None
    groups, batch_groups = (op.attributes[f"{name}_group_count"].value for name in ("feature", "batch"))
    low = [int(pair[0]) for pair in np.array(op.attributes["padding"]).reshape(-1, 2)]
    stride, spread, dilation = (_sizes(op, name) for name in ("window_strides", "lhs_dilation", "rhs_dilation"))
    last = 1 + spatial
    if (d.input_batch_dimension, d.input_feature_dimension) == (0, last):
        out = (d.output_batch_dimension, *d.output_spatial_dimensions, d.output_feature_dimension)
        if out != (0, *axes, last) or batch_groups != 1:
            return None
        one, *taps = _steps(w, d.kernel_output_feature_dimension, d.kernel_input_feature_dimension,
                            *d.kernel_spatial_dimensions)  # fmt: skip
        outputs = y[-1] // groups
        return Convolution(
            x[0], groups, x[-1] // groups, outputs, x[1:-1], y[1:-1], [w[k] for k in d.kernel_spatial_dimensions],
            stride, low, dilation, spread, (outputs * one, one, *taps),
        ).numbers(False)  # fmt: skip
    kernel = (d.kernel_input_feature_dimension, *d.kernel_spatial_dimensions, d.kernel_output_feature_dimension)
    if (d.input_batch_dimension, d.input_feature_dimension) != (last, 0) or kernel != (0, *axes, last) or groups != 1:
        return None
    one, *taps = _steps(y, d.output_feature_dimension, d.output_batch_dimension, *d.output_spatial_dimensions)
    outputs = w[-1] // batch_groups
    return Convolution(
        x[0], batch_groups, x[-1] // batch_groups, outputs, x[1:-1], w[1:-1],
        [y[k] for k in d.output_spatial_dimensions], dilation, low, stride, spread, (outputs * one, one, *taps),
    ).numbers(True)  # fmt: skip


def _element(value: Any) -> str:
    return str(ir.RankedTensorType(value.type).element_type)


def _sizes(op: Any, name: str) -> list[int]:
    return [int(n) for n in op.attributes[name]]


def _steps(shape: Sequence[int], *axes: int) -> list[int]:
    """Return the strides of these axes of a C-contiguous array, in elements."""
    return [math.prod(shape[axis + 1 :]) for axis in axes]


def _call(numbers: Any, x: Any, w: Any, kind: Any) -> Any:
    """Return the result of a convolution in C. Half precision is computed in float32, and rounded once."""
    kind = ir.RankedTensorType(kind)
    wide = ir.F32Type.get()
    operands = [_cast(value, wide) for value in (x, w)]
    result = called_in_c(CONVOLVE, numbers, operands, kind.shape, wide)
    return _cast(result, kind.element_type)


def _cast(value: Any, element: Any) -> Any:
    kind = ir.RankedTensorType(value.type)
    if kind.element_type == element:
        return value
    return stablehlo.convert(ir.RankedTensorType.get(kind.shape, element), value)
