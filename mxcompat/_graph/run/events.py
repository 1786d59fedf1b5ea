"""Events: what the engine tells of itself, to counters and to whoever observes (`ext.debug`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["notify", "observers", "stats"]


class Stats:
    """Counts of what the library did, for tests and for `ext.debug`.

    compiles: programs compiled for the first time, with the numbers then baked in. loaded: those that were found on the
    disk instead. optimised: programs compiled again for speed, in the background. executions: programs that XLA has
    run.
    """

    def __init__(self) -> None:
        self.compiles = 0
        self.loaded = 0
        self.optimised = 0
        self.executions = 0


stats = Stats()

observers: list[Callable[[str, Any, str], None]] = []
"""Called with what happened ("plan", "run", "compile", "load", "optimise", "partition"), to which Plan or Program, and
why."""


def notify(event: str, subject: Any, reason: str = "") -> None:
    for observer in observers:
        observer(event, subject, reason)
