"""Discrete Fourier transforms in NumPy, which keeps single precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from .transforms import result_shape

__all__ = ["resized", "transformed"]

Sizes = tuple[int, ...]

_FUNCTIONS = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn, "irfft": np.fft.irfftn}
_ALONG_ONE = {"fft": np.fft.fft, "ifft": np.fft.ifft, "rfft": np.fft.rfft, "irfft": np.fft.irfft}


def transformed(x: Any, kind: str, sizes: Sizes, axes: Sizes, norm: str) -> Any:
    if kind == "rfft":
        x = x.real if x.dtype.kind == "c" else x.astype(np.float32, copy=False)
    else:
        x = x.astype(np.complex64, copy=False)
    if not x.size:
        return np.zeros(result_shape(x.shape, kind, sizes, axes), np.float32 if kind == "irfft" else np.complex64)
    if len(axes) == 1:
        return _ALONG_ONE[kind](x, sizes[0], axes[0], norm)
    return _FUNCTIONS[kind](x, sizes, axes, norm)


def resized(x: Any, shape: Sizes) -> Any:
    """Return the array cut off, or padded with zeros, to a shape."""
    if x.shape == shape:
        return x
    both = tuple([slice(min(n, m)) for n, m in zip(x.shape, shape, strict=True)])
    if all(n >= m for n, m in zip(x.shape, shape, strict=True)):
        return x[both]
    whole = np.zeros(shape, x.dtype)
    whole[both] = x[both]
    return whole
