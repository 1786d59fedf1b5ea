"""The Fourier transform extension of the standard. Results are complex64 or float32: there is no complex128."""

from __future__ import annotations

from collections.abc import Sequence

from mxcompat import core as mx
from mxcompat.core import Device, Dtype, array

from ._arguments import say_what_is_no_array

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def fft(x: array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> array:
    """Compute the discrete Fourier transform along an axis, which is cut or padded to n elements."""
    return mx.fft.fft(x, n, axis, norm)


def ifft(x: array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> array:
    """Compute the inverse of `fft`."""
    return mx.fft.ifft(x, n, axis, norm)


def fftn(
    x: array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> array:
    """Compute the discrete Fourier transform along several axes."""
    return mx.fft.fftn(x, _sizes(s), _last(s, axes), norm)


def ifftn(
    x: array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> array:
    """Compute the inverse of `fftn`."""
    return mx.fft.ifftn(x, _sizes(s), _last(s, axes), norm)


def rfft(x: array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> array:
    """Compute the first half of `fft` for real numbers; it determines the second half."""
    return mx.fft.rfft(x, n, axis, norm)


def irfft(x: array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> array:
    """Compute the inverse of `rfft`."""
    return mx.fft.irfft(x, n, axis, norm)


def rfftn(
    x: array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> array:
    """Compute `rfft` along the last of several axes, and `fft` along the others."""
    return mx.fft.rfftn(x, _sizes(s), _last(s, axes), norm)


def irfftn(
    x: array, /, *, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> array:
    """Compute the inverse of `rfftn`."""
    return mx.fft.irfftn(x, _sizes(s), _last(s, axes), norm)


_SWAPPED = {"backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfft(x: array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> array:
    """Compute the real spectrum of a Hermitian-symmetric signal, given the first half of the signal."""
    return mx.fft.irfft(mx.conj(x), n, axis, _SWAPPED[norm])


def ihfft(x: array, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> array:
    """Compute the inverse of `hfft`."""
    return mx.conj(mx.fft.rfft(x, n, axis, _SWAPPED[norm]))


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return the frequencies of the result of `fft`, for a sample spacing of `d`."""
    return mx.fft.fftfreq(n, d).astype(dtype or mx.float32)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Dtype | None = None, device: Device | None = None) -> array:
    """Return the frequencies of the result of `rfft`, for a sample spacing of `d`."""
    return mx.fft.rfftfreq(n, d).astype(dtype or mx.float32)


def fftshift(x: array, /, *, axes: int | Sequence[int] | None = None) -> array:
    """Move the zero frequency to the middle, so that the frequencies are in order."""
    return mx.fft.fftshift(x, axes)


def ifftshift(x: array, /, *, axes: int | Sequence[int] | None = None) -> array:
    """Compute the inverse of `fftshift`."""
    return mx.fft.ifftshift(x, axes)


def _sizes(s: Sequence[int] | None) -> tuple[int, ...] | None:
    return None if s is None else tuple(s)


def _last(s: Sequence[int] | None, axes: Sequence[int] | None) -> Sequence[int] | None:
    return list(range(-len(s), 0)) if axes is None and s is not None else axes


say_what_is_no_array(globals())
