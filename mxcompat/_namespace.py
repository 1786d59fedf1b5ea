"""Choose the namespace that arrays name as theirs, see `array.__array_namespace__`."""

from __future__ import annotations

from types import ModuleType

from mxcompat import core
from mxcompat._dropin import installed

__all__ = ["namespace_of_arrays"]

_FIRST_API = "2021.12"
"""The oldest supported version of the standard."""


def namespace_of_arrays(api_version: str | None) -> ModuleType:
    """Return `mlx.core` in MLX's place, and otherwise the namespace of the array API standard.

    Raises:
        ValueError: for an unsupported version of the standard; in MLX's place, for any version.
    """
    if installed():
        if api_version is not None:
            raise ValueError("Explicitly specifying api_version is not yet implemented.")
        return core
    from mxcompat.ext import array_api  # imported here because the import is slow

    if api_version is not None and not _FIRST_API <= api_version <= array_api.__array_api_version__:
        raise ValueError(f"[__array_namespace__] Version {api_version!r} of the standard is not followed.")
    return array_api
