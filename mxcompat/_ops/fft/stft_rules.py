"""Rules of short-time Fourier transforms, in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.rules import HOST

from .numpy_fft import resized, transformed
from .stft import ISTFT, SMALLEST_WEIGHT, STFT

__all__: list[str] = []


def _window(window: tuple[Any, ...], length: int, n_fft: int) -> Any:
    """Return a window in the middle of `n_fft` samples. The default window is all ones."""
    w = window[0] if window else np.ones(length, np.float32)
    before = (n_fft - length) // 2
    whole = np.zeros(n_fft, w.dtype)
    whole[before : before + length] = w
    return whole


def _multiplied(x: Any, w: Any) -> Any:
    dtype = promote(from_numpy(x.dtype), from_numpy(w.dtype))  # type: ignore[arg-type]
    return converted_on_host(x, dtype) * converted_on_host(w, dtype)


@HOST.of(STFT)
def _host_stft(out: Any, params: tuple, x: Any, *window: Any) -> Any:
    n_fft, hop, length, pad, norm, onesided = params
    if pad is not None:
        x = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)], mode=pad)
    frames = np.lib.stride_tricks.sliding_window_view(x, n_fft, -1)[..., ::hop, :]
    frames = _multiplied(frames, _window(window, length, n_fft))
    spectra = transformed(frames, "rfft" if onesided else "fft", (n_fft,), (frames.ndim - 1,), norm)
    return spectra.swapaxes(-1, -2)


def _overlap_added(frames: Any, hop: int) -> Any:
    """Return the sum of frames (..., frames, n), each `hop` samples after the previous one.

    Each frame is cut into pieces of one hop. The k-th pieces of all frames, concatenated, form a signal that is delayed
    by k hops.
    """
    *batch, count, n = frames.shape
    pieces = -(-n // hop)
    cut = resized(frames, (*batch, count, pieces * hop)).reshape(*batch, count, pieces, hop)
    out = np.zeros((*batch, count + pieces - 1, hop), frames.dtype)
    for k in range(pieces):
        out[..., k : k + count, :] += cut[..., k, :]
    return out.reshape(*batch, (count + pieces - 1) * hop)[..., : (count - 1) * hop + n]


@HOST.of(ISTFT)
def _host_istft(out: Any, params: tuple, x: Any, *window: Any) -> Any:
    n_fft, hop, length, start, size, norm, onesided = params
    frames = x.swapaxes(-1, -2)
    frames = transformed(frames, "irfft" if onesided else "ifft", (n_fft,), (frames.ndim - 1,), norm).real
    w = _window(window, length, n_fft)
    dtype = promote(from_numpy(frames.dtype), from_numpy(w.dtype))  # type: ignore[arg-type]
    w = converted_on_host(w, dtype)
    signal = _overlap_added(converted_on_host(frames, dtype) * w, hop)
    weights = _overlap_added(np.broadcast_to(w * w, frames.shape[-2:]), hop)
    signal = (signal / np.maximum(weights, SMALLEST_WEIGHT.astype(w.dtype)))[..., start : start + size]
    return resized(signal, (*signal.shape[:-1], size))
