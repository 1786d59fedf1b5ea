"""The gated delta rule of `mx.fast`, as a scan over time."""

from __future__ import annotations

from typing import Any

from mxcompat._array.array import array, wrap_all
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval, float32, format_shape, from_numpy
from mxcompat._graph.ir.node import apply
from mxcompat._jax import jax, jnp

from ..arguments import require_array
from ..define import as_float, broadcast, op

__all__ = ["DELTA", "gated_delta_update"]

_NAME = "gated_delta_update"


def _dtypes(q: Aval, k: Aval) -> tuple[Dtype, Dtype]:
    """Return the dtype of the output, and the dtype of the state, in which everything is computed."""
    out = as_float(promote(q.dtype, k.dtype))
    return out, promote(out, float32)


def _delta(q: Any, k: Any, v: Any, gamma: Any, beta: Any, *rest: Any, started: bool, masked: bool) -> Any:
    avals = [aval(x.shape, from_numpy(x.dtype)) for x in (q, k)]  # type: ignore[arg-type]
    out, kind = (d._numpy for d in _dtypes(*avals))
    heads, (width, size) = v.shape[2], (q.shape[-1], v.shape[-1])
    batch = max(x.shape[0] for x in (q, k, v))
    q, k = (jnp.repeat(jnp.asarray(x, kind), heads // x.shape[2], axis=2) for x in (q, k))
    v, beta, gamma = (jnp.asarray(x).astype(kind) for x in (v, beta, gamma))
    gamma = gamma if gamma.ndim == 4 else gamma[..., None]
    state = jnp.asarray(rest[0]).astype(kind) if started else jnp.zeros((), kind)
    state = jnp.broadcast_to(state, (batch, heads, size, width))
    steps = [q, k, v, gamma, beta, *([rest[-1] != 0] if masked else [])]

    def step(state: Any, now: Any) -> tuple[Any, Any]:
        q, k, v, gamma, beta, *keep = now
        decayed = state * gamma[..., None, :]
        error = (v - (decayed * k[..., None, :]).sum(-1)) * beta[..., None]
        new = decayed + error[..., None] * k[..., None, :]
        y = (new * q[..., None, :]).sum(-1)
        if keep:
            y = jnp.where(keep[0][:, None, None], y, 0)
            new = jnp.where(keep[0][:, None, None, None], new, state)
        return new, y

    state, y = jax.lax.scan(step, state, [jnp.moveaxis(x, 1, 0) for x in steps])
    return jnp.moveaxis(y, 0, 1).astype(out), state


def _infer(
    q: Aval, k: Aval, v: Aval, gamma: Aval, beta: Aval, *rest: Aval, started: bool, masked: bool
) -> tuple[Aval, Aval]:
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.ndim != 4:
            raise ValueError(f"[{_NAME}] {name} must have 4 dimensions, but has shape {format_shape(x.shape)}.")
    time, heads = q.shape[1], v.shape[2]
    if not time:
        raise ValueError("[stack] No arrays provided for stacking")
    for x in (q, k):
        if not x.shape[2] or heads % x.shape[2]:
            raise ValueError(f"[{_NAME}] {heads} heads of values are not a multiple of {x.shape[2]} heads of keys.")
    batch = broadcast(q.shape[:1], k.shape[:1], v.shape[:1])
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(f"[{_NAME}] q and k must have the same width, but have {q.shape[-1]} and {k.shape[-1]}.")
    allowed = {"k": (k, [(*k.shape[:1], time, *k.shape[2:])]), "v": (v, [(*v.shape[:1], time, *v.shape[2:])])}
    per_head = [(n, time, h) for n in {*batch, 1} for h in {heads, 1}]
    allowed["gamma"] = (gamma, per_head + [(*s, q.shape[-1]) for s in per_head])
    allowed["beta"] = (beta, per_head)
    state = (*batch, heads, v.shape[-1], q.shape[-1])
    if started:
        allowed["initial_state"] = (rest[0], [state])
    if masked:
        allowed["mask"] = (rest[-1], [(*batch, time)])
    for name, (x, shapes) in allowed.items():
        if x.shape not in shapes:
            raise ValueError(
                f"[{_NAME}] {name} must have shape {format_shape(shapes[0])}, but has shape {format_shape(x.shape)}."
            )
    out, kind = _dtypes(q, k)
    return aval((*batch, time, heads, v.shape[-1]), out), aval(state, kind)


DELTA = op(_NAME, _delta, _infer, ("started", "masked"))


def gated_delta_update(
    q: array, k: array, v: array, gamma: array, beta: array, initial_state: array | None = None,
    mask: array | None = None, stream: Any = None,
) -> list[array]:  # fmt: skip
    """Run the gated delta rule: a state that decays, and that each key and value corrects in turn.

    At each step, `state = gamma * state`, then `state += beta * (v - state @ k) k^T`, and the output is `state @ q`.

    Args:
        q: queries `(B, T, Hk, Dk)`.
        k: keys `(B, T, Hk, Dk)`.
        v: values `(B, T, Hv, Dv)`; Hv is a multiple of Hk.
        gamma: the share of the state that remains, `(B, T, Hv)`, or `(B, T, Hv, Dk)` for each feature.
        beta: the strength of the correction, `(B, T, Hv)`.
        initial_state: `(B, Hv, Dv, Dk)`; by default zeros.
        mask: `(B, T)`. Where it is False, the output is 0 and the state does not change.
        stream: accepted, and ignored.

    Returns:
        A list: the outputs `(B, T, Hv, Dv)`, with the promoted dtype of `q` and `k`, and the last state, float32.

    Raises:
        ValueError: if the shapes do not fit.

    Example:
        >>> q = k = v = mx.random.normal((1, 4, 2, 8))
        >>> y, state = mx.fast.gated_delta_update(q, k, v, mx.ones((1, 4, 2)), mx.ones((1, 4, 2)))
        >>> y.shape, state.shape
        ((1, 4, 2, 8), (1, 2, 8, 8))
    """
    check_stream(stream)
    inputs = [require_array(x, _NAME) for x in (q, k, v, gamma, beta)]
    inputs += [require_array(x, _NAME) for x in (initial_state, mask) if x is not None]
    node = apply(DELTA, tuple(inputs), (initial_state is not None, mask is not None))
    return wrap_all(node)
