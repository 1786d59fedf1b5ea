"""The kernel for products of few rows with a quantized matrix: its numbers, interpreted, and its lowering for TPU and
CUDA. One test needs such a device, and has not run."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import mxcompat.core as mx
import mxcompat.nn as nn
from mxcompat._graph.run import arguments
from mxcompat._ops.products import foreign
from mxcompat._ops.quantized import pallas_matvec, primitive
from mxcompat._ops.quantized.codes import decode
from mxcompat._ops.quantized.pallas_matvec import few_rows, tiling
from mxcompat._ops.quantized.quantize import Scheme
from tests.lowering import program_of
from tests.oracle import real, to_numpy

FOUR, EIGHT = Scheme("affine", 64, 4), Scheme("affine", 64, 8)
CODED = [Scheme("mxfp4", 32, 4), Scheme("mxfp8", 32, 8), Scheme("nvfp4", 16, 4)]
SCHEMES = [Scheme("affine", 32, 4), Scheme("affine", 128, 8), *CODED]
CALLS = {"tpu": "tpu_custom_call", "cuda": "__gpu$xla.gpu.triton"}
"""The custom call of a kernel, by platform."""

DEVICES = {"tpu": ("TPU v5 lite", 1, "tpu"), "cuda": ("NVIDIA A100", 108, "gpu")}
EPSILON = {"float32": 2**-23, "float16": 2**-10, "bfloat16": 2**-7}

pytestmark = pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")


def matrix(outer: int, inner: int, how: Scheme, dtype: str = "float32") -> list[Any]:
    """Return the words, the scales and, in mode "affine", the biases of a random matrix."""
    w = np.random.default_rng(outer + inner).standard_normal((outer, inner)).astype(np.float32)
    return mx.quantize(mx.array(w).astype(getattr(mx, dtype)), how.group_size, how.bits, how.mode)


def as_jax(part: Any) -> jax.Array:
    return (
        jnp.asarray(to_numpy(part.astype(mx.float32)), part.dtype._numpy)
        if part.dtype == mx.bfloat16
        else (jnp.asarray(np.array(part)))
    )


def rows_of(count: int, inner: int, dtype: str = "float32") -> jax.Array:
    return jnp.asarray(np.random.default_rng(count).standard_normal((count, inner)), dtype)


def interpreted(platform: str, x: jax.Array, parts: list[Any], how: Scheme, interpret: bool = True) -> np.ndarray:
    """Return the kernel's product with the blocks of a platform."""
    tiles = tiling(platform, math.prod(x.shape[:-1]), parts[0].shape, how)
    assert tiles is not None
    y = few_rows(x, *map(as_jax, parts), how=how, tiles=tiles, interpret=interpret)
    assert y.dtype == x.dtype
    return np.asarray(y.astype(jnp.float32))


def assert_rounded_once(y: np.ndarray, x: jax.Array, parts: list[Any], how: Scheme) -> None:
    """Assert that y is the plain lowering's product in float32, up to one rounding to the dtype of x and those of sums.

    In half precision, the plain lowering also rounds the elements of the matrix, so its own error is larger.
    """
    words, *rest = map(as_jax, parts)
    rest = [part.astype(jnp.float32) for part in rest] if how.mode == "affine" else rest
    flags = {"how": how, "transpose": True, "left": False, "right": False, "scaled": False}
    product = jax.jit(partial(primitive._plain, **flags))
    with jax.default_matmul_precision("highest"):
        plain = np.asarray(product(x.astype(jnp.float32), *rest, words))
    w = decode(*[np.asarray(part) for part in (words, rest[0])], np.asarray(rest[1]) if rest[1:] else None, how)
    size = np.abs(np.asarray(x, np.float32)) @ np.abs(w).T
    assert (np.abs(y - plain) <= EPSILON[x.dtype.name] / 2 * np.abs(plain) + 1e-6 * size).all()


@pytest.mark.parametrize("platform", CALLS)
class TestNumbers:
    """The kernel, interpreted by JAX on the CPU."""

    @pytest.mark.parametrize("how", SCHEMES, ids=str)
    def test_schemes(self, platform: str, how: Scheme) -> None:
        parts, x = matrix(256, 2048, how), rows_of(3, 2048)
        assert_rounded_once(interpreted(platform, x, parts, how), x, parts, how)

    @pytest.mark.parametrize(
        ("how", "dtype"), [(FOUR, "bfloat16"), (EIGHT, "float16"), (CODED[2], "bfloat16")], ids=str
    )
    def test_half_precision(self, platform: str, how: Scheme, dtype: str) -> None:
        parts, x = matrix(128, 1024, how, dtype), rows_of(2, 1024, dtype)
        assert_rounded_once(interpreted(platform, x, parts, how), x, parts, how)

    def test_rows(self, platform: str) -> None:
        parts = matrix(128, 1024, FOUR)
        for count in (1, 2, 7, 16):
            x = rows_of(count, 1024)
            assert_rounded_once(interpreted(platform, x, parts, FOUR), x, parts, FOUR)

    @pytest.mark.parametrize("inner", [896, 3072])
    def test_lengths(self, platform: str, inner: int) -> None:
        """896 elements have 112 words, less than a block of 128. 3072 elements have three blocks."""
        parts, x = matrix(128, inner, FOUR), rows_of(1, inner)
        assert_rounded_once(interpreted(platform, x, parts, FOUR), x, parts, FOUR)

    def test_axes_of_x(self, platform: str) -> None:
        parts, x = matrix(128, 1024, FOUR), rows_of(6, 1024)
        y = interpreted(platform, x, parts, FOUR)
        np.testing.assert_array_equal(interpreted(platform, x.reshape(3, 2, 1024), parts, FOUR), y.reshape(3, 2, 128))
        one = interpreted(platform, x[0], parts, FOUR)
        assert one.shape == (128,)
        np.testing.assert_allclose(one, y[0], rtol=1e-5, atol=1e-4)

    @pytest.mark.parametrize("how", [FOUR, CODED[1]], ids=str)
    def test_real_mlx(self, platform: str, how: Scheme) -> None:
        parts, x = matrix(128, 1024, how), rows_of(4, 1024)
        theirs = [real.array(to_numpy(part)) for part in parts]
        group, bits, mode = how.group_size, how.bits, how.mode
        want = real.quantized_matmul(real.array(np.asarray(x)), *theirs, group_size=group, bits=bits, mode=mode)
        np.testing.assert_allclose(interpreted(platform, x, parts, how), to_numpy(want), rtol=1e-4, atol=1e-4)


@pytest.mark.skipif(pallas_matvec._platform() not in CALLS, reason="needs a GPU or a TPU")
@pytest.mark.parametrize("dtype", EPSILON)
@pytest.mark.parametrize("how", SCHEMES, ids=str)
def test_on_the_device(how: Scheme, dtype: str) -> None:
    """Run the kernel on this machine's GPU or TPU. `multiply` must take it."""
    platform = pallas_matvec._platform()
    parts = matrix(256, 2048, how, dtype)
    for count in (1, 5, 16):
        x = rows_of(count, 2048, dtype)
        assert_rounded_once(interpreted(platform, x, parts, how, interpret=False), x, parts, how)
        words, *rest = map(as_jax, parts)
        product = jax.jit(partial(primitive.multiply, how=how, transpose=True))
        assert CALLS[platform] in product.lower(x, *rest, words).as_text()


class TestBlocks:
    """`tiling` decides which products the kernel takes."""

    @pytest.mark.parametrize("platform", CALLS)
    @pytest.mark.parametrize(
        ("rows", "words", "taken"),
        [
            (1, (4096, 512), True), (16, (4096, 512), True), (17, (4096, 512), False), (0, (4096, 512), False),
            (1, (1 << 22, 512), False), (1, (4095, 512), False), (1, (4096, 508), False), (1, (2, 4096, 512), False),
        ],
    )  # fmt: skip
    def test_sizes(self, platform: str, rows: int, words: tuple[int, ...], taken: bool) -> None:
        assert (tiling(platform, rows, words, FOUR) is not None) is taken

    def test_a_row_fits_the_memory_of_a_tpu(self) -> None:
        assert tiling("tpu", 1, (128, 4096), FOUR)
        assert tiling("tpu", 1, (128, 4224), FOUR) is None
        assert tiling("cuda", 1, (128, 4224), FOUR)

    def test_schemes_and_dtypes(self) -> None:
        half = jnp.dtype(jnp.bfloat16)
        assert pallas_matvec.is_supported(FOUR, (half, half, half))
        assert not pallas_matvec.is_supported(FOUR, (np.dtype(np.float64),))
        for bits in (1, 2, 3, 5, 6):
            assert not pallas_matvec.is_supported(Scheme("affine", 64, bits), (half,))


@contextmanager
def device(platform: str) -> Iterator[None]:
    """Let Pallas lower for a device that is absent."""
    from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

    with use_abstract_mesh(AbstractMesh((), (), abstract_device=AbstractDevice(*DEVICES[platform]))):
        yield


def lowered(platform: str, build: Any) -> str:
    """Return the StableHLO for a platform of the arrays that `build` returns."""
    with device(platform), jax.enable_x64(True):
        replay, specs = arguments.function(*program_of(build()), {})  # type: ignore[misc]
        return jax.jit(lambda *args: replay(*args)).trace(*specs).lower(lowering_platforms=(platform,)).as_text()


def largest(text: str) -> int:
    """Return the number of elements of the largest tensor in StableHLO."""
    shapes = re.findall(r"tensor<([\dx]+)x[a-z]", text)
    return max(math.prod(map(int, shape.split("x"))) for shape in shapes)


def build(rows: int = 1, how: Scheme = FOUR, transpose: bool = True) -> Any:
    """Return a product with a quantized matrix of 256 x 2048 elements."""
    parts, x = matrix(256, 2048, how), mx.ones((rows, 2048 if transpose else 256))
    mx.eval(parts, x)
    return mx.quantized_matmul(x, *parts, transpose=transpose, group_size=how.group_size, bits=how.bits, mode=how.mode)


ELEMENTS = 256 * 2048


@cache
def has_kernel(platform: str) -> bool:
    """Return True if this jaxlib can lower a kernel for a platform."""
    return CALLS[platform] in lowered(platform, build)


@pytest.fixture(params=CALLS)
def platform(request: Any) -> Iterator[str]:
    if not has_kernel(request.param):
        assert request.param == "cuda", "Mosaic can lower without a TPU"
        pytest.skip("this jaxlib has no Triton")
    yield request.param
    pallas_matvec._compiles.cache_clear()


class TestLowering:
    """The lowered module for a platform without a device."""

    @pytest.mark.parametrize("how", SCHEMES, ids=str)
    def test_no_matrix_is_unpacked(self, platform: str, how: Scheme) -> None:
        text = lowered(platform, lambda: build(5, how))
        assert text.count(f"custom_call @{CALLS[platform]}") == 1
        assert largest(text) == ELEMENTS * how.bits // 32, "the words are the largest tensor"

    def test_without_the_kernel_it_is(self, platform: str, monkeypatch: Any) -> None:
        """Assert that the test above can fail. `MXCOMPAT_WITHOUT=pallas` has the same effect."""
        monkeypatch.setattr(pallas_matvec.pallas, "_holds", False)
        text = lowered(platform, build)
        assert CALLS[platform] not in text
        assert largest(text) >= ELEMENTS

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
    def test_a_layer(self, platform: str, dtype: str) -> None:
        layer = nn.QuantizedLinear(2048, 256)
        layer.set_dtype(getattr(mx, dtype))
        x = mx.ones((1, 2, 2048), getattr(mx, dtype))
        mx.eval(layer.parameters(), x)
        text = lowered(platform, lambda: layer(x))
        assert CALLS[platform] in text
        assert largest(text) < ELEMENTS

    def test_transforms(self, platform: str) -> None:
        """`vmap` over x gives the kernel more rows. A gradient multiplies by the matrix itself, without the kernel."""
        parts, x = matrix(256, 2048, FOUR), mx.ones((4, 2048))
        mx.eval(parts, x)

        def product(x: Any) -> Any:
            return mx.quantized_matmul(x, *parts)

        text = lowered(platform, lambda: mx.vmap(product)(x))
        assert CALLS[platform] in text
        assert largest(text) < ELEMENTS
        text = lowered(platform, lambda: mx.grad(lambda x: mx.sum(mx.square(product(x))))(x))
        assert CALLS[platform] in text

    @pytest.mark.parametrize(
        "other",
        [
            lambda: build(17), lambda: build(transpose=False), lambda: build(how=Scheme("affine", 64, 3)),
            lambda: mx.gather_qmm(
                mx.ones((1, 2048)), *[part[None] for part in matrix(256, 2048, FOUR)], rhs_indices=mx.array([0])
            ),
        ],
        ids=["many rows", "not transposed", "3 bits", "selected"],
    )  # fmt: skip
    def test_other_products(self, platform: str, other: Any) -> None:
        assert CALLS[platform] not in lowered(platform, other)

    def test_exports(self, platform: str) -> None:
        """Assert that an exported program does not depend on the version of Pallas."""
        words, *parts = map(as_jax, matrix(256, 2048, FOUR))
        function = jax.jit(lambda x: primitive.multiply(x, *parts, words, how=FOUR, transpose=True))
        with device(platform):
            exported = jax.export.export(function, platforms=[platform])(jax.ShapeDtypeStruct((1, 2048), np.float32))
        assert CALLS[platform] not in exported.mlir_module()

    def test_several_devices(self, platform: str, monkeypatch: Any) -> None:
        monkeypatch.setattr(foreign, "is_for_one_device", lambda ctx: False)
        assert CALLS[platform] not in lowered(platform, build)


class TestFallback:
    """If Pallas raises any exception, the product is lowered to JAX operations."""

    def test_a_kernel_that_cannot_be_lowered(self, platform: str, monkeypatch: Any) -> None:
        def kernel(x_ref: Any, *refs: Any, **_: Any) -> None:
            refs[-1][...] = jnp.sort(refs[-1][...]) + jnp.linalg.det(jnp.eye(3))

        plain = _plain(platform, monkeypatch)
        monkeypatch.setattr(pallas_matvec, "_kernel", kernel)
        pallas_matvec._compiles.cache_clear()
        assert lowered(platform, build) == plain

    def test_a_kernel_that_cannot_be_compiled(self, platform: str, monkeypatch: Any, caplog: Any) -> None:
        """The CPU cannot compile a kernel. Here it pretends to be the platform."""
        plain = _plain(platform, monkeypatch)
        monkeypatch.setattr(pallas_matvec, "_platform", lambda: platform)
        monkeypatch.setattr(pallas_matvec.pallas, "reason", "")
        pallas_matvec._compiles.cache_clear()
        with caplog.at_level(logging.WARNING):
            assert lowered(platform, build) == plain
        (record,) = caplog.records
        assert "pallas failed" in record.getMessage()

    def test_an_unknown_device(self, platform: str) -> None:
        """JAX 0.12 raises an error if Triton does not know the GPU. The product then does not use the kernel, although
        a product for a known GPU did."""
        assert CALLS[platform] in lowered(platform, build)
        replay, specs = arguments.function(*program_of(build()), {})  # type: ignore[misc]
        text = jax.jit(lambda *args: replay(*args)).trace(*specs).lower(lowering_platforms=(platform,)).as_text()
        assert (CALLS[platform] in text) == (largest(text) < ELEMENTS)


def _plain(platform: str, monkeypatch: Any) -> str:
    """Return the StableHLO of a product without the kernel."""
    with monkeypatch.context() as patch:
        patch.setattr(pallas_matvec.pallas, "_holds", False)
        return lowered(platform, build)
