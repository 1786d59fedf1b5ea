"""Host rules of quantization, and of products with quantized matrices."""

from functools import partial

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import mxcompat.core as mx
from mxcompat._graph.ir.rules import BATCH, HOST, PULLBACK, PUSHFORWARD
from mxcompat._ops.define import TABLE
from mxcompat._ops.quantized.quantize import scheme as find_scheme

from .harness import check, data

MODES = ("mxfp4", "mxfp8", "nvfp4")
SCHEMES = [("affine", 64, bits) for bits in (1, 2, 3, 4, 5, 6, 8)] + [(mode, None, None) for mode in MODES]


def settings(scheme):
    mode, group_size, bits = scheme
    return {"mode": mode} if bits is None else {"mode": mode, "group_size": group_size, "bits": bits}


def quantized(shape, scheme, dtype="float32", seed=0):
    return by_lowering(data(shape, dtype, seed), how=find_scheme("quantize", *scheme))


def by_lowering(*inputs, how):
    with jax.enable_x64(True):
        return [np.asarray(x) for x in TABLE["quantize"].lower((how,), [jnp.asarray(x) for x in inputs])]


def test_fp8():
    with np.errstate(all="ignore"):
        bits = np.random.default_rng(0).integers(0, 2**32, 4096, np.uint32)
        edges = np.array([0, -0.0, 448, 449, 464, 1e9, np.inf, -np.inf, np.nan, 2**-9, 2**-10, 1.5 * 2**-10, 0.0625])
        x = np.concatenate([bits.view(np.float32), edges.astype(np.float32), -edges.astype(np.float32)])
        x = np.concatenate([x, data((4096,), "float32"), data((512,), "float32", low=-0.02, high=0.02)])
        for dtype in ("float32", "float16", "bfloat16"):
            kind = np.dtype(getattr(ml_dtypes, dtype, None) or dtype)
            check(lambda mx, x: mx.to_fp8(x), x.astype(kind), grad=False, jvp=False, batch=dtype == "float32")
    for dtype in ("float32", "bfloat16", "float64"):
        check(lambda mx, x, to=dtype: mx.from_fp8(x, getattr(mx, to)), np.arange(256, dtype=np.uint8))


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_quantize(scheme):
    often = scheme[2] == 4 or scheme[0] == "nvfp4"
    for dtype in ("float32", "bfloat16") if often else ("float32",):
        w = data((3, 128), dtype)
        w[0, :64], w[1, :16] = 0, 1
        full = often and dtype == "float32"
        check(lambda mx, w: mx.quantize(w, **settings(scheme)), w, grad=False, jvp=False, batch=full)
        words, *parts = quantized((3, 128), scheme, dtype)
        check(
            lambda mx, *xs: mx.dequantize(xs[-1], *xs[:-1], **settings(scheme)), *parts, words, jvp=False, grad=full,
            batch=full,
        )  # fmt: skip
    # For float32 results XLA skips a rounding to bfloat16.
    check(
        lambda mx, *xs: mx.dequantize(xs[-1], *xs[:-1], **settings(scheme), dtype=mx.float32), *parts, words,
        jvp=False, grad=False, batch=False, tolerance=None if dtype == "float32" else 1.6e-2,
    )  # fmt: skip


def test_quantize_with_a_global_scale():
    w, scale = data((3, 64), "float32"), np.array(3, np.float32)
    check(
        lambda mx, w: mx.quantize(w, mode="nvfp4", global_scale=mx.array(scale)), w, grad=False, jvp=False, batch=False
    )
    words, scales = by_lowering(w, scale, how=find_scheme("quantize", "nvfp4", None, None))
    check(lambda mx, w, s: mx.dequantize(w, s, mode="nvfp4", global_scale=mx.array(scale)), words, scales, batch=False)


@pytest.mark.parametrize("scheme", SCHEMES[3:4] + SCHEMES[7:], ids=str)
@pytest.mark.parametrize("transpose", [True, False])
def test_quantized_matmul(scheme, transpose):
    for dtype in ("float32", "bfloat16") if transpose else ("float32",):
        full = dtype == "float32" and scheme[0] in ("affine", "nvfp4")
        words, *parts = quantized((64, 128), scheme, dtype)
        size = 128 if transpose else 64
        # XLA rounds the matrix to bfloat16 before it multiplies.
        tolerance = 1e-5 if dtype == "float32" else 3e-2

        def call(mx, x, *arrays, words=words, parts=parts):
            arrays = arrays or [mx.array(p) for p in parts]
            return mx.quantized_matmul(x, mx.array(words), *arrays, transpose=transpose, **settings(scheme))

        x = data((2, 3, size), dtype)
        check(call, x, tolerance=tolerance, jvp=full, batch=full)
        if scheme[0] == "affine" and full:
            check(call, x[0], *parts, tolerance=tolerance, jvp=False, batch=False)


def test_quantized_matmul_with_several_matrices():
    parts = [mx.array(p) for p in quantized((2, 8, 64), SCHEMES[3])]
    for shape in [(2, 3, 64), (3, 64), (64,), (4, 2, 1, 64)]:
        check(
            lambda mx, x: mx.quantized_matmul(x, *parts), data(shape, "float32"), jvp=False, batch=len(shape) > 2,
            tolerance=1e-5,
        )  # fmt: skip


@pytest.mark.parametrize("scheme", SCHEMES[3:4] + SCHEMES[7:8], ids=str)
def test_gather_qmm(scheme):
    parts = [mx.array(p) for p in quantized((4, 32, 64), scheme)]
    x = data((5, 2, 3, 64), "float32")
    lhs, rhs = np.array([[9], [0], [3]], np.int32), np.array([[2, 0], [3, 3], [2, 9]], np.uint32)

    def call(mx, x, left, right, **more):
        return mx.gather_qmm(x, *parts, lhs_indices=left, rhs_indices=right, **settings(scheme), **more)

    check(lambda mx, x, l, r: call(mx, x, l, r), x, lhs, rhs, jvp=False, batch=False, tolerance=1e-5)  # noqa: E741
    often = scheme[0] == "affine"
    check(lambda mx, x, r: call(mx, x, None, r), x[:2], rhs[:1], jvp=False, grad=often, batch=often, tolerance=1e-5)
    x = data((4, 2, 32), "float32")
    call_plain = partial(call, right=None, transpose=False)
    check(lambda mx, x, i: call_plain(mx, x, i), x, np.arange(4), jvp=False, batch=False, tolerance=1e-5)


def test_gather_qmm_with_global_scales():
    words, scales = (mx.array(p) for p in quantized((4, 32, 64), SCHEMES[9]))
    each = mx.array(data((4,), "float32", low=1))
    x, rhs = data((5, 1, 64), "bfloat16"), np.array([2, 0, 3, 3, 1], np.uint32)

    def call(mx, x, right):
        return mx.gather_qmm(x, words, scales, rhs_indices=right, mode="nvfp4", global_scale=each)

    check(call, x, rhs, jvp=False, batch=False)


@pytest.mark.parametrize("scheme", SCHEMES[7:], ids=str)
def test_qqmm(scheme):
    words, scales = quantized((8, 64), scheme)
    x, w = data((2, 3, 64), "bfloat16"), data((8, 64), "bfloat16", 1)

    def packed(mx, x):
        return mx.qqmm(x, mx.array(words), mx.array(scales), **settings(scheme))

    often = scheme[0] == "nvfp4"
    check(packed, x, jvp=False, batch=often)
    if often:
        check(packed, x[0, 0].astype(np.float32), jvp=False, batch=False, tolerance=1e-5)
    check(lambda mx, x, w: mx.qqmm(x, w, **settings(scheme)), x, w, jvp=False, batch=False)


def test_qqmm_with_global_scales():
    x, w = data((3, 64), "float32"), data((8, 64), "float32", 1)
    scales = {"global_scale_x": mx.array(3.0), "global_scale_w": mx.array(2.0)}
    check(lambda mx, x, w: mx.qqmm(x, w, **scales), x, w, jvp=False, batch=False, tolerance=1e-5)


def test_gather_qqmm():
    x, w = data((5, 2, 64), "float32"), data((4, 8, 64), "float32", 1)
    words, codes = quantized((4, 8, 64), SCHEMES[9])
    rhs = np.array([2, 0, 3, 3, 1], np.uint32)
    none = {"grad": False, "jvp": False, "batch": False, "tolerance": 1e-5}
    check(lambda mx, x, w, r: mx.gather_qqmm(x, w, rhs_indices=r), x, w, rhs, **none)
    check(lambda mx, x, w, c, r: mx.gather_qqmm(x, w, c, r, r), x, words, codes, rhs, **none)
    for left in (mx.array(3.0), mx.array(data((5,), "float32", low=1))):
        scales = {"global_scale_x": left, "global_scale_w": mx.array(data((4,), "float32", low=1))}
        check(lambda mx, x, w, r, s=scales: mx.gather_qqmm(x, w, rhs_indices=r, **s), x, w, rhs, **none)
        check(lambda mx, x, w, c, r, s=scales: mx.gather_qqmm(x, w, c, None, r, **s), x, words, codes, rhs, **none)


OPS = {
    "to_fp8", "from_fp8", "quantize", "dequantize", "quantized_matmul", "quantized_matmul_fp", "gather_qmm",
    "gather_qmm_fp", "qqmm", "gather_qqmm",
}  # fmt: skip


def test_rules():
    assert all(TABLE[name] in HOST for name in OPS)
    constant = {"to_fp8", "from_fp8"}  # integer codes have no derivative
    # their derivatives pass through quantization, or ignore it, and are rarely needed
    rare = {"quantize", "gather_qqmm"}
    assert {name for name in OPS if TABLE[name] not in PULLBACK} == constant | rare
    assert {name for name in OPS if TABLE[name] not in PUSHFORWARD} == constant | rare | {"qqmm"}
    assert {name for name in OPS if TABLE[name] not in BATCH} == {"gather_qqmm"}
