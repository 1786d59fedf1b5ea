"""Functions of a SIMD group: 32 threads that see each other's values. Only active threads take part.

The axes of the lanes are the last ones. A result that is the same for all lanes has extent 1 along these axes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import Problem
from .functions import spread
from .types import BOOL, SCALARS, UINT, ScalarType
from .values import FALSE, TRUE, Scalar, Value, static

__all__ = ["SIMD", "Lanes", "neutral"]

SIMD: dict[str, Callable[[Any, list[Value]], Value]] = {}
"""Functions of the values of a SIMD group, by name."""


class Lanes:
    """The lanes of a walk: arrays with the lanes as their last axis, and back.

    Args:
        width: 32 for SIMD groups, 4 for quads.
    """

    def __init__(self, walk: Any, width: int) -> None:
        self.walk, self.n, self.space, self.axes = walk, walk.n, walk.space, walk.axes
        self.xp = self.space.xp
        self.count = self.axes.lanes
        self.first = self.axes.first_lane
        self.width = min(width, self.count)
        if self.count % self.width:
            raise Problem("quads of a group whose size is no multiple of 4")
        self.extents = self.axes.extents[self.first :]

    def spread(self, a: Any, dtype: Any = None) -> Any:
        """Return an array whose axes of lanes are split into two: `(…, groups of lanes, lanes of a group)`."""
        a = self.space.asarray(a, dtype)
        rank = self.axes.rank
        a = a.reshape((1,) * (rank - a.ndim) + a.shape)
        lead = a.shape[: self.first]
        a = self.space.broadcast(a, (*lead, *self.extents))
        return a.reshape(*lead, self.count // self.width, self.width)

    def back(self, a: Any) -> Any:
        """Return an array over the axes of threads from an array over lanes. The last axis may have extent 1."""
        lead = a.shape[: self.first]
        if a.shape[-1] == 1 and self.width == self.count:
            return a.reshape((*lead, *(1,) * len(self.extents)))
        a = self.space.broadcast(a, (*lead, self.count // self.width, self.width))
        return a.reshape(*lead, *self.extents)

    def mask(self) -> Any:
        """Return the mask of active lanes, or None if all lanes are active."""
        mask = self.walk.mask
        return None if mask.static else self.spread(mask.base)

    def values(self, a: Scalar, neutral: Any) -> Any:
        """Return the values over lanes, with the neutral value in inactive lanes."""
        array = self.spread(self.n.array(a), a.type.dtype)
        mask = self.mask()
        return array if mask is None else self.space.where(mask, array, a.type.dtype.type(neutral))

    def lane(self) -> Any:
        return self.xp.arange(self.width, dtype=np.int32)


def _define(names: str, rule: Callable[..., Scalar], values: int = 1) -> None:
    """Define a function for SIMD groups and quads by `rule(lanes, scalar, *others)`. It applies to vectors by
    component.

    The first `values` arguments are values of any type. The others become unsigned integers.
    """
    for name in names.split():
        for prefix, width in (("simd", 32), ("quad", 4)):

            def function(walk: Any, arguments: list[Value], width: int = width) -> Value:
                lanes = Lanes(walk, width)
                rest = [walk.as_type(v, UINT) for v in arguments[values:]]
                return spread(walk, arguments[:values], lambda *xs: rule(lanes, *xs, *rest))

            SIMD[f"{prefix}_{name}"] = function


def neutral(kind: ScalarType, op: str) -> Any:
    if op in ("sum", "or", "xor"):
        return 0
    if op == "product":
        return 1
    if op == "and":
        return kind.wrap(-1) if kind is not BOOL else True
    if kind.kind == "f":
        return np.inf if op == "min" else -np.inf
    return kind.high if op == "min" else kind.low


def _reduce(op: str) -> Callable[..., Scalar]:
    def rule(lanes: Lanes, a: Scalar) -> Scalar:
        n, xp, kind = lanes.n, lanes.xp, a.type
        if op in ("sum", "product", "and", "or", "xor") and kind is BOOL:
            kind = SCALARS["int"]
            a = n.convert(a, kind)
        array = lanes.values(a, neutral(kind, op))
        wide = array.astype(np.float32) if kind.kind == "f" and kind.bits == 16 and op in ("sum", "product") else array
        if op == "sum":
            reduced = xp.sum(wide, -1, dtype=wide.dtype, keepdims=True)
        elif op == "product":
            reduced = xp.prod(wide, -1, dtype=wide.dtype, keepdims=True)
        elif op in ("min", "max"):
            reduced = _extreme(xp, array, op, kind)
        else:
            reduced = _folded(array, {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}[op], xp, op)
        return n.make(kind, lanes.back(reduced.astype(kind.dtype)))

    return rule


def _extreme(xp: Any, array: Any, op: str, kind: ScalarType) -> Any:
    if kind.kind == "f":  # NaNs are ignored, as in Metal's min and max
        neutral = kind.dtype.type(np.inf if op == "min" else -np.inf)
        nan = xp.isnan(array)
        safe = xp.where(nan, neutral, array)
        extreme = (xp.min if op == "min" else xp.max)(safe, axis=-1, keepdims=True)
        return xp.where(xp.all(nan, axis=-1, keepdims=True), kind.dtype.type(np.nan), extreme)
    return (xp.min if op == "min" else xp.max)(array, axis=-1, keepdims=True)


def _folded(array: Any, ufunc: Any, xp: Any, op: str) -> Any:
    if xp is np:
        return ufunc.reduce(array, axis=-1, keepdims=True)
    while array.shape[-1] > 1:
        size = array.shape[-1]
        half = size // 2
        one = getattr(xp, ufunc.__name__)(array[..., :half], array[..., half : 2 * half])
        array = one if size % 2 == 0 else xp.concatenate([one, array[..., -1:]], -1)
    return array


for _op in ("sum", "product", "min", "max", "and", "or", "xor"):
    _define(_op, _reduce(_op))


def _scan(op: str, inclusive: bool) -> Callable[..., Scalar]:
    def rule(lanes: Lanes, a: Scalar) -> Scalar:
        n, xp, kind = lanes.n, lanes.xp, a.type
        array = lanes.values(a, neutral(kind, op))
        wide = array.astype(np.float32) if kind.kind == "f" and kind.bits == 16 else array
        run = xp.cumsum if op == "sum" else xp.cumprod
        if inclusive:
            scanned = run(wide, axis=-1, dtype=wide.dtype)
        else:
            first = xp.full((*wide.shape[:-1], 1), wide.dtype.type(op != "sum"))
            scanned = xp.concatenate([first, run(wide[..., :-1], axis=-1, dtype=wide.dtype)], -1)
        return n.make(kind, lanes.back(scanned.astype(kind.dtype)))

    return rule


for _op in ("sum", "product"):
    _define(f"prefix_inclusive_{_op}", _scan(_op, True))
    _define(f"prefix_exclusive_{_op}", _scan(_op, False))


def _lane_value(lanes: Lanes, a: Scalar, source: Any) -> Scalar:
    """Return the value of the lane `source`. If there is no such lane, a lane gets its own value."""
    xp = lanes.xp
    array = lanes.spread(lanes.n.array(a), a.type.dtype)
    inside = (source >= 0) & (source < lanes.width)
    safe = xp.where(inside, source, lanes.lane())
    shape = np.broadcast_shapes(array.shape, safe.shape)
    taken = xp.take_along_axis(lanes.space.broadcast(array, shape), lanes.space.broadcast(safe, shape), -1)
    return lanes.n.make(a.type, lanes.back(taken), a.low, a.high)


def _number(lanes: Lanes, by: Scalar) -> Any:
    return lanes.spread(lanes.n.array(by)).astype(np.int32)


def _shuffle(lanes: Lanes, a: Scalar, lane: Scalar) -> Scalar:
    if a.static:
        return a
    if lane.static:
        k = int(lane.base)
        array = lanes.spread(lanes.n.array(a), a.type.dtype)
        k = k if k < lanes.width else 0
        return lanes.n.make(a.type, lanes.back(array[..., k : k + 1]), a.low, a.high)
    return _lane_value(lanes, a, _number(lanes, lane))


def _shifted(step: int, wraps: bool) -> Callable[..., Scalar]:
    def rule(lanes: Lanes, a: Scalar, by: Scalar) -> Scalar:
        if not by.static:
            source = lanes.lane() + step * _number(lanes, by)
            return _lane_value(lanes, a, source % lanes.width if wraps else source)
        k = min(int(by.base), lanes.width)
        array = lanes.spread(lanes.n.array(a), a.type.dtype)
        xp = lanes.xp
        if wraps:
            shifted = xp.roll(array, -step * k, axis=-1)
        elif step > 0:
            shifted = xp.concatenate([array[..., k:], array[..., lanes.width - k :]], -1) if k < lanes.width else array
        else:
            shifted = xp.concatenate([array[..., :k], array[..., : lanes.width - k]], -1) if k < lanes.width else array
        return lanes.n.make(a.type, lanes.back(shifted), a.low, a.high)

    return rule


def _crossed(lanes: Lanes, a: Scalar, by: Scalar) -> Scalar:
    if not by.static:
        return _lane_value(lanes, a, lanes.lane() ^ _number(lanes, by))
    k = int(by.base)
    if not k:
        return a
    array = lanes.spread(lanes.n.array(a), a.type.dtype)
    if k & (k - 1) or 2 * k > lanes.width or lanes.width % (2 * k):
        return _lane_value(lanes, a, lanes.lane() ^ np.int32(k))
    pairs = array.reshape(*array.shape[:-1], lanes.width // (2 * k), 2, k)
    return lanes.n.make(a.type, lanes.back(lanes.xp.flip(pairs, -2).reshape(array.shape)), a.low, a.high)


def _filled(step: int) -> Callable[..., Scalar]:
    def rule(lanes: Lanes, a: Scalar, other: Scalar, by: Scalar) -> Scalar:
        n, xp = lanes.n, lanes.xp
        source = lanes.lane() + step * _number(lanes, by)
        inside = (source >= 0) & (source < lanes.width)
        x, y = (lanes.spread(n.array(v), a.type.dtype) for v in (a, n.convert(other, a.type)))
        place = source % lanes.width
        shape = np.broadcast_shapes(x.shape, y.shape, place.shape)
        x, y = (
            xp.take_along_axis(lanes.space.broadcast(v, shape), lanes.space.broadcast(place, shape), -1) for v in (x, y)
        )
        return n.make(a.type, lanes.back(xp.where(inside, x, y)))

    return rule


_define("shuffle broadcast", _shuffle)
_define("shuffle_down", _shifted(1, False))
_define("shuffle_up", _shifted(-1, False))
_define("shuffle_rotate_down", _shifted(1, True))
_define("shuffle_rotate_up", _shifted(-1, True))
_define("shuffle_xor", _crossed)
_define("shuffle_and_fill_down", _filled(1), 2)
_define("shuffle_and_fill_up", _filled(-1), 2)


def _first(lanes: Lanes) -> Any:
    """Return the number of the first active lane as an array of extent 1 along the lanes, or None if all are active."""
    mask = lanes.mask()
    return None if mask is None else lanes.xp.argmax(mask, axis=-1, keepdims=True).astype(np.int32)


def _broadcast_first(lanes: Lanes, a: Scalar) -> Scalar:
    first = _first(lanes)
    return _shuffle(lanes, a, static(UINT, 0)) if first is None else _lane_value(lanes, a, first)


_define("broadcast_first", _broadcast_first)


def _vote(op: str) -> Callable[..., Scalar]:
    def rule(lanes: Lanes, a: Scalar) -> Scalar:
        a = lanes.n.convert(a, BOOL)
        if a.static:
            return a
        array = lanes.values(a, op == "all")
        vote = (lanes.xp.all if op == "all" else lanes.xp.any)(array, axis=-1, keepdims=True)
        return lanes.n.make(BOOL, lanes.back(vote))

    return rule


def _ballot(lanes: Lanes, a: Scalar) -> Scalar:
    whole = SCALARS["ulong"]
    array = lanes.values(lanes.n.convert(a, BOOL), False)
    bits = lanes.space.asarray(1, np.uint64) << lanes.lane().astype(np.uint64)
    zero = np.uint64(0)
    bits_set = lanes.xp.sum(lanes.xp.where(array, bits, zero), -1, dtype=np.uint64, keepdims=True)
    return lanes.n.make(whole, lanes.back(bits_set), 0, (1 << lanes.width) - 1)


_define("all", _vote("all"))
_define("any", _vote("any"))
_define("ballot", _ballot)


def _active(walk: Any, arguments: list[Value]) -> Value:
    return SIMD["simd_ballot"](walk, [TRUE])


def _is_first(walk: Any, arguments: list[Value], width: int = 32) -> Value:
    lanes = Lanes(walk, width)
    first = _first(lanes)
    is_first = lanes.lane() == (0 if first is None else first)
    shape = (*(1,) * lanes.first, lanes.count // lanes.width, lanes.width)
    wide = lanes.space.broadcast(is_first, np.broadcast_shapes(is_first.shape, shape))
    return walk.n.make(BOOL, lanes.back(wide))


SIMD["simd_active_threads_mask"] = _active
SIMD["simd_is_first"] = _is_first
SIMD["quad_is_first"] = lambda walk, arguments: _is_first(walk, arguments, 4)
SIMD["simd_is_helper_thread"] = lambda walk, arguments: FALSE
