"""Fourier transforms against real MLX: sizes, axes, norms, dtypes, errors and derivatives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.oracle import check

RNG = np.random.RandomState(0)
REAL = RNG.randn(4, 6).astype(np.float32)
COMPLEX = (RNG.randn(4, 6) + 1j * RNG.randn(4, 6)).astype(np.complex64)
CUBE = RNG.randn(2, 3, 4).astype(np.float32)

ONE = ["fft", "ifft", "rfft", "irfft"]
TWO = ["fft2", "ifft2", "rfft2", "irfft2"]
MANY = ["fftn", "ifftn", "rfftn", "irfftn"]


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("kwargs", [
    {}, {"n": 8}, {"n": 3}, {"n": 1}, {"axis": 0}, {"n": 5, "axis": -2}, {"norm": "ortho"}, {"norm": "forward"},
], ids=str)  # fmt: skip
def test_one_axis(name: str, kwargs: dict) -> None:
    check(lambda mx, x: getattr(mx.fft, name)(x, **kwargs), REAL)
    check(lambda mx, x: getattr(mx.fft, name)(x, **kwargs), COMPLEX)


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("dtype", ["bool_", "int32", "float16", "bfloat16", "float64"])
def test_dtypes(name: str, dtype: str) -> None:
    check(lambda mx, x: getattr(mx.fft, name)((x * 3).astype(getattr(mx, dtype))), REAL)


@pytest.mark.parametrize("name", ONE)
def test_empty(name: str) -> None:
    check(lambda mx: getattr(mx.fft, name)(mx.zeros((0, 3))))
    check(lambda mx: getattr(mx.fft, name)(mx.zeros((3, 0)), n=4))
    check(lambda mx: getattr(mx.fft, name)(mx.zeros((3, 0))))


@pytest.mark.parametrize("name", TWO + MANY)
@pytest.mark.parametrize("kwargs", [
    {}, {"s": (3, 5)}, {"s": [3, 5], "axes": [0, 1]}, {"axes": (0, 2)}, {"axes": (2, 0)}, {"axes": (0,)}, {"axes": []},
    {"s": [], "axes": []}, {"s": (5,), "axes": (1,), "norm": "ortho"}, {"axes": None}, {"norm": "forward"},
    {"s": (3,), "axes": (0, 1)}, {"s": (3, 5, 2)}, {"axes": (0, 0)}, {"axes": (0, -3)}, {"s": (3, 5), "axes": None},
    {"s": (2, 2), "axes": (0, 5)}, {"s": (0, 3), "axes": (0, 1)}, {"s": (3, -1), "axes": (0, 1)}, {"norm": "z"},
    {"s": 3}, {"axes": 1}, {"s": (3.0, 2)},
], ids=str)  # fmt: skip
def test_several_axes(name: str, kwargs: dict) -> None:
    check(lambda mx, x: getattr(mx.fft, name)(x, **kwargs), CUBE)


@pytest.mark.parametrize("name", MANY)
def test_more_axes_than_xla_takes(name: str) -> None:
    x = RNG.randn(2, 3, 2, 3, 4).astype(np.float32)
    check(lambda mx, x: getattr(mx.fft, name)(x, norm="ortho"), x)
    check(lambda mx, x: getattr(mx.fft, name)(x, axes=(3, 0, 4, 1)), x)


@pytest.mark.parametrize("axes", [1, np.int64(1), np.array(1), (np.int8(-1), 0), 2**31], ids=repr)
def test_axes_to_shift(axes: Any) -> None:
    """Compare shifts along axes given as any kind of integer."""
    for name in ("fftshift", "ifftshift"):
        check(lambda mx, x, name=name: getattr(mx.fft, name)(x, axes), CUBE)
    check(lambda mx, x: mx.fft.fftshift(x, mx.array(-1)), CUBE)


ERRORS = {
    "n 0": lambda f, mx: f.fft(mx.zeros(3), n=0),
    "n negative": lambda f, mx: f.rfft(mx.zeros(3), n=-1),
    "n float": lambda f, mx: f.fft(mx.zeros(3), n=2.0),
    "axis float": lambda f, mx: f.fft(mx.zeros(3), axis=0.0),
    "axis with n": lambda f, mx: f.fft(mx.zeros(3), n=3, axis=7),
    "one frequency": lambda f, mx: f.irfft(mx.zeros((3, 1))),
    "norm": lambda f, mx: f.irfft(mx.zeros(3), n=3, axis=9, norm="q"),
    "norm None": lambda f, mx: f.fft(mx.zeros(3), norm=None),
    "0-d with n": lambda f, mx: f.fft(mx.array(1.0), n=3),
    "0-d": lambda f, mx: f.rfftn(mx.array(1.0)),
    "0-d without axes": lambda f, mx: f.fftn(mx.array(1.0), axes=[]),
    "list": lambda f, mx: f.fft([1.0, 2.0]),
    "numpy": lambda f, mx: f.fft2(np.zeros((2, 2))),
    "empty": lambda f, mx: f.irfft2(mx.zeros((0, 3))),
    "shift axis": lambda f, mx: f.fftshift(mx.zeros((2, 3)), axes=[0, 5]),
    "shift negative axis": lambda f, mx: f.ifftshift(mx.zeros((2, 3)), axes=-3),
    "shift 0-d": lambda f, mx: f.fftshift(mx.array(1.0), 0),
    "shift list": lambda f, mx: f.fftshift([1, 2]),
    "shift float": lambda f, mx: f.fftshift(mx.zeros(3), 1.0),
    "freq 0": lambda f, mx: f.fftfreq(0, 0),
    "freq d": lambda f, mx: f.fftfreq(4, 0),
    "freq float": lambda f, mx: f.fftfreq(4.0),
    "freq str": lambda f, mx: f.fftfreq(4, "a"),
    "rfreq negative": lambda f, mx: f.rfftfreq(-1),
    "rfreq d": lambda f, mx: f.rfftfreq(4, 0.0),
}


@pytest.mark.parametrize("fn", ERRORS.values(), ids=ERRORS)
def test_errors(fn: Any) -> None:
    assert isinstance(check(lambda mx: fn(mx.fft, mx)), Exception)


@pytest.mark.parametrize("fn", [
    lambda mx: mx.fft.fft(mx.zeros((2, 3)), axis=2),
    lambda mx: mx.fft.fftn(mx.zeros((2, 3)), axes=(0, -3)),
    lambda mx: mx.fft.fft(mx.array(1.0)),
    lambda mx: mx.fft.rfft2(mx.zeros(3)),
])  # fmt: skip
def test_axis_out_of_range(fn: Any) -> None:
    assert isinstance(check(fn, message=False), IndexError)  # real MLX: "SmallVector out of range."


@pytest.mark.parametrize("axes", [None, 0, -1, [0, 1], (1,), [], (0, 0)])
def test_shift(axes: Any) -> None:
    x = np.arange(15, dtype=np.int32).reshape(3, 5)
    check(lambda mx, x: [mx.fft.fftshift(x, axes), mx.fft.ifftshift(x, axes=axes)], x)


def test_shift_of_nothing() -> None:
    check(lambda mx: [mx.fft.fftshift(mx.array(1.0)), mx.fft.ifftshift(mx.zeros((0, 3)))])


@pytest.mark.parametrize("args", [(5,), (6, 0.3), (1,), (True,), (4, -1.0), (4, True), (7, 1e-3)])
def test_frequencies(args: tuple) -> None:
    check(lambda mx: [mx.fft.fftfreq(*args), mx.fft.rfftfreq(*args)])


GRADIENTS = {
    "fft": lambda mx, x, c: mx.abs(mx.fft.fft(x) * c).sum(),
    "rfft": lambda mx, x, c: mx.abs(mx.fft.rfft(x, 5) * c[:, :3]).sum(),
    "rfft axis": lambda mx, x, c: mx.abs(mx.fft.rfft(x, 8, 0) * c[0]).sum(),
    "ifft": lambda mx, x, c: mx.abs(mx.fft.ifft(x * c, n=8, norm="ortho")).sum(),
    "irfft": lambda mx, x, c: (mx.fft.irfft(x * c) ** 3).sum(),
    "irfft odd": lambda mx, x, c: (mx.fft.irfft(x * c, 7) ** 3).sum(),
    "irfft2": lambda mx, x, c: (mx.fft.irfft2(x * c, norm="forward") ** 2).sum(),
    "shift": lambda mx, x, c: (mx.fft.fftshift(x) * x).sum(),
    "stft": lambda mx, x, c: mx.abs(mx.fft.stft(x, 4, 1) * c[0, 0]).sum(),
    "istft": lambda mx, x, c: (mx.fft.istft(x[:3] * c[:3], 4, 1) ** 3).sum(),
}


@pytest.mark.parametrize("fn", GRADIENTS.values(), ids=GRADIENTS)
def test_gradients(fn: Any) -> None:
    check(lambda mx, x, c: mx.grad(lambda x, c: fn(mx, x, c), (0, 1))(x, c), REAL, COMPLEX, tol=1e-4)  # sums of 24


def test_jvp_and_vmap() -> None:
    check(lambda mx, x: mx.jvp(mx.fft.rfft, [x], [x * x]), REAL)
    check(lambda mx, x: mx.jvp(lambda x: mx.fft.irfft(x, 6), [x], [x * x]), COMPLEX)
    check(lambda mx, x: mx.vmap(mx.fft.fft)(x), REAL)
    check(lambda mx, x: mx.vmap(mx.fft.rfft, in_axes=1, out_axes=1)(x), REAL)
    check(lambda mx, x: mx.vmap(lambda x: mx.fft.irfft2(x, axes=(1, 0)))(x), CUBE)
    check(lambda mx, x: mx.vmap(mx.fft.fftshift)(x), REAL)


@settings(max_examples=12, deadline=None)
@given(st.permutations([0, 1, 2]), st.integers(1, 3), st.lists(st.integers(1, 5), min_size=3, max_size=3), st.data())
def test_any_axes_and_sizes(axes: list[int], count: int, sizes: list[int], data: Any) -> None:
    name = data.draw(st.sampled_from(MANY))
    check(lambda mx, x: getattr(mx.fft, name)(x, s=sizes[:count], axes=axes[:count]), CUBE)


SIGNAL = RNG.randn(2, 50).astype(np.float32)
W8 = np.hanning(9)[:8].astype(np.float32)
W6 = np.hamming(6).astype(np.float32)


@pytest.mark.parametrize("kwargs", [
    {}, {"hop_length": 3}, {"hop_length": 20}, {"win_length": 5}, {"win_length": 0}, {"n_fft": 9}, {"center": False},
    {"pad_mode": "constant"}, {"pad_mode": "edge"}, {"norm": "ortho"}, {"norm": "forward", "onesided": False},
    {"n_fft": 100}, {"n_fft": 2048}, {"pad_mode": "wrap"}, {"norm": "q"}, {"n_fft": 0}, {"n_fft": -1},
    {"hop_length": 0}, {"win_length": 9}, {"win_length": -2}, {"n_fft": 3}, {"n_fft": 51, "center": False},
    {"n_fft": 8.0}, {"center": 1},
    {"window": [1.0] * 8},
], ids=str)  # fmt: skip
def test_stft(kwargs: dict) -> None:
    check(lambda mx, x: mx.fft.stft(x, **{"n_fft": 8, **kwargs}), SIGNAL)


def test_stft_defaults_and_positions() -> None:
    check(lambda mx, x: mx.fft.stft(x), SIGNAL)
    check(lambda mx, x, w: mx.fft.stft(x, 8, 2, 6, w, True, "edge", "ortho", False), SIGNAL, W6)


def test_stft_inputs() -> None:
    check(lambda mx, x, w: mx.fft.stft(x, 8, window=w), SIGNAL, W8)
    check(lambda mx, x, w: mx.fft.stft(x, 8, window=w, win_length=7), SIGNAL, W6)
    check(lambda mx, x, w: mx.fft.stft(x, 9, window=w), SIGNAL, W6)
    check(lambda mx, x, w: mx.fft.stft(x.astype(mx.float16), 8, window=w.astype(mx.float16)), SIGNAL, W8, tol=2e-3)
    check(lambda mx, x, w: mx.fft.stft((x * 5).astype(mx.int32), 8, window=(w * 3).astype(mx.int32)), SIGNAL, W8)
    check(lambda mx, x, w: mx.fft.stft(x > 0, 8, window=w), SIGNAL, W8)
    check(lambda mx, x: mx.fft.stft(x.reshape(2, 5, 10)[:, :, :4], 8), SIGNAL)
    check(lambda mx, x: mx.fft.stft(x[:, :2], 8, pad_mode="edge"), SIGNAL)
    check(lambda mx, x: [mx.fft.stft(x[0], 8), mx.fft.stft(x[0], 8, onesided=True)], SIGNAL.astype(np.complex64) * 1j)
    check(lambda mx: mx.fft.stft(mx.zeros((0, 50)), 8))
    check(lambda mx: mx.fft.stft(mx.array(1.0), 8))
    check(lambda mx: mx.fft.stft([1.0] * 50, 8))
    check(lambda mx: mx.fft.stft(mx.zeros((50,)), 8, window=mx.ones((2, 8))))
    check(lambda mx: mx.fft.stft(mx.zeros((2, 0)), 8), message=False)


SPECTRA = (RNG.randn(2, 5, 26) + 1j * RNG.randn(2, 5, 26)).astype(np.complex64)


@pytest.mark.parametrize("kwargs", [
    {}, {"hop_length": 1}, {"hop_length": 3}, {"hop_length": 8}, {"hop_length": 11, "center": False}, {"n_fft": 9},
    {"n_fft": 7}, {"n_fft": None}, {"win_length": 6}, {"win_length": 0}, {"length": 20}, {"length": 52},
    {"length": 100}, {"length": 0}, {"length": -1}, {"center": False, "length": 70}, {"onesided": False},
    {"n_fft": None, "onesided": False}, {"norm": "ortho"}, {"norm": "q"}, {"hop_length": 0}, {"n_fft": 0},
    {"win_length": 9}, {"win_length": -1},
    {"length": 20.0}, {"n_fft": 80, "hop_length": 2},
], ids=str)  # fmt: skip
def test_istft(kwargs: dict) -> None:
    check(lambda mx, x: mx.fft.istft(x, **{"n_fft": 8, **kwargs}), SPECTRA)


def test_istft_inputs() -> None:
    check(lambda mx, x, w: mx.fft.istft(x, 8, 3, window=w), SPECTRA, W8, tol=1e-4)  # divides by small windows
    check(lambda mx, x, w: mx.fft.istft(x, 8, window=w, win_length=3), SPECTRA, W6)
    check(lambda mx, x, w: mx.fft.istft(x, 8, window=w.astype(mx.float16)), SPECTRA, W6, tol=2e-3)
    check(lambda mx, x: mx.fft.istft(x[0], 8, 8, window=mx.full((8,), 3e-5), center=False), SPECTRA, tol=1e-4)
    check(lambda mx, x: mx.fft.istft(mx.abs(x)[:, :, :1], 8), SPECTRA)
    check(lambda mx, x: mx.fft.istft(x[0, 0], 8), SPECTRA)
    check(lambda mx, x: mx.fft.istft(x[:, :1]), SPECTRA)
    check(lambda mx, x: mx.fft.istft(x[:, :2]), SPECTRA)
    check(lambda mx: mx.fft.istft([1], 8))
    check(lambda mx: mx.fft.istft(mx.zeros((5, 0), mx.complex64), 8), message=False)
    check(lambda mx: mx.fft.istft(mx.zeros((0, 5, 3), mx.complex64), 8))


def test_round_trip() -> None:
    def trip(mx: Any, x: Any, w: Any) -> Any:
        return mx.fft.istft(mx.fft.stft(x, 8, window=w), 8, window=w)

    got = check(trip, SIGNAL, W8)
    np.testing.assert_allclose(np.array(got), SIGNAL, atol=1e-5)
