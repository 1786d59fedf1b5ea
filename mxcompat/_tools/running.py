"""Running: a program written for MLX, as `python` would run it, with mxcompat in MLX's place."""

from __future__ import annotations

import gc
import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from mxcompat._dropin import install_as_mlx
from mxcompat._started import hand_down

__all__ = ["as_mlx", "run_program"]


def run_program(argv: Sequence[str]) -> int:
    """Run `SCRIPT [args]` or `-m MODULE [args]`. What the program raises, `SystemExit` too, comes through.

    Returns:
        The exit status: 2 if there is no such script, or no program is named.
    """
    first, *rest = argv
    if first == "-m" and rest:
        _prepare(rest, None)
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return 0
    if first.startswith("-"):
        print(f"mxcompat: unknown option {first}", file=sys.stderr)
        return 2
    if not os.path.exists(first):
        print(f"mxcompat: no such script: {first}", file=sys.stderr)
        return 2
    _prepare(argv, str(Path(first).resolve().parent))
    runpy.run_path(first, run_name="__main__")
    return 0


def _prepare(argv: Sequence[str], directory: str | None) -> None:
    """What the program expects to find: its own arguments, its directory (None: where Python was started) first on the
    path, and `mlx`."""
    gc.freeze()  # nothing of the program's is there yet; its collections, and the last one, need not look through JAX
    started_in = sys.path.pop(0)
    before, after = as_mlx()
    sys.argv[:] = argv
    sys.path[:0] = [started_in if directory is None else directory, *before]
    sys.path += after


def as_mlx() -> tuple[list[str], list[str]]:
    """Put mxcompat in MLX's place, here and in the Python processes that this one starts.

    Returns:
        What these find before all else, and after all else: for `sys.path`, which the processes of `multiprocessing`
        inherit.
    """
    install_as_mlx()
    before, after = hand_down()
    return before, [folder for folder in after if folder not in sys.path]
