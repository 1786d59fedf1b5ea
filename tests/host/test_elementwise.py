"""The NumPy rules of elementwise ops, held to XLA: every op of `SAMPLES`, on every dtype that it takes."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._array.construct import CAST, COPY
from mxcompat._array.nest import NEST
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import SAMPLES, TABLE

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


def together(name, arrays, dtypes, **options):
    """One program with an output for each dtype: one compilation for all."""
    function = getattr(mx, name)
    n = len(arrays) // len(dtypes)
    check(lambda mx, *xs: [function(*xs[k : k + n]) for k in range(0, len(xs), n)], *arrays, **options)


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    dtypes = [d for d in DTYPES if kind_of(d) in SAMPLES[name].kinds]
    shapes = [(3, 4), (), (0,), (5,)]
    arrays = [drawn(name, shapes[k % 4] if d not in SMOOTH else (3, 4), d, k) for k, d in enumerate(dtypes)]
    together(name, arrays, dtypes, grad=False, jvp=False, batch=False)
    for dtype in dtypes:
        if dtype in SMOOTH:
            check(lambda mx, x: getattr(mx, name)(x), drawn(name, (4,), dtype), batch=dtype == "float32")
