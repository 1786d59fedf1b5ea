"""The same bits for the same program.

Left to itself, a structure is computed in the way that costs least at the time: in NumPy while it is new, by an
executable once it has proved to return. The ways differ in the last digit, and when one follows the other depends on
how fast things were. This takes the choice away.
"""

from __future__ import annotations

from mxcompat._graph import policy
from mxcompat._graph.run import single
from mxcompat._graph.run.evaluate import lock

__all__ = ["reproducible"]


class reproducible:
    """Whether evaluations give the same bits in every run, and in every process on this machine; in all threads.

    Called, it says so from now on; as a context manager, until the end of the block. The way in which a stretch of
    graph is computed then follows from its structure alone: XLA compiles it for speed when it is met for the first
    time, with all Python numbers as arguments, and nothing runs in NumPy. A first run waits for that compile, as does
    every new shape; docs/differences.md says what else has to be the same for the bits to be. What counts is where an
    array is evaluated, not where it was made.

    The environment variable `MXCOMPAT_REPRODUCIBLE=1` does the same for a whole process.

    Args:
        on: whether it is to be so.

    Example:
        >>> with mx.ext.reproducible():
        ...     first = mx.exp(mx.arange(5) / 3).sum().item()
        ...     again = mx.exp(mx.arange(5) / 3).sum().item()
        >>> first == again
        True
        >>> _ = mx.ext.reproducible(False)  # from now on
    """

    def __init__(self, on: bool = True) -> None:
        self._before = _switch(on)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        _switch(self._before)


def _switch(on: bool) -> bool:
    """Throw the switch; how it was before."""
    with lock:
        before, policy.REPRODUCIBLE = policy.REPRODUCIBLE, bool(on)
        if before != policy.REPRODUCIBLE:
            single.clear()  # its executables were those of the other way
    return before
