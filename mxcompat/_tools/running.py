"""Run a program written for MLX as `python` would, with mxcompat in MLX's place."""

from __future__ import annotations

import gc
import io
import os
import pkgutil
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from mxcompat._dropin import install_as_mlx
from mxcompat._started import hand_down

__all__ = ["as_mlx", "run_program"]


def run_program(argv: Sequence[str]) -> int:
    """Run `SCRIPT [args]`, `-m MODULE [args]`, `-c CODE [args]`, or `- [args]` for a program on standard input. It
    becomes the main module, and stays it for its threads and exit handlers. Exceptions of the program, including
    `SystemExit`, are not caught.

    Returns:
        The exit status: 2 if the script does not exist, or if no program is named; else 0.
    """
    first, *rest = argv
    if first == "-m" and rest:
        _prepare(argv[1:], None)
        _run_module(rest[0])
    elif first == "-c" and rest:
        _prepare(["-c", *rest[1:]], "")
        _run(_compiled(rest[0], "<string>"), __loader__=BuiltinImporter)
    elif first == "-":
        _prepare(argv, "")
        code = _compiled(sys.stdin.buffer.read(), "<stdin>")
        _run(code, __loader__=BuiltinImporter, __file__="<stdin>", __cached__=None)
    elif first.startswith("-"):
        print(f"mxcompat: unknown option {first}", file=sys.stderr)
        return 2
    elif not os.path.exists(first):
        print(f"mxcompat: no such script: {first}", file=sys.stderr)
        return 2
    else:
        path = os.path.join(os.getcwd(), first)
        _prepare(argv, str(Path(path).resolve().parent))
        _run_file(path)
    return 0


def _run_file(path: str) -> None:
    if pkgutil.get_importer(path) is not None:  # the path is a folder or an archive with a main module
        runpy.run_path(path, run_name="__main__")
        return
    with io.open_code(path) as file:
        code = pkgutil.read_code(file)  # this is None unless the file is compiled code
    if code is None:
        code = _compiled(Path(path).read_bytes(), path)
    _run(code, __loader__=SourceFileLoader("__main__", path), __file__=path, __cached__=None)


def _run_module(name: str) -> None:
    why = ""
    try:
        spec = find_spec(name)
        if spec is not None and spec.submodule_search_locations is not None:
            why = f"; {name!r} is a package and cannot be directly executed"
            name += ".__main__"
            spec = find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        spec = None
    if spec is None:
        sys.exit(f"{sys.executable}: No module named {name}{why}")
    sys.argv[0] = str(spec.origin)
    code = spec.loader.get_code(spec.name)  # type: ignore[union-attr]
    _run(
        code, __loader__=spec.loader, __file__=spec.origin, __cached__=spec.cached, __spec__=spec,
        __package__=spec.parent,
    )  # fmt: skip


def _compiled(source: str | bytes, name: str) -> CodeType:
    # the program must not inherit the `__future__` imports of this file
    return compile(source, name, "exec", dont_inherit=True)


def _run(code: Any, **names: Any) -> None:
    """Run code as the main module, with these names in it."""
    main = sys.modules["__main__"] = ModuleType("__main__")
    vars(main).update(__annotations__={}, **names)
    exec(code, vars(main))


def _prepare(argv: Sequence[str], directory: str | None) -> None:
    """Set up the program's environment: its arguments, its directory first on the path (None: the one where Python was
    started), and `mlx`."""
    gc.freeze()  # the program has no objects yet, so the collector skips only JAX's objects from now on
    started_in = sys.path.pop(0)
    before, after = as_mlx()
    sys.argv[:] = argv
    sys.path[:0] = [started_in if directory is None else directory, *before]
    sys.path += after


def as_mlx() -> tuple[list[str], list[str]]:
    """Put mxcompat in MLX's place, in this process and in its Python child processes.

    Returns:
        The folders for the beginning and the end of `sys.path`, which `multiprocessing`'s processes inherit.
    """
    install_as_mlx()
    before, after = hand_down()
    return before, [folder for folder in after if folder not in sys.path]
