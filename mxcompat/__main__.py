"""The command line, which runs MLX programs on mxcompat, and has tools for developers.

If the first argument is in `COMMANDS`, it is a command; otherwise it is the program to run. `python -m mxcompat --help`
lists the commands.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from mxcompat._compat.python import caller_of
from mxcompat._tools.ending import ProcessEnd
from mxcompat._tools.running import run_program
from mxcompat._version import MLX_VERSION, __version__


class Command(NamedTuple):
    """A command: its arguments and its description, as `--help` shows them, and the function that runs it.

    `run` gets the arguments, returns the exit status, and imports the modules that it needs.
    """

    arguments: str
    about: str
    run: Callable[[list[str]], int]


def main(argv: list[str]) -> int:
    """Run the command line `argv`, without the program's name. Return the exit status."""
    if not argv or argv[0] in ("-h", "--help"):
        print(_usage(), file=sys.stdout if argv else sys.stderr)
        return 0 if argv else 2
    first, *rest = argv
    if first == "--version":
        print(f"mxcompat {__version__} (MLX {MLX_VERSION})")
        return 0
    if first in COMMANDS:
        return COMMANDS[first].run(rest)
    if first.startswith("-") and first != "-" and (first not in ("-m", "-c") or not rest):
        print(f"mxcompat: unknown option {first}\n{_usage()}", file=sys.stderr)
        return 2
    return run_program(argv)


def _usage() -> str:
    rows = [("SCRIPT [args]", "run a script, `import mlx...` being mxcompat")]
    rows += [
        ("-m MODULE [args]", "the same for a module"),
        ("-c CODE [args]", "for code; - for code from standard input"),
    ]
    rows += [(f"{name} {command.arguments}".rstrip(), command.about) for name, command in COMMANDS.items()]
    return "\n".join(["usage:", *[f"python -m mxcompat {call:<22} {about}" for call, about in rows]])


def _no_arguments(arguments: list[str]) -> bool:
    """Return True if there are no arguments. Otherwise print an error and return False."""
    if arguments:
        print(f"mxcompat: unexpected arguments: {' '.join(arguments)}", file=sys.stderr)
    return not arguments


def _launch(argv: list[str]) -> int:
    from mxcompat._distributed.launch import main

    return main(argv)


def _info(argv: list[str]) -> int:
    if not _no_arguments(argv):
        return 2
    import platform
    from importlib.metadata import version  # imported here because the import is slow

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
    _list_unpromised()
    return 0


def _list_unpromised() -> None:
    """Print the undocumented features of JAX, XLA and CPython that are used, and the fallback of each that fails."""
    from mxcompat._tools.features import everything, unknown_names

    features = everything()
    print("\nWhat JAX, XLA and Python do not promise:")
    width = max(len(one.name) for one in features)
    for one in features:
        said = f"holds: {one.purpose}" if one.holds else f"does not hold ({one.reason}): {one.fallback}"
        print(f"  {one.name:<{width}}  {said}")
    if unknown := unknown_names():
        print(f"MXCOMPAT_WITHOUT has unknown names: {', '.join(unknown)}")


def _clear_cache(argv: list[str]) -> int:
    if not _no_arguments(argv):
        return 2
    from mxcompat._graph.run import folder

    directory = folder.directory()
    if directory is None:
        print("mxcompat stores nothing on disk (MXCOMPAT_CACHE=0, or there is no suitable folder)")
    else:
        print(f"removed {_amount(folder.clear())} from {directory}")
    return 0


def _amount(usage: Any) -> str:
    return f"{usage.entries} compiled programs of {usage.bytes / 1e6:.1f} MB"


def _check(argv: list[str]) -> int:
    from mxcompat._tools.check.command import check

    return check(argv)


def _profile(argv: list[str]) -> int:
    from mxcompat._tools.profile.command import profile

    return profile(argv)


COMMANDS = {
    "launch": Command("-n N SCRIPT [args]", "run it as N processes that find each other; see `launch --help`", _launch),
    "profile": Command("SCRIPT [args]", "run a script and show where its time goes; see `profile --help`", _profile),
    "check": Command("PATH...", "list uses of MLX in the programs under PATH that are missing here, or slow", _check),
    "info": Command("", "show versions, devices, stored programs, and undocumented features that are used", _info),
    "clear-cache": Command("", "remove the compiled programs on disk", _clear_cache),
}


if __name__ == "__main__":
    with ProcessEnd(caller_of(0)):
        sys.exit(main(sys.argv[1:]))
