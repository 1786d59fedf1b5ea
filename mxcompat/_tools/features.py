"""List all features that JAX, XLA and CPython do not promise, for `python -m mxcompat info` and the tests."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mxcompat import _compat
from mxcompat._compat.registry import REGISTRY, WITHOUT, Unpromised

__all__ = ["everything", "unknown_names"]


def everything() -> list[Unpromised]:
    """Return all features of mxcompat, in the order of their modules. This does not import JAX."""
    for name in sorted(path.stem for path in Path(_compat.__file__).parent.glob("*.py") if path.stem != "__init__"):
        import_module(f"{_compat.__name__}.{name}")
    # these modules define the only features outside `_compat`
    import_module("mxcompat._graph.passes.barriers")
    import_module("mxcompat._ops.quantized.pallas_matvec")
    return list(REGISTRY.values())


def unknown_names() -> list[str]:
    """Return the names in `MXCOMPAT_WITHOUT` that are unknown. All modules must be imported."""
    return sorted(WITHOUT.difference(REGISTRY))
