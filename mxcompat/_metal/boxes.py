"""Boxes: the elements at an affine index, as a slice of a flat array that is reshaped to several axes."""

from __future__ import annotations

from typing import Any, NamedTuple

from mxcompat._jax import lax

from .congruence import UNKNOWN, Congruence, reduced

__all__ = ["Start", "box_of"]


class Start(NamedTuple):
    """The base of an affine index.

    Args:
        base: an int, or a traced number.
        low: the lower bound of the base.
        spread: the upper bound of the base minus the lower one.
        known: the congruence of a traced base.
    """

    base: Any
    low: int
    spread: int = 0
    known: Congruence = UNKNOWN

    def plus(self, by: int) -> Start:
        base = self.base + by if isinstance(self.base, int) else self.base + self.base.dtype.type(by)
        return Start(base, self.low + by, self.spread, reduced(self.known[0], self.known[1] + by))

    def row(self, width: int) -> tuple[Any, Start]:
        """Return the row and the column of the base, for rows of this width. If the column of a traced base is not
        known, the row is that of the lower bound, and the column may exceed the width."""
        modulus, residue = self.known
        if isinstance(self.base, int) or modulus % width:
            first = self.low // width
            return first, self.plus(-first * width)
        column = residue % width
        return lax.div(self.plus(-column).base, self.base.dtype.type(width)), Start(column, column)


class Box(NamedTuple):
    """A slice of a flat array that is reshaped to several axes.

    Args:
        shape: the new shape of the array.
        starts, sizes: the start and the size of the slice along each axis.
    """

    shape: tuple[int, ...]
    starts: tuple[Any, ...]
    sizes: tuple[int, ...]


def _merged(dims: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge neighbouring axes, given as pairs (step, extent), if the merged axis has one constant step."""
    axes = dims[:1]
    for c, n in dims[1:]:
        before, m = axes[-1]
        if before == c * n:
            axes[-1] = (c, m * n)
        else:
            axes.append((c, n))
    return axes


def box_of(width: int, start: Start, dims: list[tuple[int, int]]) -> Box | None:
    """Return the box of exactly the elements `base + sum(c * i)` of an axis, or None if they form no box.

    Args:
        width: the length of the axis.
        dims: pairs of a coefficient and an extent, from the largest coefficient to the smallest.
    """
    total = 1
    for c, n in reversed(dims):
        if c != total:
            break
        total *= n
    else:  # the elements are contiguous
        return Box((width,), (start.base,), (total,))
    dims = _merged(dims)
    shape: list[int] = []
    starts: list[Any] = []
    sizes: list[int] = []
    rest = sum(c * (n - 1) for c, n in dims)
    for c, n in dims:
        if c == 1:
            return Box((*shape, width), (*starts, start.base), (*sizes, n))
        rest -= c * (n - 1)
        row, start = start.row(c)
        if width % c or start.low + start.spread + 1 + rest > c:
            return None
        shape.append(width // c)
        starts.append(row)
        sizes.append(n)
        width = c
    return Box((*shape, width), (*starts, start.base), (*sizes, 1))
