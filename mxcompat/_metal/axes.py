"""The axes along which threads are laid out, and the coordinates of a thread in terms of these axes.

If threads of a group communicate, the axes of groups come first, then those of the threads in a group. Otherwise the
axes are those of the grid. An axis is split if the index arithmetic divides its position by a divisor of its extent.
Then the quotient follows one of the two axes, and the remainder the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import NamedTuple

from mxcompat._graph import policy

__all__ = ["Axes", "Region", "Resplit", "cut_region", "lane_splits", "regions"]


class Resplit(Exception):
    """Raised in the walk if the split of an axis would keep an index affine. The walk then starts again."""

    def __init__(self, role: str, position: int, factor: int) -> None:
        self.role, self.position, self.factor = role, position, factor
        super().__init__(role, position, factor)


class Region(NamedTuple):
    """Groups of one size: all, or those at an edge of the grid, which are cut.

    Args:
        first: the position of the first group, along x, y and z.
        groups: the number of groups along x, y and z.
        size: the number of threads of a group along x, y and z.
    """

    first: tuple[int, int, int]
    groups: tuple[int, int, int]
    size: tuple[int, int, int]


def regions(grid: Sequence[int], group: Sequence[int]) -> list[Region]:
    """Return the regions of a grid: first the full groups, then the groups that the edges of the grid cut."""
    parts = []
    for n, t in zip(grid, group, strict=True):
        whole, rest = divmod(n, t)
        parts.append([(0, whole, t)] * (whole > 0) + [(whole, 1, rest)] * (rest > 0))
    reversed_regions = [Region(*zip(*choice, strict=True)) for choice in product(*reversed(parts))]  # type: ignore[arg-type]
    return [Region(r.first[::-1], r.groups[::-1], r.size[::-1]) for r in reversed_regions]  # type: ignore[arg-type]


def cut_region(region: Region, most: int, together: bool) -> tuple[Region, int, int, Region | None] | None:
    """Cut a region along its longest axis into pieces of at most `most` threads, if one step along it has no more.

    A piece consists of full groups if `together` is set. Return the first piece, the axis, the number of equal pieces,
    and the region that is left over (or None). Return None if the region has at most `most` threads, or cannot be cut.
    """
    parts = region.groups if together else region.size
    total = prod(region.groups) * prod(region.size)
    axis = max(range(3), key=parts.__getitem__)
    if total <= most or parts[axis] == 1:
        return None
    per = max(1, most * parts[axis] // total)
    count, rest = divmod(parts[axis], per)

    def with_part(n: int, first: int) -> Region:
        sizes = tuple([n if k == axis else p for k, p in enumerate(parts)])
        begin = tuple([first if k == axis else f for k, f in enumerate(region.first)])
        return region._replace(first=begin, **{"groups" if together else "size": sizes})

    begin = region.first[axis]
    return with_part(per, begin), axis, count, with_part(rest, begin + count * per) if rest else None


class Axis(NamedTuple):
    """One axis: the coordinate that it belongs to, its extent, and the change of the coordinate for a step along it."""

    role: str
    extent: int
    stride: int


class Axes:
    """The axes of a region. The last ones, from `first_lane` on, are those of the lanes of a SIMD group.

    Args:
        coordinates: names and extents, from the outermost to the innermost; names of groups begin with "g".
        splits: factors into which a coordinate is split, from the largest stride to the smallest.
    """

    def __init__(self, coordinates: Sequence[tuple[str, int]], splits: dict[str, tuple[int, ...]]) -> None:
        axes: list[Axis] = []
        numbers: list[int] = []
        threads = 1
        for role, extent in reversed(coordinates):
            factors = splits.get(role, (extent,))
            stride = 1
            for n in reversed(factors):
                if n > 1:
                    axes.append(Axis(role, n, stride))
                    numbers.append(stride * threads)
                stride *= n
            threads *= extent if role.startswith("t") else 1
        within = [
            a.role.startswith("t") and (threads <= 32 or k * a.extent <= 32) for a, k in zip(axes, numbers, strict=True)
        ]
        axes.reverse()
        self.axes = tuple(axes)
        self.first_lane = len(axes) - sum(within)
        self.lanes = prod([a.extent for a in axes[self.first_lane :]])
        self.extents = tuple([a.extent for a in axes])
        self.rank = len(axes)
        self.batch = sum(a.role.startswith("g") for a in axes)
        self.splits = sum(len(f) - 1 for f in splits.values())
        self.may_split = True

    def coefs(self, role: str) -> tuple[tuple[int, int], ...]:
        """Return a coordinate as pairs of an axis and its coefficient."""
        return tuple([(k, a.stride) for k, a in enumerate(self.axes) if a.role == role])

    def want_split(self, axis: int, coef: int, divisor: int) -> None:
        """Raise Resplit if the quotient of `coef * position` by the divisor is affine once the axis is split in two."""
        if coef <= 0 or divisor % coef or not self.may_split or self.splits >= policy.MOST_SPLITS:
            return
        factor, extent = divisor // coef, self.extents[axis]
        if 1 < factor < extent and extent % factor == 0:
            role = self.axes[axis].role
            position = [k for k, a in enumerate(self.axes) if a.role == role].index(axis)
            raise Resplit(role, position, factor)


def lane_splits(size: Sequence[int]) -> dict[str, tuple[int, ...]] | None:
    """Return the splits of a group's axes after which the last axes are 32 lanes, or None if that is impossible. A
    group of at most 32 threads needs no splits."""
    if prod(size) <= 32:
        return {}
    rest = 32
    for role, n in zip(("tx", "ty", "tz"), size, strict=True):
        if n % rest == 0:
            return {role: (n // rest, rest)} if n > rest else {}
        if rest % n:
            return None
        rest //= n
    return None
