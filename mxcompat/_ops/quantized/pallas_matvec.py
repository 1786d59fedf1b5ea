"""Products of few rows with a quantized matrix on GPUs and TPUs, by a kernel in Pallas.

The kernel reads each packed word once, and unpacks it in registers. So the unpacked matrix is never in memory. `tiling`
decides if the kernel takes a product, and `few_rows` computes it. `kernel_for` gives the lowering of the primitive the
kernel, but only if Pallas can lower it; the primitive's lowering to JAX operations is the fallback.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from mxcompat._compat.registry import unpromised
from mxcompat._graph.policy import (
    GPU_COLUMNS,
    GPU_SUMS,
    GPU_WARPS,
    GPU_WORDS,
    KERNEL_ROWS,
    TPU_TILE,
    TPU_UNEVEN,
    TPU_WORDS,
)
from mxcompat._jax import jax, jnp, lax

from .codes import decode
from .fp8 import from_e2m1, from_e4m3, from_e8m0
from .quantize import Scheme

__all__ = ["is_supported", "kernel_for"]

_f32 = np.float32
_SCHEMES = {
    *[Scheme("affine", group, bits) for group in (32, 64, 128) for bits in (4, 8)],
    Scheme("mxfp4", 32, 4), Scheme("mxfp8", 32, 8), Scheme("nvfp4", 16, 4),
}  # fmt: skip
_DTYPES = ("float32", "bfloat16", "float16")


class Tiling(NamedTuple):
    """The blocks of a kernel.

    Args:
        rows: the rows of x, padded to a power of two.
        columns: the columns of the result for each program of the grid.
        words: the words of a row of the matrix in each step of a program's loop.
        on_tpu: lower by Mosaic for TPUs. Otherwise by Triton.
    """

    rows: int
    columns: int
    words: int
    on_tpu: bool


def is_supported(how: Scheme, dtypes: tuple[Any, ...]) -> bool:
    """Return True if the kernel reads matrices of this scheme, and these dtypes of x, scales and biases."""
    return how in _SCHEMES and all(np.dtype(d).name in _DTYPES for d in dtypes)


def tiling(platform: str, rows: int, words_shape: tuple[int, ...], how: Scheme) -> Tiling | None:
    """Return the blocks for a product on a platform ("cuda" or "tpu"), or None if the kernel does not take it.

    Args:
        rows: the number of rows of x, in all matrices together.
        words_shape: the shape of the words of the transposed matrix.
    """
    if len(words_shape) != 2 or not 0 < rows <= KERNEL_ROWS:
        return None
    outer, length = words_shape
    if outer * length >= 1 << 31:
        return None  # the kernel computes addresses in 32 bits
    padded = 1 << (rows - 1).bit_length()
    if platform == "tpu":
        # Mosaic reads whole vector registers, or a whole row.
        words = TPU_TILE if length % TPU_TILE == 0 else length
        fits = length <= TPU_WORDS and words <= TPU_UNEVEN and outer % TPU_TILE == 0
        return Tiling(padded, TPU_TILE, words, True) if fits else None
    # Triton requires powers of two.
    words = min(length & -length, GPU_WORDS[1])
    columns = min(max(GPU_SUMS // padded, GPU_COLUMNS[0]), GPU_COLUMNS[1])
    fits = words >= max(GPU_WORDS[0], how.group_size * how.bits // 32) and outer % columns == 0
    return Tiling(padded, columns, words, False) if fits else None


def few_rows(
    x: Any, words: Any, scales: Any, biases: Any = None, *, how: Scheme, tiles: Tiling, interpret: bool = False
) -> Any:
    """Return the product of x and a transposed quantized matrix, summed in float32 and rounded once to the dtype of x.

    Infinite scales and biases make NaN of a whole column on a TPU.

    Args:
        x: an array of shape (..., K) with at most `tiles.rows` rows.
        words, scales, biases: the matrix. biases is None in modes other than "affine".
        interpret: compute by JAX operations, on any platform.
    """
    rows, outer, per_word = x.size // x.shape[-1], words.shape[0], 32 // how.bits
    # Code k of all words meets a contiguous row of x, so nothing is interleaved in the kernel.
    flat = jnp.pad(x.reshape(rows, -1).astype(_f32), ((0, tiles.rows - rows), (0, 0)))
    by_code = flat.reshape(tiles.rows, -1, per_word).transpose(2, 0, 1)
    parts = [scales] if biases is None else [scales, biases]
    y = _call(how, tiles, outer, interpret)(by_code, words, *[_readable(part, how) for part in parts])
    return y[:rows].astype(x.dtype).reshape(*x.shape[:-1], outer)


def _readable(part: Any, how: Scheme) -> Any:
    """Return scales or biases in a dtype that the kernel reads: bfloat16 if it is exact, else float32."""
    if how.mode == "affine":
        return part if part.dtype == jnp.bfloat16 else part.astype(_f32)
    return (from_e4m3(part) if how.mode == "nvfp4" else from_e8m0(part)).astype(jnp.bfloat16)


def _call(how: Scheme, tiles: Tiling, outer: int, interpret: bool) -> Callable[..., Any]:
    """Return the kernel's call, with float32 results of shape (rows, outer)."""
    from jax.experimental import pallas as pl  # imported here because the import loads JAX

    def call(by_code: Any, words: Any, *parts: Any) -> Any:
        zero = np.int32(0)
        whole = pl.BlockSpec(by_code.shape, lambda i: (zero, zero, zero))
        of_columns = [pl.BlockSpec((tiles.columns, a.shape[1]), lambda i: (i, zero)) for a in (words, *parts)]
        return pl.pallas_call(
            partial(_kernel, how=how, tiles=tiles, steps=words.shape[1] // tiles.words),
            out_shape=jax.ShapeDtypeStruct((tiles.rows, outer), _f32),
            grid=(outer // tiles.columns,),
            in_specs=[whole, *of_columns],
            out_specs=pl.BlockSpec((tiles.rows, tiles.columns), lambda i: (zero, i)),
            interpret=interpret,
            compiler_params=None if interpret else _compiler_params(tiles),
            name="quantized_few_rows",
        )(by_code, words, *parts)

    return call


def _compiler_params(tiles: Tiling) -> Any:
    if tiles.on_tpu:
        from jax.experimental.pallas import tpu

        return tpu.CompilerParams(dimension_semantics=("parallel",))
    from jax.experimental.pallas import triton

    return triton.CompilerParams(num_warps=GPU_WARPS, num_stages=2)


def _kernel(x_ref: Any, words_ref: Any, *refs: Any, how: Scheme, tiles: Tiling, steps: int) -> None:
    """Compute some columns of the result. Each step of the loop multiplies the codes of `tiles.words` words per column.

    The references are x of shape (codes per word, rows, words), then words, scales and biases with a row per column,
    then the result of shape (rows, columns).
    """
    from jax.experimental import pallas as pl

    *part_refs, out_ref = refs
    shape = (tiles.rows, tiles.columns, tiles.words)

    def step(j: Any, total: Any) -> Any:
        at = slice(None) if steps == 1 else pl.ds(pl.multiple_of(j * np.int32(tiles.words), tiles.words), tiles.words)
        words = words_ref[:, at]
        products, sums = jnp.zeros(shape, _f32), jnp.zeros((tiles.rows, tiles.words), _f32)
        for k in range(32 // how.bits):
            x = x_ref[k, :, at]
            codes = (words >> np.uint32(k * how.bits)) & np.uint32((1 << how.bits) - 1)
            products += x[:, None, :] * _values(codes, how)[None]
            sums += x
        scales, *biases = [_per_word(ref, j, how, tiles) for ref in part_refs]
        total += products * scales[None]
        return total + sums[:, None, :] * biases[0][None] if biases else total

    total = lax.fori_loop(np.int32(0), np.int32(steps), step, jnp.zeros(shape, _f32))
    out_ref[...] = _summed(total, tiles) if tiles.on_tpu else total.sum(-1)


def _summed(total: Any, tiles: Tiling) -> Any:
    """Return the sums over the last axis. Old TPUs cannot move such sums to lanes, but they can transpose a tile."""
    shape = (tiles.columns, tiles.columns)
    lane, square = lax.broadcasted_iota(jnp.int32, shape, 1), jnp.zeros(shape, _f32)
    for row in range(tiles.rows):
        square = jnp.where(lane == np.int32(row), total[row].sum(-1, keepdims=True), square)
    return square.T[: tiles.rows]


def _values(codes: Any, how: Scheme) -> Any:
    """Return the float32 values of codes, without scales."""
    if how.mode == "affine":
        return codes.astype(jnp.int32).astype(_f32)
    return from_e2m1(codes) if how.bits == 4 else from_e4m3(codes)


def _per_word(ref: Any, j: Any, how: Scheme, tiles: Tiling) -> Any:
    """Return the scales or biases for the words of step j, in float32."""
    from jax.experimental import pallas as pl

    length = how.group_size * how.bits // 32
    if tiles.on_tpu:
        # Mosaic cannot repeat values along lanes, but a product with a matrix of zeros and ones can.
        shape = (ref.shape[1], tiles.words)
        group = lax.div(lax.broadcasted_iota(jnp.int32, shape, 1) + j * np.int32(tiles.words), np.int32(length))
        chosen = (lax.broadcasted_iota(jnp.int32, shape, 0) == group).astype(_f32)
        return jnp.dot(ref[...].astype(_f32), chosen, precision=lax.Precision.HIGHEST, preferred_element_type=_f32)
    groups = tiles.words // length
    values = ref[:, pl.ds(j * np.int32(groups), groups)].astype(_f32)
    return jnp.broadcast_to(values[:, :, None], (tiles.columns, groups, length)).reshape(tiles.columns, tiles.words)


def kernel_for(platform: str, x: Any, words: Any, scales: Any, biases: Any, how: Scheme) -> Callable[..., Any] | None:
    """Return `few_rows` for arrays with these avals on a platform ("cuda" or "tpu").

    Return None if the kernel does not take the product, if Pallas cannot lower it for the platform, or if XLA cannot
    compile it for the present device.
    """
    tiles = tiling(platform, math.prod(x.shape[:-1]), words.shape, how)
    if tiles is None or not pallas.holds:
        return None
    call = partial(few_rows, how=how, tiles=tiles)
    specs = [(a.shape, np.dtype(a.dtype)) for a in (x, words, scales, biases) if a is not None]
    return call if _compiles(platform, jax.sharding.get_abstract_mesh(), how, tiles, *specs) else None


@lru_cache(256)
def _compiles(platform: str, mesh: Any, how: Scheme, tiles: Tiling, *specs: tuple[tuple[int, ...], Any]) -> bool:
    """Return True if the kernel can be lowered for a platform. On the platform itself, XLA must also compile it.

    The kernel is lowered in a separate module, because an error would leave invalid code behind.

    Args:
        mesh: JAX's abstract mesh. It may name the device for which Pallas lowers, so it is part of the cache's key.
        specs: the shapes and dtypes of x, words, scales and biases.
    """
    is_here = platform == _platform()
    try:
        with jax.enable_x64(False):
            traced = jax.jit(partial(few_rows, how=how, tiles=tiles)).trace(*[jax.ShapeDtypeStruct(*s) for s in specs])
            lowered = traced.lower(lowering_platforms=(platform,))
            if is_here:
                lowered.compile()
    except MemoryError:
        raise
    except Exception as error:  # Pallas, Mosaic and Triton promise no type of error
        if is_here:
            pallas.note(error)
        return False
    return True


def _platform() -> str:
    """Return the platform of this process's devices."""
    platform = jax.local_devices()[0].platform
    return "cuda" if platform == "gpu" else platform


@unpromised(
    "pallas",
    "a GPU or TPU multiplies few rows by a quantized matrix without unpacking the matrix in memory",
    "XLA unpacks the matrix, and may write it to memory",
)
def pallas() -> bool:
    """Multiply two rows by a matrix in the kernel. On a CPU, JAX operations interpret the kernel."""
    how, random = Scheme("affine", 64, 4), np.random.default_rng(0)
    words = random.integers(0, 1 << 32, (128, 256), np.uint32)
    x, scales, biases = (random.standard_normal(shape).astype(_f32) for shape in ((2, 2048), (128, 32), (128, 32)))
    platform = _platform()
    tiles = tiling("tpu" if platform == "tpu" else "cuda", 2, words.shape, how)
    if tiles is None:
        return False
    with jax.enable_x64(False):
        product = jax.jit(partial(few_rows, how=how, tiles=tiles, interpret=platform not in ("cuda", "tpu")))
        y = np.asarray(product(x, words, scales, biases))
    expected = x @ decode(words, scales, biases, how).T
    return bool(np.abs(y - expected).max() < 1e-5 * np.abs(expected).max())
