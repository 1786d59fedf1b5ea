"""Calls that no program should make raise what real MLX raises, at the call, and never speak of the inside."""

from __future__ import annotations

import numpy as np
import pytest

from .oracle import check, ours, real

HUGE = 2**31 - 1

CALLS = {
    "kron of bools": lambda mx: mx.kron(mx.array([True, False]), mx.array([[True], [True]])),
    "nan_to_num of complex": lambda mx: mx.nan_to_num(mx.array([complex(np.nan, 1), np.inf]), 1.0, 2.0, 3.0),
    "full, no dtype": lambda mx: mx.full((2,), 1.0, dtype=mx.array(1)),
    "full, a name": lambda mx: mx.full((2,), 1.0, dtype="float32"),
    "full_like, no dtype": lambda mx: mx.full_like(mx.ones(2), 1.0, dtype=7),
    "zeros, no dtype": lambda mx: mx.zeros((2,), dtype={}),
    "arange, no dtype": lambda mx: mx.arange(3, dtype=mx.array(1)),
    "reshape, an empty dict": lambda mx: mx.reshape(mx.ones(1), {}),
    "reshape, a dict": lambda mx: mx.reshape(mx.ones((2, 2)), {4: 1}),
    "squeeze, an empty dict": lambda mx: mx.squeeze(mx.ones((1, 2)), {}),
    "squeeze, a dict": lambda mx: mx.squeeze(mx.ones((1, 2)), {0: 1}),
    "tile, an empty dict": lambda mx: mx.tile(mx.ones((2, 2)), {}),
    "tile, a dict": lambda mx: mx.tile(mx.ones((2, 2)), {2: 1}),
    "split, an empty dict": lambda mx: mx.split(mx.ones((4, 2)), {}),
    "split, a dict": lambda mx: mx.split(mx.ones((4, 2)), {2: 1}),
    "einsum of arrays": lambda mx: mx.einsum(mx.ones(3), mx.ones(3)),
    "einsum_path of arrays": lambda mx: mx.einsum_path(mx.ones(3), mx.ones(3)),
    "round, no such int": lambda mx: mx.round(mx.ones(3), 10**30),
    "round, 2**31": lambda mx: mx.round(mx.ones(3), 2**31),
    "round, the largest int": lambda mx: mx.round(mx.array([1.5, 0.0]), HUGE),
    "round, the smallest int": lambda mx: mx.round(mx.array([1.5, 0.0]), -(2**31)),
    "round, beyond the range of floats": lambda mx: [mx.round(mx.array([1.5, 0.0]), n) for n in (39, 45, -39, -50)],
    "ArrayAt": lambda mx: mx.ArrayAt(1),
    "ArrayAt of an array": lambda mx: mx.ArrayAt(mx.ones(3)),
    "item of no array": lambda mx: mx.array.item(3),
    "tolist of no array": lambda mx: mx.array.tolist(3),
    "sum of no array": lambda mx: mx.array.sum(3),
    "astype of no array": lambda mx: mx.array.astype(3, mx.int32),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_what_real_mlx_does(name):
    check(CALLS[name], message=False)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_nan_to_num_of_float64():
    def run(mx):
        x = mx.array([np.nan, np.inf, -np.inf, 1.5]).astype(mx.float64, stream=mx.cpu)
        return mx.nan_to_num(x, nan=1.0, posinf=2.0, neginf=3.0, stream=mx.cpu)

    check(run)


@pytest.mark.parametrize("shape", [(0, HUGE, HUGE), (HUGE, 0, HUGE)])
def test_an_empty_array_that_cannot_be_numbered(shape):
    """Neither NumPy nor XLA has strides for it, and an array of either is what evaluating would have to make."""
    assert real.zeros(shape).size == 0
    with pytest.raises(RuntimeError, match=r"\[malloc\] Unable to allocate \d+ bytes, for an array of shape \("):
        ours.zeros(shape)
