"""Short-time Fourier transforms: overlapping frames of a signal, windowed and transformed; and their inverse."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph import policy
from mxcompat._graph.ir.aval import Aval, Dtype, aval, from_numpy
from mxcompat._graph.ir.aval import complex64 as _complex64
from mxcompat._graph.ir.aval import float32 as _float32
from mxcompat._graph.ir.node import Node, apply
from mxcompat._jax import jnp

from ..arguments import flag, integer, require_array, require_text
from ..define import op
from .transforms import check_norm, transform

__all__ = ["ISTFT", "SMALLEST_WEIGHT", "STFT", "istft", "stft"]

_PAD_MODES = ("reflect", "constant", "edge")

SMALLEST_WEIGHT = np.float32(1e-8)
"""The lower bound for the sum of squared windows, which is a divisor. It makes samples without a frame 0."""


def _window(window: tuple[Any, ...], length: int, n_fft: int) -> Any:
    """Return a window in the middle of `n_fft` samples. The default window is all ones."""
    w = jnp.asarray(window[0]) if window else jnp.ones((length,), np.float32)
    before = (n_fft - length) // 2
    return jnp.pad(w, (before, n_fft - length - before))


def _places(frames: int, hop: int, n_fft: int) -> np.ndarray:
    """Return the position in the signal of each sample of each frame."""
    return (np.arange(frames)[:, None] * hop + np.arange(n_fft)).astype(np.int32)


def _stft(x: Any, *window: Any, n_fft: int, hop: int, length: int, pad: str | None, norm: str, onesided: bool) -> Any:
    if pad is not None:
        margins = [(0, 0)] * (x.ndim - 1) + [(n_fft // 2, n_fft // 2)]
        x = jnp.pad(x, margins, mode=pad)  # type: ignore[arg-type]
    w = _window(window, length, n_fft)
    frames = x[..., _places(1 + (x.shape[-1] - n_fft) // hop, hop, n_fft)]
    kind = _promoted(frames, w)._numpy
    frames = frames.astype(kind) * w.astype(kind)
    spectra = transform(frames, "rfft" if onesided else "fft", (n_fft,), (frames.ndim - 1,), norm)
    return jnp.swapaxes(spectra, -1, -2)


def _infer_stft(
    x: Aval, *window: Aval, n_fft: int, hop: int, length: int, pad: str | None, norm: str, onesided: bool
) -> Aval:
    size = x.shape[-1] + (0 if pad is None else n_fft // 2 * 2)
    if x.shape[-1] == 0:
        raise ValueError("[stft] Cannot transform an empty signal.")
    if size < n_fft:
        raise ValueError("[stft] Input is too short for the given n_fft.")
    return aval((*x.shape[:-1], n_fft // 2 + 1 if onesided else n_fft, 1 + (size - n_fft) // hop), _complex64)


def _promoted(x: Any, y: Any) -> Dtype:
    return promote(from_numpy(x.dtype), from_numpy(y.dtype))  # type: ignore[arg-type]


STFT = op("stft", _stft, _infer_stft, ("n_fft", "hop", "length", "pad", "norm", "onesided"))


def stft(
    x: array,
    n_fft: int = 2048,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: array | None = None,
    center: bool = True,
    pad_mode: str = "reflect",
    norm: str = "backward",
    onesided: bool | None = None,
    stream: Any = None,
) -> array:
    """Return the short-time Fourier transform of signals along the last axis.

    Args:
        x: an array of shape (..., samples).
        n_fft: the size of each transform.
        hop_length: the number of samples from one frame to the next; by default `n_fft // 4`.
        win_length: the size of the default window of ones; by default `n_fft`.
        window: an array of shape (at most n_fft,), in the middle of each frame.
        center: whether frame t is centred at sample t * hop_length. The signal is then padded at both ends.
        pad_mode: the kind of padding: "reflect", "constant" (with zeros) or "edge".
        norm: as for `fft`.
        onesided: whether to return only non-negative frequencies; by default True for real input.

    Returns:
        A complex64 array of shape (..., frequencies, frames).

    Raises:
        ValueError: if a size is not positive, if the window does not fit, or if the signal is too short.

    Example:
        >>> mx.fft.stft(mx.ones((16000,)), n_fft=512).shape
        (257, 126)
    """
    check_stream(stream)
    require_array(x, "stft")
    check_norm(norm, "stft")
    n_fft, hop, length = _frame_sizes(n_fft, hop_length, "stft", win_length)
    if x.ndim < 1:
        raise ValueError("[stft] Input must have at least one dimension.")
    inputs, length = _with_window(x._node, window, length, n_fft, "stft")
    flag(center, "stft", "center")
    require_text(pad_mode, "stft", "pad_mode")
    if center and pad_mode not in _PAD_MODES:
        raise ValueError(f"Invalid padding mode ({pad_mode}) passed to pad")
    if onesided is None:
        onesided = x.dtype._kind != "c"
    flag(onesided, "stft", "onesided")
    return wrap(apply(STFT, inputs, (n_fft, hop, length, pad_mode if center else None, norm, onesided)))


def _frame_sizes(n_fft: Any, hop: Any, name: str, length: Any) -> tuple[int, int, int]:
    n_fft = integer(n_fft)
    if n_fft <= 0:
        raise ValueError(f"[{name}] n_fft must be positive.")
    hop = n_fft // 4 if hop is None else integer(hop)
    if hop <= 0:
        raise ValueError(f"[{name}] hop_length must be positive.")
    return n_fft, hop, n_fft if length is None else integer(length)


def _with_window(node: Node, window: Any, length: int, n_fft: int, name: str) -> tuple[tuple[Node, ...], int]:
    """Return the inputs of the op, and the length of the window."""
    inputs = (node,)
    if window is not None:
        require_array(window, name)
        if window.ndim != 1:
            raise ValueError(f"[{name}] window must be a one-dimensional array.")
        length = window.shape[0]
        inputs = (node, window._node)
    if length < 0:
        raise ValueError("[full] Negative dimensions not allowed.")
    if length > n_fft:
        raise ValueError(f"[{name}] window length must not exceed n_fft.")
    return inputs, length


def _istft(
    x: Any, *window: Any, n_fft: int, hop: int, length: int, start: int, size: int, norm: str, onesided: bool
) -> Any:
    frames = jnp.swapaxes(x, -1, -2)
    axis = frames.ndim - 1
    frames = transform(frames, "irfft" if onesided else "ifft", (n_fft,), (axis,), norm).real
    w = _window(window, length, n_fft)
    kind = _promoted(frames, w)._numpy
    w = w.astype(kind)
    weights = jnp.broadcast_to(w * w, frames.shape[-2:])
    signal = _overlap_added(frames.astype(kind) * w, hop)
    signal = signal / jnp.maximum(_overlap_added(weights, hop), SMALLEST_WEIGHT.astype(kind))
    signal = signal[..., start : start + size]
    return jnp.pad(signal, [(0, 0)] * (signal.ndim - 1) + [(0, size - signal.shape[-1])])


def _overlap_added(frames: Any, hop: int) -> Any:
    """Return the sum of frames (..., frames, n), each `hop` samples after the previous one.

    Each frame is cut into pieces of one hop. The k-th pieces of all frames, concatenated, form a signal that is delayed
    by k hops.
    """
    *batch, count, n = frames.shape
    pieces = -(-n // hop)
    if pieces > policy.MOST_SLICES:
        out = jnp.zeros((*batch, (count - 1) * hop + n), frames.dtype)
        return out.at[..., _places(count, hop, n)].add(frames)
    rows = [(0, 0)] * (len(batch) + 1)
    cut = jnp.pad(frames, [*rows, (0, pieces * hop - n)]).reshape(*batch, count, pieces, hop)
    total = sum(jnp.pad(cut[..., k, :], [*rows[1:], (k, pieces - 1 - k), (0, 0)]) for k in range(pieces))
    flat = total.reshape(*batch, (count + pieces - 1) * hop)  # type: ignore[union-attr]
    return flat[..., : (count - 1) * hop + n]


def _infer_istft(
    x: Aval, *window: Aval, n_fft: int, hop: int, length: int, start: int, size: int, norm: str, onesided: bool
) -> Aval:
    if 0 in x.shape[-2:]:
        raise ValueError("[istft] Cannot invert an empty transform.")
    dtype = promote(_float32, window[0].dtype) if window else _float32
    return aval((*x.shape[:-2], size), dtype)


ISTFT = op("istft", _istft, _infer_istft, ("n_fft", "hop", "length", "start", "size", "norm", "onesided"))


def istft(
    stft_matrix: array,
    n_fft: int | None = None,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: array | None = None,
    center: bool = True,
    norm: str = "backward",
    onesided: bool | None = None,
    length: int | None = None,
    stream: Any = None,
) -> array:
    """Return the inverse of `stft`.

    The inverse transforms of the frames are windowed, overlapped, added, and divided by the sum of the squared windows.

    Args:
        stft_matrix: an array of shape (..., frequencies, frames).
        n_fft: the size of each transform; by default the even size with this number of frequencies.
        hop_length: the number of samples from one frame to the next; by default `n_fft // 4`.
        win_length: the size of the default window of ones; by default `n_fft`.
        window: an array of shape (at most n_fft,), the window of `stft`.
        center: whether `stft` padded the signal. The padding is cut off.
        norm: as for `fft`.
        onesided: whether there are only non-negative frequencies; by default True.
        length: the number of samples to return; missing samples are 0.

    Returns:
        A float32 array of shape (..., samples): the real part of the signal.

    Raises:
        ValueError: if a size is not positive, or if the window does not fit.

    Example:
        >>> x = mx.random.normal((1024,))
        >>> mx.allclose(mx.fft.istft(mx.fft.stft(x, 64), 64), x, atol=1e-5)
        array(True, dtype=bool)
    """
    check_stream(stream)
    require_array(stft_matrix, "istft")
    check_norm(norm, "istft")
    onesided = True if onesided is None else onesided
    flag(onesided, "istft", "onesided")
    flag(center, "istft", "center")
    if stft_matrix.ndim < 2:
        raise ValueError("[istft] Input must have at least two dimensions (freq, frames).")
    frequencies, frames = stft_matrix.shape[-2:]
    if n_fft is None:
        n_fft = 2 * (frequencies - 1) if onesided else frequencies
    n_fft, hop, win_length = _frame_sizes(n_fft, hop_length, "istft", win_length)
    inputs, win_length = _with_window(stft_matrix._node, window, win_length, n_fft, "istft")
    start = n_fft // 2 if center else 0
    size = (frames - 1) * hop + n_fft - 2 * start if length is None else integer(length)
    return wrap(apply(ISTFT, inputs, (n_fft, hop, win_length, start, max(size, 0), norm, onesided)))
