"""Products with quantized matrices as a primitive of JAX (`products.foreign`), and its derivatives.

C computes them on a CPU. On a GPU or TPU, the kernel of `pallas_matvec` computes those of few rows. All products have
one form: matrices are selected by numbers, which are optional, unpacked, and multiplied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from mxcompat._jax import ad, batching, jax, jnp
from mxcompat._native.products import KINDS

from ..products.foreign import call_stored, derivative_of_moved, primitive, reads
from ..products.gathered import grouped_product
from ..products.matmul import product
from .fp8 import E4M3_MAX
from .packing import unpack
from .pallas_matvec import is_supported, kernel_for
from .quantize import Scheme, decode

__all__ = ["matrix_inputs", "multiply", "multiply_chosen"]


def matrix_inputs(how: Scheme, inputs: tuple) -> tuple[Any, Any, Any, tuple]:
    """Split an op's inputs after the first into scales, biases (or None), words, and the remaining ones."""
    if how.mode == "affine":
        return inputs[0], inputs[1], inputs[2], inputs[3:]
    return inputs[0], None, inputs[1], inputs[2:]


def multiply(
    x: Any, *inputs: Any, how: Scheme, transpose: bool, left: bool = False, right: bool = False, scaled: bool = False
) -> Any:
    """Return products of matrices of x with quantized matrices, in the dtype of x.

    Args:
        x: an array of shape (..., M, K), or (K,) for a single quantized matrix.
        inputs: scales, biases (in mode "affine"), and words. Then, if the flags are set, the numbers of matrices of x
            (`left`), the numbers of quantized matrices (`right`), and a global scale for each of these (`scaled`).
    """
    parts = inputs[: 3 if how.mode == "affine" else 2]
    call = _primitive().bind if _is_read(x, how, parts) else _plain
    return call(x, *inputs, how=how, transpose=transpose, left=left, right=right, scaled=scaled)


def _is_read(x: Any, how: Scheme, parts: tuple[Any, ...]) -> bool:
    """Return True if C or a kernel reads these matrices, and all sizes are known. In an export, they may be
    symbolic."""
    shape = (*x.shape, *parts[-1].shape)
    if not all(isinstance(n, int) and n for n in shape) or how.group_size not in (16, 32, 64, 128):
        return False
    dtypes = _dtypes(x, how, parts[:-1])
    return reads(*dtypes) or is_supported(how, dtypes)


def _dtypes(x: Any, how: Scheme, scales: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the dtypes of the floats: of x and, in mode "affine", of scales and biases."""
    return (x.dtype, *[s.dtype for s in scales]) if how.mode == "affine" else (x.dtype,)


def _split_inputs(how: Scheme, inputs: tuple, left: bool, right: bool, scaled: bool) -> tuple[Any, ...]:
    """Return words, scales, biases, the matrix numbers of the left and the right side, and the global scales. A missing
    input is None."""
    scales, biases, w, rest = matrix_inputs(how, inputs)
    remaining = list(rest)
    lhs = remaining.pop(0) if left else None
    rhs = remaining.pop(0) if right else None
    return w, scales, biases, lhs, rhs, remaining[0] if scaled else None


def _plain(x: Any, *inputs: Any, how: Scheme, transpose: bool, left: bool, right: bool, scaled: bool) -> Any:
    w, scales, biases, lhs, rhs, units = _split_inputs(how, inputs, left, right, scaled)
    dtype = x.dtype
    parts = [w, scales]
    if biases is not None:
        parts.append(biases)
    if scaled:
        parts.append(units.reshape(*w.shape[:-2], 1, 1))

    def build(words: Any, scales: Any, more: Any = None) -> Any:
        codes = unpack(words, how.bits)
        if not scaled:
            return decode(codes, scales, more, how, dtype)
        return (decode(codes, scales, None, how, np.float32) * (more / np.float32(6 * E4M3_MAX))).astype(dtype)

    return multiply_chosen(x, tuple(parts), build, lhs, rhs, transpose, dtype)


def multiply_chosen(x: Any, parts: tuple[Any, ...], build: Any, lhs: Any, rhs: Any, transpose: bool, dtype: Any) -> Any:
    """Return `x[lhs] @ matrices[rhs]`, where `build(*parts)` unpacks the matrices.

    With few products, the parts of the matrices are selected before they are unpacked. With many, each matrix is
    unpacked once. All parts have the same leading axes.
    """

    def chosen(a: Any, indices: Any) -> Any:
        return a if indices is None else jnp.take(_flat(a), indices, axis=0, mode="clip")

    def matrices(*some: Any) -> Any:
        y = build(*some)
        return jnp.swapaxes(y, -1, -2) if transpose else y

    x = chosen(x, lhs)
    if rhs is not None:
        products = math.prod(np.broadcast_shapes(x.shape[:-2], rhs.shape))
        if products > 2 * math.prod(parts[0].shape[:-2]):
            return grouped_product(x, matrices(*[_flat(a) for a in parts]), rhs, dtype)
    return product(x, matrices(*[chosen(a, rhs) for a in parts]), dtype)


def _flat(a: Any) -> Any:
    return a.reshape(-1, *a.shape[-2:])


def _foreign(x: Any, *inputs: Any, how: Scheme, transpose: bool, left: bool, right: bool, scaled: bool) -> Any:
    w, scales, biases, lhs, rhs, units = _split_inputs(how, inputs, left, right, scaled)
    columns = scales.shape[-1] * how.group_size
    inner, outer = (columns, w.shape[-2]) if transpose else (w.shape[-2], columns)
    own = x.shape[:-2]
    count, matrices, rows = math.prod(own), math.prod(w.shape[:-2]), math.prod(x.shape[-2:-1])
    lead = np.broadcast_shapes(lhs.shape if left else own, rhs.shape if right else w.shape[:-2])
    products = math.prod(lead)
    if matrices == 1 and not left and not right:
        count, products, rows = 1, 1, count * rows
    elif left or right or not count == matrices == products:
        lhs = _numbers(lhs, count, own, lead)
        rhs = _numbers(rhs, matrices, w.shape[:-2], lead)
    if scaled:
        units = units.reshape(-1) / np.float32(6 * E4M3_MAX)
    affine = how.mode == "affine"
    kind = how.bits if affine else "e2m1" if how.bits == 4 else "e4m3"
    codes = "e4m3" if how.mode == "nvfp4" else "e8m0"
    out = jax.ShapeDtypeStruct((*lead, *x.shape[-2:-1], outer), x.dtype)
    sizes = (inner, outer, matrices, count, products, rows)
    return call_stored(
        x, w, scales, biases, units, lhs, rhs, KINDS[kind], KINDS[codes], transpose, how.group_size, sizes, out
    )


def _numbers(chosen: Any, count: int, axes: tuple[int, ...], lead: tuple[int, ...]) -> Any:
    """Return the number of the matrix for each product. There are `count` matrices, with these leading axes."""
    numbers = np.arange(count).reshape(axes) if chosen is None else jnp.clip(chosen, 0, count - 1)
    return jnp.broadcast_to(numbers, lead).reshape(-1).astype(np.int32)


def _kernel(
    platform: str, avals: tuple, how: Scheme, transpose: bool, left: bool, right: bool, scaled: bool
) -> Callable[..., Any] | None:
    """Return a function that computes a product of few rows by a kernel in Pallas, or None."""
    x, *inputs = avals
    if not transpose or left or right or scaled or not is_supported(how, _dtypes(x, how, tuple(inputs[:-1]))):
        return None
    w, scales, biases, *_ = _split_inputs(how, tuple(inputs), left, right, scaled)
    call = kernel_for(platform, x, w, scales, biases, how)
    if call is None:
        return None
    return lambda x, *inputs: call(x, inputs[-1], *inputs[:-1])


@cache
def _primitive() -> Any:
    product = primitive("quantized_product", _plain, _foreign, _kernel)
    ad.primitive_jvps[product] = _jvp
    ad.primitive_transposes[product] = _transposed
    batching.primitive_batchers[product] = _batched
    return product


def _jvp(primals: tuple, tangents: tuple, **params: Any) -> tuple[Any, Any]:
    """Compute the tangent. The product is linear in x, and linear in scales and biases together."""
    x, *inputs = primals
    total = None
    if type(tangents[0]) is not ad.Zero:
        total = _primitive().bind(tangents[0], *inputs, **params)
    if any(type(t) is not ad.Zero for t in tangents[1:]):
        _, change = derivative_of_moved(partial(_plain, x, **params), inputs, tangents[1:])
        total = change if total is None else total + change
    return _primitive().bind(*primals, **params), total


def _transposed(g: Any, x: Any, *inputs: Any, how: Scheme, transpose: bool, left: bool, **params: Any) -> list[Any]:
    """Return the cotangent of x: a product with the transposed matrices."""
    none = [None] * len(inputs)
    if type(g) is ad.Zero:
        return [ad.Zero(x.aval), *none]
    shape, remaining = x.aval.shape, list(inputs)
    place = 3 if how.mode == "affine" else 2
    lhs = remaining.pop(place) if left else None
    back = _primitive().bind(g, *remaining, how=how, transpose=not transpose, left=False, **params)
    if lhs is not None:
        count = math.prod(shape[:-2])
        numbers = jnp.broadcast_to(jnp.clip(lhs, 0, count - 1), back.shape[:-2]).reshape(-1)
        back = jnp.zeros((count, *shape[-2:]), back.dtype).at[numbers].add(_flat(back)).reshape(shape)
    elif back.shape != shape:
        spread = len(back.shape) - len(shape)
        axes = [k for k, n in enumerate(back.shape) if k < spread or n != shape[k - spread]]
        back = back.sum(axes, keepdims=True).reshape(shape)
    return [back, *none]


def _batched(args: tuple, dims: tuple, **params: Any) -> tuple[Any, int]:
    """Batch the product. If only x is mapped, x gets one more axis. Otherwise, JAX batches `_plain`."""
    x, *inputs = args
    if params["left"] or any(d is not None for d in dims[1:]):
        return jax.vmap(partial(_plain, **params), dims)(*args), 0
    x = jnp.moveaxis(x, dims[0], 0)
    w, _, _, _, rhs, _ = _split_inputs(params["how"], tuple(inputs), False, params["right"], params["scaled"])
    lead = rhs.ndim if params["right"] else w.ndim - 2
    own = x.ndim - 3  # this is -1 for a vector, which is multiplied by a single matrix
    if own < lead and lead:
        x = x.reshape(x.shape[0], *[1] * (lead - own), *x.shape[1:])
    return _primitive().bind(x, *inputs, **params), 0
