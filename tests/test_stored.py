"""Products, in C, with matrices stored in less than float32, compared with float64 and real MLX."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from typing import Any

import ml_dtypes
import mlx.core
import numpy as np
import pytest

from mxcompat._native import native
from mxcompat._native.products import KINDS
from mxcompat._ops.products.stored import dense, gathered, multiplied, multiply_halves, multiply_stored
from mxcompat._ops.quantized.quantize import Scheme
from mxcompat._ops.quantized.stored import elements, stored

pytestmark = pytest.mark.skipif(native is None, reason="no compiler of C")

AFFINE = [Scheme("affine", group, bits) for bits in (1, 2, 3, 4, 5, 6, 8) for group in (32, 64, 128)]
SCHEMES = [*AFFINE, Scheme("mxfp4", 32, 4), Scheme("mxfp8", 32, 8), Scheme("nvfp4", 16, 4)]
DTYPES = {"float32": np.dtype(np.float32), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float16": np.dtype(np.float16)}
STEP = {"float32": 2.0**-23, "bfloat16": 2.0**-8, "float16": 2.0**-11}
"""Tolerance for numbers that float32 sums, with many roundings."""

ROWS = (1, 2, 3, 5, 8, 16, 17, 64)
INSTRUCTIONS = ("amx", "avx512vbmi", "avx512", "avx2", "plain")


def as_numpy(x: Any) -> np.ndarray:
    if x.dtype == mlx.core.bfloat16:
        return np.array(x.view(mlx.core.uint16)).view(ml_dtypes.bfloat16)
    return np.array(x)


def as_mlx(x: Any) -> Any:
    if x is not None and x.dtype == ml_dtypes.bfloat16:
        return mlx.core.array(x.view(np.uint16)).view(mlx.core.bfloat16)
    return None if x is None else mlx.core.array(x)


def quantized(shape: tuple[int, ...], how: Scheme, dtype: str, seed: int = 0) -> tuple[list[Any], Any]:
    """Return real MLX's words, scales and biases, and the exact elements in float64."""
    w = mlx.core.array(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))
    parts = mlx.core.quantize(w.astype(getattr(mlx.core, dtype)), how.group_size, how.bits, mode=how.mode)
    words, scales, *biases = [as_numpy(p) for p in parts]
    if biases:
        bits = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").reshape(*shape, how.bits)
        codes = (bits << np.arange(how.bits)).sum(-1).astype(np.float64)
        scale, bias = (p.astype(np.float64).repeat(how.group_size, -1) for p in (scales, biases[0]))
        return [scales, biases[0], words], codes * scale + bias
    exact = mlx.core.dequantize(*parts, mode=how.mode, dtype=mlx.core.float32)
    return [scales, None, words], np.array(exact).astype(np.float64)


def near(result: Any, x: Any, matrix: Any, dtype: str) -> None:
    """Assert that a product is within float32's rounding errors of the exact sum."""
    exact, large = x.astype(np.float64) @ matrix, np.abs(matrix).max()  # codes are scaled before a bias is added
    size = np.abs(x.astype(np.float64)) @ np.maximum(np.abs(matrix), large / 4)
    assert result.dtype == DTYPES[dtype]
    assert result.shape == exact.shape
    error = np.abs(result.astype(np.float64) - exact)
    assert (error <= STEP[dtype] * np.maximum(np.abs(exact), 2.0**-14) + 1e-6 * size).all()


@pytest.mark.parametrize("how", SCHEMES, ids=str)
@pytest.mark.parametrize("transpose", [True, False])
def test_quantized(how, transpose, instructions):
    for dtype in DTYPES if how.group_size in (16, 32) else ("float32",):
        for rows, columns in ((37, 384), (6, 1152), (1, 128)):
            parts, matrix = quantized((rows, columns), how, dtype)
            for count in ROWS:
                inner = columns if transpose else rows
                x = np.random.default_rng(1).standard_normal((count, inner)).astype(DTYPES[dtype])
                result = multiplied(x, stored(how, *parts), (), transpose, DTYPES[dtype])
                near(result, x, matrix.T if transpose else matrix, dtype)
                if instructions != "amx" or dtype != "bfloat16":  # AMX sums in another order
                    alone = multiplied(x[:1], stored(how, *parts), (), transpose, DTYPES[dtype])
                    assert np.array_equal(result[:1], alone)


@pytest.mark.parametrize("how", SCHEMES, ids=str)
@pytest.mark.parametrize("transpose", [True, False])
def test_like_mlx(how, transpose):
    """Compare with MLX in float32, as MLX accumulates half precision in half precision."""
    parts, _ = quantized((96, 256), how, "float32")
    scales, biases, words = map(as_mlx, parts)
    for count in (1, 5):
        x = np.random.default_rng(1).standard_normal((count, 256 if transpose else 96)).astype(np.float32)
        want = mlx.core.quantized_matmul(
            mlx.core.array(x), words, scales, biases, transpose, how.group_size, how.bits, how.mode
        )
        result = multiplied(x, stored(how, *parts), (), transpose, DTYPES["float32"])
        np.testing.assert_allclose(result, np.array(want), rtol=1e-5, atol=1e-5 * np.abs(np.array(want)).max())


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("transpose", [True, False])
def test_half_precision(dtype, transpose, instructions):
    rng = np.random.default_rng(0)
    for inner, outer in ((256, 36), (1283, 131), (2100, 20), (5, 3), (33, 1), (1, 517)):
        matrix = rng.standard_normal((outer, inner) if transpose else (inner, outer)).astype(DTYPES[dtype])
        for count in ROWS:
            x = rng.standard_normal((count, inner)).astype(DTYPES[dtype])
            (result,) = multiply_stored(x[None], dense(matrix), transpose, DTYPES[dtype])
            near(result, x, (matrix.T if transpose else matrix).astype(np.float64), dtype)
            (alone,) = multiply_stored(x[None, -1:], dense(matrix), transpose, DTYPES[dtype])
            assert np.array_equal(result[-1:], alone)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_products_of_arrays_of_half_precision(dtype):
    rng = np.random.default_rng(0)
    for left, right in (
        ((64,), (64, 80)), ((3, 64), (64, 80)), ((2, 5, 64), (64, 80)), ((2, 1, 5, 64), (3, 64, 80)),
        ((64,), (3, 64, 80)), ((70, 64), (64,)), ((2, 70, 64), (64,)), ((5, 64), (2, 64, 80)),
    ):  # fmt: skip
        x, y = (rng.standard_normal(shape).astype(DTYPES[dtype]) for shape in (left, right))
        turned = np.ascontiguousarray(y.swapaxes(-1, -2)).swapaxes(-1, -2) if y.ndim > 1 else y
        for operand in (y, turned, y[..., ::1]):
            near(multiply_halves(x, operand, DTYPES[dtype]), x, operand.astype(np.float64), dtype)
        if y.ndim == 2:
            near(multiply_halves(x, y[:, ::-1], DTYPES[dtype]), x, y[:, ::-1].astype(np.float64), dtype)
    assert multiply_halves(x, y.astype(np.float32), DTYPES["float32"]) is None
    assert multiply_halves(x[..., :4, :4], y[..., :4, :4], DTYPES[dtype]) is None


def test_a_product_of_any_of_the_dtypes():
    how = Scheme("affine", 64, 4)
    parts, matrix = quantized((32, 128), how, "float16")
    for kind in DTYPES.values():
        x = np.random.default_rng(0).standard_normal((3, 128)).astype(kind)
        mixed = [parts[0], parts[1].astype(np.float32), parts[2]]
        for arrays in (parts, mixed):
            near(multiplied(x, stored(how, *arrays), (), True, DTYPES["float32"]), x, matrix.T, "float32")
    assert stored(how, parts[0].astype(np.float64), *parts[1:]) is None
    assert stored(Scheme("affine", 8, 4), *parts) is None


@pytest.mark.parametrize("how", [Scheme("affine", 32, 3), Scheme("affine", 64, 8), *SCHEMES[-3:]], ids=str)
def test_special_values(how, instructions):
    """Assert that the result has infinity or NaN where the product of the element has."""
    parts, matrix = quantized((24, 128), how, "float32")
    x = np.random.default_rng(0).standard_normal((4, 128)).astype(np.float32)
    x[0, 3], x[1, 100], x[2, 7] = np.inf, np.nan, -np.inf
    # An element that is nearly 0 may be rounded to it.
    clear = (np.abs(matrix[:, [3, 7]]) > 1e-6).all(-1) | (how.mode != "affine")
    assert clear.sum() > 4
    for rows in (x, x[:1], x[1:2], x[2:3]):
        with np.errstate(all="ignore"):
            want = rows.astype(np.float64) @ matrix.T
        result = multiplied(rows, stored(how, *parts), (), True, DTYPES["float32"])[:, clear]
        want = want[:, clear]
        np.testing.assert_array_equal(np.isnan(result), np.isnan(want))
        np.testing.assert_array_equal(result[np.isinf(want)], want[np.isinf(want)])
    halves = np.tile(x, (10, 1)).astype(DTYPES["bfloat16"])
    with np.errstate(all="ignore"):
        exact = halves.astype(np.float64) @ matrix.T
    result = multiplied(halves, stored(how, *parts), (), True, DTYPES["bfloat16"])[:, clear].astype(np.float64)
    np.testing.assert_array_equal(np.isnan(result), np.isnan(exact[:, clear]))
    np.testing.assert_array_equal(result[np.isinf(exact[:, clear])], exact[:, clear][np.isinf(exact[:, clear])])
    if how.mode == "affine":
        parts[0][2, 1], parts[1][3, 0] = np.inf, np.nan
        result = multiplied(halves[3::4], stored(how, *parts), (), True, DTYPES["bfloat16"])[0].astype(np.float32)
        assert not np.isfinite(result[[2, 3]]).any()
        assert np.isfinite(np.delete(result, [2, 3])).all()
        result = multiplied(x[3:], stored(how, *parts), (), True, DTYPES["float32"])[0]
        assert not np.isfinite(result[[2, 3]]).any()
        assert np.isfinite(np.delete(result, [2, 3])).all()


def test_small_floats_that_are_special():
    """Compare the codes of NaN and of the extremes, and scales that are NaN or infinite, with real MLX."""
    words = np.arange(256, dtype=np.uint8).view(np.uint32).reshape(8, 8)
    for scale in (0, 1, 100, 127, 250, 254, 255):
        scales = np.full((8, 1), scale, np.uint8)
        want = mlx.core.dequantize(mlx.core.array(words), mlx.core.array(scales), mode="mxfp8", dtype=mlx.core.float32)
        result = elements(Scheme("mxfp8", 32, 8), scales, None, words, DTYPES["float32"], DTYPES["float32"])
        np.testing.assert_array_equal(result, np.array(want))


@pytest.mark.parametrize("how", SCHEMES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_elements_have_the_bits_of_mlx(how, dtype, instructions):
    parts, _ = quantized((37, 384), how, dtype)
    scales, biases, words = map(as_mlx, parts)
    kind = DTYPES[dtype]
    want = mlx.core.dequantize(
        words, scales, biases, how.group_size, how.bits, how.mode, dtype=getattr(mlx.core, dtype)
    )
    result = elements(how, *parts, kind if how.mode == "affine" else DTYPES["float32"], kind)
    assert np.array_equal(result.view(np.uint8), as_numpy(want).view(np.uint8))


def test_chosen_matrices(instructions):
    how = Scheme("affine", 64, 4)
    parts, matrices = quantized((5, 24, 128), how, "float32")
    rng = np.random.default_rng(0)
    for rows in (1, 3):
        x = rng.standard_normal((7, rows, 128)).astype(np.float32)
        for count in (1, 9, 400):
            lhs, rhs = rng.integers(0, 7, count), rng.integers(0, 5, count)
            result = gathered(x, stored(how, *parts), lhs, rhs, True, DTYPES["float32"])
            near(result, x[lhs], matrices[rhs].swapaxes(-1, -2), "float32")
    units = rng.uniform(1, 2, 5).astype(np.float32)
    nvfp4 = Scheme("nvfp4", 16, 4)
    parts, matrices = quantized((5, 24, 128), nvfp4, "float32")
    result = gathered(x, stored(nvfp4, *parts, units), lhs, rhs, True, DTYPES["float32"])
    near(result, x[lhs], (matrices * units[:, None, None])[rhs].swapaxes(-1, -2), "float32")
    outside = gathered(x[:2], stored(nvfp4, *parts), np.array([0, 0]), np.array([-3, 70]), True, DTYPES["float32"])
    near(outside, x[[0, 0]], matrices[[0, 4]].swapaxes(-1, -2), "float32")


def test_batches_and_what_does_not_lie_in_order():
    how = Scheme("affine", 32, 4)
    parts, matrices = quantized((2, 1, 3, 16, 64), how, "float32")
    x = np.random.default_rng(0).standard_normal((5, 1, 64, 2)).astype(np.float32).swapaxes(-1, -2)
    result = multiplied(x, stored(how, *parts), (2, 1, 3), True, DTYPES["float32"])
    near(result, x, matrices.swapaxes(-1, -2), "float32")
    every_other = [p[:, :, ::2, ::3] for p in parts]
    result = multiplied(x, stored(how, *every_other), (2, 1, 2), True, DTYPES["float32"])
    near(result, x, matrices[:, :, ::2, ::3].swapaxes(-1, -2), "float32")


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_casts(dtype, instructions):
    kind, code = DTYPES[dtype], KINDS[DTYPES[dtype]]
    halves = np.arange(1 << 16, dtype=np.uint16)
    wide = np.empty(1 << 16, np.float32)
    native.cast_halves(wide, halves, code, 0)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(wide, halves.view(kind).astype(np.float32))
        near_ties = wide.view(np.uint32)[:, None] + np.array(
            [0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFF, 0x8000, 0x8001], np.uint32
        )
        some = np.random.default_rng(0).integers(0, 1 << 32, 1 << 20, np.uint32)
        floats = np.concatenate([near_ties.ravel(), some, some & 0x807FFFFF | 0x33000000]).view(np.float32)
        for source in (floats, floats[:7], floats[5:38]):
            back = np.empty(source.shape, np.uint16)
            native.cast_halves(back, source, code, 1)
            want = source.astype(kind)
            np.testing.assert_array_equal(np.isnan(back.view(kind)), np.isnan(want))
            np.testing.assert_array_equal(back[~np.isnan(want)], want.view(np.uint16)[~np.isnan(want)])


def test_what_does_not_fit_is_refused():
    how = Scheme("affine", 64, 4)
    parts, _ = quantized((16, 128), how, "float32")
    good = stored(how, *parts)
    x = np.ones((1, 1, 128), np.float32)
    for bad in (
        good._replace(words=good.words[:-1]), good._replace(scales=good.scales[:-1]), good._replace(biases=None),
        good._replace(group=24), good._replace(group=0), good._replace(group=1 << 63), good._replace(count=2),
        good._replace(kinds=(20, 11, 11)), good._replace(kinds=(3, 12, 11)),
        good._replace(units=np.ones(2, np.float32)), good._replace(scales=None),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"fit|kinds"):
            multiply_stored(x, bad, True, DTYPES["float32"])
    with pytest.raises(ValueError, match="fit"):
        multiply_stored(np.ones((1, 1, 64), np.float32), good, True, DTYPES["float32"])
    with pytest.raises(ValueError, match="fit"):
        native.cast_halves(np.empty(3, np.float32), np.empty(4, np.uint16), 9, 0)
    one = np.ones(1, np.float32)
    with pytest.raises(ValueError, match="fit"):
        native.unpack_stored(
            np.empty(64, np.float32), np.empty(9, np.uint32), one, one, 1.0, bytes((3, 11, 11, 11, 11)), 64
        )
    for sizes in ([1 << 62, 8], [8, 1 << 62], [1 << 33, 1 << 31], [1 << 60, 1 << 60]):
        for last in ([1, 1, 1, 1], [1 << 62, 1, 1, 1 << 2], [1, 1, 1 << 40, 1 << 40]):
            with pytest.raises(ValueError, match="fit"):
                native.multiply_stored(
                    one, one, one, one, one, None, None, None, bytes([3, 11, 11, 11, 11]), 1, 64, *sizes, *last
                )
    with pytest.raises(ValueError, match="instructions"):
        native.choose_instructions("abacus")


def test_no_rows_and_no_columns():
    assert multiply_stored(
        np.ones((1, 0, 8), np.float32), dense(np.ones((4, 8), np.float16)), True, np.dtype(np.float32)
    ).shape == (1, 0, 4)
    none = multiply_stored(
        np.ones((1, 2, 0), np.float32), dense(np.ones((4, 0), np.float16)), True, np.dtype(np.float32)
    )
    assert np.array_equal(none, np.zeros((1, 2, 4)))


def large_product() -> tuple[Any, Any, Any]:
    how = Scheme("affine", 64, 4)
    parts, _ = quantized((512, 1024), how, "float32")
    return (
        np.random.default_rng(0).standard_normal((1, 1, 1024)).astype(np.float32),
        stored(how, *parts),
        DTYPES["float32"],
    )


def test_several_threads_at_once():
    x, matrices, kind = large_product()
    want = multiply_stored(x, matrices, True, kind)
    wrong: list[int] = []

    def work() -> None:
        for _ in range(50):
            wrong.extend([0] * (not np.array_equal(multiply_stored(x, matrices, True, kind), want)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_has_threads_of_its_own():
    script = """
import os, sys
from tests.test_stored import large_product, multiply_stored, np
x, matrices, kind = large_product()
want = multiply_stored(x, matrices, True, kind)
for _ in range(3):
    child = os.fork()
    if child == 0:
        same = np.array_equal(multiply_stored(x, matrices, True, kind), want)
        count = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 0
        os._exit(0 if same and count in (0, len(os.sched_getaffinity(0))) else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert np.array_equal(multiply_stored(x, matrices, True, kind), want)
print("done")
"""
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    process = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=environment
    )
    assert process.stdout == "done\n", process.stderr
