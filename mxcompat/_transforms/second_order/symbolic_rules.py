"""Pullbacks and pushforwards on symbolic arrays, for derivatives of derivatives in NumPy (see `gradients`).

Most ops use NumPy's rule (PULLBACK) on symbolic arrays. Linear ops use an op that runs NumPy's rule (`transposes`).
Some ops have a second rule here, because the derivative of NumPy's would lose precision or produce infinities. The rest
are differentiated as compositions of other ops (`decompositions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array.construct import CAST, COPY
from mxcompat._array.nest import NEST
from mxcompat._graph.ir.capture import ALIAS
from mxcompat._graph.ir.node import apply, items
from mxcompat._graph.ir.rules import PULLBACK, PUSHFORWARD, Rules
from mxcompat._ops.conv.primitive import CONV
from mxcompat._ops.conv.signal import CONVOLVE, HADAMARD_TRANSFORM
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import ASTYPE, STOP_GRADIENT
from mxcompat._ops.fast.norms import LAYER_NORM, RMS_NORM
from mxcompat._ops.fast.rope import ROPE
from mxcompat._ops.fft.transforms import FFT, SHIFT
from mxcompat._ops.indexing.gather import DYNAMIC_SLICE, GATHER, GATHER_AXIS, SLICE
from mxcompat._ops.indexing.put import DYNAMIC_UPDATE, MASKED_SCATTER, SCATTER_AXIS
from mxcompat._ops.indexing.scatter import FILL, SCATTER, SLICE_UPDATE
from mxcompat._ops.linalg.decompositions import CHOLESKY
from mxcompat._ops.linalg.eigen import EIGH, EIGVALSH
from mxcompat._ops.linalg.lu import DET, SLOGDET
from mxcompat._ops.linalg.norm import CROSS
from mxcompat._ops.linalg.solve import INV, SOLVE, SOLVE_TRIANGULAR, TRI_INV
from mxcompat._ops.products.einsum import EINSUM
from mxcompat._ops.products.gathered import BLOCK_MASKED_MM, GATHER_MM, SEGMENTED_MM
from mxcompat._ops.products.matmul import ADDMM, MATMUL, TENSORDOT
from mxcompat._ops.quantized.matmul import GATHER_QMM, GATHER_QMM_FP, QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP
from mxcompat._ops.quantized.quantize import DEQUANTIZE

from .symbolic import Symbolic
from .transposes import PULLED, PUSHED, linear, nothing

__all__ = ["FORWARD", "RULES"]

_SAME = (
    "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "atleast",
    "broadcast_arrays", "broadcast_to", "ceil", "concatenate", "conj", "constant_like", "contiguous", "cos", "cosh",
    "degrees", "depends", "divide", "erf", "erfinv", "exp", "expand_dims", "expm1", "flatten", "floor", "floor_divide",
    "imag", "inner", "kron", "log", "log10", "log1p", "log2", "max", "maximum", "mean", "meshgrid", "min", "minimum",
    "multiply", "negative", "outer", "positive", "radians", "real", "reshape", "round", "rsqrt", "sigmoid", "sign",
    "sin", "sinh", "sqrt", "square", "squeeze", "stack", "subtract", "sum", "tan", "tanh", "transpose", "trunc",
    "unflatten", "update_negative", "vecdot", "where",
)  # fmt: skip

RULES = Rules({TABLE[name]: PULLBACK[TABLE[name]] for name in _SAME})
RULES.update(
    {
        op: PULLBACK[op]
        for op in (
            ADDMM, ASTYPE, CAST, CHOLESKY, COPY, DET, EIGH, EIGVALSH, EINSUM, INV, MATMUL, SLOGDET, SOLVE,
            SOLVE_TRIANGULAR, STOP_GRADIENT, TENSORDOT, TRI_INV,
        )
    }
)  # fmt: skip
"""`rule(g, y, params, needs_grad, *inputs)`, as for PULLBACK."""

_SAME_FORWARD = (
    "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "conj", "cos", "cosh",
    "degrees", "divide", "erf", "erfinv", "exp", "expm1", "imag", "log", "log10", "log1p", "log2", "max", "maximum",
    "mean", "min", "minimum", "multiply", "negative", "positive", "radians", "real", "rsqrt", "sigmoid",
    "sin", "sinh", "sqrt", "square", "subtract", "sum", "tan", "tanh", "where",
)  # fmt: skip

FORWARD = Rules({TABLE[name]: PUSHFORWARD[TABLE[name]] for name in _SAME_FORWARD})
"""`rule(tangents, y, params, *inputs)`, as for PUSHFORWARD. For an op without one, the pullback is transposed. The
results are the same except at ties and kinks."""


@RULES.of(ALIAS)
def _alias(g: Symbolic, y: Any, params: tuple, needs_grad: Sequence[bool], x: Symbolic) -> tuple:
    return (g,)


def _power_slopes(y: Symbolic, needs_grad: Sequence[bool], a: Symbolic, b: Symbolic) -> list[Any]:
    a, b = a.astype(y.dtype), b.astype(y.dtype)
    return [
        b * np.power(a, b - 1) if needs_grad[0] else None,
        np.where(y == 0, 0.0, np.log(a) * y) if needs_grad[1] else None,
    ]


@RULES.of(TABLE["power"])
def _power(g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], a: Symbolic, b: Symbolic) -> tuple:
    return tuple([s if s is None else g * s for s in _power_slopes(y, needs_grad, a, b)])


@FORWARD.of(TABLE["power"])
def _power_forward(tangents: Sequence[Any], y: Symbolic, params: tuple, a: Symbolic, b: Symbolic) -> Symbolic:
    slopes = _power_slopes(y, [t is not None for t in tangents], a, b)
    first, *second = [t * s for t, s in zip(tangents, slopes, strict=True) if t is not None]
    return first + second[0] if second else first


@RULES.of(TABLE["unstack"])
def _unstack(g: tuple, y: tuple, params: tuple, needs_grad: Sequence[bool], x: Symbolic) -> tuple:
    rows = [nothing(row) if c is None else c for c, row in zip(g, y, strict=True)]
    return (rows[0].op("stack", *rows[1:], params=(params[0] % x.ndim,)),)


@FORWARD.of(TABLE["unstack"])
def _unstack_forward(tangents: Sequence[Any], y: tuple, params: tuple, x: Symbolic) -> list[Symbolic]:
    return [Symbolic(n) for n in items(apply(TABLE["unstack"], (tangents[0].node,), params))]


@RULES.of(TABLE["logaddexp"])
def _logaddexp(g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], a: Symbolic, b: Symbolic) -> tuple:
    return g * (a - b).op("sigmoid"), g * (b - a).op("sigmoid")


@RULES.of(TABLE["softmax"])
def _softmax(g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], x: Symbolic) -> tuple:
    return (y * (g - (y * g).sum(params[0], keepdims=True)),)


def _kept(g: Symbolic, params: tuple, x: Symbolic) -> Symbolic:
    return g.reshape([1 if k in params[0] else n for k, n in enumerate(x.shape)])


@RULES.of(TABLE["logsumexp"])
def _logsumexp(g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], x: Symbolic) -> tuple:
    return (_kept(g, params, x) * np.exp(x - _kept(y, params, x)),)


@RULES.of(TABLE["var"])
def _var(g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], x: Symbolic) -> tuple | None:
    axes, _, ddof = params
    count = x.size // max(g.size, 1)
    if count <= ddof or x.dtype.kind == "c":
        return None
    away = _distances(_distances(x, axes, count), axes, count)
    return (_kept(g, params, x) * (2 * away) / (count - ddof),)


def _distances(x: Symbolic, axes: tuple[int, ...], count: int) -> Symbolic:
    return x - x.sum(axes, keepdims=True) / count


@RULES.of(TABLE["std"])
def _std(g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], x: Symbolic) -> tuple | None:
    return _var(g * 0.5 / y, y, params, needs_grad, x)


def _mean(x: Symbolic) -> Symbolic:
    return x.sum(-1, keepdims=True) / x.shape[-1]


def _normalised(g: Symbolic, away: Symbolic, eps: Symbolic, weight: Sequence[Symbolic]) -> tuple[Symbolic, Symbolic]:
    """Return the cotangents of an array that is divided by its root mean square, and of the weight."""
    root = (_mean(away * away) + eps).op("rsqrt")
    normal = away * root
    scaled = g * weight[0] if weight else g
    return root * (scaled - normal * _mean(scaled * normal)), g * normal


@RULES.of(RMS_NORM)
def _rms_norm(
    g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], x: Symbolic, eps: Symbolic, *weight: Symbolic
) -> tuple | None:
    if needs_grad[1]:
        return None
    gx, gw = _normalised(g, x, eps, weight)
    return gx, None, *[gw] * len(weight)


@RULES.of(LAYER_NORM)
def _layer_norm(
    g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], x: Symbolic, eps: Symbolic, *rest: Symbolic
) -> tuple | None:
    if needs_grad[1]:
        return None
    weighted, biased = params
    gx, gw = _normalised(g, x - _mean(x), eps, rest[:weighted])
    return gx - _mean(gx), None, *[gw] * weighted, *[g] * biased


_ONE: tuple = ()
_TWO = (0,), (1,)
_MOVES = (
    "as_strided", "cummax", "cummin", "cumsum", "diag", "diagonal", "diff", "flip", "full", "full_like", "median",
    "nan_to_num", "pad", "partition", "random_laplace", "random_normal", "random_permute", "random_uniform",
    "remainder", "repeat", "roll", "sort", "tile", "topk", "trace", "triangle",
)  # fmt: skip
_LINEAR = {
    **{TABLE[name]: _ONE for name in _MOVES},
    **dict.fromkeys(
        (
            DEQUANTIZE, DYNAMIC_SLICE, DYNAMIC_UPDATE, FFT, FILL, GATHER, GATHER_AXIS, HADAMARD_TRANSFORM,
            MASKED_SCATTER, NEST, ROPE, SHIFT, SLICE,
        ),
        _ONE,
    ),
    **dict.fromkeys((BLOCK_MASKED_MM, CONV, CONVOLVE, CROSS, GATHER_MM, SEGMENTED_MM), _TWO),
    **dict.fromkeys((GATHER_QMM, GATHER_QMM_FP, QUANTIZED_MATMUL, QUANTIZED_MATMUL_FP), ((0,), (1, 2))),
}  # fmt: skip
"""The factors of the product that each op computes (see `transposes`), or () for an op that is linear in all its inputs
together."""

for _op, _factors in _LINEAR.items():
    linear(_op, _factors, RULES, FORWARD)
for _op in (PULLED, PUSHED):
    RULES[_op], FORWARD[_op] = PULLBACK[_op], PUSHFORWARD[_op]


def _no_product(params: tuple) -> bool:
    """Return True if the update does not multiply the old values."""
    return params[1] != "multiply"


def _added(params: tuple, at: int) -> tuple:
    """Return the params of the update's transpose with respect to input `at`. A `set` pulls each position's cotangent
    back to every value set there, though only the last one stays. So its transpose adds the values up."""
    return (params[0], "add") if at == 1 and params[1] == "set" else params


linear(SLICE_UPDATE, _ONE, RULES, FORWARD, _no_product)
linear(SCATTER, _ONE, RULES, FORWARD, _no_product, _added)


def _set_along(x: Symbolic, values: Any, places: Symbolic, params: tuple) -> Symbolic:
    return Symbolic(apply(SCATTER_AXIS, (x.node, values.node, places.node), params))


@RULES.of(SCATTER_AXIS)
def _scatter_axis(
    g: Symbolic, y: Symbolic, params: tuple, needs_grad: Sequence[bool], x: Symbolic, values: Symbolic, places: Symbolic
) -> tuple:
    """Return the pullback of a scatter along an axis; indices out of range get a zero cotangent."""
    count = x.size if params[0] is None else x.shape[params[0]]
    k = places.astype(np.int64)
    there = Symbolic(apply(GATHER_AXIS, (g.node, places.node), params))
    return (
        _set_along(g, nothing(values), places, params) if needs_grad[0] else None,
        np.where((k >= -count) & (k < count), there, 0.0) if needs_grad[1] else None,
        None,
    )


@FORWARD.of(SCATTER_AXIS)
def _scatter_axis_forward(
    tangents: Sequence[Any], y: Symbolic, params: tuple, x: Symbolic, values: Symbolic, places: Symbolic
) -> Symbolic:
    tx, tv = [nothing(like) if t is None else t for t, like in zip(tangents, (x, values), strict=False)]
    return _set_along(tx, tv, places, params)
