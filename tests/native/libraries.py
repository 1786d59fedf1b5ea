"""Other builds of the extension, with the headers of each Python on the machine, loaded in place of the default one."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

__all__ = ["Python", "built", "load", "pythons"]

ROOT = Path(__file__).parents[2]
NAME = "mxcompat._native.in_c"

_ABOUT = """
import json, sys, sysconfig
from pathlib import Path
include = sysconfig.get_path("include")
print(json.dumps({"version": sys.version_info[:3], "headers": (Path(include) / "Python.h").exists(),
                  "lock": not sysconfig.get_config_var("Py_GIL_DISABLED")}))
"""


class Python(NamedTuple):
    """An interpreter with its headers."""

    version: tuple[int, int, int]
    path: str


@cache
def pythons() -> tuple[Python, ...]:
    """Return the Pythons on the PATH and among pyenv's for which the extension can be built, oldest first."""
    folders = [Path(f) for f in os.environ.get("PATH", "").split(os.pathsep) if f]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    paths = {Path(sys.executable)} | {p for f in folders for p in f.glob("python3.[0-9]*") if "-" not in p.name}
    interpreters = {}
    for path in sorted(paths):
        try:
            process = subprocess.run([path, "-c", _ABOUT], capture_output=True, text=True, timeout=60)
            about = json.loads(process.stdout) if process.returncode == 0 else {}
        except (OSError, ValueError, subprocess.TimeoutExpired):
            continue  # the file of this name is not a working Python
        if about and about["headers"] and about["lock"] and tuple(about["version"]) >= (3, 11):
            version = tuple(about["version"])
            interpreters.setdefault(version, Python(version, str(path)))
    return tuple([interpreters[version] for version in sorted(interpreters)])


def built(python: Python, folder: Path) -> Path:
    """Return the extension as setup.py builds it with this Python, in a folder. setuptools is this Python's.

    Raises:
        AssertionError: if it does not compile.
    """
    tools = folder / "tools"
    tools.mkdir(parents=True)
    origin = importlib.util.find_spec("setuptools").origin  # type: ignore[union-attr]
    packages = Path(origin).parents[1]  # type: ignore[arg-type]
    for path in (packages / "setuptools", packages / "_distutils_hack", *packages.glob("setuptools-*.dist-info")):
        (tools / path.name).symlink_to(path)
    source = folder / "source"
    shutil.copytree(
        ROOT / "mxcompat" / "_native", source / "mxcompat" / "_native", ignore=shutil.ignore_patterns("*.so")
    )
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)
    (source / "mxcompat" / "_version.py").write_text((ROOT / "mxcompat" / "_version.py").read_text())
    process = subprocess.run(
        [python.path, "setup.py", "-q", "build_ext", "--build-lib", folder / "lib", "--build-temp", folder / "temp"],
        cwd=source, env=os.environ | {"PYTHONPATH": str(tools)}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    libraries = [*(folder / "lib").rglob("in_c*.so")]
    assert process.returncode == 0, process.stdout + process.stderr
    assert len(libraries) == 1, process.stdout + process.stderr
    return libraries[0]


def load(library: Path) -> None:
    """Use this build of the extension in this process, which has not imported mxcompat yet."""
    assert "mxcompat" not in sys.modules
    spec = importlib.util.spec_from_file_location(NAME, library)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    sys.modules[NAME] = module
