"""Foreign functions: register C functions of `_native` with XLA, so that XLA's programs can call them by name. This
must come before such a program is lowered or loaded from the disk."""

from __future__ import annotations

from functools import cache

from mxcompat._jax import jax
from mxcompat._native import native

__all__ = ["ATTEND", "CONVOLVE", "STOP", "TARGET", "TARGETS", "register"]

TARGET = "mxcompat_multiply_stored_1"
CONVOLVE = "mxcompat_convolve_1"
ATTEND = "mxcompat_attend_1"
STOP = "mxcompat_stop_1"
TARGETS = {
    TARGET: "multiply_for_xla",
    CONVOLVE: "convolve_for_xla",
    ATTEND: "attend_for_xla",
    STOP: "stop_for_xla",
}
"""The functions of `_native` by their registered names, which have the versions of the functions' interfaces."""


@cache
def register() -> bool:
    """Register the functions. Return False if XLA cannot call them: if the C code was not built, or if XLA's interface
    has another version than `_native/ffi.h`."""
    if native is None:
        return False
    try:
        for target, function in TARGETS.items():
            jax.ffi.register_ffi_target(target, getattr(native, function), platform="cpu", api_version=1)
    except RuntimeError:  # jaxlib's error for another version of the interface
        return False
    return True
