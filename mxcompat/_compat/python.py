"""Undocumented parts of CPython: frames of callers, signal functions without enums, names of types in errors."""

from __future__ import annotations

import ctypes
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from .registry import unpromised

__all__ = ["caller_of", "get_frame", "getsignal", "name_in_errors", "setsignal"]


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


_TP_NAME = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)
"""Offset of `tp_name` in a type object: it follows the object's header and size."""

_kept: list[ctypes.Array[ctypes.c_char]] = []
"""The texts that types refer to. A type does not own its `tp_name`."""


@unpromised(
    "names", "errors of Python call an array 'mlx.core.array', as in MLX", "they call it 'array', without its module"
)
def names() -> bool:
    class probe:
        pass

    text = ctypes.pythonapi.PyUnicode_AsUTF8
    text.restype, text.argtypes = ctypes.c_void_p, [ctypes.py_object]
    return bool(_tp_name(probe).value == text(probe.__name__))


def _tp_name(kind: type) -> ctypes.c_void_p:
    return ctypes.c_void_p.from_address(id(kind) + _TP_NAME)


def name_in_errors(kind: type, name: str) -> None:
    """Set the name of a class in CPython's own error messages. An assignment to `kind.__name__` undoes this."""
    if names.holds:
        _kept.append(ctypes.create_string_buffer(name.encode()))
        _tp_name(kind).value = ctypes.addressof(_kept[-1])
