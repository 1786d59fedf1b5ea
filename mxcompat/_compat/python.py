"""What CPython does not promise: that a function can ask for its caller's frame, and signals without enums."""

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
"""Returns the frame that is so many calls above the function that calls it; None where Python has no such function."""


def caller_of(depth: int) -> FrameType | None:
    """The frame that is so many calls above the function that calls this; None where Python does not tell.

    Raises:
        ValueError: there are not so many.
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
"""The handler of a signal."""

setsignal: Callable[[int, Any], Any] = _module.signal
"""Set the handler of a signal."""
