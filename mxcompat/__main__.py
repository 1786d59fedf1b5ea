"""The command line: run MLX programs on mxcompat.

python -m mxcompat SCRIPT [args]      run a script, `import mlx...` being mxcompat
python -m mxcompat -m MODULE [args]   the same for a module
python -m mxcompat launch -n 4 SCRIPT [args]   the script as 4 processes that find each other (launch -h: all options)
python -m mxcompat check PATH         what of MLX's API the programs under PATH use that mxcompat does not have
python -m mxcompat info               versions, devices, and the compiled programs that are kept on disk
python -m mxcompat clear-cache        remove these
"""

from __future__ import annotations

import os
import platform
import runpy
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

from mxcompat._dropin import install_as_mlx
from mxcompat._version import MLX_VERSION, __version__

_USAGE = "usage:\n" + (__doc__ or "").partition("\n\n")[2].rstrip()


def main(argv: list[str]) -> int:
    """Run the command line `argv`, without the program's name. Returns the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_USAGE, file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    first, *rest = argv
    if first == "launch":
        return _launch(rest)
    if first == "info" and not rest:
        return _info()
    if first == "clear-cache" and not rest:
        return _clear_cache()
    if first == "check" and rest:
        return _check(rest)
    if first == "--version":
        print(f"mxcompat {__version__} (MLX {MLX_VERSION})")
        return 0
    if first == "-m" and rest:
        _prepare(rest, sys.path[0])
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        return 0
    if first.startswith("-"):
        print(f"mxcompat: unknown option {first}\n{_USAGE}", file=sys.stderr)
        return 2
    if not os.path.exists(first):
        print(f"mxcompat: no such script: {first}", file=sys.stderr)
        return 2
    _prepare(argv, str(Path(first).resolve().parent))
    runpy.run_path(first, run_name="__main__")
    return 0


def _prepare(argv: list[str], directory: str) -> None:
    """What the program expects to find: its own arguments, its directory on the path, and `mlx`, here and in the
    Python processes that it starts."""
    install_as_mlx()
    sys.argv[:] = argv
    sys.path[0] = directory
    package = Path(__file__).resolve().parent
    entries = [str(package / "_children")]
    if str(package.parent) not in sys.path[1:]:  # not installed, or installed in place
        entries.append(str(package.parent))
    sys.path[1:1] = entries  # what processes started by multiprocessing get
    known = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([*entries, *([known] if known else [])])


def _launch(argv: list[str]) -> int:
    from mxcompat._distributed.launch import main

    return main(argv)


def _info() -> int:
    import jax

    from mxcompat._graph.run import folder

    cache = getattr(jax.config, "jax_compilation_cache_dir", None)
    directory = folder.directory()
    kept = "off" if directory is None else f"{directory}, {_amount(folder.usage())}"
    print(f"mxcompat  {__version__}, with the API of MLX {MLX_VERSION}")
    print(f"jax       {version('jax')}, jaxlib {version('jaxlib')}, NumPy {version('numpy')}")
    print(f"Python    {platform.python_version()} on {platform.system()} {platform.machine()}")
    print(f"backend   {jax.default_backend()}")
    for device in jax.devices():
        print(f"device    {device.id}: {device.device_kind}")
    print(f"cache     {kept}")
    if cache:
        print(f"          JAX's own is used in its place: {cache} (JAX_COMPILATION_CACHE_DIR)")
    return 0


def _clear_cache() -> int:
    from mxcompat._graph.run import folder

    directory = folder.directory()
    if directory is None:
        print("mxcompat keeps nothing on disk (MXCOMPAT_CACHE=0, or there is no place for it)")
    else:
        print(f"removed {_amount(folder.clear())} from {directory}")
    return 0


def _amount(usage: Any) -> str:
    return f"{usage.entries} compiled programs of {usage.bytes / 1e6:.1f} MB"


def _check(paths: list[str]) -> int:
    from mxcompat._check import check

    missing = [p for p in paths if not os.path.exists(p)]
    if missing:
        print(f"mxcompat: no such file or directory: {', '.join(missing)}", file=sys.stderr)
        return 2
    result = check(paths)
    for problem in result.problems:
        print(problem)
    print(f"{result.files} files use {result.names} names of MLX; {len(result.problems)} places use what is missing.")
    return 1 if result.problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
