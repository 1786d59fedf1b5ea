"""`python -m mxcompat profile SCRIPT`: run a program on mxcompat and show where its time went."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from mxcompat._jax import jax
from mxcompat._tools.running import run_program

from .page import page
from .record import recorded
from .table import table

__all__ = ["profile"]


def profile(argv: list[str]) -> int:
    """Run `[options] SCRIPT [args]` or `[options] -m MODULE [args]`, and write a table to standard error.

    Returns:
        The program's exit status.
    """
    count = 0
    while count < len(argv) and argv[count].startswith("--"):
        count += 1 if "=" in argv[count] or argv[count] == "--help" else 2
    options, program = _parser().parse_args(argv[:count]), argv[count:]
    if not program:
        _parser().error("which program? Name a script, or a module with -m")
    with ExitStack() as stack:
        stack.callback(lambda: _report(options, program, result))
        if options.trace is not None:
            stack.enter_context(_trace(options.trace))
        result = stack.enter_context(recorded())
        return run_program(program)


def _trace(folder: Path) -> AbstractContextManager[None]:
    """Start JAX's profiler without tracing Python calls, which would take most of the file and the time."""
    options = jax.profiler.ProfileOptions()
    options.python_tracer_level = 0
    return jax.profiler.trace(os.fspath(folder), create_perfetto_trace=True, profiler_options=options)


def _report(options: argparse.Namespace, program: list[str], result: object) -> None:
    """Print the profile, also if the program raised an exception."""
    sys.stdout.flush()
    for line in table(result, " ".join(program), options.top):  # type: ignore[arg-type]
        print(line, file=sys.stderr)
    if options.html is not None:
        options.html.write_text(page(result, " ".join(program)), encoding="utf-8")  # type: ignore[arg-type]
        print(f"\n{options.html}: the same as a page", file=sys.stderr)
    if options.trace is not None:
        for path in sorted(options.trace.rglob("perfetto_trace.json.gz")):
            print(f"\n{path}: open it at https://ui.perfetto.dev", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m mxcompat profile",
        usage="%(prog)s [options] SCRIPT [args]\n       %(prog)s [options] -m MODULE [args]",
        description="Run a program that was written for MLX and say where its time went.",
    )
    parser.add_argument("--trace", type=Path, metavar="FOLDER", help="write a trace for Perfetto there (jax.profiler)")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write the result as a page that can be sent")
    parser.add_argument("--top", type=int, metavar="N", default=20, help="how many lines to show (20)")
    return parser
