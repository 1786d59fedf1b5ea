"""Convolutions in C (`_native/convolve.c`): their values, and the pass that puts calls of C into XLA's programs."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from itertools import product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import mxcompat.core as mx
from mxcompat._graph.passes import convolutions
from mxcompat._graph.run.foreign import CONVOLVE
from mxcompat._graph.run.lowering import lower
from mxcompat._native import native
from mxcompat._native.convolutions import Convolution
from mxcompat.ext import debug

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")

LAYOUTS = {1: ("NHC", "OHI", "NHC"), 2: ("NHWC", "OHWI", "NHWC"), 3: ("NDHWC", "ODHWI", "NDHWC")}


def drawn(rng: np.random.Generator) -> Convolution:
    """Return a random convolution with a result."""
    while True:
        axes = int(rng.integers(1, 4))

        def some(*choices: int, axes: int = axes) -> list[int]:
            return [int(n) for n in rng.choice(choices, axes)]

        (groups,), (channels,), (outputs,) = some(1, 1, 2, 3)[:1], some(1, 2, 3, 8, 13)[:1], some(1, 2, 7, 33)[:1]
        if rng.random() < 0.2:
            groups, channels, outputs = 37, 1, int(rng.integers(1, 3))
        elif rng.random() < 0.3:
            groups, (channels,) = 16, some(2, 4, 8, 16)[:1]
            outputs = channels
        inputs, kernel, stride = some(1, 3, 6, 9, 14), some(1, 2, 3, 5), some(1, 1, 2, 3)
        low, high, dilation, spread = some(-1, 0, 1, 2), some(-1, 0, 1, 3), some(1, 1, 2), some(1, 1, 2, 3)
        lengths = [
            (n - 1) * p + 1 + a + b - d * (k - 1)
            for n, p, a, b, d, k in zip(inputs, spread, low, high, dilation, kernel, strict=True)
        ]
        if min(lengths) > 0:
            out = [(n - 1) // s + 1 for n, s in zip(lengths, stride, strict=True)]
            shape = (outputs * groups, *kernel, channels)
            one, *taps, channel = (math.prod(shape[k + 1 :]) for k in range(len(shape)))
            steps = (outputs * one, one, channel, *taps)
            images = int(rng.integers(1, 4))
            return Convolution(
                images, groups, channels, outputs, inputs, out, kernel, stride, low, dilation, spread, steps
            )


def places(c: Convolution) -> Iterator[tuple[tuple, tuple, tuple]]:
    """Yield the places of each tap, of an output, and of the input that the tap reads for it."""
    for tap in product(*map(range, c.kernel)):
        for out in product(*map(range, c.out)):
            read = [o * s + t * d - a for o, s, t, d, a in zip(out, c.stride, tap, c.dilation, c.low, strict=True)]
            inside = [n % p == 0 and 0 <= n // p < size for n, p, size in zip(read, c.spread, c.inputs, strict=True)]
            if all(inside):
                yield tap, out, tuple(n // p for n, p in zip(read, c.spread, strict=True))


@pytest.mark.parametrize("seed", range(30))
def test_values_and_gradients_equal_sums(seed, instructions):
    rng = np.random.default_rng(seed)
    c = drawn(rng)
    x = rng.standard_normal((c.images, *c.inputs, c.groups, c.channels)).astype("f")
    w = rng.standard_normal((c.groups, c.outputs, *c.kernel, c.channels)).astype("f")
    g = rng.standard_normal((c.images, *c.out, c.groups, c.outputs)).astype("f")
    y, gx, gw = (np.zeros(a.shape) for a in (g, x, w))
    every = slice(None)
    for tap, out, read in places(c):
        weights = w[(every, every, *tap)].astype(float)
        y[(every, *out)] += np.einsum("ngc,goc->ngo", x[(every, *read)], weights)
        gx[(every, *read)] += np.einsum("ngo,goc->ngc", g[(every, *out)], weights)
        gw[(every, every, *tap)] += np.einsum("ngo,ngc->goc", g[(every, *out)].astype(float), x[(every, *read)])
    for want, first, second, numbers in (
        (y, x, w, c.numbers(False)), (gx, g, w, c.for_inputs().numbers(False)), (gw, x, g, c.numbers(True))
    ):  # fmt: skip
        got = np.full(want.shape, np.nan, np.float32)
        native.convolve(got, first, second, numbers)
        np.testing.assert_allclose(got, want, atol=1e-5 * (1 + np.abs(want).max()), err_msg=str(c))


def test_weights_may_be_stored_in_any_order():
    x, w = np.random.randn(1, 16, 5, 3).astype("f"), np.random.randn(4, 2, 3, 3).astype("f")
    sizes = (1, 1, 3, 4, (16, 5), (15, 3), (2, 3), (1, 1), (0, 0), (1, 1), (1, 1))
    want, got = np.empty((1, 15, 3, 4), np.float32), np.empty((1, 15, 3, 4), np.float32)
    native.convolve(want, x, w, Convolution(*sizes, (72, 18, 1, 9, 3)).numbers(False))
    turned = np.ascontiguousarray(w[:, ::-1].transpose(3, 2, 1, 0))  # channels, columns, rows upwards, outputs
    native.convolve(got, x, turned, Convolution(*sizes, (4, 1, 24, -4, 8), 4).numbers(False))
    assert np.array_equal(got, want)


@pytest.mark.parametrize("outputs", [1, 2, 3, 4, 9])
@pytest.mark.parametrize(
    "case",
    [(1, 640, 1, 256, 128, 0, 1, 1), (3, 5, 7, 3, 2, 1, 1, 1), (1, 1, 300, 5, 1, 2, 1, 2), (2, 16, 40, 3, 1, 2, 2, 1)],
)
def test_few_pixels_equal_sums(case, outputs, instructions):
    """Test convolutions whose input patches are copied, and the same with the weights stored backward."""
    images, inputs, channels, kernel, stride, low, dilation, groups = case
    out = (inputs + 2 * low - dilation * (kernel - 1) - 1) // stride + 1
    x = np.random.randn(images, inputs, groups, channels).astype("f")
    w = np.random.randn(groups, outputs, kernel, channels).astype("f")
    padded = np.pad(x, ((0, 0), (low, low), (0, 0), (0, 0))).astype(float)
    taps = [padded[:, t * dilation : t * dilation + (out - 1) * stride + 1 : stride] for t in range(kernel)]
    want = np.einsum("tnpgc,gotc->npgo", np.stack(taps), w)
    size = kernel * channels
    for turned, step, start in ((w, channels, 0), (w[:, :, ::-1], -channels, size - channels)):
        c = Convolution(
            images, groups, channels, outputs, (inputs,), (out,), (kernel,), (stride,), (low,), (dilation,), (1,),
            (outputs * size, size, 1, step), start,
        )  # fmt: skip
        got = np.full(want.shape, np.nan, np.float32)
        native.convolve(got, x, np.ascontiguousarray(turned), c.numbers(False))
        np.testing.assert_allclose(got, want, atol=1e-5 * (1 + np.abs(want).max()))


@pytest.mark.parametrize("shape", [(5, 20, 11, 40), (4, 3, 100, 256)])
def test_results_do_not_depend_on_the_number_of_images(shape):
    """Test that the sums are the same for an image alone, and among others."""
    x, w = np.random.randn(*shape).astype("f"), np.random.randn(50, 3, 3, shape[-1]).astype("f")
    all_at_once = np.array(mx.conv2d(mx.array(x), mx.array(w), padding=1))
    for k in range(shape[0]):
        alone = np.array(mx.conv2d(mx.array(x[k : k + 1]), mx.array(w), padding=1))
        assert np.array_equal(all_at_once[k : k + 1], alone)


def test_the_gradient_of_a_long_convolution_needs_little_memory():
    """Test that taps become channels for flipped kernels, too: tables of outputs by taps would take 640 MB here."""
    x, w = np.random.randn(1, 40000, 1).astype("f"), np.random.randn(1, 2000, 1).astype("f")
    c = Convolution(1, 1, 1, 1, (40000,), (38001,), (2000,), (1,), (0,), (1,), (1,), (2000, 2000, 1, 1))
    g, got = np.random.randn(1, 38001, 1).astype("f"), np.empty_like(x)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    native.convolve(got, g, w, c.for_inputs().numbers(False))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000
    np.testing.assert_allclose(got.ravel(), np.convolve(g.ravel(), w.ravel()), atol=1e-2)


def compiled(function, *args):
    """Return the text of a function after the passes, and its results."""
    lowered = lower(jax.jit(function).trace(*args))
    return str(lowered.compiler_ir("stablehlo")), lowered.compile({})(*args)


def convolved(x, w, groups=1, stride=2, spread=1):
    axes = x.ndim - 2
    return lax.conv_general_dilated(
        x, w, (stride,) * axes, [(1, 2)] * axes, (spread,) * axes, dimension_numbers=LAYOUTS[axes],
        feature_group_count=groups, precision=lax.Precision.HIGHEST,
    )  # fmt: skip


@pytest.mark.parametrize(("axes", "groups", "spread"), [(1, 1, 1), (2, 1, 2), (2, 2, 1), (2, 4, 1), (3, 1, 1)])
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float16, jnp.bfloat16])
def test_values_and_gradients_call_c(axes, groups, spread, dtype):
    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.standard_normal((2, *[7, 6, 5][:axes], 4)), dtype)
    w = jnp.asarray(rng.standard_normal((8, *[3, 2, 2][:axes], 4 // groups)), dtype)

    def gradients(x, w):
        y, pull = jax.vjp(lambda x, w: convolved(x, w, groups, 3 - spread, spread), x, w)
        return y, *pull(jnp.cos(jnp.arange(y.size)).reshape(y.shape).astype(y.dtype))

    text, got = compiled(gradients, x, w)
    assert text.count(CONVOLVE) == 3
    assert "stablehlo.convolution" not in text
    by_xla = jax.jit(lambda *args: gradients(*args))(x.astype(jnp.float32), w.astype(jnp.float32))
    for a, b in zip(got, by_xla, strict=True):
        assert a.dtype == dtype
        tol = 1e-5 if dtype == jnp.float32 else 2e-2
        np.testing.assert_allclose(a.astype(jnp.float32), b, rtol=tol, atol=tol * float(jnp.abs(b).max()))


def test_other_layouts_and_dtypes_are_left_to_xla():
    x, w = jnp.ones((2, 6, 5, 4)), jnp.ones((8, 3, 2, 4))

    def channels_first(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NCHW", "OIHW", "NCHW"))

    for function, *args in (
        (channels_first, x.transpose(0, 3, 1, 2), w.transpose(0, 3, 1, 2)),
        (convolved, x.astype(jnp.int32), w.astype(jnp.int32)),
        (convolved, jnp.ones((0, 6, 5, 4)), w),
    ):
        text, got = compiled(function, *args)
        assert CONVOLVE not in text
        np.testing.assert_allclose(got, function(*args), rtol=1e-5)


NEGATIVE = {
    "groups": ((3, 6, 20, 3), (6, 2, 2, 1), 3, ([1, 2], [1, 0]), 1),
    "two axes": ((3, 6, 20, 3), (6, 2, 2, 3), 1, ([1, 2], [1, 0]), 1),
    "one axis": ((2, 30, 4), (8, 3, 4), 1, ([4], [0]), 1),
    "a dilated input": ((2, 12, 9, 4), (8, 3, 2, 4), 1, ([4, 0], [0, 3]), 2),
    "a cut input": ((2, 12, 9, 4), (8, 3, 2, 4), 1, ([-2, 1], [0, -3]), 2),
}


@pytest.mark.parametrize("called", [True, False], ids=["in C", "by XLA"])
@pytest.mark.parametrize("name", NEGATIVE)
def test_gradients_with_negative_paddings_equal_sums(name, called, monkeypatch):
    """Compare gradients for which XLA's own code for CPUs returned wrong numbers."""
    if not called:
        monkeypatch.setattr(convolutions, "register", lambda: False)
    debug.clear_cache()
    shape, kernel, groups, padding, spread = NEGATIVE[name]
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal(shape).astype("f"), rng.standard_normal(kernel).astype("f")

    def convolve(x, w):
        return mx.conv_general(mx.array(x), mx.array(w), padding=padding, groups=groups, input_dilation=spread)

    g = rng.standard_normal(convolve(x, w).shape).astype("f")
    with debug.host_disabled():
        gradients = [np.array(a) for a in mx.vjp(convolve, [mx.array(x), mx.array(w)], [mx.array(g)])[1]]
    for place, gradient in enumerate(gradients):
        direction = rng.standard_normal(gradient.shape).astype("f")
        # the derivative along a direction, as y is linear in each argument
        along = convolve(*[direction if k == place else a for k, a in enumerate((x, w))])
        np.testing.assert_allclose((gradient * direction).sum(), (g * np.array(along)).sum(), rtol=1e-3, atol=1e-2)
    debug.clear_cache()


def test_numbers_that_do_not_fit_raise():
    call = jax.ffi.ffi_call(CONVOLVE, jax.ShapeDtypeStruct((1, 4, 4, 8), jnp.float32))
    args = jnp.ones((1, 4, 4, 2)), jnp.ones((8, 1, 1, 3))
    convolution = Convolution(1, 1, 2, 8, (4, 4), (4, 4), (1, 1), (1, 1), (0, 0), (1, 1), (1, 1), (16, 2, 1, 2, 2))
    for numbers in (convolution.numbers(False), np.zeros(3, np.int64)):
        with pytest.raises(Exception, match="INVALID_ARGUMENT"):
            jax.block_until_ready(jax.jit(lambda *args, n=numbers: call(*args, numbers=n))(*args))
