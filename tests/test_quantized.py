"""Quantization: real MLX's packing, bit for bit, and products with packed matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.oracle import check, ours, real, run, to_numpy

RNG = np.random.default_rng(0)
MODES = ("affine", "mxfp4", "mxfp8", "nvfp4")
CODED = MODES[1:]
DTYPES = ("float32", "float16", "bfloat16")
SETTINGS = [(b, g) for b in (1, 2, 3, 4, 5, 6, 8) for g in (32, 64, 128)]


def weights(rows: int = 48, columns: int = 256) -> np.ndarray:
    """Return rows of many magnitudes, and special ones: zeros, constants, one sign only, halfway cases."""
    w = RNG.standard_normal((rows, columns)) * np.exp(RNG.standard_normal((rows, 1)) * 2)
    w[0], w[1], w[2] = 0, 3, -2
    w[3], w[4] = np.abs(w[3]), -np.abs(w[4])
    w[5, :16] = [6, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5, -6, -0.25, -0.75, -1.25, -1.75, -2.5, -3.5, -5]
    w[5, 16:] = np.clip(w[5, 16:], -6, 6)
    w[6, ::3] = -0.0
    return w.astype(np.float32)


W = weights()
SMALL = RNG.standard_normal((64, 128)).astype(np.float32)
STACK = RNG.standard_normal((4, 64, 128)).astype(np.float32)
X = RNG.standard_normal((3, 128)).astype(np.float32)
X3 = RNG.standard_normal((5, 3, 128)).astype(np.float32)


def exact(fn: Any, *args: Any) -> None:
    """Assert that both sides give the same bits."""
    got, want = run(ours, fn, args), run(real, fn, args)
    assert not isinstance(want, Exception), want
    assert not isinstance(got, Exception), got
    assert isinstance(got, list) == isinstance(want, list)
    got, want = (r if isinstance(r, list) else [r] for r in (got, want))
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert str(g.dtype) == str(w.dtype)
        g, w = to_numpy(g), to_numpy(w)
        assert g.shape == w.shape
        np.testing.assert_array_equal(g.view(np.uint8), w.view(np.uint8))


@pytest.mark.parametrize(("bits", "group_size"), SETTINGS)
def test_affine_packing(bits: int, group_size: int) -> None:
    for dtype in DTYPES:
        exact(lambda mx, w: mx.quantize(w.astype(getattr(mx, dtype)), group_size, bits), W)  # noqa: B023


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", CODED)
def test_coded_packing(mode: str, dtype: str) -> None:
    exact(lambda mx, w: mx.quantize(w.astype(getattr(mx, dtype)), mode=mode), W)


def _with(*values: float) -> np.ndarray:
    """Return groups that each contain one or two of these values."""
    w = np.tile(np.array([1, -2, 0.5, 3] * 16, np.float32), (8, 1))
    for k, value in enumerate(values):
        w[k, 3 * k], w[-1 - k, 5 * k], w[-1 - k, 5 * k + 40] = value, value, -value if value == value else value
    return w


@pytest.mark.usefixtures("tier")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_number(mode: str, dtype: str) -> None:
    """Compare NaN and infinity; in mode "affine" a group's range excludes them."""
    w = _with(np.nan, np.inf, -np.inf, 3e38)
    alone = np.repeat(np.array([[np.nan], [np.inf], [-np.inf]], np.float32), 64, 1)

    def quantized(mx: Any, *matrices: Any) -> list:
        parts = [mx.quantize(w.astype(getattr(mx, dtype)), mode=mode) for w in matrices]
        return [*parts, mx.dequantize(*parts[0])] if mode == "affine" else parts

    check(quantized, w, alone)


def test_far_from_all_codes() -> None:
    w = 448 * np.float32(2.0) ** np.arange(20, 32, dtype=np.float32)
    exact(lambda mx, w: mx.quantize(mx.repeat(w[:, None], 32, 1), mode="nvfp4"), w)


@pytest.mark.parametrize("scale", [1.0, 2.0, 100.0, 3000.0, 0.37])
def test_global_scale(scale: float) -> None:
    for dtype in DTYPES:

        def both(mx: Any, w: Any) -> list:
            g = mx.array(scale)
            q = mx.quantize(w.astype(getattr(mx, dtype)), mode="nvfp4", global_scale=g)  # noqa: B023
            return [*q, mx.dequantize(*q, mode="nvfp4", global_scale=g)]

        exact(both, W)


@pytest.mark.parametrize("shape", [(2, 3, 64), (0, 64), (3, 0), (1, 1, 2, 64)])
def test_quantize_shapes(shape: tuple[int, ...]) -> None:
    exact(lambda mx, w: mx.quantize(w), RNG.standard_normal(shape).astype(np.float32))


@pytest.mark.parametrize("columns", [16, 48, 96])
def test_narrow_nvfp4(columns: int) -> None:
    exact(lambda mx, w: mx.quantize(w, mode="nvfp4"), SMALL[:, :columns])


@pytest.mark.parametrize("bits", [1, 2, 3, 4, 5, 6, 8])
def test_dequantize_affine(bits: int) -> None:
    for dtype in DTYPES:

        def both(mx: Any, w: Any) -> Any:
            q = mx.quantize(w.astype(getattr(mx, dtype)), 32, bits)  # noqa: B023
            return mx.dequantize(*q, group_size=32, bits=bits)

        check(both, W, tol=1e-6 if dtype == "float32" else None)


@pytest.mark.parametrize("dtype", [*DTYPES, None])
@pytest.mark.parametrize("mode", CODED)
def test_dequantize_coded(mode: str, dtype: str | None) -> None:
    def both(mx: Any, w: Any) -> Any:
        return mx.dequantize(*mx.quantize(w, mode=mode), mode=mode, dtype=dtype and getattr(mx, dtype))

    exact(both, W)


@pytest.mark.parametrize("scales", DTYPES)
@pytest.mark.parametrize("biases", DTYPES)
def test_mixed_dtypes(scales: str, biases: str) -> None:
    def both(mx: Any, w: Any, x: Any) -> list:
        q, s, b = mx.quantize(w)
        s, b = s.astype(getattr(mx, scales)), b.astype(getattr(mx, biases))
        # Real MLX adds up in half precision where all is half precision: 128 products of 0.3, roundings of 2^-8.
        return [mx.dequantize(q, s, b), mx.dequantize(q, s, b, dtype=mx.float32), mx.quantized_matmul(x, q, s, b)]

    check(both, SMALL, X, tol=2e-2)


def test_weights_cross_over() -> None:
    """Assert that each library unpacks the matrices that the other packed."""
    for mode in MODES:
        q = real.quantize(real.array(SMALL), mode=mode)
        mine = ours.quantize(ours.array(SMALL), mode=mode)
        moved = [ours.array(np.array(a)) for a in q]
        back = [real.array(np.array(a)) for a in mine]
        want = np.array(real.dequantize(*q, mode=mode, dtype=real.float32))
        got = np.array(ours.dequantize(*moved, mode=mode, dtype=ours.float32))
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(np.array(real.dequantize(*back, mode=mode, dtype=real.float32)), want)


# Without float64: real MLX reads its bytes as float32.
FP8 = [0, -0.0, 1, -1, 0.3, 448, 449, 464, 465, 1e9, -1e9, 2**-6, 2**-7, 2**-9, 2**-10, 3 * 2**-11, 1e-30, 17, 18, 19]
FP8 += [np.nan, np.inf, -np.inf, 0.0155, 0.0157, 1.0625, 1.1875, -1.0625, -1.1875]


@pytest.mark.parametrize("dtype", DTYPES)
def test_to_fp8(dtype: str) -> None:
    x = np.concatenate([np.array(FP8), RNG.standard_normal(500), np.exp(RNG.standard_normal(500) * 4)])
    exact(lambda mx, x: mx.to_fp8(x.astype(getattr(mx, dtype))), x.astype(np.float32))


@pytest.mark.parametrize("dtype", DTYPES)
def test_from_fp8(dtype: str) -> None:
    codes = np.delete(np.arange(256, dtype=np.uint8), [127, 255])
    exact(lambda mx, x: mx.from_fp8(x, getattr(mx, dtype)), codes)
    assert np.isnan(np.array(ours.from_fp8(ours.array([127, 255], dtype=ours.uint8), ours.float32))).all()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("transpose", [True, False])
def test_quantized_matmul(mode: str, transpose: bool) -> None:
    def both(mx: Any, x: Any, w: Any) -> list:
        q = mx.quantize(w, mode=mode)
        x = x if transpose else x[..., :64]
        one, batch = x[0], x[None, None]
        return [mx.quantized_matmul(a, *q, transpose=transpose, mode=mode) for a in (x, one, batch)]

    check(both, X, SMALL, tol=1e-4)  # sums of 128 products of size 10, in another order


@pytest.mark.parametrize(("bits", "group_size"), SETTINGS)
def test_quantized_matmul_affine(bits: int, group_size: int) -> None:
    def both(mx: Any, x: Any, w: Any) -> Any:
        return mx.quantized_matmul(x, *mx.quantize(w, group_size, bits), group_size=group_size, bits=bits)

    check(both, X, SMALL, tol=1e-4)  # sums of 128 products of size 10, in another order


@pytest.mark.parametrize("x_dtype", [*DTYPES, "int32", "bool_"])
def test_quantized_matmul_dtypes(x_dtype: str) -> None:
    def both(mx: Any, x: Any, w: Any) -> list:
        q, s, b = mx.quantize(w)
        h = s.astype(mx.float16), b.astype(mx.float16)
        x = x.astype(getattr(mx, x_dtype))
        return [mx.quantized_matmul(x, q, s, b), mx.quantized_matmul(x, q, *h)]

    check(both, X, SMALL, tol=6e-2)  # real MLX adds up in half precision


@pytest.mark.parametrize("mode", CODED)
def test_coded_matmul_dtypes(mode: str) -> None:
    for dtype in DTYPES:

        def both(mx: Any, x: Any, w: Any) -> Any:
            return mx.quantized_matmul(x.astype(getattr(mx, dtype)), *mx.quantize(w, mode=mode), mode=mode)  # noqa: B023

        check(both, X, SMALL, tol={"bfloat16": 0.3, "float16": 6e-2}.get(dtype, 1e-4))  # adds up in half precision


def test_half_precision_is_added_up_in_float32() -> None:
    x, w = ours.array(X).astype(ours.bfloat16), ours.array(SMALL).astype(ours.bfloat16)
    got = np.array(ours.quantized_matmul(x, *ours.quantize(w)).astype(ours.float32))
    q = ours.quantize(w)
    full = [q[0], *[a.astype(ours.float32) for a in q[1:]]]
    want = np.array(x.astype(ours.float32) @ ours.dequantize(*full).T)
    np.testing.assert_allclose(got, want, rtol=8e-3, atol=5e-2)


@pytest.mark.parametrize(
    ("x_shape", "copies"),
    [((3, 128), (2,)), ((128,), (2,)), ((1, 3, 128), (2,)), ((2, 3, 128), (1, 2)), ((2, 1, 3, 128), (3,))],
)
def test_batches(x_shape: tuple[int, ...], copies: tuple[int, ...]) -> None:
    x = RNG.standard_normal(x_shape).astype(np.float32)
    w = RNG.standard_normal((*copies, 64, 128)).astype(np.float32)
    check(lambda mx, x, w: mx.quantized_matmul(x, *mx.quantize(w)), x, w, tol=1e-4)  # the sums are in another order


L, R = np.array([0, 2, 4]), np.array([0, 3, 1])


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("lhs", "rhs", "first"),
    [
        (L, R, X3),
        (L, R[:, None], X3),
        (None, R, X3[0]),
        (L[:1], None, X3),
        (None, None, X3[:4]),
        (None, np.tile(R, 5), X3[:1]),
    ],
)
def test_gather_qmm(mode: str, lhs: Any, rhs: Any, first: np.ndarray) -> None:
    def both(mx: Any, x: Any, w: Any) -> Any:
        indices = {"lhs_indices": lhs, "rhs_indices": rhs}
        indices = {k: None if v is None else mx.array(v) for k, v in indices.items()}
        return mx.gather_qmm(x, *mx.quantize(w, mode=mode), **indices, mode=mode)

    check(both, first, STACK, tol=1e-4)  # the sums are in another order


def test_gather_qmm_not_transposed() -> None:
    def both(mx: Any, x: Any, w: Any, r: Any) -> Any:
        return mx.gather_qmm(x[:3, :, :64], *mx.quantize(w), rhs_indices=r, transpose=False, sorted_indices=False)

    check(both, X3, STACK, R, tol=1e-4)  # the sums are in another order


def test_gather_qmm_global_scale() -> None:
    w = ours.array(STACK)
    scales = ours.abs(w).max((1, 2))
    each = [ours.quantize(m, mode="nvfp4", global_scale=s) for m, s in zip(w, scales, strict=True)]
    q = [ours.stack([parts[k] for parts in each]) for k in (0, 1)]
    got = ours.gather_qmm(ours.array(X), *q, rhs_indices=ours.array(R), mode="nvfp4", global_scale=scales)
    for k, r in enumerate(R):
        y = ours.dequantize(q[0][int(r)], q[1][int(r)], mode="nvfp4", global_scale=scales[int(r)])
        np.testing.assert_allclose(np.array(got[k]), np.array(ours.array(X) @ y.T), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", CODED)
def test_qqmm(mode: str) -> None:
    for shape in ((1, 128), (128,), (1, 1, 128)):

        def both(mx: Any, x: Any, w: Any) -> Any:
            q = mx.quantize(w, mode=mode)
            return mx.qqmm(x[0].reshape(shape), q[0], q[1], mode=mode)  # noqa: B023

        check(both, X, SMALL, tol=1e-4)  # the sums are in another order


@pytest.mark.parametrize("mode", MODES)
def test_qqmm_in_general(mode: str) -> None:
    """Test cases that real MLX lacks on the CPU: several rows, and weights quantized at the call."""
    x, w = ours.array(X), ours.array(SMALL)

    def rounded(a: Any) -> Any:
        return ours.dequantize(*ours.quantize(a, mode=mode), mode=mode, dtype=ours.float32)

    want = np.array(rounded(x) @ rounded(w).T)
    np.testing.assert_allclose(np.array(ours.qqmm(x, w, mode=mode)), want, rtol=1e-4, atol=1e-4)
    if mode != "affine":
        q = ours.quantize(w, mode=mode)
        np.testing.assert_allclose(np.array(ours.qqmm(x, q[0], q[1], mode=mode)), want, rtol=1e-4, atol=1e-4)
    gx, gw = ours.grad(lambda x, w: (ours.qqmm(x, w, mode=mode) ** 2).sum(), argnums=(0, 1))(x, w)
    np.testing.assert_allclose(np.array(gx), 2 * want @ np.array(rounded(w)), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(np.array(gw), 2 * want.T @ np.array(rounded(x)), rtol=1e-3, atol=1e-3)


def test_qqmm_global_scales() -> None:
    x, w = ours.array(X), ours.array(SMALL)
    gx, gw = ours.abs(x).max(), ours.abs(w).max()

    def rounded(a: Any, g: Any) -> Any:
        return ours.dequantize(*ours.quantize(a, mode="nvfp4", global_scale=g), mode="nvfp4", global_scale=g)

    want = np.array(rounded(x, gx) @ rounded(w, gw).T)
    q = ours.quantize(w, mode="nvfp4", global_scale=gw)
    plain = ours.qqmm(x, w, global_scale_x=gx, global_scale_w=gw)
    packed = ours.qqmm(x, q[0], q[1], None, None, "nvfp4", gx, gw)
    for got in (plain, packed):
        np.testing.assert_allclose(np.array(got), want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", MODES)
def test_gather_qqmm(mode: str) -> None:
    x, w = ours.array(X3), ours.array(STACK)
    indices = {"lhs_indices": ours.array(L), "rhs_indices": ours.array(R)}
    want = np.stack([np.array(ours.qqmm(x[int(i)], w[int(j)], mode=mode)) for i, j in zip(L, R, strict=True)])
    got = ours.gather_qqmm(x, w, **indices, mode=mode)
    np.testing.assert_allclose(np.array(got), want, rtol=1e-4, atol=1e-4)
    if mode != "affine":
        got = ours.gather_qqmm(x, *ours.quantize(w, mode=mode), **indices, mode=mode)
        np.testing.assert_allclose(np.array(got), want, rtol=1e-4, atol=1e-4)
    if mode == "nvfp4":
        scales = ours.abs(w).max((1, 2))
        scale = ours.abs(x).max()
        got = ours.gather_qqmm(x, w, **indices, mode=mode, global_scale_x=scale, global_scale_w=scales)
        assert np.abs(np.array(got) - want).max() < 4


def test_gradients() -> None:
    def squares(mx: Any, *args: Any, **options: Any) -> Any:
        return mx.square(mx.quantized_matmul(*args, **options)).sum()

    def affine(mx: Any, x: Any, w: Any) -> list:
        q, s, b = mx.quantize(w)
        back = mx.grad(lambda s, b: squares(mx, x[:, :64], q, s, b, transpose=False), argnums=(0, 1))(s, b)
        return [*mx.grad(lambda x, s, b: squares(mx, x, q, s, b), argnums=(0, 1, 2))(x, s, b), *back]

    check(affine, X, SMALL, tol=2e-3)  # values up to 3000, sums in another order
    for mode in CODED:
        check(
            lambda mx, x, w: mx.grad(lambda x: squares(mx, x, *mx.quantize(w, mode=mode), mode=mode))(x),  # noqa: B023
            X, SMALL, tol=1e-3,  # values up to 500, sums in another order
        )  # fmt: skip


def test_gather_gradients() -> None:
    def both(mx: Any, x: Any, w: Any, r: Any) -> tuple:
        q, s, b = mx.quantize(w)

        def loss(x: Any, s: Any, b: Any) -> Any:
            return mx.square(mx.gather_qmm(x, q, s, b, rhs_indices=r)).sum()

        return mx.grad(loss, argnums=(0, 1, 2))(x, s, b)

    check(both, X3[:3], STACK, R, tol=2e-3)  # values up to 3000, sums in another order


def test_gradients_of_quantize_and_dequantize() -> None:
    def both(mx: Any, w: Any) -> list:
        q, s, b = mx.quantize(w)
        weigh = mx.arange(128) / 128
        through = mx.grad(lambda w: (mx.dequantize(*mx.quantize(w)) * weigh).sum())(w)
        return [*mx.grad(lambda s, b: (mx.dequantize(q, s, b) * weigh).sum(), argnums=(0, 1))(s, b), through]

    check(both, SMALL, tol=1e-3)  # the scale's derivative is a quotient of sums of 64 products


def test_vmap() -> None:
    """Test `vmap`, which real MLX lacks for most of these."""
    w, x = ours.array(STACK), ours.array(X3)
    for mode in MODES:
        q = ours.vmap(lambda w: ours.quantize(w, mode=mode))(w)  # noqa: B023
        for got, want in zip(q, ours.quantize(w, mode=mode), strict=True):
            np.testing.assert_array_equal(np.array(got), np.array(want))
        each = ours.vmap(lambda *q: ours.quantized_matmul(x[0], *q, mode=mode))(*q)  # noqa: B023
        some = ours.vmap(lambda x: ours.quantized_matmul(x, *[a[0] for a in q], mode=mode))(x)  # noqa: B023
        full = ours.vmap(lambda *q: ours.dequantize(*q, mode=mode, dtype=ours.float32))(*q)  # noqa: B023
        np.testing.assert_allclose(np.array(each), np.array(x[0] @ full.swapaxes(1, 2)), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(np.array(some), np.array(x @ full[0].T), rtol=1e-4, atol=1e-4)


def test_jvp_and_compile() -> None:
    def both(mx: Any, x: Any, w: Any) -> list:
        q = mx.quantize(w)
        out, change = mx.jvp(lambda x: mx.quantized_matmul(x, *q), [x], [x + 1])
        return [out[0], change[0], mx.compile(lambda x: mx.quantized_matmul(x, *q) * 2)(x)]

    check(both, X, SMALL, tol=1e-4)  # the sums are in another order
