"""Products are rounded before they are added, in optimized code too."""

import jax
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat import ext
from mxcompat._graph.passes.rounding import round_products

RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def optimised(xla_only):
    with ext.reproducible():  # computes each step with one optimized executable
        yield


@pytest.mark.parametrize("dtype", [mx.float32, mx.float64])
@pytest.mark.parametrize(
    "difference",
    [
        lambda x, y: x * x - y * y,
        lambda x, y: x * y + (-y) * x,
        lambda x, y: (x[:, None] * y[:, None]).reshape(-1) - mx.transpose(x.reshape(1, -1) * y).reshape(-1),
        lambda x, y: mx.grad(lambda z: (x * x * z - z * y * y).sum())(x),
    ],
)
def test_equal_products_cancel(difference, dtype):
    x = mx.array(RNG.standard_normal(1000), dtype)
    assert not np.array(mx.compile(difference)(x, x + 0)).any()


def test_products_that_overflow_do_not_add_up():
    """Assert that overflowing products give NaN, as in real MLX."""
    u, v = mx.array([[-5e19, 1.2e20]]), mx.array([[1e19, 1.2e19]])
    assert np.isnan(mx.compile(lambda u, v: (u * v).sum(1))(u, v).item())


def test_products_in_half_precision_are_rounded_whatever_they_are_added_to():
    """Assert that half-precision products are rounded before an add. (With AVX512-FP16 they once were not.)"""
    a, b, c = RNG.standard_normal((3, 2000)).astype(np.float16)
    want = a * b - c, c - a * b, (a * b).reshape(40, 50).T.reshape(-1) + c
    got = mx.compile(lambda a, b, c: [a * b - c, c - a * b, (a * b).reshape(40, 50).T.reshape(-1) + c])(
        *map(mx.array, (a, b, c))
    )
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(np.array(one), other)


def test_nothing_else_changes():
    a = RNG.standard_normal(100).astype(np.float32)
    lowered = jax.jit(lambda a: (a * a + a, (a * a).astype("bfloat16") + a.astype("bfloat16"))).lower(a)
    module = lowered.compiler_ir("stablehlo")
    before = str(module)
    round_products(module)
    assert str(module) == before


@pytest.mark.parametrize("changed", [lambda x: x.astype(mx.float16).astype(mx.float32), lambda x: x * x])
def test_sums_of_what_is_repeated(changed):
    """Assert that sums of repeated values are deterministic. (XLA's library gave another sum in each run.)"""
    x = mx.array(np.random.default_rng(1).standard_normal(1 << 16).astype(np.float32))
    f = mx.compile(lambda x: changed(mx.tile(x, 20)).sum())
    want = np.tile(np.array(changed(x), np.float64), 20).sum()
    sums = {f(x).item() for _ in range(50)}
    assert len(sums) == 1
    np.testing.assert_allclose(sums.pop(), want, rtol=1e-4)
