"""The collectives as ops that run alone, outside of XLA's programs: their result, their execution, their transforms.

Each has one output. The derivatives are MLX's. They differentiate this rank's own output with respect to this rank's
own input, so that cotangents need no communication. Under `vmap` the batch axis is moved behind the first axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, NoReturn

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._distributed import members
from mxcompat._distributed.call import Call
from mxcompat._distributed.programs import collective
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval, aval, number
from mxcompat._graph.ir.node import SCALAR, Node, apply, items, line_at
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import EFFECT, EFFECT_BATCH, EFFECT_PULLBACK, EFFECT_PUSHFORWARD
from mxcompat._graph.run.platform import on_cpu
from mxcompat._graph.run.values import jax_value, numpy_value
from mxcompat._jax import jax

from ..creation.filled import zeros
from ..movement.pad import pad
from ..reductions.blocks import widened

__all__ = ["GATHER", "MAX", "MIN", "RECV", "SCATTER", "SEND", "SUM"]


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise RuntimeError(
        "[distributed] A collective runs by itself, with the other processes of its group: it cannot be part of a "
        "function that JAX traces, nor of an exported one."
    )


def _step(name: str, shape: Callable[..., Aval], params: tuple[str, ...] = (), *, reads: slice = slice(None)) -> Op:
    """Make the record of a collective, with the ranks of its group among its params."""
    record = Op(name, _refuse, lambda *avals, **named: (shape(*avals, **named),), ("ranks", *params), reads=reads)
    EFFECT[record] = lambda node: (_run(node),)
    return record


def _gathered(a: Aval, ranks: tuple[int, ...]) -> Aval:
    return aval((len(ranks) * a.shape[0], *a.shape[1:]), a.dtype) if a.ndim else aval((len(ranks),), a.dtype)


def _share(a: Aval, ranks: tuple[int, ...], rank: int) -> Aval:
    return aval((a.shape[0] // len(ranks), *a.shape[1:]), a.dtype)


SUM = _step("all_sum", lambda a, ranks: a)
MAX = _step("all_max", lambda a, ranks: a)
MIN = _step("all_min", lambda a, ranks: a)
GATHER = _step("all_gather", lambda a, ranks, rank: _gathered(a, ranks), ("rank",))
SCATTER = _step("sum_scatter", _share, ("rank",))
SEND = _step("send", lambda a, ranks: a)
RECV = _step("recv", lambda *_, ranks, shape, dtype: aval(shape, dtype), ("shape", "dtype"), reads=slice(0))
"""The op of `recv_like` and `recv`. An input, if there is one, only gives the shape and dtype."""

_KINDS = {SUM: "sum", MAX: "max", MIN: "min", GATHER: "gather", SCATTER: "scatter", SEND: "send", RECV: "send"}


def _run(node: Node) -> Any:
    """Return the result of a collective, after all its ranks have reached it."""
    record, ranks, (out,) = node.op, node.params[0], node.aval
    assert record is not None
    sent = out if record is RECV else node.inputs[0].aval
    world = members.joined()
    assert world is not None, "it is one of several"
    call = _call(record, ranks, sent, node.where)
    if not sent.size or (sent.nbytes * (len(ranks) - 1) <= policy.MOST_EXCHANGED and on_cpu()):
        return _exchanged(node, sent, world, call)
    world.agree(ranks, call)
    value = _value(node.inputs[0]) if record is not RECV else np.zeros(sent.shape, sent.dtype._numpy)
    if not sent.ndim:
        value = value.reshape(1)
    with jax.enable_x64(True):
        result = world.start(call, lambda: collective(_KINDS[record], value, ranks))
        if record is SEND:
            return value.reshape(out.shape)
        return result if result.shape == out.shape else result.reshape(out.shape)


@lru_cache(maxsize=policy.MOST_PROGRAMS)
def _call(record: Op, ranks: tuple[int, ...], sent: Aval, place: tuple[CodeType, int] | None) -> Call:
    where = line_at(*place) if place is not None else ""
    what = f"{sent.dtype}{list(sent.shape)}".removeprefix("mlx.core.")
    if record in (SEND, RECV):
        return Call(record.name, f"{what} from rank {ranks[0]} to rank {ranks[1]}", where, "sent")
    return Call(record.name, f"{what} over {len(ranks)} ranks", where, record.name)


def _exchanged(node: Node, sent: Aval, world: Any, call: Call) -> Any:
    """Return the result of a collective of small arrays, which the ranks send to each other whole."""
    record, ranks, (out,) = node.op, node.params[0], node.aval
    if record is RECV:
        return _array(world.receive(ranks, call), out)
    with np.errstate(all="ignore"):
        own = np.asarray(numpy_value(node.inputs[0]))
        if record is SEND:
            world.send(ranks, call, own.tobytes())
            return own.copy()  # this must be a copy, because XLA may overwrite the buffer of a view
        received = b"".join(world.exchange(ranks, call, own.tobytes()))
        if record is GATHER:
            return _array(received, out)
        whole = _combined(_UFUNCS[record], np.frombuffer(received, sent.dtype._numpy).reshape(len(ranks), sent.size))
        if record is SCATTER:
            return whole.reshape(len(ranks), *out.shape)[node.params[1]]
        return whole.reshape(out.shape)


def _array(data: bytes, a: Aval) -> np.ndarray:
    return np.frombuffer(bytearray(data), a.dtype._numpy).reshape(a.shape)


def _combined(ufunc: np.ufunc, whole: np.ndarray) -> np.ndarray:
    """Return the reduction over the first axis. Half precision is reduced in float32 and rounded once."""
    wide = widened(whole)
    return ufunc.reduce(wide, 0, wide.dtype).astype(whole.dtype, copy=False)


_UFUNCS = {SUM: np.add, SCATTER: np.add, MAX: np.maximum, MIN: np.minimum}


def _value(node: Node) -> Any:
    return np.asarray(number(node.value, node.aval.dtype)) if node.op is SCALAR else jax_value(node)


def _again(record: Op, x: array, params: tuple) -> array:
    """Apply the same collective to another array."""
    return wrap(items(apply(record, (x._node,), params))[0])


@EFFECT_PULLBACK.of(SUM, MAX, MIN, SEND)
def _same_cotangents(params: tuple, inputs: Sequence[Node], cotangents: Sequence[Node]) -> Sequence[Node]:
    return cotangents


@EFFECT_PULLBACK.of(GATHER)
def _own_rows(params: tuple, inputs: Sequence[Node], cotangents: Sequence[Node]) -> list[Node]:
    (x,), (g,) = inputs, map(wrap, cotangents)
    _, rank = params
    if not x.aval.ndim:
        return [g[rank]._node]
    rows = x.aval.shape[0]
    return [g[rank * rows : (rank + 1) * rows]._node]


@EFFECT_PULLBACK.of(SCATTER)
def _own_share(params: tuple, inputs: Sequence[Node], cotangents: Sequence[Node]) -> list[Node]:
    (x,), (g,) = inputs, map(wrap, cotangents)
    _, rank = params
    rows = g.shape[0]
    widths = [(rank * rows, x.aval.shape[0] - (rank + 1) * rows), *[(0, 0)] * (g.ndim - 1)]
    return [pad(g, widths)._node]


@EFFECT_PULLBACK.of(RECV)
def _zero_cotangents(params: tuple, inputs: Sequence[Node], cotangents: Sequence[Node]) -> list[Node]:
    return [zeros(x.aval.shape, x.aval.dtype)._node for x in inputs]


for _record in (SUM, MAX, MIN, GATHER, SCATTER):
    EFFECT_PUSHFORWARD[_record] = lambda params, inputs, tangents, record=_record: [
        _again(record, wrap(tangents[0]), params)._node
    ]


@EFFECT_PUSHFORWARD.of(SEND)
def _same_tangents(params: tuple, inputs: Sequence[Node], tangents: Sequence[Node]) -> Sequence[Node]:
    return tangents


@EFFECT_PUSHFORWARD.of(RECV)
def _zero_tangents(params: tuple, inputs: Sequence[Node], tangents: Sequence[Node]) -> list[Node]:
    _, shape, dtype = params
    return [zeros(shape, dtype)._node]


for _record in (SUM, MAX, MIN, SEND):
    EFFECT_BATCH[_record] = lambda params, inputs, batched, size, record=_record: items(apply(record, inputs, params))


def _batch_after_first_axis(record: Op) -> Callable[..., list[Node]]:
    """Return the batching rule of a collective that joins or splits along the first axis."""

    def rule(params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> list[Node]:
        x = wrap(inputs[0])
        if x.ndim == 1:  # for a batch of scalars, each scalar becomes a row
            return [_again(record, x[None], params).swapaxes(0, 1)._node]
        return [_again(record, x.swapaxes(0, 1), params).swapaxes(0, 1)._node]

    return rule


EFFECT_BATCH[GATHER] = _batch_after_first_axis(GATHER)
EFFECT_BATCH[SCATTER] = _batch_after_first_axis(SCATTER)


@EFFECT_BATCH.of(RECV)
def _all_at_once(params: tuple, inputs: Sequence[Node], batched: Sequence[bool], size: int) -> list[Node]:
    ranks, shape, dtype = params
    return items(apply(RECV, tuple(inputs), (ranks, (size, *shape), dtype)))
