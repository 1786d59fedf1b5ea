"""Metal's `simdgroup_matrix`: 8 by 8 matrices, of which each of the 32 lanes holds two neighbouring elements of a row.

The type and its loads and stores are Metal source, put before a kernel that uses them. The product of two matrices is a
function of all lanes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import Problem
from .simd import SIMD, Lanes
from .types import FLOAT
from .values import Value, Vector

__all__ = ["SIMD_MATRICES", "uses_simd_matrices"]

_NAMES = ("simdgroup_matrix", "simdgroup_float8x8", "simdgroup_half8x8", "simdgroup_bfloat8x8")

_BITS = (2, 2, 4, 2, 2)
"""The parts of a lane's number in the hardware's layout: 4 rows, 4 columns, a row, 2 columns.

The last part counts the elements that a lane holds.
"""

SIMD_MATRICES = """
inline int simdgroup_row_() {
  int lane = thread_index_in_simdgroup;
  return (lane & 16) / 4 + (lane & 6) / 2;
}
inline int simdgroup_column_() {
  int lane = thread_index_in_simdgroup;
  return (lane & 8) / 2 + (lane & 1) * 2;
}

template <typename T, int R, int C> struct simdgroup_matrix {
  vec<T, 2> held;
  simdgroup_matrix() {}
  simdgroup_matrix(T value) {
    int row = simdgroup_row_(), column = simdgroup_column_();
    held = vec<T, 2>(row == column ? value : T(0), row == column + 1 ? value : T(0));
  }
  thread vec<T, 2>& thread_elements() { return held; }
};
typedef simdgroup_matrix<float, 8, 8> simdgroup_float8x8;
typedef simdgroup_matrix<half, 8, 8> simdgroup_half8x8;
typedef simdgroup_matrix<bfloat, 8, 8> simdgroup_bfloat8x8;

template <typename T, int R, int C> simdgroup_matrix<T, R, C> make_filled_simdgroup_matrix(T value) {
  simdgroup_matrix<T, R, C> m;
  m.held = vec<T, 2>(value);
  return m;
}

template <typename M, typename P>
void simdgroup_load(thread M& m, P from, ulong stride = 8, ulong2 origin = ulong2(0), bool transposed = false) {
  int row = simdgroup_row_(), column = simdgroup_column_(), wide = stride, x = origin.x, y = origin.y;
  for (int k = 0; k < 2; k++)
    m.held[k] = transposed ? from[(y + column + k) * wide + x + row] : from[(y + row) * wide + x + column + k];
}

template <typename M, typename P>
void simdgroup_store(M m, P to, ulong stride = 8, ulong2 origin = ulong2(0), bool transposed = false) {
  int row = simdgroup_row_(), column = simdgroup_column_(), wide = stride, x = origin.x, y = origin.y;
  for (int k = 0; k < 2; k++) {
    if (transposed) to[(y + column + k) * wide + x + row] = m.held[k];
    else to[(y + row) * wide + x + column + k] = m.held[k];
  }
}

template <typename D, typename A, typename B> void simdgroup_multiply(thread D& d, A a, B b) {
  d.held = simdgroup_product_(a.held, b.held);
}
template <typename D, typename A, typename B, typename C>
void simdgroup_multiply_accumulate(thread D& d, A a, B b, C c) {
  d.held = float2(c.held) + simdgroup_product_(a.held, b.held);
}
"""
"""The type and its functions. `simdgroup_product_` returns a lane's elements of the product, in float32."""


def uses_simd_matrices(text: str) -> bool:
    """Return True if a kernel's text names a type of matrices."""
    return any(name in text for name in _NAMES)


def _product(walk: Any, operands: list[Value]) -> Value:
    """Return the product of two matrices. Halves are multiplied and added in float32, as the hardware does."""
    lanes = Lanes(walk, 32)
    if lanes.width != 32:
        raise Problem("simdgroup_matrix in a threadgroup with fewer than 32 threads")
    a, b = (_group_matrices(lanes, value) for value in operands)
    product = (a[..., :, :, None] * b[..., None, :, :]).sum(-2)
    split = product.reshape(*product.shape[:-2], 2, 4, 2, 2, 2)
    held = lanes.xp.moveaxis(split, -3, -4).reshape(*product.shape[:-2], 32, 2)
    parts = tuple([walk.n.make(FLOAT, lanes.back(held[..., k])) for k in range(2)])
    return Vector(walk.vector(FLOAT, 2), parts)


def _group_matrices(lanes: Lanes, value: Value) -> Any:
    """Return the matrices of all SIMD groups, `(…, groups, 8, 8)`."""
    assert isinstance(value, Vector)
    parts = [lanes.spread(lanes.n.array(part), part.type.dtype).astype(np.float32) for part in value.parts]  # type: ignore[attr-defined]
    shape = np.broadcast_shapes(*[part.shape for part in parts])
    both = lanes.xp.stack([lanes.space.broadcast(part, shape) for part in parts], -1)
    split = both.reshape(*shape[:-1], *_BITS)
    return lanes.xp.moveaxis(split, -4, -3).reshape(*shape[:-1], 8, 8)


SIMD["simdgroup_product_"] = _product
