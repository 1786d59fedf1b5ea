"""Memory: the buffers of a kernel, and the memory of its groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .numbers import Numbers
from .types import INT, LONG, ScalarType
from .values import Scalar

__all__ = ["Memory", "Shifted", "as_index"]


class Memory:
    """A buffer, or an array in the memory of each group. It is a cell, too: a loop carries what it writes.

    Args:
        name: its name in the kernel.
        element: the type of its elements.
        data: the elements: the last axis; the axes of groups are in front of it where each group has its own.
        batch: how many these are.
        number: its number among the cells.
        made: makes the data of memory that nobody has written: the first access may be within a trace of its own.
    """

    __slots__ = ("batch", "const", "element", "held", "made", "name", "number", "owned", "shifted")

    def __init__(
        self, name: str, element: ScalarType, data: Any, batch: int, number: int, const: bool = False,
        made: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.element, self.held, self.batch, self.number = name, element, data, batch, number
        self.const, self.owned, self.made = const, made is not None, made
        self.shifted = Shifted(self)

    @property
    def data(self) -> Any:
        return self.filled(self.held)

    def filled(self, held: Any) -> Any:
        """The data that is held, or that of memory that nobody has written."""
        return held if held is not None or self.made is None else self.made()

    @property
    def count(self) -> int:
        return self.data.shape[-1]


class Shifted:
    """Memory that is read as vectors which need not lie at a multiple of their size: indices count their numbers."""

    __slots__ = ("memory",)

    def __init__(self, memory: Memory) -> None:
        self.memory = memory


def as_index(n: Numbers, a: Scalar) -> Scalar:
    """A scalar as an index: an int where that is enough. What has wrapped around is out of bounds either way."""
    if a.type.bits == 64:
        if a.low is None or a.high is None or a.low < INT.low or a.high > INT.high:
            return n.convert(a, LONG)
        return n.convert(a, INT)
    return n.convert(a, INT)
