"""The text that MLX puts in front of each kernel, in our own wording."""

from __future__ import annotations

__all__ = ["PRELUDE"]

PRELUDE = """
#define MTL_CONST static constant constexpr const
#define MLX_MTL_CONST static constant constexpr const
#define MLX_MTL_PRAGMA_UNROLL
#define _Pragma(text)
#define instantiate_kernel(...)

inline size_t ceildiv(size_t n, size_t m) { return (n + m - 1) / m; }

template <typename I>
I elem_to_loc(I elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  I loc = 0;
  for (int axis = ndim - 1; axis >= 0 && elem > 0; --axis) {
    loc += (elem % shape[axis]) * I(strides[axis]);
    elem /= shape[axis];
  }
  return loc;
}

template <typename I>
I elem_to_loc(uint3 elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  I loc = elem.x * I(strides[ndim - 1]) + elem.y * I(strides[ndim - 2]);
  for (int axis = ndim - 3; axis >= 0; --axis) {
    loc += (elem.z % shape[axis]) * I(strides[axis]);
    elem.z /= shape[axis];
  }
  return loc;
}

template <typename I>
I elem_to_loc_1(uint elem, constant const int64_t& stride) { return elem * I(stride); }
"""
