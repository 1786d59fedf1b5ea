"""End a process at the end of its program, though XLA is compiling in the background.

XLA cannot be interrupted. A thread that returned from it during the interpreter's teardown would abort the process, so
Python waits, perhaps for many seconds. If nothing else follows the program, the wait is not needed: this module does
all of Python's teardown of the program in the same order, and then exits directly.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import io
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from time import perf_counter
from types import FrameType, TracebackType
from typing import Any

from mxcompat._compat import processes
from mxcompat._graph import policy
from mxcompat._graph.run import background
from mxcompat._jax import is_imported

__all__ = ["ProcessEnd"]


class ProcessEnd:
    """A context at whose end the process exits, if the program is the last thing to run.

    The program is the last thing to run if `python -m` runs the module with this frame, and nothing else, such as a
    profiler, called it. An exception in the context, including `SystemExit`, determines the exit status.
    """

    def __init__(self, frame: FrameType | None) -> None:
        is_outermost = processes.process_end.holds and processes.is_run_as_main(frame)
        self._is_ours = is_outermost and not sys.flags.inspect
        self._start = perf_counter()

    def __enter__(self) -> None:
        if self._is_ours:
            background.leave_at_exit()

    def __exit__(self, _: Any, error: BaseException | None, traceback: TracebackType | None) -> None:
        if not self._is_ours or not (background.is_busy() or _other_threads()):
            return
        if _has_service() or (is_imported() and processes.handler_of_jax() is None):
            background.settle()
            return
        _end(error, policy.LONGEST_END * (perf_counter() - self._start))


def _other_threads() -> list[threading.Thread]:
    """Return the threads that Python waits for, which may still start compilations."""
    return [t for t in threading.enumerate() if not t.daemon and t is not threading.current_thread()]


def _has_service() -> bool:
    """Return True if JAX connects this process with others; JAX then ends it."""
    distributed: Any = getattr(sys.modules.get("jax"), "distributed", None)
    return distributed is not None and distributed.is_initialized()


def _end(error: BaseException | None, seconds: float) -> None:
    """End the process as Python would, but wait at most `seconds` for compilations."""
    status = _reported(error)
    try:
        processes.wait_for_threads()
        background.finish(seconds)
    except KeyboardInterrupt:
        background.finish(0)  # after a second interrupt, do not wait
    handler = processes.handler_of_jax()
    if handler is not None:  # the handler would free the compiler while it is in use
        atexit.unregister(handler)
    processes.run_exit_handlers()
    flushed = _flush()
    _write_files()
    _release_main(error)
    _close_files()
    if not (_flush() and flushed):
        status = 120  # Python has this exit status after a failed flush
    if isinstance(error, KeyboardInterrupt):
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    os._exit(status)


def _reported(error: BaseException | None) -> int:
    """Print the error of a program as Python would, and return the exit status."""
    if isinstance(error, SystemExit):
        if isinstance(error.code, int):
            return error.code & 0xFF
        if error.code is not None:
            print(error.code, file=sys.stderr)
        return int(error.code is not None)
    if error is None:
        return 0
    details = sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    try:
        sys.excepthook(*details)
    except BaseException as another:
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(another)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error)
    return 1


def _release_main(error: BaseException | None) -> None:
    """Release the main module and the references to it, so that objects that only the program holds are finalized."""
    while error is not None:
        following = error.__cause__ or error.__context__
        error.__traceback__ = error.__cause__ = error.__context__ = None
        error = following
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        vars(sys).pop(name, None)
    sys.modules["__main__"] = None  # type: ignore[assignment]
    gc.collect()


def _files() -> list[io.IOBase]:
    """Return the open files, except the standard streams."""
    standard = (sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__)
    base = processes.file_type()  # `isinstance` would run code of other classes
    return [f for f in gc.get_objects() if issubclass(type(f), base) and all(f is not s for s in standard)]


def _write_files() -> None:
    """Flush buffered files: first text into bytes, then bytes into files."""
    files = _files()
    for kind in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
        for file in [f for f in files if type(f) is kind]:
            with suppress(OSError, ValueError):  # Python ignores errors here, too, such as a closed file or a full disk
                file.flush()


def _close_files() -> None:
    """Close the files that are still referenced. Files of classes written in Python come first: when closed, they write
    more than buffers (gzip, for example)."""
    for file in [f for f in _files() if type(f).__module__ != "_io"]:
        with suppress(Exception):  # Python ignores these errors, too
            file.close()
    _write_files()


def _flush() -> bool:
    """Flush the standard streams, including C's. Return False, after printing the error, if that failed."""
    well = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except Exception as error:
            well = False
            if stream is not sys.stderr:
                print(f"Exception ignored in: {stream!r}", file=sys.stderr)
                traceback.print_exception(error)
    if os.name == "posix":
        ctypes.CDLL(None).fflush(None)
    return well
