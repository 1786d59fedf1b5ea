"""Rules of the gated delta rule, in NumPy: one step at a time, and then the same steps backwards."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval
from mxcompat._graph.ir.rules import HOST, PULLBACK

from .delta import DELTA

__all__: list[str] = []


def _steps(kind: Any, params: tuple, q: Any, k: Any, v: Any, gamma: Any, beta: Any, *rest: Any) -> tuple[Any, ...]:
    """Return the inputs of each step, with the time as the first axis."""
    heads = v.shape[2]
    q, k = (np.repeat(x.astype(kind, copy=False), heads // x.shape[2], 2) for x in (q, k))
    v, beta, gamma = (x.astype(kind, copy=False) for x in (v, beta, gamma))
    gamma = gamma if gamma.ndim == 4 else gamma[..., None]
    keep = (rest[-1] != 0).swapaxes(0, 1)[..., None, None] if params[1] else None
    return *[x.swapaxes(0, 1) for x in (q, k, v, gamma, beta[..., None])], keep


def _start(shape: tuple[int, ...], kind: Any, params: tuple, rest: tuple) -> Any:
    return rest[0].astype(kind, copy=False) if params[0] else np.zeros(shape, kind)


def _along_keys(matrices: Any, row: Any) -> Any:
    """Return `(…, Dv, Dk)` times `(…, Dk)`."""
    return np.matmul(matrices, row[..., None])[..., 0]


def _outer(value: Any, key: Any) -> Any:
    return value[..., None] * key[..., None, :]


@HOST.of(DELTA)
def _delta(out: tuple[Aval, Aval], params: tuple, *inputs: Any) -> Any:
    kind = out[1].dtype._numpy
    q, k, v, gamma, beta, keep = _steps(kind, params, *inputs)
    state = _start(out[1].shape, kind, params, inputs[5:])
    y = np.empty(out[0].shape, out[0].dtype._numpy)
    for t in range(len(q)):
        new = state * gamma[t][..., None, :]
        error = (v[t] - _along_keys(new, k[t])) * beta[t]
        new += _outer(error, k[t])
        value = _along_keys(new, q[t])
        y[:, t] = value if keep is None else np.where(keep[t], value, kind.type(0))
        state = new if keep is None else np.where(keep[t][..., None], new, state)
    return y, state


def _along_values(row: Any, matrices: Any) -> Any:
    """Return `(…, Dv)` times `(…, Dv, Dk)`."""
    return np.matmul(row[..., None, :], matrices)[..., 0, :]


def _unrepeated(d: Any, heads: int) -> Any:
    """Return the sum over the value heads that share a head of keys."""
    return np.add.reduce(d.reshape(*d.shape[:2], heads, -1, d.shape[-1]), 3)


@PULLBACK.of(DELTA)
def _delta_back(g: Any, y: Any, params: tuple, needs_grad: Any, *inputs: Any) -> Any:
    kind = y[1].dtype
    q, k, v, gamma, beta, keep = _steps(kind, params, *inputs)
    states = [_start(y[1].shape, kind, params, inputs[5:])]
    errors = []
    for t in range(len(q)):
        new = states[t] * gamma[t][..., None, :]
        errors.append(v[t] - _along_keys(new, k[t]))
        new += _outer(errors[t] * beta[t], k[t])
        states.append(new if keep is None else np.where(keep[t][..., None], new, states[t]))
    back = np.zeros(y[1].shape, kind) if g[1] is None else g[1].astype(kind, copy=False)
    values = np.zeros(y[0].shape, kind) if g[0] is None else g[0].astype(kind, copy=False)
    lines: list[list[Any]] = [[], [], [], [], []]
    for t in range(len(q) - 1, -1, -1):
        value, past = values[:, t], None
        if keep is not None:
            value = np.where(keep[t], value, kind.type(0))
            past, back = np.where(keep[t][..., None], 0, back), np.where(keep[t][..., None], back, kind.type(0))
        decayed = states[t] * gamma[t][..., None, :]
        correction = errors[t] * beta[t]
        back = back + _outer(value, q[t])
        moved = _along_keys(back, k[t])
        error = moved * beta[t]
        steps = (
            _along_values(value, decayed + _outer(correction, k[t])),
            _along_values(correction, back) - _along_values(error, decayed),
            error,
        )
        back -= _outer(error, k[t])
        through = np.add.reduce(back * states[t], -2)
        steps = (*steps, through, np.add.reduce(moved * errors[t], -1))
        for line, step in zip(lines, steps, strict=True):
            line.append(step)
        back = back * gamma[t][..., None, :]
        if past is not None:
            back += past
    dq, dk, dv, dgamma, dbeta = (np.stack(line[::-1], 1) for line in lines)
    dq, dk = (_unrepeated(d, x.shape[2]) for d, x in ((dq, inputs[0]), (dk, inputs[1])))
    if inputs[3].ndim == 3:
        dgamma = np.add.reduce(dgamma, -1)
    return (dq, dk, dv, dgamma, dbeta, *([back] if params[0] else []), *([None] if params[1] else []))
