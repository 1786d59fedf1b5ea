"""Host rules of Fourier transforms."""

import numpy as np
import pytest

from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE

from .harness import DTYPES, check, data

KINDS = ("fft", "ifft", "rfft", "irfft")


@pytest.mark.parametrize("kind", KINDS)
def test_fft(kind):
    dtype = "float32" if kind == "rfft" else "complex64"
    x = data((3, 6), dtype)
    # A transform of a few elements accumulates as many roundings.
    check(lambda mx, x: getattr(mx.fft, kind)(x), x, tolerance=1e-5)
    check(lambda mx, x: getattr(mx.fft, kind)(x, n=7, axis=0, norm="ortho"), x, batch=False, tolerance=1e-5)
    check(lambda mx, x: getattr(mx.fft, kind)(x, n=4, norm="forward"), x, jvp=False, batch=False, tolerance=1e-5)
    check(lambda mx, x: getattr(mx.fft, kind)(x, n=4), x[:0], grad=False, jvp=False, batch=False)


@pytest.mark.parametrize("kind", KINDS)
def test_fft_along_several_axes(kind):
    dtype = "float32" if kind == "rfft" else "complex64"
    x = data((3, 2, 4, 5), dtype)
    check(lambda mx, x: getattr(mx.fft, kind + "n")(x), x, jvp=False, batch=False, tolerance=1e-5)
    sizes = {"s": (5, 3), "axes": (-1, 1), "norm": "forward"}
    check(lambda mx, x: getattr(mx.fft, kind + "n")(x, **sizes), x, batch=False, tolerance=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_fft_of_other_dtypes(dtype):
    x = data((6,), dtype)
    check(lambda mx, x: [getattr(mx.fft, kind)(x) for kind in KINDS], x, tolerance=2e-2, jvp=False, batch=False)


def test_shifts_and_frequencies():
    x = data((5, 4), "float32")
    check(lambda mx, x: [mx.fft.fftshift(x), mx.fft.ifftshift(x, axes=(0,)), mx.fft.fftshift(x, axes=-1)], x)
    op = TABLE["fftfreq"]
    for params in [(5, False), (4, False), (5, True), (4, True)]:
        got = HOST[op](None, params, np.float32(0.1))
        want = np.asarray(op.lower(params, [np.float32(0.1)]))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-6)


@pytest.mark.parametrize("onesided", [True, False])
def test_short_time_transforms(onesided):
    window = np.hanning(8).astype(np.float32)

    def both(mx, x, w):
        spectra = [
            mx.fft.stft(x, n_fft=8, window=w, onesided=onesided),
            mx.fft.stft(x, n_fft=8, hop_length=3, win_length=6, onesided=onesided, pad_mode="constant"),
            mx.fft.stft(x, n_fft=9, hop_length=11, center=False, norm="ortho", onesided=onesided),
        ]
        signals = [
            mx.fft.istft(spectra[0], n_fft=8, window=w, onesided=onesided),
            mx.fft.istft(spectra[1], n_fft=8, hop_length=3, win_length=6, onesided=onesided, length=40),
        ]
        return [*spectra, *signals]

    check(both, data((2, 32), "float32"), window, grad=False, jvp=False, batch=False, tolerance=1e-5)


def test_rules():
    ops = {"fft", "fftshift", "fftfreq", "stft", "istft"}
    short_time = {"stft", "istft"}  # chains of other ops, whose derivatives and batches fall back to XLA
    for rules in (HOST, PULLBACK, PUSHFORWARD, BATCH):
        missing = {name for name in ops if TABLE[name] not in rules}
        # `fftfreq` depends on a Python number only.
        assert missing == (set() if rules is HOST else {"fftfreq", *short_time})
