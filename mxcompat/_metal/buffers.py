"""Memory: the buffers of a kernel, and the memory of its groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .numbers import Numbers
from .types import INT, LONG, ScalarType
from .values import Scalar

__all__ = ["Memory", "Shifted", "as_index"]


class Memory:
    """A buffer, or an array in the memory of each group. It is also a cell: a loop that writes into it carries it.

    Args:
        name: its name in the kernel.
        element: the type of its elements.
        data: an array whose last axis has the elements. The axes of groups come first if each group has its own memory.
        batch: the number of axes of groups.
        number: its number among the cells.
        initial: makes the initial data at the first access, which may be in another trace than the declaration.
    """

    __slots__ = ("batch", "const", "element", "held", "initial", "name", "number", "owned", "shifted")

    def __init__(
        self, name: str, element: ScalarType, data: Any, batch: int, number: int, const: bool = False,
        initial: Callable[[], Any] | None = None,
    ) -> None:  # fmt: skip
        self.name, self.element, self.held, self.batch, self.number = name, element, data, batch, number
        self.const, self.owned, self.initial = const, initial is not None, initial
        self.shifted = Shifted(self)

    @property
    def data(self) -> Any:
        return self.filled(self.held)

    def filled(self, held: Any) -> Any:
        """Return the data held, or the initial data if nothing was written."""
        return held if held is not None or self.initial is None else self.initial()

    @property
    def count(self) -> int:
        return self.data.shape[-1]


class Shifted:
    """Memory that is read as vectors at any alignment. Indices count scalars, not vectors."""

    __slots__ = ("memory",)

    def __init__(self, memory: Memory) -> None:
        self.memory = memory


def as_index(n: Numbers, a: Scalar) -> Scalar:
    """Convert a scalar to an index: an int if its bounds fit, else a long. Wrapped values are out of bounds in both."""
    if a.type.bits == 64:
        if a.low is None or a.high is None or a.low < INT.low or a.high > INT.high:
            return n.convert(a, LONG)
        return n.convert(a, INT)
    return n.convert(a, INT)
