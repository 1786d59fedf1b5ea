"""`mlx.core.fft`, name for name. Re-exports only."""

from mxcompat._ops.fft.stft import istft, stft
from mxcompat._ops.fft.transforms import (
    fft,
    fft2,
    fftfreq,
    fftn,
    fftshift,
    ifft,
    ifft2,
    ifftn,
    ifftshift,
    irfft,
    irfft2,
    irfftn,
    rfft,
    rfft2,
    rfftfreq,
    rfftn,
)

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "ifft", "ifft2", "ifftn", "ifftshift", "irfft", "irfft2", "irfftn",
    "istft", "rfft", "rfft2", "rfftfreq", "rfftn", "stft",
]  # fmt: skip
