"""The drop-in: `import mlx...` gives the modules of mxcompat.

`install_as_mlx` puts an import finder before Python's own. As in real MLX, `mlx` is an empty namespace. For every
module of MLX below it, the finder returns the module of mxcompat itself: `mlx.core is mxcompat.core`. So classes are
the same for both names. While the drop-in is installed, public objects have `mlx` in `__module__`, since programs use
`type(x).__module__` to recognise MLX. Real MLX may be installed too, and is then hidden.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mxcompat._compat.python import name_in_errors
from mxcompat._version import MLX_VERSION

__all__ = ["RENAMED", "install_as_mlx", "installed", "is_of_others", "uninstall"]

_PARTS = frozenset({"core", "nn", "optimizers", "utils"})
"""The modules with the same name in MLX and mxcompat."""

RENAMED = {"_distributed_utils": "_distributed"}
"""The modules of MLX that have another name in mxcompat."""

_REAL_ONLY = frozenset({"__array_api_info", "_reprlib_fix", "extension"})
"""The modules that only make sense in real MLX. They are not found, even if real MLX is installed."""


def install_as_mlx() -> None:
    """Let `import mlx`, `import mlx.core as mx`, `from mlx import nn` and so on give mxcompat's modules.

    It is for notebooks and tests; `python -m mxcompat script.py` does the same for a program. A second call changes
    nothing. Until the process ends, `importlib.metadata.version("mlx")` is the version of MLX whose API mxcompat has.

    Raises:
        RuntimeError: if real MLX is already imported. Code that holds its modules would not see mxcompat's.

    Example:
        >>> import mxcompat
        >>> mxcompat.install_as_mlx()
        >>> import mlx.core as mx
        >>> mx is mxcompat.core
        True
    """
    if installed():
        return
    real = [name for name in sys.modules if _part(name) in _PARTS]
    if real:
        raise RuntimeError(
            f"[install_as_mlx] Real MLX is imported already ({min(real, key=len)}). "
            "Call mxcompat.install_as_mlx() before the first `import mlx`."
        )
    sys.modules.pop("mlx", None)  # `find_spec("mlx.core")` leaves a bare namespace package in `sys.modules`
    sys.meta_path.insert(0, _finder)


def installed() -> bool:
    """Return whether `mlx` means mxcompat in this process.

    A program that has imported `mlx.core` as `mx` can test `hasattr(mx, "__mxcompat__")`, which is mxcompat's version.

    Example:
        >>> import mxcompat
        >>> mxcompat.install_as_mlx()
        >>> mxcompat.installed()
        True
    """
    return _finder in sys.meta_path


def uninstall() -> None:
    """Undo `install_as_mlx`: the next `import mlx` finds real MLX, or nothing. Does nothing if it was not called."""
    if not installed():
        return
    sys.meta_path.remove(_finder)
    for name in [name for name in sys.modules if name == "mlx" or name.startswith("mlx.")]:
        del sys.modules[name]
    while _changed:
        thing, attribute, own = _changed.pop()
        setattr(thing, attribute, own)


_changed: list[tuple[Any, str, Any]] = []
"""The current changes that imitate MLX: the object, the attribute, and its original value."""


def _rename(thing: Any, attribute: str, name: str) -> None:
    _changed.append((thing, attribute, getattr(thing, attribute)))
    setattr(thing, attribute, name)


_IN_CPP = sys.version_info >= (3, 12)
"""True if errors of Python name the classes that MLX has written in C++ with their module. Before 3.12 they do not."""

_STANDARD_ONLY = ("device", "to_device", "__rand__", "__ror__", "__rxor__", "__rlshift__", "__rrshift__")
"""Attributes that the array API standard requires, but that MLX's arrays lack. They are removed in MLX's place, because
some libraries treat an object with `device` as an array of the standard."""


def _take_off(owner: type, attributes: Iterable[str]) -> None:
    for attribute in attributes:
        if attribute in vars(owner):
            _changed.append((owner, attribute, vars(owner)[attribute]))
            delattr(owner, attribute)


def _name_as_mlx(names: Iterable[str]) -> None:
    """Give these modules, and their public classes and functions, the names that they have in MLX.

    An object from a private module gets the name of the public module, at the depth of MLX: `Optimizer` belongs to
    `mlx.optimizers.optimizers`.
    """
    # imported here because this module is loaded by now
    from mxcompat._transforms.functions import GradientFunction, given_to

    for name in sorted(names, key=lambda name: -name.count(".")):
        module, alias = sys.modules[name], "mlx" + name.removeprefix("mxcompat")
        for value in [vars(module).get(public) for public in getattr(module, "__all__", ())]:
            value = given_to(value) if type(value) is GradientFunction else value
            own = value.__module__ if isinstance(value, (type, FunctionType)) else None
            if own is not None and own.startswith("mxcompat."):
                of = alias if "._" in own else "mlx" + own.removeprefix("mxcompat")
                _rename(value, "__module__", of)
                if _IN_CPP and type(value) is type and of.startswith("mlx.core"):
                    # when the drop-in is removed, restoring `__name__` undoes `name_in_errors`
                    _rename(value, "__name__", value.__name__)
                    name_in_errors(value, f"{of}.{value.__name__}")
        if module.__name__ == name:
            _rename(module, "__name__", alias)


def _part(name: str) -> str:
    """Return the second component of a module's name if the first is `mlx`: "core" for "mlx.core.random"."""
    first, *rest = name.split(".")
    return rest[0] if first == "mlx" and rest else ""


class _Namespace:
    """Loader of `mlx`. Its search path is empty, so that only `_Finder` finds modules below it."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def attribute(name: str) -> ModuleType:
            if name in _PARTS:
                return importlib.import_module(f"mlx.{name}")
            raise AttributeError(f"module 'mlx' has no attribute {name!r}")

        module.__file__ = None  # as in MLX
        module.__getattr__ = attribute  # type: ignore[method-assign]


class _Alias:
    """Loader of `mlx.x` that returns `mxcompat.x`."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has just replaced the module's spec by the alias's
        below = [name for name in sys.modules if name.startswith(f"{self.target}.") and "._" not in name]
        for name in below:  # add the modules that the module has imported to `sys.modules`, too
            sys.modules.setdefault("mlx" + name.removeprefix("mxcompat"), sys.modules[name])
        if "._" not in self.target:
            _name_as_mlx([self.target, *below])
        if self.target == "mxcompat.core":
            _take_off(module.array, _STANDARD_ONLY)


class _Finder:
    """Finder of `mlx`, of MLX's modules below it, and of the distribution `mlx`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "mlx":
            return ModuleSpec("mlx", _Namespace(), is_package=True)
        part = _part(fullname)
        if part in _PARTS or part in RENAMED:
            ours = "mxcompat." + RENAMED.get(part, part) + fullname[len(f"mlx.{part}") :]
            spec = importlib.util.find_spec(ours)
            if spec is None:
                return None
            return ModuleSpec(fullname, _Alias(ours), is_package=spec.submodule_search_locations is not None)
        if part and part not in _REAL_ONLY and fullname == f"mlx.{part}":
            return _others(fullname)
        return None

    def find_distributions(self, context: Any = None) -> Iterable[Any]:
        name = getattr(context, "name", None)
        return [_distribution()] if name is None or name.lower() == "mlx" else []


def is_of_others(name: str) -> bool:
    """Return True if `mlx.NAME` is an installed package of another project, such as mlx.data."""
    part = _part(name)
    # search for the last component: a folder without __init__.py asks for its parent package, which may be absent
    return part not in _PARTS | RENAMED.keys() | _REAL_ONLY and PathFinder.find_spec(part, _folders()) is not None


def _others(name: str) -> ModuleSpec | None:
    return PathFinder.find_spec(name, _folders())


def _folders() -> list[str]:
    return [str(Path(entry or ".") / "mlx") for entry in sys.path]


_FILES = {
    "METADATA": f"Metadata-Version: 2.1\nName: mlx\nVersion: {MLX_VERSION}\nSummary: MLX's API, by mxcompat\n",
    "top_level.txt": "mlx\n",
}


@cache
def _distribution() -> Any:
    """Return the distribution that `importlib.metadata` reports for `mlx`."""
    from importlib.metadata import Distribution  # imported here because the import is slow

    class MLX(Distribution):
        def read_text(self, filename: str) -> str | None:
            return _FILES.get(filename)

        def locate_file(self, path: Any) -> Path:
            return Path(__file__).parent / path

    return MLX()


_finder = _Finder()
