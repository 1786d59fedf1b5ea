"""The NumPy rules of `mx.fast` give what XLA gives."""

import numpy as np
import pytest

from .harness import check, data

FLOATS = ("float32", "bfloat16", "float16", "float64")
SMOOTH = ("float32", "bfloat16")


def inputs(*shapes, dtype="float32"):
    return [data(shape, dtype, seed) for seed, shape in enumerate(shapes)]


def values(call, *xs, **kwargs):
    check(call, *xs, grad=False, jvp=False, batch=False, **kwargs)


def test_norms_of_each_dtype():
    def every(mx, w, b, n, *xs):
        ys = [f for x in xs for f in (mx.fast.rms_norm(x, None, 1e-5), mx.fast.layer_norm(x, None, None, 1e-5))]
        ys += [y for x in xs for y in (mx.fast.rms_norm(x, w, 1e-2), mx.fast.layer_norm(x, b, w, 1e-2))]
        return [*ys, mx.fast.layer_norm(xs[1], n, b, 0.1), mx.fast.rms_norm(xs[0][0], n, 0.1)]

    xs = [data((2, 8), dtype, seed) for seed, dtype in enumerate(FLOATS)]
    values(every, data((8,), "float32", 4), data((8,), "bfloat16", 5), data((8,), "int8", 6), *xs)


@pytest.mark.parametrize("dtype", SMOOTH)
def test_derivatives_of_norms(dtype):
    def every(mx, x, w, b):
        return [mx.fast.rms_norm(x, w, 1e-2), mx.fast.rms_norm(x, None, 1e-2), mx.fast.layer_norm(x, w, b, 1e-2),
                mx.fast.layer_norm(x, None, b, 1e-2), mx.fast.layer_norm(x, None, None, 1e-2)]  # fmt: skip

    check(every, *inputs((2, 3, 6), (6,), (6,), dtype=dtype), batch=False)


@pytest.mark.parametrize("dtype", SMOOTH)
def test_cross_entropy(dtype):
    x = data((2, 4, 5), dtype)
    x[0, 0, 1] = -np.inf
    targets = np.array([[0, 4, -1, -5], [1, 2, 3, 3]], np.int32)
    check(lambda mx, x, k: mx.fast.cross_entropy(x, k), x, targets, batch=False)


def test_cross_entropy_out_of_range():
    x = data((4, 3), "float32")
    check(lambda mx, x, k: mx.fast.cross_entropy(x, k), x, np.array([3, 0, -4, 200], np.int64), batch=False)
    values(lambda mx, x, k: mx.fast.cross_entropy(x, k), x.astype(np.float64), np.array([3, 0, 2, 200], np.uint8))
    values(lambda mx, x, k: mx.fast.cross_entropy(x, k), x[:0], np.zeros(0, np.int32))


@pytest.mark.parametrize("traditional", [False, True])
def test_rope(traditional):
    def turn(mx, x, dims=6, base=10000.0, scale=1.0, offset=3, freqs=None):
        return mx.fast.rope(x, dims, traditional=traditional, base=base, scale=scale, offset=offset, freqs=freqs)

    def every(mx, x, half):
        return [turn(mx, x), turn(mx, half), turn(mx, x, 4, scale=0.5)]

    def tables(mx, x, freqs, offset):
        return [turn(mx, x, base=None, freqs=freqs), turn(mx, x, 4, offset=offset), turn(mx, x, offset=offset[1:])]

    x, half = data((2, 3, 4, 6), "float32"), data((1, 2, 3, 6), "bfloat16")
    check(every, x, half, batch=False)
    values(tables, x, data((3,), "float32", low=1, high=3), np.array([5, 100], np.int32))
