"""Foreign functions: what of `_native` XLA's programs call, by a name that is registered with XLA before one that calls
it is lowered, or loaded from the disk."""

from __future__ import annotations

from functools import cache

from mxcompat._jax import jax
from mxcompat._native import native

__all__ = ["TARGET", "register"]

TARGET = "mxcompat_multiply_stored_1"
"""The name, with the version of what the function is told."""


@cache
def register() -> bool:
    """Whether XLA can call C: not without a compiler at installation, or by a version of its interface that is not the
    one of `_native/ffi.h`."""
    if native is None:
        return False
    try:
        jax.ffi.register_ffi_target(TARGET, native.multiply_for_xla, platform="cpu", api_version=1)
    except RuntimeError:  # what jaxlib raises of another version
        return False
    return True
