"""Primitives of MLX, laid down one after the other, as one op of ours is told to a callback."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np

from mxcompat._array.promotion import promote, summed_dtype
from mxcompat._graph.ir.aval import Aval, Dtype, aval, bool_, int32

__all__ = ["Chain", "Constant", "Part", "Source", "Step"]


class Constant(NamedTuple):
    """A number that MLX makes for a primitive, or an array of the shape of one."""

    value: float
    dtype: Dtype
    shape: tuple[int, ...] = ()


class Part(NamedTuple):
    """One of the results of a step; `of` is its `~k`."""

    of: int
    number: int


Source = int | Constant | Part
"""`k` is input k of the op, `~k` the (first) result of step k."""


class Step(NamedTuple):
    """One primitive: what it reads, the avals of what it returns, and its arguments."""

    name: str
    inputs: list[Source]
    results: list[Aval]
    arguments: list[Any]


class Chain:
    """The primitives of one op.

    Args:
        given: the avals of its inputs.
        numbers: for each, its value if it is a Python number.
    """

    def __init__(self, given: Sequence[Aval], numbers: Sequence[Any]) -> None:
        self.given = given
        self.numbers = numbers
        self.steps: list[Step] = []

    def of(self, x: Source) -> Aval:
        if isinstance(x, Constant):
            return aval(x.shape, x.dtype)
        if isinstance(x, Part):
            return self.steps[~x.of].results[x.number]
        return self.given[x] if x >= 0 else self.steps[~x].results[0]

    def add(
        self, name: str, inputs: Sequence[Source], shape: Sequence[int], *arguments: Any, dtype: Dtype | None = None
    ) -> int:
        """One more primitive; its dtype is that of its first input by default. Returns its result."""
        result = aval(tuple(shape), dtype or self.of(inputs[0]).dtype)
        self.steps.append(Step(name, list(inputs), [result], list(arguments)))
        return ~(len(self.steps) - 1)

    def broadcast(self, x: Source, shape: tuple[int, ...]) -> Source:
        return x if self.of(x).shape == shape else self.add("Broadcast", [x], shape, shape)

    def reshape(self, x: Source, shape: Sequence[int]) -> Source:
        shape = tuple(shape)
        return x if self.of(x).shape == shape else self.add("Reshape", [x], shape, shape)

    def flat(self, x: Source) -> Source:
        a = self.of(x)
        return x if a.ndim == 1 else self.add("Flatten", [x], [a.size], 0, a.ndim - 1)

    def transpose(self, x: Source, order: Sequence[int]) -> int:
        """MLX has one even where the order stays."""
        return self.add("Transpose", [x], [self.of(x).shape[k] for k in order], list(order))

    def arange(self, start: int, stop: int, step: int = 1, dtype: Dtype = int32) -> int:
        shape = (len(range(start, stop, step)),)
        return self.add("Arange", [], shape, float(start), float(stop), float(step), dtype=dtype)

    def below(self, rows: int, columns: int, k: int) -> Source:
        """Where the column is at most the row and `k`."""
        sides = []
        for axis, (start, n) in enumerate(((max(k, 0), rows), (max(-k, 0), columns))):
            sides.append(self.broadcast(self.expand(self.arange(start, start + n), [1 - axis]), (rows, columns)))
        return self.add("GreaterEqual", sides, (rows, columns), dtype=bool_)

    def cast(self, x: Source, dtype: Dtype) -> Source:
        return x if self.of(x).dtype is dtype else self.add("AsType", [x], self.of(x).shape, dtype, dtype=dtype)

    def expand(self, x: Source, axes: Sequence[int]) -> int:
        """New axes, numbered as in the result."""
        shape = list(self.of(x).shape)
        for k in axes:
            shape.insert(k, 1)
        return self.add("ExpandDims", [x], shape, list(axes))

    def together(self, indices: Sequence[Source]) -> list[Source]:
        """Arrays of indices, of one shape and dtype."""
        shape = np.broadcast_shapes(*[self.of(i).shape for i in indices])
        dtype = reduce(promote, [self.of(i).dtype for i in indices])
        return [self.cast(self.broadcast(i, shape), dtype) for i in indices]

    def binary(self, name: str, x: Source, y: Source, dtype: Dtype | None = None) -> int:
        """Of two operands of which one has the shape of the result."""
        shape = max(self.of(x).shape, self.of(y).shape, key=lambda s: (len(s), prod(s)))
        x, y = self.broadcast(x, shape), self.broadcast(y, shape)
        return self.add(name, [x, y], shape, dtype=dtype)

    def unary(self, name: str, x: Source, *arguments: Any) -> int:
        return self.add(name, [x], self.of(x).shape, *arguments)

    def constant(self, value: float, like: Source) -> Constant:
        return Constant(value, self.of(like).dtype)

    def squeeze(self, x: Source, axes: Sequence[int]) -> Source:
        axes = list(axes)
        return (
            self.add("Squeeze", [x], [n for k, n in enumerate(self.of(x).shape) if k not in axes], axes) if axes else x
        )

    def sum(self, x: Source, axes: Sequence[int], keepdims: bool) -> Source:
        total = self.reduce(x, 2, axes, summed_dtype(self.of(x).dtype))
        return total if keepdims else self.squeeze(total, axes)

    def reduce(self, x: Source, kind: int, axes: Sequence[int], dtype: Dtype) -> Source:
        """Over axes that stay, with size 1; MLX has no primitive for it where they have that size already."""
        shape = self.of(x).shape
        if all(shape[k] == 1 for k in axes):
            return self.cast(x, dtype)
        kept = [1 if k in axes else n for k, n in enumerate(shape)]
        return self.add("Reduce", [x], kept, kind, list(axes), dtype=dtype)

    def mean(self, x: Source, axes: Sequence[int], keepdims: bool) -> int:
        size = prod(self.of(x).shape[k] for k in axes)
        total = self.sum(x, axes, keepdims)
        return self.binary("Multiply", total, self.constant(1 / size, x))

    def variance(self, x: Source, axes: Sequence[int], keepdims: bool, ddof: int) -> tuple[int, int]:
        """And the distances from the mean."""
        away = self.binary("Subtract", x, self.mean(x, axes, True))
        squares = self.unary("Square", away)
        if not ddof:
            return self.mean(squares, axes, keepdims), away
        total = self.sum(squares, axes, keepdims)
        size = prod(self.of(x).shape[k] for k in axes)
        freedom = self.binary("Subtract", self.constant(size, x), self.constant(ddof, x))
        return self.binary("Divide", total, self.binary("Maximum", freedom, self.constant(0, x))), away
