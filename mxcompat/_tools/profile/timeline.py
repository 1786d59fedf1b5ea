"""The timeline of a profile: how much of each stretch of time went to each kind of work, in a fixed number of bins,
however long the program runs."""

from __future__ import annotations

from collections import defaultdict

__all__ = ["Timeline"]


class Timeline:
    """Bins of equal width, which is doubled when they no longer suffice.

    `bins` has for each the seconds of each kind.
    """

    def __init__(self, most: int = 240, width: float = 1e-3) -> None:
        self.most = most
        self.width = width
        self.bins: list[dict[str, float]] = []

    def add(self, kind: str, start: float, end: float) -> None:
        """Work of this kind from `start` to `end`, in seconds since the beginning."""
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
