// MLX's prelude for g++: what kernels may use beyond Metal itself.
#pragma once
#include "together.hpp"

namespace mxo {

template <class T> struct Limits {
  static constexpr T max = highest_(T()), min = lowest_(T()), finite_max = max, finite_min = min;
};
template <> struct Limits<bool> { static constexpr bool max = true, min = false, finite_max = true, finite_min = false; };
#define MXO_LIMITS(T, largest)                                                                       \
  template <> struct Limits<T> {                                                                     \
    static constexpr T max = T(__builtin_inff()), min = T(-__builtin_inff());                        \
    static constexpr T finite_max = T(largest), finite_min = T(-largest);                            \
  };
MXO_LIMITS(float, FLT_MAX) MXO_LIMITS(half, 65504.0f) MXO_LIMITS(bfloat, 3.38953138925153547590e+38f)

#define METAL_FUNC inline __attribute__((always_inline))
template <class T, class U> constexpr T ceildiv(T n, U d) { return (n + d - 1) / d; }

template <class I = int64_t> I elem_to_loc(I elem, const int* shape, const int64_t* strides, int ndim) {
  I loc = 0;
  for (int k = ndim - 1; k >= 0 && elem > 0; k--) {
    loc += (elem % shape[k]) * I(strides[k]);
    elem /= shape[k];
  }
  return loc;
}
template <class I = int64_t> I elem_to_loc(uint3 elem, const int* shape, const int64_t* strides, int ndim) {
  I loc = elem.x * I(strides[ndim - 1]) + elem.y * I(strides[ndim - 2]);
  for (int k = ndim - 3; k >= 0; k--) {
    loc += (elem.z % shape[k]) * I(strides[k]);
    elem.z /= shape[k];
  }
  return loc;
}
template <class I = int64_t> I elem_to_loc_1(uint elem, const int64_t& stride) { return elem * I(stride); }
template <class I = int64_t> I elem_to_loc_2(uint2 elem, const int64_t* strides) {
  return elem.x * I(strides[1]) + elem.y * I(strides[0]);
}
template <class I = int64_t> I elem_to_loc_3(uint3 elem, const int64_t* strides) {
  return elem.x * I(strides[2]) + elem.y * I(strides[1]) + elem.z * I(strides[0]);
}

namespace metal = mxo;

}  // namespace mxo

#define device
#define thread
#define kernel
#define MLX_MTL_CONST static constexpr const
#define MLX_MTL_LOOP_UNROLL
#define MLX_MTL_PRAGMA_UNROLL
