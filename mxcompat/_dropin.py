"""The drop-in: `import mlx...` gives the modules of mxcompat.

`install_as_mlx` puts a finder in front of Python's own. `mlx` is, as in real MLX, a namespace with nothing in it; for
everything below it that MLX has, the finder answers with the very modules of mxcompat: `mlx.core is mxcompat.core`, so
classes are the same whichever way they came in. As long as it is there, what is public says that it is of `mlx`:
programs ask `type(x).__module__` whether something is MLX's. Real MLX may be installed beside it; it is then not seen.
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

from mxcompat._version import MLX_VERSION

__all__ = ["install_as_mlx", "installed", "is_of_others", "uninstall"]

_PARTS = frozenset({"core", "nn", "optimizers", "utils"})
"""What MLX has below `mlx`, and mxcompat below `mxcompat` under the same names."""

_RENAMED = {"_distributed_utils": "_distributed"}
"""What is below `mlx`, and below `mxcompat` under another name."""

_REAL_ONLY = frozenset({"__array_api_info", "_reprlib_fix", "extension"})
"""What only makes sense in real MLX: not found, even where real MLX is installed."""


def install_as_mlx() -> None:
    """Let `import mlx`, `import mlx.core as mx`, `from mlx import nn` and so on give mxcompat's modules.

    For a notebook or a test; `python -m mxcompat script.py` does it for a program. Calling it again changes nothing.
    Until the process ends, `importlib.metadata.version("mlx")` answers the version of MLX whose API mxcompat has.

    Raises:
        RuntimeError: if real MLX is imported already: what holds its modules would not see ours.

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
    sys.modules.pop("mlx", None)  # the bare namespace package, which `find_spec("mlx.core")` leaves behind
    sys.meta_path.insert(0, _finder)


def installed() -> bool:
    """Whether `mlx` means mxcompat in this process.

    A program that has imported `mlx.core` as `mx` may ask `hasattr(mx, "__mxcompat__")`: mxcompat's version is there.

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
"""What is as in MLX at present: the thing, the attribute, and what is there otherwise."""


def _rename(thing: Any, attribute: str, name: str) -> None:
    _changed.append((thing, attribute, getattr(thing, attribute)))
    setattr(thing, attribute, name)


_STANDARD_ONLY = ("device", "to_device", "__rand__", "__ror__", "__rxor__", "__rlshift__", "__rrshift__")
"""What arrays have for the array API standard, and MLX's have not. Libraries tell arrays apart by `device`."""


def _take_off(owner: type, attributes: Iterable[str]) -> None:
    for attribute in attributes:
        if attribute in vars(owner):
            _changed.append((owner, attribute, vars(owner)[attribute]))
            delattr(owner, attribute)


def _name_as_mlx(names: Iterable[str]) -> None:
    """Give these modules, and the public classes and functions in them, the names that they have in MLX.

    What is defined in a private module is MLX's where it is public, as deep as it is: `Optimizer` is of
    `mlx.optimizers.optimizers`.
    """
    from mxcompat._transforms.functions import GradientFunction, given_to  # there by now

    for name in sorted(names, key=lambda name: -name.count(".")):
        module, alias = sys.modules[name], "mlx" + name.removeprefix("mxcompat")
        for value in [vars(module).get(public) for public in getattr(module, "__all__", ())]:
            value = given_to(value) if type(value) is GradientFunction else value
            own = value.__module__ if isinstance(value, (type, FunctionType)) else None
            if own is not None and own.startswith("mxcompat."):
                _rename(value, "__module__", alias if "._" in own else "mlx" + own.removeprefix("mxcompat"))
        if module.__name__ == name:
            _rename(module, "__name__", alias)


def _part(name: str) -> str:
    """The second component of a module's name if the first is `mlx`: "core" for "mlx.core.random"."""
    first, *rest = name.split(".")
    return rest[0] if first == "mlx" and rest else ""


class _Namespace:
    """Makes `mlx`. Its search path is empty, so that below it nothing is found but what `_Finder` finds."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        def attribute(name: str) -> ModuleType:
            if name in _PARTS:
                return importlib.import_module(f"mlx.{name}")
            raise AttributeError(f"module 'mlx' has no attribute {name!r}")

        module.__file__ = None  # as MLX's
        module.__getattr__ = attribute  # type: ignore[method-assign]


class _Alias:
    """Loads `mlx.x` by handing out `mxcompat.x`."""

    def __init__(self, target: str) -> None:
        self.target = target
        self.spec: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.target)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has just overwritten it with the alias's
        below = [name for name in sys.modules if name.startswith(f"{self.target}.") and "._" not in name]
        for name in below:  # what it has imported is there to whoever looks into `sys.modules`
            sys.modules.setdefault("mlx" + name.removeprefix("mxcompat"), sys.modules[name])
        if "._" not in self.target:
            _name_as_mlx([self.target, *below])
        if self.target == "mxcompat.core":
            _take_off(module.array, _STANDARD_ONLY)


class _Finder:
    """Finds `mlx` and the modules of MLX below it, and the distribution `mlx`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == "mlx":
            return ModuleSpec("mlx", _Namespace(), is_package=True)
        part = _part(fullname)
        if part in _PARTS or part in _RENAMED:
            ours = "mxcompat." + _RENAMED.get(part, part) + fullname[len(f"mlx.{part}") :]
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
    """Whether `mlx.NAME` is another project's package in MLX's namespace, such as mlx.data, and installed."""
    return _part(name) not in _PARTS | _REAL_ONLY and _others(name) is not None


def _others(name: str) -> ModuleSpec | None:
    return PathFinder.find_spec(name, [str(Path(entry or ".") / "mlx") for entry in sys.path])


_FILES = {
    "METADATA": f"Metadata-Version: 2.1\nName: mlx\nVersion: {MLX_VERSION}\nSummary: MLX's API, by mxcompat\n",
    "top_level.txt": "mlx\n",
}


@cache
def _distribution() -> Any:
    """What `importlib.metadata` says of `mlx`."""
    from importlib.metadata import Distribution  # here, since it takes long to import

    class MLX(Distribution):
        def read_text(self, filename: str) -> str | None:
            return _FILES.get(filename)

        def locate_file(self, path: Any) -> Path:
            return Path(__file__).parent / path

    return MLX()


_finder = _Finder()
