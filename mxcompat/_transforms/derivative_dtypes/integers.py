"""Derivatives that pass through integers and bools, with MLX's semantics: a cast passes them on, truncated.

JAX has no derivative with respect to an integer. So while JAX traces, a float proxy stands for each integer that has a
derivative. It has the integer's value and carries the derivative. An op with such an operand is computed twice: on the
integers for the value, and on the float proxies for the derivative.

In the same way, wider floats are proxies for narrower ones where a derivative has a wider dtype than its value
(`mixed`).
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from mxcompat._array.casting import converted
from mxcompat._array.construct import CAST
from mxcompat._array.nest import NEST
from mxcompat._graph.ir.analyses import analysis
from mxcompat._graph.ir.aval import Aval, Dtype, float64
from mxcompat._graph.ir.direction import is_within_forward
from mxcompat._graph.ir.node import ITEM
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.program import Program, replaying
from mxcompat._graph.ir.rules import BODY, TANGENT_DTYPE
from mxcompat._jax import jax, jnp
from mxcompat._ops.elementwise.casts import ASTYPE

from ..custom.linear import linear_with_transpose

__all__ = ["float_proxy", "interpret_proxies", "passes_integers", "with_float_proxies"]

_CASTS = (ASTYPE, CAST)
_MAKERS = (*_CASTS, NEST)


def float_proxy(x: Any) -> Any:
    """Return a float proxy for an integer array, or `x` itself if it is inexact. The proxy holds 32-bit integers
    exactly."""
    if jnp.issubdtype(x.dtype, np.inexact):
        return x
    return jnp.asarray(x, np.float64 if x.dtype.itemsize >= 4 else np.float32)


def with_float_proxies() -> AbstractContextManager[None]:
    """Let float proxies replace integers in Programs that are replayed within this context."""
    return replaying(interpret_proxies)


def interpret_proxies(op: Op, params: tuple, xs: list[Any], avals: list[Any], out: Any, truncating: bool = True) -> Any:
    """Run an instruction whose operands may be float proxies. If `truncating`, tangents of integers are truncated to
    integers."""
    if op is ITEM:
        return xs[0][params[0]]
    proxied = [isinstance(a, Aval) and x.dtype != a.dtype._numpy for x, a in zip(xs, avals, strict=True)]
    makes = _makes_integers(op, out) and any(jnp.issubdtype(x.dtype, np.inexact) for x in xs)
    if any(isinstance(p, Program) for p in params):
        return op.lower(params, xs if op in BODY else [*map(_narrowed, xs, avals)])
    if not (makes or any(proxied)):
        return op.lower(params, xs)
    exact = [_exact(x, a.dtype) if on else x for x, a, on in zip(xs, avals, proxied, strict=True)]
    value = op.lower(params, exact)
    if not _may_have_derivative(op):
        return value
    carriers = list(exact)
    for k in range(len(xs))[: op.indices][op.smooth]:
        narrows = isinstance(out, Aval) and not is_within_forward() and avals[k].dtype is not out.dtype
        carriers[k] = (
            _truncate_cotangent(xs[k], avals[k].dtype)
            if proxied[k] and narrows
            else float_proxy(xs[k])
            if makes
            else xs[k]
        )
        if proxied[k] and _is_integer(avals[k]) and _is_float(out):
            carriers[k] = carriers[k].astype(jnp.promote_types(out.dtype._numpy, np.float32))
    if any(on and not _is_integer(a) for a, on in zip(avals, proxied, strict=True)):
        carriers = _alike(carriers)
    if makes:
        carried = carriers[0] if op in _CASTS else op.lower(_floating(params), carriers)
    else:
        carried = op.lower(params, carriers)
    if isinstance(out, tuple):
        return tuple([_attach_tangent(*one, truncating) for one in zip(value, carried, out, strict=True)])
    return _attach_tangent(value, carried, out, truncating)


def _narrowed(x: Any, aval: Any) -> Any:
    """Cast a float proxy to the dtype of the float that it stands for; integers and their proxies stay as they are."""
    return x if isinstance(aval, tuple) or _is_integer(aval) else x.astype(aval.dtype._numpy)


def _alike(xs: Sequence[Any]) -> list[Any]:
    """Cast all floats to the widest dtype among them, so that the op computes in the proxy's dtype."""
    floats = [x.dtype for x in xs if jnp.issubdtype(x.dtype, np.floating)]
    wide = jnp.result_type(*floats)
    return [x.astype(wide) if jnp.issubdtype(x.dtype, np.floating) else x for x in xs]


def _is_float(out: Any) -> bool:
    return isinstance(out, Aval) and out.dtype._kind == "f"


def _makes_integers(op: Op, out: Any) -> bool:
    """Return True if an op casts its operands to the dtype of its result, and this dtype is an integer or bool."""
    return isinstance(out, Aval) and out.dtype._kind not in "fc" and (op in _MAKERS or op.in_place)


def _may_have_derivative(op: Op) -> bool:
    """Return True if an op with an integer result may have a derivative; a comparison, for example, has none."""
    return op.smooth != slice(0) and (op not in TANGENT_DTYPE or op in _MAKERS)


def _floating(params: tuple) -> tuple:
    """Replace the dtypes in params by float64, for an op on float proxies."""
    return tuple([float64 if isinstance(p, Dtype) else p for p in params])


def _exact(x: Any, dtype: Dtype) -> Any:
    """Return the value that a proxy stands for, in its real dtype."""
    return converted(jax.lax.stop_gradient(x), dtype)


def _attach_tangent(value: Any, carried: Any, out: Aval, truncating: bool) -> Any:
    """Return `value` with the tangent that `carried` has."""
    if not jnp.issubdtype(carried.dtype, np.inexact):
        return value
    truncates = truncating and out.dtype._kind not in "fc"

    @jax.custom_jvp
    def of(value: Any, carried: Any) -> Any:
        return value

    @of.defjvp
    def _(primals: Any, tangents: Any) -> Any:
        tangent = _truncated(tangents[1], out.dtype) if truncates else tangents[1]
        return of(*primals), tangent.astype(primals[0].dtype)

    proxy = float_proxy(value)
    return of(proxy.astype(jnp.promote_types(proxy.dtype, carried.dtype)) if value is proxy else proxy, carried)


def _truncate_cotangent(x: Any, dtype: Dtype) -> Any:
    """Return `x`, with its cotangent truncated to integers of this dtype."""

    @jax.custom_vjp
    def same(x: Any) -> Any:
        return x

    same.defvjp(lambda x: (x, None), lambda _, g: (_truncated(g, dtype),))
    return same(x)


def _truncated(t: Any, dtype: Dtype) -> Any:
    """Truncate a tangent or cotangent to integers of this dtype, keeping its own float dtype. Derivatives of this are
    truncated, too."""

    def cut(_: tuple, operands: Sequence[Any]) -> list[Any]:
        (t,) = operands
        truncated = converted(t, dtype).astype(t.dtype)
        beyond = 0.0 if dtype._kind == "b" else float(np.iinfo(dtype._numpy).max) + 1
        if beyond > float(jnp.finfo(t.dtype).max):
            return [truncated]
        return [jnp.where(t == beyond, t, truncated)]  # the largest integers, as floats, are rounded up to `beyond`

    def back(_: tuple, cotangents: Sequence[Any]) -> list[Any]:
        return [_truncated(cotangents[0], dtype)]

    return linear_with_transpose(cut, back, (), [t])[0]


def passes_integers(program: Program, primals: int, outputs: int | None = None) -> bool:
    """Return True if a derivative of the first `outputs` (None: all) with respect to the first inputs may pass through
    an integer."""
    return _passes(program, frozenset([~k for k in range(primals)]), outputs)


@analysis
def _passes(program: Program, primals: frozenset[int], outputs: int | None = None) -> bool:
    """Return the result of `passes_integers` for derivatives with respect to the inputs in the slots `primals`."""
    return _meets_integer(program, _moving(program, primals), outputs)


@analysis
def _moving(program: Program, primals: frozenset[int]) -> frozenset[int]:
    """Return the slots that may have a derivative with respect to these inputs."""
    moving = set(primals)
    for slot in range(len(program.instructions)):
        if _passes_derivative(program, slot, moving):
            moving.add(slot)
    return frozenset(moving)


def _meets_integer(program: Program, moving: frozenset[int], outputs: int | None) -> bool:
    """Return True if one of the first outputs depends on an integer in the slots `moving`. The integer may also be in a
    nested Program."""
    pending = [s for s in program.out_slots[:outputs] if s in moving]
    reached = set(pending)
    while pending:
        slot = pending.pop()
        if _is_integer(program.aval(slot)):
            return True
        if slot < 0:
            continue
        op, params, slots = program.instructions[slot]
        if any(isinstance(p, Program) and _passes(p, _inner(p, slots, moving)) for p in params):
            return True
        new = moving.intersection(_read(op, slots)) - reached
        reached |= new
        pending += new
    return False


def _inner(program: Program, slots: Sequence[int], moving: Set[int]) -> frozenset[int]:
    """Return the inputs of an inner Program that have a derivative, if the op runs it on these slots."""
    return frozenset([~k for k, s in enumerate(slots[: len(program.in_avals)]) if s in moving])


def _is_integer(aval: Any) -> bool:
    return isinstance(aval, Aval) and aval.dtype._kind not in "fc"


def _read(op: Op, slots: Sequence[int]) -> Sequence[int]:
    """Return the operands of an instruction that may have a derivative."""
    return slots[: op.indices][op.smooth]


def _passes_derivative(program: Program, slot: int, moving: Set[int]) -> bool:
    """Return True if the result of an instruction may have a derivative, given the slots that have one."""
    op, params, slots = program.instructions[slot]
    if moving.isdisjoint(_read(op, slots)):
        return False
    out = program.avals[slot]
    if not _is_integer(out) or _makes_integers(op, out):
        return True
    if op is ITEM and slots[0] >= 0:
        (k,), (op, around, slots) = params, program.instructions[slots[0]]
        for inner in around:
            if isinstance(inner, Program):
                return k < len(inner.out_slots) and inner.out_slots[k] in _moving(inner, _inner(inner, slots, moving))
    return _may_have_derivative(op) and any(s in moving and _is_integer(program.aval(s)) for s in _read(op, slots))
