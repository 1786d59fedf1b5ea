"""The text that MLX puts in front of each kernel, in our own wording."""

from __future__ import annotations

__all__ = ["METAL_MACROS", "PRELUDE"]

METAL_MACROS = "#define __METAL__ 1\n#define __METAL_VERSION__ 320\n"
"""The macros by which a source finds out that it is compiled as Metal, in the version of macOS 15."""

PRELUDE = """
#define MTL_CONST static constant constexpr const
#define MLX_MTL_CONST static constant constexpr const
#define MLX_MTL_PRAGMA_UNROLL
#define _Pragma(text)
#define instantiate_kernel(...)

template <typename T, typename U> T ceildiv(T n, U m) { return (n + m - 1) / m; }

template <typename U, typename T> U cast_to(T value) { return static_cast<U>(value); }

template <typename U> struct WorkPerThread { static constexpr int n = 8 / sizeof(U); };

template <bool condition, typename T, typename U> struct ConditionalType { using type = U; };
template <typename T, typename U> struct ConditionalType<true, T, U> { using type = T; };

template <typename I = int64_t>
I elem_to_loc(I elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  I loc = 0;
  for (int axis = ndim - 1; axis >= 0 && elem > 0; --axis) {
    loc += (elem % shape[axis]) * I(strides[axis]);
    elem /= shape[axis];
  }
  return loc;
}

template <typename I = int64_t>
I elem_to_loc(uint3 elem, constant const int* shape, constant const int64_t* strides, int ndim) {
  I loc = elem.x * I(strides[ndim - 1]) + elem.y * I(strides[ndim - 2]);
  for (int axis = ndim - 3; axis >= 0; --axis) {
    loc += (elem.z % shape[axis]) * I(strides[axis]);
    elem.z /= shape[axis];
  }
  return loc;
}

template <typename I = int64_t>
I elem_to_loc_1(uint elem, constant const int64_t& stride) { return elem * I(stride); }

template <typename I = int64_t>
I elem_to_loc_2(uint2 elem, constant const int64_t* strides) {
  return elem.x * I(strides[1]) + elem.y * I(strides[0]);
}

template <typename I = int64_t>
I elem_to_loc_3(uint3 elem, constant const int64_t* strides) {
  return elem.x * I(strides[2]) + elem.y * I(strides[1]) + elem.z * I(strides[0]);
}

template <typename I = int64_t>
vec<I, 2> elem_to_loc_2_nd(uint3 elem, constant const int* shape, constant const int64_t* a, constant const int64_t* b,
                           int ndim) {
  return vec<I, 2>(elem_to_loc<I>(elem, shape, a, ndim), elem_to_loc<I>(elem, shape, b, ndim));
}

template <typename I = int64_t>
vec<I, 3> elem_to_loc_3_nd(uint3 elem, constant const int* shape, constant const int64_t* a, constant const int64_t* b,
                           constant const int64_t* c, int ndim) {
  return vec<I, 3>(elem_to_loc<I>(elem, shape, a, ndim), elem_to_loc<I>(elem, shape, b, ndim),
                   elem_to_loc<I>(elem, shape, c, ndim));
}
"""
