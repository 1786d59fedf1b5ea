"""Child processes: in Python processes that a program starts, `mlx` is mxcompat, too.

The folder `_children` at the front of PYTHONPATH makes it so. If a program gives a process another PYTHONPATH, or a new
environment, the folder is added when the process is started.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mxcompat._compat.processes import change_environments

__all__ = ["hand_down", "with_what_is_handed_down"]

_PACKAGE = Path(__file__).resolve().parent
_before: list[str] = []
_after: list[str] = []


def hand_down() -> tuple[list[str], list[str]]:
    """Make `mlx` mean mxcompat in the Python processes that this one starts. Calling it again changes nothing.

    Returns:
        The folders at the front of their PYTHONPATH, and those at its end.
    """
    if not _before:
        _before.append(str(_PACKAGE / "_children"))
        is_importable = any(finder.find_spec("mxcompat", None) for finder in sys.meta_path)
        if not is_importable or str(_PACKAGE.parent) in _entries(os.environ.get("PYTHONPATH", "")):
            _after.append(str(_PACKAGE.parent))  # without this folder on PYTHONPATH, Python finds mxcompat anyway
        os.environ["PYTHONPATH"] = with_what_is_handed_down(os.environ.get("PYTHONPATH", ""))
        change_environments(_environment)
    return [*_before], [*_after]


def with_what_is_handed_down(search: str) -> str:
    """Return a PYTHONPATH with the folders of `hand_down` added, except those that it has already."""
    there = _entries(search)
    before = [folder for folder in _before if folder not in there]
    after = [folder for folder in _after if folder not in there]
    return os.pathsep.join([*before, *([search] if search else []), *after])


def _entries(search: str) -> list[str]:
    return search.split(os.pathsep)


def _environment(environment: Any) -> Any:
    """Return the environment for a new process: the given one, with PYTHONPATH extended. None stands for this process's
    environment."""
    known = os.environ if environment is None else environment
    if not isinstance(known, Mapping):
        return environment
    name = next((key for key in known if key in ("PYTHONPATH", b"PYTHONPATH")), "PYTHONPATH")
    search = os.fsdecode(known.get(name, ""))
    complete = with_what_is_handed_down(search)
    return environment if complete == search else {**known, name: complete}
