"""Running: a program written for MLX, as `python` would run it, with mxcompat in MLX's place."""

from __future__ import annotations

import os
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from mxcompat._dropin import install_as_mlx

__all__ = ["as_mlx", "run_program"]


def run_program(argv: Sequence[str]) -> int:
    """Run `SCRIPT [args]` or `-m MODULE [args]`. What the program raises, `SystemExit` too, comes through.

    Returns:
        The exit status: 2 if there is no such script, or no program is named.
    """
    first, *rest = argv
    if first == "-m" and rest:
        _prepare(rest, sys.path[0])
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


def _prepare(argv: Sequence[str], directory: str) -> None:
    """What the program expects to find: its own arguments, its directory on the path, and `mlx`."""
    entries = as_mlx()
    sys.argv[:] = argv
    sys.path[0] = directory
    sys.path[1:1] = entries  # what processes started by multiprocessing get


def as_mlx() -> list[str]:
    """Put mxcompat in MLX's place, here and, by PYTHONPATH, in the Python processes that this one starts.

    Returns:
        What this put in front of PYTHONPATH.
    """
    install_as_mlx()
    package = Path(__file__).resolve().parents[1]
    entries = [str(package / "_children")]
    if str(package.parent) not in sys.path[1:]:  # not installed, or installed in place
        entries.append(str(package.parent))
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*entries, *([known] if known else [])])
    return entries
