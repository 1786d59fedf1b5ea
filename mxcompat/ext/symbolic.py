"""Build a Program for any batch size from a function's traces for three sizes.

Python sees sizes as numbers, so a trace is for one size. Numbers that differ between the three traces (in the params of
ops, in shapes) depend on the size. If two traces determine a formula `a * size + b` and the third agrees, the formula
with the symbolic size replaces the number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from mxcompat._graph.ir.aval import Aval, aval
from mxcompat._graph.ir.node import SCALAR, Node
from mxcompat._graph.ir.program import Code, Program
from mxcompat._jax import jax, jnp

__all__ = ["SIZES", "any_number", "any_size", "same_values"]

SIZES = (5, 7, 11)
"""The sizes to trace for. Size 1 would broadcast."""


def _differs(what: str) -> ValueError:
    """Return the error for traces that differ in more than numbers."""
    return ValueError(
        f"[export] The function does something else for each size of the batch: {what}. Without batch_axes it is "
        "exported for one size."
    )


def any_number(values: Sequence[Any], symbol: Any, what: str) -> Any:
    """Return the number as a function of the symbolic size, given its values for the three sizes."""
    if values[0] == values[1] == values[2]:
        return values[0]
    slope = (values[1] - values[0]) / (SIZES[1] - SIZES[0])
    first = values[0] - slope * SIZES[0]
    if not math.isclose(first + slope * SIZES[2], values[2], rel_tol=1e-6):
        described = ", ".join(f"{v} for {n}" for v, n in zip(values, SIZES, strict=True))
        raise _differs(f"{what} is {described}")
    if all(isinstance(v, int) for v in values) and slope == int(slope):
        return int(slope) * symbol + int(first)
    return _Line(slope, first, symbol)


class _Line:
    """A number of the form `slope * symbol + first`."""

    def __init__(self, slope: float, first: float, symbol: Any) -> None:
        self.slope, self.first, self.symbol = slope, first, symbol

    def __jax_array__(self) -> jax.Array:
        return self.slope * jnp.asarray(self.symbol, np.float64) + self.first


class _Filled:
    """An array filled with one number, whose shape contains the symbol."""

    def __init__(self, value: Any, shape: tuple[Any, ...]) -> None:
        self.value, self.shape = value, shape

    def __jax_array__(self) -> jax.Array:
        return jnp.broadcast_to(self.value, self.shape)


def any_size(programs: Sequence[Program], symbol: Any) -> Program:
    """Combine the Programs for the three sizes into one for any size.

    Raises:
        ValueError: if they differ in more than numbers that depend on the size.
    """
    if programs[0] is programs[1] is programs[2]:
        return programs[0]
    lengths = {len(p.instructions) for p in programs}
    if len(lengths) > 1 or len({(p.out_slots, p.scalars, len(p.in_avals)) for p in programs}) > 1:
        raise _differs(f"it runs {' or '.join(map(str, sorted(lengths)))} ops")
    instructions = []
    for one in zip(*[p.instructions for p in programs], strict=True):
        ops, params, slots = zip(*one, strict=True)
        if len({*ops}) > 1 or len({*slots}) > 1:
            raise _differs(f"it calls {' or '.join(sorted({op.name for op in ops}))}")
        instructions.append((ops[0], _any(params, symbol, f"a parameter of {ops[0]}"), slots[0]))
    in_avals, avals = (_any([tuple(a) for a in shapes], symbol, "a shape")
                       for shapes in ([p.in_avals for p in programs], [p.avals for p in programs]))  # fmt: skip
    return Program(Code(tuple(instructions), programs[0].code.kinds), in_avals, programs[0].out_slots, avals)


def _any(values: Sequence[Any], symbol: Any, what: str) -> Any:
    first = values[0]
    if any(type(v) is not type(first) for v in values):
        raise _differs(f"{what} is {values[0]!r}, {values[1]!r} and {values[2]!r}")
    if isinstance(first, Program):
        return any_size(values, symbol)
    if isinstance(first, Aval):
        return _aval([v.shape for v in values], {v.dtype for v in values}, symbol)
    if isinstance(first, tuple):
        if len({len(v) for v in values}) > 1:
            raise _differs(f"{what} has {len(values[0])}, {len(values[1])} and {len(values[2])} parts")
        items = [_any(v, symbol, what) for v in zip(*values, strict=True)]
        return tuple(items) if type(first) is tuple else type(first)(*items)
    if isinstance(first, (int, float)) and not isinstance(first, bool):
        return any_number(values, symbol, what)
    if isinstance(first, slice):
        return slice(*_any([(v.start, v.stop, v.step) for v in values], symbol, what))
    if not (first == values[1] == values[2]):
        raise _differs(f"{what} is {values[0]!r}, {values[1]!r} and {values[2]!r}")
    return first


def _aval(shapes: Sequence[tuple[int, ...]], dtypes: set, symbol: Any) -> Aval:
    if len(dtypes) > 1 or len({len(s) for s in shapes}) > 1:
        raise _differs("the shapes or dtypes of its arrays differ")
    (dtype,) = dtypes
    return aval(tuple([any_number(sizes, symbol, "a dimension") for sizes in zip(*shapes, strict=True)]), dtype)


def same_values(nodes: Sequence[Node], symbol: Any) -> Any:
    """Combine the values of three captured nodes, one for each size: a number as a function of the symbol, equal data,
    or an array filled with one number."""
    first = nodes[0]
    if first.op is SCALAR:
        return any_number([n.value for n in nodes], symbol, "a number")
    arrays = [np.asarray(n.value) for n in nodes]
    if all(np.array_equal(arrays[0], a) for a in arrays[1:]):
        return arrays[0]
    values = {a.flat[0].item() for a in arrays if a.size and (a == a.flat[0]).all()}
    if len(values) != 1 or any(a.size and not (a == a.flat[0]).all() for a in arrays):
        raise _differs("an array that it makes is another one")
    like = _aval([n.aval.shape for n in nodes], {first.aval.dtype}, symbol)
    return _Filled(first.aval.dtype._numpy.type(values.pop()), like.shape)
