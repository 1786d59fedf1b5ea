"""Primitives of MLX, laid down one after the other, as one op of ours is told to a callback."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from mxcompat._graph.ir.aval import Aval, Dtype, aval, int32

__all__ = ["Chain", "Constant", "Part", "Source", "Step"]


class Constant(NamedTuple):
    """A number that MLX makes for a primitive."""

    value: float
    dtype: Dtype


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
            return aval((), x.dtype)
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

    def transpose(self, x: Source, order: Sequence[int]) -> int:
        """MLX has one even where the order stays."""
        return self.add("Transpose", [x], [self.of(x).shape[k] for k in order], list(order))

    def arange(self, start: int, stop: int) -> int:
        return self.add("Arange", [], (stop - start,), float(start), float(stop), 1.0, dtype=int32)

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
        kept = [1 if k in axes else n for k, n in enumerate(self.of(x).shape)]
        total = self.add("Reduce", [x], kept, 2, list(axes))
        return total if keepdims else self.squeeze(total, axes)

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
