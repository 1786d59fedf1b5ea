"""The rules by which cotangents of symbolic arrays are carried back (see `gradients`).

For most ops it is NumPy's rule (PULLBACK), run on symbolic arrays. The others are written again here, since that one
writes into arrays, or would lose digits, or make infinities, once it is differentiated.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._array.construct import CAST, COPY
from mxcompat._graph.ir.aval import Aval, aval, from_numpy
from mxcompat._graph.ir.capture import ALIAS
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import HOST, PULLBACK, PUSHFORWARD, Rules
from mxcompat._jax import jax, jnp
from mxcompat._ops.define import TABLE
from mxcompat._ops.elementwise.casts import ASTYPE, STOP_GRADIENT
from mxcompat._ops.fast.norms import LAYER_NORM, RMS_NORM
from mxcompat._ops.indexing.gather import DYNAMIC_SLICE, GATHER, GATHER_AXIS, SLICE
from mxcompat._ops.linalg.norm import NORM
from mxcompat._ops.linalg.solve import INV
from mxcompat._ops.products.einsum import EINSUM
from mxcompat._ops.products.matmul import ADDMM, MATMUL, TENSORDOT

from .symbolic import Symbolic

__all__ = ["RULES"]

_SAME = (
    "abs", "add", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "atleast",
    "broadcast_to", "ceil", "concatenate", "constant_like", "cos", "cosh", "degrees", "divide", "erf", "erfinv",
    "exp", "expand_dims", "expm1", "flatten", "floor", "inner", "kron", "log", "log10", "log1p", "log2", "max",
    "maximum", "mean", "min", "minimum", "multiply", "negative", "outer", "pad", "positive", "radians", "reshape",
    "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "square", "squeeze", "stack",
    "subtract", "sum", "tan", "tanh", "transpose", "trunc", "unflatten", "vecdot", "where",
)  # fmt: skip

RULES = Rules({TABLE[name]: PULLBACK[TABLE[name]] for name in _SAME})
RULES.update({op: PULLBACK[op] for op in (ADDMM, EINSUM, INV, MATMUL, TENSORDOT, ASTYPE, CAST, COPY, STOP_GRADIENT)})
"""`rule(g, y, params, wanted, *inputs)`, as for PULLBACK."""


@RULES.of(ALIAS)
def _alias(g: Symbolic, y: Any, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple:
    return (g,)


@RULES.of(TABLE["power"])
def _power(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], a: Symbolic, b: Symbolic) -> tuple | None:
    if wanted[1]:
        return None
    a, b = a.astype(y.dtype), b.astype(y.dtype)
    zero = b == 0
    return g * np.where(zero, 0.0, b * np.power(a, np.where(zero, 1.0, b - 1))), None


@RULES.of(TABLE["logaddexp"])
def _logaddexp(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], a: Symbolic, b: Symbolic) -> tuple:
    return g * (a - b).op("sigmoid"), g * (b - a).op("sigmoid")


@RULES.of(TABLE["softmax"])
def _softmax(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple:
    return (y * (g - (y * g).sum(params[0], keepdims=True)),)


def _kept(g: Symbolic, params: tuple, x: Symbolic) -> Symbolic:
    return g.reshape([1 if k in params[0] else n for k, n in enumerate(x.shape)])


@RULES.of(TABLE["logsumexp"])
def _logsumexp(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple:
    return (_kept(g, params, x) * np.exp(x - _kept(y, params, x)),)


@RULES.of(TABLE["var"])
def _var(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple | None:
    axes, _, ddof = params
    count = x.size // max(g.size, 1)
    if count <= ddof:
        return None
    away = _distances(_distances(x, axes, count), axes, count)
    return (_kept(g, params, x) * (2 * away) / (count - ddof),)


def _distances(x: Symbolic, axes: tuple[int, ...], count: int) -> Symbolic:
    return x - x.sum(axes, keepdims=True) / count


@RULES.of(TABLE["std"])
def _std(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple | None:
    return _var(g * 0.5 / y, y, params, wanted, x)


@RULES.of(NORM)
def _norm(g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic) -> tuple | None:
    order, axes, _ = params
    if order is not None and (order != 2 or len(axes) > 1):
        return None
    by = (tuple([k % x.ndim for k in axes]),)
    return (_kept(g / y, by, x) * x,)


def _mean(x: Symbolic) -> Symbolic:
    return x.sum(-1, keepdims=True) / x.shape[-1]


def _normalised(g: Symbolic, away: Symbolic, eps: Symbolic, weight: Sequence[Symbolic]) -> tuple[Symbolic, Symbolic]:
    """The cotangents of what is divided by its root mean square, and of the weight."""
    root = (_mean(away * away) + eps).op("rsqrt")
    normal = away * root
    scaled = g * weight[0] if weight else g
    return root * (scaled - normal * _mean(scaled * normal)), g * normal


@RULES.of(RMS_NORM)
def _rms_norm(
    g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic, eps: Symbolic, *weight: Symbolic
) -> tuple | None:
    if wanted[1]:
        return None
    gx, gw = _normalised(g, x, eps, weight)
    return gx, None, *[gw] * len(weight)


@RULES.of(LAYER_NORM)
def _layer_norm(
    g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic, eps: Symbolic, *rest: Symbolic
) -> tuple | None:
    if wanted[1]:
        return None
    weighted, biased = params
    gx, gw = _normalised(g, x - _mean(x), eps, rest[:weighted])
    return gx - _mean(gx), None, *[gw] * weighted, *[g] * biased


def _transposed(g: Any, *others: Any, op: Op, params: tuple, like: Aval) -> Any:
    _, pull = jax.vjp(lambda x: op.lower(params, [x, *others]), jnp.zeros(like.shape, like.dtype._numpy))
    return pull(g)[0]


TRANSPOSED = Op("transposed", _transposed, lambda *_, op, params, like: like, ("op", "params", "like"))
"""The transpose of an op that is linear in its first input, which is like this."""


@HOST.of(TRANSPOSED)
def _run_transposed(out: Aval, params: tuple, g: Any, *others: Any) -> Any:
    op, given, like = params
    x = np.broadcast_to(np.zeros((), like.dtype._numpy), like.shape)
    found = PULLBACK[op](g, g, given, (True, *[False] * len(others)), x, *others)
    return None if found is None else np.asarray(found[0], like.dtype._numpy)


def _run_transposed_back(g: Any, params: tuple, c: Any, others: Sequence[Any]) -> Any:
    op, given, _ = params
    return HOST[op](aval(c.shape, from_numpy(c.dtype)), given, g, *others)  # type: ignore[arg-type]


@PULLBACK.of(TRANSPOSED)
def _pull_transposed(g: Any, y: Any, params: tuple, wanted: Sequence[bool], c: Any, *others: Any) -> tuple:
    return _run_transposed_back(g, params, c, others), *[None] * len(others)


@PUSHFORWARD.of(TRANSPOSED)
def _push_transposed(tangents: Sequence[Any], y: Any, params: tuple, c: Any, *others: Any) -> Any:
    return _run_transposed(None, params, tangents[0], *others)


@RULES.of(TRANSPOSED)
def _pull_transposed_again(
    g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], c: Symbolic, *others: Symbolic
) -> tuple:
    op, given, _ = params
    return Symbolic(apply(op, (g.node, *[x.node for x in others]), given)), *[None] * len(others)


def _linear(op: Op) -> None:
    @RULES.of(op)
    def rule(
        g: Symbolic, y: Symbolic, params: tuple, wanted: Sequence[bool], x: Symbolic, *others: Symbolic
    ) -> tuple | None:
        if any(wanted[1:]):
            return None
        given = (g.node, *[i.node for i in others])
        return Symbolic(apply(TRANSPOSED, given, (op, params, x.node.aval))), *[None] * len(others)


for _op in (SLICE, GATHER, GATHER_AXIS, DYNAMIC_SLICE):
    _linear(_op)
for _name in ("as_strided", "cumsum", "diag", "diagonal", "diff", "flip", "repeat", "roll", "tile", "trace"):
    _linear(TABLE[_name])
_linear(TABLE["triangle"])
