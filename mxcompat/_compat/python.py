"""Undocumented parts of CPython: frames of callers, and signal functions without enums."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from .registry import unpromised

__all__ = ["caller_of", "get_frame", "getsignal", "setsignal"]


@unpromised("frames", "errors and profiles name the line of the program that called an operation", "they name no line")
def frames() -> bool:
    return sys._getframe().f_code.co_name == "frames"


get_frame: Callable[[int], FrameType] | None = sys._getframe if frames.holds else None
"""Return the frame that is `depth` calls above its caller. None if Python has no such function."""


def caller_of(depth: int) -> FrameType | None:
    """Return the frame `depth` calls above the caller of this function, or None if Python has no access to frames.

    Raises:
        ValueError: if the stack is not that deep.
    """
    return get_frame(depth + 1) if get_frame is not None else None


@unpromised("signals", "handlers of signals are exchanged in 2 us", "`signal.signal` exchanges them, in 40 us")
def signals() -> bool:
    import _signal

    number = signal.SIGINT
    return bool(_signal.getsignal(number) == signal.getsignal(number)) and callable(_signal.signal)


if signals.holds:
    import _signal as _module
else:
    _module = signal  # type: ignore[misc]

getsignal: Callable[[int], Any] = _module.getsignal
"""Return the handler of a signal."""

setsignal: Callable[[int, Any], Any] = _module.signal
"""Set the handler of a signal."""
