"""Undocumented parts of CPython about processes: the steps of its exit, and the function that starts each process."""

from __future__ import annotations

import atexit
import functools
import inspect
import io
import subprocess
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from .registry import unpromised

__all__ = [
    "change_environments", "file_type", "handler_of_jax", "is_run_as_main", "process_end", "run_exit_handlers",
    "wait_for_threads",
]  # fmt: skip


@unpromised(
    "process-end", "a process that ends does not wait for XLA's compiles in the background", "it waits for them"
)
def process_end() -> bool:
    known = threading._shutdown, atexit._run_exitfuncs  # type: ignore[attr-defined]
    return all(map(callable, known)) and issubclass(io.TextIOWrapper, file_type())


def is_run_as_main(frame: FrameType | None) -> bool:
    """Return True if `python -m` runs the module with this frame directly, not through a profiler or another tool."""
    callers = []
    caller = frame.f_back if frame is not None else None
    while caller is not None:
        callers.append((caller.f_globals.get("__name__"), caller.f_code.co_name))
        caller = caller.f_back
    return callers == [("runpy", "_run_code"), ("runpy", "_run_module_as_main")]


def wait_for_threads() -> None:
    """Wait for the program's threads, as Python does when its main thread ends."""
    threading._shutdown()  # type: ignore[attr-defined]


def run_exit_handlers() -> None:
    """Call the functions that are registered with `atexit`, as Python does at exit."""
    atexit._run_exitfuncs()


def file_type() -> type:
    """Return the common base class of all file objects. Unlike `io.IOBase`, it is no abstract base class, so an
    `isinstance` test runs no Python code."""
    return io.IOBase.__base__  # type: ignore[return-value]


def handler_of_jax() -> Callable[[], Any] | None:
    """Return JAX's `atexit` handler, which destroys the compiler even while a thread compiles. Return None if JAX is
    not imported, or has no handler of this name."""
    return getattr(sys.modules.get("jax._src.api"), "clean_up", None)


@unpromised(
    "process-start",
    "`mlx` is mxcompat also in Python processes that a program starts with a new environment",
    "only in those that inherit the program's environment",
)
def process_start() -> bool:
    return _place_of_environment() > 0


def _place_of_environment() -> int:
    """Return the position of the environment among the arguments of `Popen`."""
    return list(inspect.signature(subprocess.Popen.__init__).parameters).index("env") - 1


def change_environments(change: Callable[[Any], Any]) -> None:
    """Apply `change` to the environment of each process that is started from now on. All functions of `subprocess`, and
    asyncio's subprocesses, call `Popen.__init__`, which is patched."""
    if not process_start.holds:
        return
    place, plain = _place_of_environment(), subprocess.Popen.__init__

    @functools.wraps(plain)
    def init(self: Any, *args: Any, **options: Any) -> None:
        if len(args) > place:
            args = (*args[:place], change(args[place]), *args[place + 1 :])
        else:
            options["env"] = change(options.get("env"))
        plain(self, *args, **options)

    subprocess.Popen.__init__ = init  # type: ignore[method-assign]
