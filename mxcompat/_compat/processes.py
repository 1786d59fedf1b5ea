"""What CPython does not promise of processes: what it does when one ends, and what all go through that are started."""

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
    "process-end", "a process whose program has ended does not wait for what XLA compiles in the background", "it waits"
)
def process_end() -> bool:
    known = threading._shutdown, atexit._run_exitfuncs  # type: ignore[attr-defined]
    return all(map(callable, known)) and issubclass(io.TextIOWrapper, file_type())


def is_run_as_main(frame: FrameType | None) -> bool:
    """True if `python -m` runs the module with this frame, and nothing else, a profiler, say, has called that."""
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
    """Call what is registered with `atexit`, as Python does at exit."""
    atexit._run_exitfuncs()


def file_type() -> type:
    """The base of the types of all files. To look for objects of it asks no type what it is."""
    return io.IOBase.__base__  # type: ignore[return-value]


def handler_of_jax() -> Callable[[], Any] | None:
    """What JAX has registered with `atexit`, which takes the compiler from under the thread that compiles. None if JAX
    has not been imported, or has none of the name."""
    return getattr(sys.modules.get("jax._src.api"), "clean_up", None)


@unpromised(
    "process-start",
    "`mlx` is mxcompat in the Python processes that a program starts with an environment of its own",
    "it is in those that inherit the program's environment",
)
def process_start() -> bool:
    return _place_of_environment() > 0


def _place_of_environment() -> int:
    """The position of the environment among the arguments of `Popen`."""
    return list(inspect.signature(subprocess.Popen.__init__).parameters).index("env") - 1


def change_environments(change: Callable[[Any], Any]) -> None:
    """Let `change` make the environments of the processes that are started from now on, of what they would have been
    given. `Popen.__init__` is what all of `subprocess` and asyncio's subprocesses go through."""
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
