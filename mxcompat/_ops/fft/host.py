"""Discrete Fourier transforms in NumPy, which keeps single precision. Their derivatives are transforms, too."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.casting import converted_on_host
from mxcompat._array.promotion import promote
from mxcompat._graph.ir.aval import from_numpy
from mxcompat._graph.ir.node import Node, apply
from mxcompat._graph.ir.op import Op
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD

from .stft import ISTFT, SMALLEST_WEIGHT, STFT
from .transforms import FFT, FREQUENCIES, SHIFT, result_shape

__all__: list[str] = []

Sizes = tuple[int, ...]

_FUNCTIONS = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn, "irfft": np.fft.irfftn}
_ALONG_ONE = {"fft": np.fft.fft, "ifft": np.fft.ifft, "rfft": np.fft.rfft, "irfft": np.fft.irfft}


def _transform(x: Any, kind: str, sizes: Sizes, axes: Sizes, norm: str) -> Any:
    if kind == "rfft":
        x = x.real if x.dtype.kind == "c" else x.astype(np.float32, copy=False)
    else:
        x = x.astype(np.complex64, copy=False)
    if not x.size:
        return np.zeros(result_shape(x.shape, kind, sizes, axes), np.float32 if kind == "irfft" else np.complex64)
    if len(axes) == 1:
        return _ALONG_ONE[kind](x, sizes[0], axes[0], norm)
    return _FUNCTIONS[kind](x, sizes, axes, norm)


@HOST.of(FFT)
def _host_fft(out: Any, params: tuple, x: Any) -> Any:
    return _transform(x, *params)


def _resized(x: Any, shape: Sizes) -> Any:
    """Return the array cut off, or padded with zeros, to a shape."""
    if x.shape == shape:
        return x
    both = tuple([slice(min(n, m)) for n, m in zip(x.shape, shape, strict=True)])
    if all(n >= m for n, m in zip(x.shape, shape, strict=True)):
        return x[both]
    whole = np.zeros(shape, x.dtype)
    whole[both] = x[both]
    return whole


_TURNED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


@PULLBACK.of(FFT)
def _pull_fft(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> Any:
    kind, sizes, axes, norm = params
    last = axes[-1]
    if kind == "irfft":
        gx = _transform(g, "rfft", sizes, axes, _TURNED[norm])
        # in the full spectrum, each of these frequencies has a conjugate partner
        twice = np.full(gx.shape[last], 2, np.float32)
        twice[0] = 1
        if sizes[-1] % 2 == 0:
            twice[-1] = 1
        gx = gx.conj() * twice.reshape([-1 if k == last else 1 for k in range(gx.ndim)])
    else:
        gx = _transform(g, "ifft" if kind == "ifft" else "fft", sizes, axes, norm)
        gx = gx.real if kind == "rfft" else gx
    return (_resized(gx, x.shape),)


@PUSHFORWARD.of(FFT)
def _push_fft(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _transform(tangents[0], *params)


@BATCH.of(FFT)
def _batch_fft(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    kind, sizes, axes, norm = params
    return apply(op, inputs, (kind, sizes, tuple([axis + 1 for axis in axes]), norm))


def _rolled(x: Any, shifts: Any, axes: Any) -> Any:
    return np.roll(x, shifts, axes) if len(axes) else x


@HOST.of(SHIFT)
def _host_shift(out: Any, params: tuple, x: Any) -> Any:
    return _rolled(x, *params)


@PULLBACK.of(SHIFT)
def _pull_shift(g: Any, y: Any, params: tuple, needs_grad: tuple, x: Any) -> Any:
    shifts, axes = params
    return (_rolled(g, [-n for n in shifts], axes),)


@PUSHFORWARD.of(SHIFT)
def _push_shift(tangents: Any, y: Any, params: tuple, x: Any) -> Any:
    return _rolled(tangents[0], *params)


@BATCH.of(SHIFT)
def _batch_shift(op: Op, params: tuple, inputs: tuple[Node, ...], batched: tuple[bool, ...], size: int) -> Node:
    shifts, axes = params
    return apply(op, inputs, (shifts, tuple([axis + 1 if axis >= 0 else axis for axis in axes])))


@HOST.of(FREQUENCIES)
def _host_frequencies(out: Any, params: tuple, d: Any) -> Any:
    n, half = params
    order = np.arange(n // 2 + 1) if half else np.concatenate([np.arange((n + 1) // 2), np.arange(-(n // 2), 0)])
    return order.astype(np.float32) * (np.float32(1) / (np.float32(n) * np.float32(d)))


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
    spectra = _transform(frames, "rfft" if onesided else "fft", (n_fft,), (frames.ndim - 1,), norm)
    return spectra.swapaxes(-1, -2)


@HOST.of(ISTFT)
def _host_istft(out: Any, params: tuple, x: Any, *window: Any) -> Any:
    n_fft, hop, length, start, size, norm, onesided = params
    frames = x.swapaxes(-1, -2)
    frames = _transform(frames, "irfft" if onesided else "ifft", (n_fft,), (frames.ndim - 1,), norm).real
    w = _window(window, length, n_fft)
    dtype = promote(from_numpy(frames.dtype), from_numpy(w.dtype))  # type: ignore[arg-type]
    w = converted_on_host(w, dtype)
    signal = _overlap_added(converted_on_host(frames, dtype) * w, hop)
    weights = _overlap_added(np.broadcast_to(w * w, frames.shape[-2:]), hop)
    signal = (signal / np.maximum(weights, SMALLEST_WEIGHT.astype(w.dtype)))[..., start : start + size]
    return _resized(signal, (*signal.shape[:-1], size))


def _overlap_added(frames: Any, hop: int) -> Any:
    """Return the sum of frames (..., frames, n), each `hop` samples after the previous one.

    Each frame is cut into pieces of one hop. The k-th pieces of all frames, concatenated, form a signal that is delayed
    by k hops.
    """
    *batch, count, n = frames.shape
    pieces = -(-n // hop)
    cut = _resized(frames, (*batch, count, pieces * hop)).reshape(*batch, count, pieces, hop)
    out = np.zeros((*batch, count + pieces - 1, hop), frames.dtype)
    for k in range(pieces):
        out[..., k : k + count, :] += cut[..., k, :]
    return out.reshape(*batch, (count + pieces - 1) * hop)[..., : (count - 1) * hop + n]
