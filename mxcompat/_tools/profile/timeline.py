"""The timeline of a profile: the time of each kind of work per bin, with a limited number of bins for any duration."""

from __future__ import annotations

from collections import defaultdict

__all__ = ["Timeline"]


class Timeline:
    """Bins of equal width. The width is doubled when there are too many bins.

    `bins` has the seconds of each kind for each bin.
    """

    def __init__(self, most: int = 240, width: float = 1e-3) -> None:
        self.most = most
        self.width = width
        self.bins: list[dict[str, float]] = []

    def add(self, kind: str, start: float, end: float) -> None:
        """Add work of this kind from `start` to `end`, in seconds since the beginning."""
        while end >= self.most * self.width:
            self._double()
        first, last = int(start / self.width), int(end / self.width)
        while len(self.bins) <= last:
            self.bins.append(defaultdict(float))
        for k in range(first, last + 1):
            self.bins[k][kind] += min(end, (k + 1) * self.width) - max(start, k * self.width)

    def _double(self) -> None:
        self.width *= 2
        merged: list[dict[str, float]] = []
        for k in range(0, len(self.bins), 2):
            both = defaultdict(float, self.bins[k])
            for kind, seconds in self.bins[k + 1].items() if k + 1 < len(self.bins) else ():
                both[kind] += seconds
            merged.append(both)
        self.bins = merged
