"""Casts in NumPy give XLA's bits, also for values out of range."""

import jax
import numpy as np
import pytest

from mxcompat._array.casting import converted, converted_on_host
from mxcompat._graph.ir.aval import DTYPES

FLOATS = [
    0.0,
    -0.0,
    0.5,
    -0.5,
    1.9,
    -1.9,
    127.5,
    128.0,
    -129.0,
    255.9,
    256.0,
    32768.0,
    65536.5,
    2.0**31,
    -(2.0**31),
    2.0**31 - 128,
    -(2.0**31) - 1024,
    2.0**32,
    2.0**33 + 4096,
    2.0**63,
    -(2.0**63),
    2.0**64,
    -(2.0**64),
    1e19,
    1e30,
    -1e30,
    np.inf,
    -np.inf,
    np.nan,
]
INTS = [
    0,
    1,
    2,
    7,
    100,
    127,
    128,
    255,
    256,
    32767,
    32768,
    65535,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**53 + 1,
    2**63 - 1,
    -1,
    -128,
    -129,
    -32769,
    -(2**31),
    -(2**63),
]


def examples(dtype):
    kind = dtype._numpy
    with np.errstate(all="ignore"):
        if dtype._kind in "fc":
            return np.array(FLOATS).astype(kind)
        if dtype._kind == "b":
            return np.array([True, False])
        return np.array([v % 2**64 for v in INTS], np.uint64).astype(kind)


@pytest.mark.parametrize("source", DTYPES, ids=str)
def test_every_cast(source):
    x = examples(source)
    for target in DTYPES:
        with jax.enable_x64(True):
            want = np.asarray(jax.jit(lambda v, t=target: converted(v, t))(x))
        with np.errstate(all="ignore"):
            got = converted_on_host(x, target)
        assert got.dtype == want.dtype
        if target._kind in "fc":
            wide = np.complex64 if target._kind == "c" else np.float64
            np.testing.assert_array_equal(got.astype(wide), want.astype(wide), err_msg=f"{source} to {target}")
        else:
            np.testing.assert_array_equal(got, want, err_msg=f"{source} to {target}: {x}")
