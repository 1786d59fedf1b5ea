"""Metal's functions that pack numbers between 0 and 1, or -1 and 1, into the bytes or shorts of a uint, and back."""

from __future__ import annotations

from typing import Any

from .functions import FUNCTIONS
from .types import FLOAT, SCALARS, UINT, ScalarType, vector_of
from .values import Value, static

__all__: list[str] = []


def _define(layout: str, element: ScalarType, of: ScalarType) -> None:
    """Define the functions between vectors of a type of floats and a layout. They compute in float32."""
    count = UINT.bits // element.bits
    codes, floats = vector_of(element, count), vector_of(FLOAT, count)
    zero, one, largest = static(FLOAT, 0), static(FLOAT, 1), static(FLOAT, element.high)
    least = static(FLOAT, -1 if element.kind == "i" else 0)

    def pack(walk: Any, values: list[Value]) -> Value:
        (value,) = values
        x = walk.as_type(walk.as_type(value, vector_of(of, count)), floats)
        x = FUNCTIONS["select"](walk, [x, zero, FUNCTIONS["isnan"](walk, [x])])
        scaled = walk.operate("*", FUNCTIONS["clamp"](walk, [x, least, one]), largest, None)
        return walk.bits_as(walk.as_type(FUNCTIONS["rint"](walk, [scaled]), codes), UINT)

    def unpack(walk: Any, values: list[Value]) -> Value:
        (value,) = values
        x = walk.as_type(walk.bits_as(walk.as_type(value, UINT), codes), floats)
        x = FUNCTIONS["max"](walk, [walk.operate("/", x, largest, None), least])
        return walk.as_type(x, vector_of(of, count))

    FUNCTIONS[f"pack_{of.name}_to_{layout}"] = pack
    FUNCTIONS[f"unpack_{layout}_to_{of.name}"] = unpack


for _layout, _element in (("unorm4x8", "uchar"), ("snorm4x8", "char"), ("unorm2x16", "ushort"), ("snorm2x16", "short")):
    for _of in ("float", "half"):
        _define(_layout, SCALARS[_element], SCALARS[_of])
