"""Reproducible results: the same bits for the same program.

By default, a structure is computed in the fastest way at the time: in NumPy while it is new, and by an executable once
it has been used often. The results may differ in the last digit, and the time of the change depends on the machine's
speed. `reproducible` turns this choice off.
"""

from __future__ import annotations

from mxcompat._graph import policy
from mxcompat._graph.run import single
from mxcompat._graph.run.evaluate import lock

__all__ = ["reproducible"]


class reproducible:
    """Make evaluations give the same bits in every run and every process on this machine, in all threads.

    A call takes effect at once; as a context manager it ends with the block. The computation of a graph then depends
    only on its structure: XLA compiles it for speed at its first evaluation, with all Python numbers as arguments, and
    nothing runs in NumPy. The first run therefore waits for the compilation, and so does each new shape.
    docs/differences.md lists the other conditions for equal bits. The setting at the time of an evaluation
    counts, not the one at the time when an array was made.

    The environment variable `MXCOMPAT_REPRODUCIBLE=1` has the same effect for a whole process.

    Args:
        on: True to turn it on, False to turn it off.

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
    """Switch reproducible results on or off, and return the previous setting."""
    with lock:
        before, policy.REPRODUCIBLE = policy.REPRODUCIBLE, bool(on)
        if before != policy.REPRODUCIBLE:
            single.clear()  # this setting determines the executables of single ops
    return before
