"""Foreign functions: register C functions of `_native` with XLA, so that XLA's programs can call them by name. This
must come before such a program is lowered or loaded from the disk."""

from __future__ import annotations

from functools import cache

from mxcompat._jax import jax
from mxcompat._native import native

__all__ = ["TARGET", "register"]

TARGET = "mxcompat_multiply_stored_1"
"""The registered name, with the version of the function's interface."""


@cache
def register() -> bool:
    """Register the function. Return False if XLA cannot call it: if the C code was not built, or if XLA's interface has
    another version than `_native/ffi.h`."""
    if native is None:
        return False
    try:
        jax.ffi.register_ffi_target(TARGET, native.multiply_for_xla, platform="cpu", api_version=1)
    except RuntimeError:  # jaxlib's error for another version of the interface
        return False
    return True
