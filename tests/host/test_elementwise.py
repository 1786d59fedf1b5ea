"""The NumPy rules of elementwise ops, held to XLA: every op of `SAMPLES`, on every dtype that it takes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._ops.define import SAMPLES

from .harness import DTYPES, check, data

UNARY = sorted(name for name, sample in SAMPLES.items() if sample.operands == 1)
BINARY = sorted(name for name, sample in SAMPLES.items() if sample.operands == 2)
SMOOTH = ("float32", "complex64", "bfloat16")


def kind_of(dtype):
    return "f" if dtype == "bfloat16" else np.dtype(dtype).kind


def drawn(name, shape, dtype, seed=0, second=False):
    """Data in the domain of an op; integers as they come."""
    sample = SAMPLES[name]
    low, high = sample.second if second and sample.second else (sample.low, sample.high)
    x = data(shape, dtype, seed, low, high)
    if kind_of(dtype) in "iu" and name in ("exp", "expm1", "sinh", "cosh", "arctanh", "arcsin", "arccos", "erfinv"):
        x = x % 2
    return x


def together(name, *cells, **options):
    """One program with an output for each cell, a tuple of operands: one compilation for all."""
    function = getattr(mx, name)
    starts = [sum(map(len, cells[:k])) for k in range(len(cells))]
    check(
        lambda mx, *xs: [function(*xs[k : k + len(c)]) for k, c in zip(starts, cells, strict=True)],
        *[x for cell in cells for x in cell],
        **options,
    )


def dtypes_of(name):
    return [d for d in DTYPES if kind_of(d) in SAMPLES[name].kinds]


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    shapes = [(3, 4), (), (0,), (5,)]
    cells = [(drawn(name, (3, 4) if d in SMOOTH else shapes[k % 4], d, k),) for k, d in enumerate(dtypes_of(name))]
    together(name, *cells, batch=False)


SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 2.5, -3.5, 100.0, -100.0, 1e-4, -1e-4, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("name", UNARY)
def test_unary_special_values(name):
    """At zeros, poles, kinks, infinities and NaN."""
    cells = [(np.array(SPECIAL, d),) for d in ("float32", "float64", ml_dtypes.bfloat16)]
    if "f" not in SAMPLES[name].kinds:
        cells = [(np.array([0, 1, -1, 127, -128], "int8"),)]
    together(name, *cells, batch=False)


@pytest.mark.parametrize("name", BINARY)
def test_binary(name):
    shapes = [((3, 4), (3, 4)), ((), (2,)), ((0, 1), (3,)), ((5, 1), (4,)), ((), ())]
    kinds = dtypes_of(name)
    cells = []
    for k, d in enumerate(kinds):
        a, b = ((3, 4), (4,)) if d in SMOOTH else shapes[k % 5]
        cells.append((drawn(name, a, d, k), drawn(name, b, d, k + 50, second=True)))
    together(name, *cells, batch=False)


PAIRS = [("float32", "int32"), ("bool", "float16"), ("float16", "bfloat16"), ("int64", "uint64"), ("int8", "uint8"),
         ("complex64", "float32"), ("int32", "complex64"), ("bfloat16", "int32"), ("float64", "float16"),
         ("bool", "uint16"), ("float32", "bool")]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
def test_binary_of_two_dtypes(name):
    allowed = SAMPLES[name].kinds
    cells = [
        (drawn(name, (3, 4), a, k), drawn(name, (4,), b, k + 50, second=True))
        for k, (a, b) in enumerate(PAIRS)
        if kind_of(a) in allowed and kind_of(b) in allowed and (name not in INTEGRAL or (a, b) != ("int64", "uint64"))
    ]
    together(name, *cells, batch=False)


INTEGRAL = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")


@pytest.mark.parametrize("name", [n for n in BINARY if n not in INTEGRAL])
def test_binary_special_values(name):
    """Each against each; ties among them."""
    x = np.array(SPECIAL, "float32")
    together(name, (x[:, None], x), batch=False)


@pytest.mark.parametrize("name", [n for n in BINARY if "i" in SAMPLES[n].kinds])
def test_binary_of_extreme_integers(name):
    cells = []
    for d in ("int8", "uint8", "int32", "uint32", "int64", "uint64", "uint16"):
        info = np.iinfo(d)
        x = np.array([info.min, info.max, 0, 1, 2, 7, info.max // 2] + ([-1, -3] if info.min else []), d)
        cells.append((x[:, None], x))
    together(name, *cells, grad=False, jvp=False, batch=False)
