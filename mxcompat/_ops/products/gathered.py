"""Matrix products of selected matrices, blocks or segments: `gather_mm`, `block_masked_mm`, `segmented_mm`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mxcompat._array.array import array, wrap
from mxcompat._array.errors import no_derivative
from mxcompat._array.promotion import promote
from mxcompat._array.streams import check_stream
from mxcompat._graph.ir.aval import Aval, Dtype, aval, format_shape
from mxcompat._graph.ir.node import apply
from mxcompat._graph.ir.rules import INDEX_ERROR
from mxcompat._jax import jnp

from ..arguments import flag, integer, require_array
from ..define import broadcast, op
from ..movement.arrange import broadcast_into
from .matmul import common, inexact, matmul, product, product_shape

__all__ = [
    "BLOCK_MASKED_MM", "GATHER_MM", "SEGMENTED_MM", "block_masked_mm", "gather_mm", "grouped_product", "mask_shape",
    "segmented_mm",
]  # fmt: skip


def _real_floats(a: Dtype, b: Dtype, name: str) -> Dtype:
    """Return the dtype of a product of these dtypes. Raises MLX's ValueError if it is not a real float."""
    dtype = promote(a, b)
    if dtype._kind != "f":
        raise ValueError(
            f"[{name}] Only real floating point types are supported but {a._label} and {b._label} were provided which "
            f"results in {dtype._label}, which is not a real floating point type."
        )
    return dtype


def _as_matrices(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return (1, *a) if len(a) == 1 else a, (*b, 1) if len(b) == 1 else b


def _gather_aval(a: Aval, b: Aval, *indices: Aval, left: bool, right: bool) -> Aval:
    x, y = _as_matrices(a.shape, b.shape)
    if x[-1] != y[-2]:
        raise ValueError(
            f"[gather_mm] Last dimension of first input with shape {format_shape(x)} must match second to last "
            "dimension of "
            f"second input with shape {format_shape(y)}."
        )
    dtype = _real_floats(a.dtype, b.dtype, "gather_mm")
    if any(i.dtype._kind not in "iu" for i in indices):
        raise ValueError("[gather_mm] Got indices with invalid dtype. Indices must be integral.")
    shapes = [i.shape for i in indices]
    for matrices, shape in zip([m for m, on in ((x, left), (y, right)) if on], shapes, strict=True):
        if 0 in matrices[:-2] and 0 not in shape:
            raise ValueError(f"[gather_mm] Got indices into no matrices: their shape is {format_shape(matrices)}.")
    batch = broadcast(shapes.pop(0) if left else x[:-2], shapes.pop(0) if right else y[:-2])
    return aval((*batch, *(x[-2:-1] if a.ndim > 1 else ()), *(y[-1:] if b.ndim > 1 else ())), dtype)


def _gather_impl(x: Any, y: Any, *indices: Any, left: bool, right: bool) -> Any:
    dtype = common(x, y)
    (rows, columns), remaining = (jnp.ndim(x) > 1, jnp.ndim(y) > 1), list(indices)
    x = x if rows else x[None]
    y = y if columns else y[:, None]
    x = _chosen(x, remaining.pop(0)) if left else x
    products = math.prod(np.broadcast_shapes(x.shape[:-2], jnp.shape(remaining[0]))) if right else 0
    if x.size and y.size and products > 2 * math.prod(y.shape[:-2]):
        out = grouped_product(x, y.reshape(-1, *y.shape[-2:]), remaining[0], dtype)
    else:
        out = product(x, _chosen(y, remaining.pop(0)) if right else y, dtype)
    if not columns:
        out = out[..., 0]
    if not rows:
        out = jnp.squeeze(out, -2 if columns else -1)
    return out


def _chosen(x: Any, indices: Any) -> Any:
    """Return the matrices of x at these indices, counted through all its leading axes."""
    return jnp.take(x.reshape(math.prod(x.shape[:-2]), *x.shape[-2:]), jnp.asarray(indices), axis=0, mode="clip")


def grouped_product(x: Any, experts: Any, indices: Any, dtype: Any) -> Any:
    """Return `x @ experts[indices]` without a copy of a matrix for each product, for many products with few matrices.

    The rows of x are sorted by matrix into blocks, each for one matrix, and each block is multiplied once. (XLA's own
    ragged product lacks some derivatives and parts of vmap.)

    Args:
        x: an array of shape (..., M, K).
        experts: an array of shape (E, K, N).
        indices: integers below E, which broadcast against the leading axes of x.
        dtype: the dtype of the multiplication.

    Returns:
        An array of shape (..., M, N).
    """
    count, inner, columns = experts.shape
    batch = np.broadcast_shapes(x.shape[:-2], jnp.shape(indices))
    height = x.shape[-2]
    lines = jnp.broadcast_to(x, (*batch, *x.shape[-2:])).reshape(-1, inner).astype(dtype)
    number = jnp.clip(jnp.asarray(indices).astype(jnp.int32), 0, count - 1)
    number = jnp.broadcast_to(number[..., None], (*batch, height)).reshape(-1)
    size = min(128, max(8, 1 << (len(lines) // count).bit_length() - 1))
    most = -(-len(lines) // size) + count  # the last block of each matrix may be partly empty

    uses = jnp.zeros(count, jnp.int32).at[number].add(1)
    blocks = (uses + size - 1) // size
    ends = jnp.cumsum(blocks)
    order = jnp.argsort(number, stable=True)
    rank = jnp.arange(len(lines), dtype=jnp.int32) - (jnp.cumsum(uses) - uses)[number[order]]
    place = jnp.zeros_like(number).at[order].set(((ends - blocks)[number[order]] * size + rank).astype(jnp.int32))
    owner = jnp.searchsorted(ends, jnp.arange(most, dtype=ends.dtype), side="right")
    laid_out = jnp.zeros((most * size, inner), lines.dtype).at[place].set(lines, unique_indices=True)
    out = product(laid_out.reshape(most, size, inner), experts[jnp.clip(owner, 0, count - 1)], dtype)
    return out.reshape(-1, columns)[place].reshape(*batch, height, columns)


GATHER_MM = op("gather_mm", _gather_impl, _gather_aval, ("left", "right"), indices=2)


@INDEX_ERROR.of(GATHER_MM)
def _chosen_by(transform: str, *_: Any) -> Exception:
    """Return MLX's error for a derivative with respect to the indices. MLX has no JVP for any input."""
    if transform == "JVP":
        return ValueError("[Primitive::jvp] Not implemented for GatherMM.")
    return ValueError(no_derivative("GatherMM", "indices", transform))


def gather_mm(
    a: array, b: array, /, lhs_indices: array | None = None, rhs_indices: array | None = None, *,
    sorted_indices: bool = False, stream: Any = None,
) -> array:  # fmt: skip
    """Return products of selected matrices.

    Args:
        a: an array of shape (..., M, K), or (K,).
        b: an array of shape (..., K, N), or (K,).
        lhs_indices: the numbers of the matrices of `a`, counted through all its leading axes; None for all matrices, in
            place.
        rhs_indices: the same for `b`. The two broadcast against each other.
        sorted_indices: accepted, and ignored: whether the indices are in ascending order.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N). Its leading axes are those of the indices.

    Raises:
        ValueError: if the shapes do not fit, if the indices are not integers, or if the promoted dtype is not a real
            float.

    Example:
        >>> mx.gather_mm(mx.ones((2, 1, 8)), mx.ones((4, 8, 3)), rhs_indices=mx.array([0, 2])).shape
        (2, 1, 3)
    """
    check_stream(stream)
    flag(sorted_indices, "gather_mm", "sorted_indices")
    nodes = [require_array(a, "gather_mm"), require_array(b, "gather_mm")]
    if lhs_indices is None and rhs_indices is None:
        return matmul(a, b)
    for x in nodes:
        if x.aval.ndim == 0:
            raise ValueError("[gather_mm] Got 0 dimension input. Inputs must have at least one dimension.")
    nodes += [require_array(i, "gather_mm") for i in (lhs_indices, rhs_indices) if i is not None]
    return wrap(apply(GATHER_MM, tuple(nodes), (lhs_indices is not None, rhs_indices is not None)))


def mask_shape(batch: tuple[int, ...], rows: int, columns: int, size: int) -> tuple[int, ...]:
    """Return the shape of a mask for the blocks of a matrix."""
    return (*batch, -(-rows // size), -(-columns // size))


def _masked_aval(a: Aval, b: Aval, *masks: Aval, size: int, given: tuple[str | None, ...]) -> Aval:
    shape = product_shape(a.shape, b.shape)
    dtype = _real_floats(a.dtype, b.dtype, "block_masked_mm") if masks else inexact(a.dtype, b.dtype)
    for mask, target in zip(masks, _mask_shapes(a.shape, b.shape, size, given), strict=True):
        broadcast_into(mask.shape, target)
    return aval(shape, dtype)


def _mask_shapes(
    a: tuple[int, ...], b: tuple[int, ...], size: int, given: tuple[str | None, ...]
) -> list[tuple[int, ...]]:
    """Return the shapes of the given masks, in the order: result, first operand, second operand.

    Args:
        given: the kind of each mask's dtype, or None for a mask that is not given.
    """
    if not any(given):
        return []
    if size <= 0:
        raise ValueError(f"[block_masked_mm] Expected a positive block size, got {size}.")
    x, y = _as_matrices(a, b)
    batch = broadcast(x[:-2], y[:-2])
    pairs = ((x[-2], y[-1]), (x[-2], x[-1]), (y[-2], y[-1]))
    return [mask_shape(batch, *pair, size) for pair, has_mask in zip(pairs, given, strict=True) if has_mask]


def _masked_impl(x: Any, y: Any, *masks: Any, size: int, given: tuple[str | None, ...]) -> Any:
    dtype = common(x, y)
    rows, columns = jnp.ndim(x) > 1, jnp.ndim(y) > 1
    x, y = jnp.asarray(x, dtype), jnp.asarray(y, dtype)
    x, y = x if rows else x[None], y if columns else y[:, None]
    left = iter(masks)
    out_mask, x_mask, y_mask = (next(left) if has_mask else None for has_mask in given)
    out = _masked(product(_masked(x, x_mask, size), _masked(y, y_mask, size), dtype), out_mask, size)
    out = out if columns else out[..., 0]
    return out if rows else jnp.squeeze(out, -2 if columns else -1)


def _masked(x: Any, mask: Any, size: int) -> Any:
    """Return a matrix with each block multiplied by its element of the mask; for bools, zero where it is False."""
    if mask is None:
        return x
    rows, columns = x.shape[-2:]
    mask = jnp.asarray(mask)
    mask = jnp.broadcast_to(mask, np.broadcast_shapes(mask.shape, mask_shape((), rows, columns, size)))
    wide = jnp.repeat(jnp.repeat(mask, size, -2), size, -1)[..., :rows, :columns]
    return jnp.where(wide, x, jnp.zeros((), x.dtype)) if mask.dtype == jnp.bool_ else x * wide.astype(x.dtype)


BLOCK_MASKED_MM = op("block_masked_mm", _masked_impl, _masked_aval, ("size", "given"))


@INDEX_ERROR.of(BLOCK_MASKED_MM)
def _masked_by(transform: str, params: tuple, places: set[int], *_: Any) -> Exception | None:
    """Return the error for masks. MLX refuses the VJP for bool masks of the operands, and has no JVP for any input."""
    of_result, *of_operands = params[1]
    if max(places) < (2 if of_result is None else 3) or not {*of_operands} <= {None, "b"}:
        return None
    if transform == "JVP":
        return ValueError("[Primitive::jvp] Not implemented for BlockMaskedMM.")
    return ValueError(
        "[BlockMaskedMM] Cannot calculate VJP with respect to boolean masks. Use stop_gradient on masks to stop "
        "gradients from being computed."
    )


def block_masked_mm(
    a: array, b: array, /, block_size: int = 64, mask_out: array | None = None, mask_lhs: array | None = None,
    mask_rhs: array | None = None, *, stream: Any = None,
) -> array:  # fmt: skip
    """Return a matrix product in which square blocks are masked out or scaled.

    Args:
        a: an array of shape (..., M, K), or (K,).
        b: an array of shape (..., K, N), or (K,).
        block_size: the size of the blocks.
        mask_out: for each block of the result, whether to keep it, or a factor; None keeps all blocks.
        mask_lhs: the same for `a`.
        mask_rhs: the same for `b`.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N).

    Raises:
        ValueError: if the shapes do not fit, or if the promoted dtype is not a float.

    Example:
        >>> mx.block_masked_mm(mx.ones((64, 32)), mx.ones((32, 64)), 32, mask_out=mx.eye(2))[::32, ::32]
        array([[32, 0],
               [0, 32]], dtype=float32)
    """
    check_stream(stream)
    masks = (mask_out, mask_lhs, mask_rhs)
    nodes = [require_array(x, "block_masked_mm") for x in (a, b, *(m for m in masks if m is not None))]
    given = tuple([None if m is None else m.dtype._kind for m in masks])
    return wrap(apply(BLOCK_MASKED_MM, tuple(nodes), (integer(block_size), given)))


def _segmented_aval(a: Aval, b: Aval, segments: Aval) -> Aval:
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError("[segmented_mm] Batched matmul not supported")
    if segments.ndim < 1 or segments.shape[-1] != 2:
        raise ValueError(
            f"[segmented_mm] The segments should have shape (..., 2) but {format_shape(segments.shape)} was provided."
        )
    dtype = _real_floats(a.dtype, b.dtype, "segmented_mm")
    if segments.dtype._kind not in "iu":
        raise ValueError("[segmented_mm] Got segments with invalid dtype. Segments must be integral.")
    product_shape(a.shape, b.shape, "segmented_mm")
    return aval((*segments.shape[:-1], a.shape[0], b.shape[1]), dtype)


def _segmented_impl(x: Any, y: Any, segments: Any) -> Any:
    dtype = common(x, y)
    segments = jnp.asarray(segments)
    places = jnp.arange(x.shape[1], dtype=segments.dtype)
    inside = (places >= segments[..., :1]) & (places < segments[..., 1:])
    masked = jnp.where(inside[..., None, :], jnp.asarray(x, dtype), jnp.zeros((), dtype))
    return product(masked, y, dtype)


SEGMENTED_MM = op("segmented_mm", _segmented_impl, _segmented_aval, indices=2)
INDEX_ERROR[SEGMENTED_MM] = lambda transform, *_: ValueError(  # MLX has no JVP and no VJP, for any input
    f"[Primitive::{transform.lower()}] Not implemented for SegmentedMM."
)


def segmented_mm(a: array, b: array, /, segments: array, *, stream: Any = None) -> array:
    """Return matrix products over segments of the inner axis, one for each segment.

    Args:
        a: an array of shape (M, K).
        b: an array of shape (K, N).
        segments: integers of shape (..., 2): the start and the end of each segment of K.
        stream: accepted, and ignored.

    Returns:
        An array of shape (..., M, N).

    Raises:
        ValueError: if the shapes do not fit, or if the promoted dtype is not a real float.

    Example:
        >>> mx.segmented_mm(mx.ones((2, 6)), mx.ones((6, 3)), mx.array([[0, 2], [2, 6]]))
        array([[[2, 2, 2],
                [2, 2, 2]],
               [[4, 4, 4],
                [4, 4, 4]]], dtype=float32)
    """
    check_stream(stream)
    return wrap(apply(SEGMENTED_MM, tuple([require_array(x, "segmented_mm") for x in (a, b, segments)])))
