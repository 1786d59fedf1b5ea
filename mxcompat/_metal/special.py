"""Functions that write to one of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .functions import FUNCTIONS, spread
from .places import Place
from .syntax import Call
from .types import FLOAT, INT, VOID, PointerType, vector_of
from .values import NoValue, Scalar, Value

__all__ = ["SPECIAL"]


def _result(walk: Any, call: Call, position: int) -> Place:
    """Return the place of a reference argument, or the place that a pointer argument points to."""
    place = walk.place(call.arguments[position])
    return walk.dereferenced(place) if isinstance(place.type, PointerType) else place


def _modf(walk: Any, call: Call) -> Value:
    x = walk.value(call.arguments[0])
    whole = FUNCTIONS["trunc"](walk, [x])
    place = _result(walk, call, 1)
    place.set(walk, walk.as_type(whole, place.type))
    return FUNCTIONS["copysign"](walk, [walk.operate("-", x, whole, call), x])


def _frexp(walk: Any, call: Call) -> Value:
    x = walk.value(call.arguments[0])
    place = _result(walk, call, 1)

    def part(k: int) -> Callable[[Scalar], Scalar]:
        def each(v: Scalar) -> Scalar:
            array = walk.n.array(walk.n.convert(v, FLOAT))
            result = walk.space.xp.frexp(array)[k]
            return walk.n.make(INT if k else FLOAT, result.astype(np.int32 if k else np.float32))

        return each

    place.set(walk, walk.as_type(spread(walk, [x], part(1)), place.type))
    return walk.as_type(spread(walk, [x], part(0)), x.type)


def _sincos(walk: Any, call: Call) -> Value:
    x = walk.value(call.arguments[0])
    place = _result(walk, call, 1)
    sine, cosine = (FUNCTIONS[name](walk, [x]) for name in ("sin", "cos"))
    if len(call.arguments) == 3:  # CUDA's
        other = _result(walk, call, 2)
        place.set(walk, walk.as_type(sine, place.type))
        other.set(walk, walk.as_type(cosine, other.type))
        return NoValue(VOID)
    place.set(walk, walk.as_type(cosine, place.type))
    return sine


def _ldexp(walk: Any, call: Call) -> Value:
    x, by = (walk.value(a) for a in call.arguments)

    def each(v: Scalar, k: Scalar) -> Scalar:
        array = walk.n.array(walk.n.convert(v, FLOAT))
        scale = walk.space.xp.ldexp(array, walk.n.array(walk.n.convert(k, INT)))
        return walk.n.convert(walk.n.make(FLOAT, scale.astype(np.float32)), v.type)

    return spread(walk, [x, by], each)


def _vector_constructor(count: int) -> Callable[[Any, Call], Value]:
    def function(walk: Any, call: Call) -> Value:
        values = [walk.value(a) for a in call.arguments]
        return walk.made_vector(vector_of(FLOAT, count), values)

    return function


SPECIAL: dict[str, Callable[[Any, Call], Value]] = {
    "modf": _modf, "frexp": _frexp, "sincos": _sincos, "sincosf": _sincos, "ldexp": _ldexp, "ldexpf": _ldexp,
    **{f"make_float{n}": _vector_constructor(n) for n in (2, 3, 4)},
}  # fmt: skip
"""Functions by name: `function(walk, call)`."""
