// Metal's scalar types for g++: half is _Float16, which rounds after each operation; bfloat is a struct that does.
#pragma once
#include <cfloat>
#include <climits>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace mxo {

using half = _Float16;
using uchar = unsigned char;
using ushort = unsigned short;
using uint = unsigned int;
using ulong = unsigned long;
using std::int16_t, std::int32_t, std::int64_t, std::int8_t, std::uint16_t, std::uint32_t, std::uint64_t, std::uint8_t;
using std::ptrdiff_t, std::size_t, std::is_same, std::is_same_v, std::numeric_limits;
using std::enable_if, std::enable_if_t, std::is_floating_point, std::is_floating_point_v, std::is_integral, std::is_integral_v;

struct bfloat {
  uint16_t bits_;
  bfloat() = default;
  template <class T> requires(std::is_arithmetic_v<T> || std::is_same_v<T, half>)
  constexpr bfloat(T value) : bits_(0) {
    const float x = static_cast<float>(value);
    const uint32_t u = __builtin_bit_cast(uint32_t, x);
    bits_ = x != x ? 0x7fc0 : static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);
  }
  constexpr operator float() const { return __builtin_bit_cast(float, static_cast<uint32_t>(bits_) << 16); }
};

template <class T> concept Integer = std::is_integral_v<T>;
template <class T> concept Floating = std::is_same_v<T, float> || std::is_same_v<T, half> || std::is_same_v<T, bfloat>;
template <class T> concept Scalar = Integer<T> || Floating<T>;

// bfloat with bfloat or an integer is bfloat, with float it is float, by the conversion.
#define MXO_BFLOAT(op)                                                                                       \
  constexpr bfloat operator op(bfloat a, bfloat b) { return bfloat(float(a) op float(b)); }                  \
  template <Integer T> constexpr bfloat operator op(bfloat a, T b) { return bfloat(float(a) op float(bfloat(b))); } \
  template <Integer T> constexpr bfloat operator op(T a, bfloat b) { return bfloat(float(bfloat(a)) op float(b)); } \
  constexpr float operator op(bfloat a, float b) { return float(a) op b; }                                   \
  constexpr float operator op(float a, bfloat b) { return a op float(b); }                                   \
  constexpr float operator op(bfloat a, half b) { return float(a) op float(b); }                             \
  constexpr float operator op(half a, bfloat b) { return float(a) op float(b); }                             \
  template <class T> constexpr bfloat& operator op##=(bfloat& a, T b) { return a = bfloat(a op b); }
MXO_BFLOAT(+) MXO_BFLOAT(-) MXO_BFLOAT(*) MXO_BFLOAT(/)
#undef MXO_BFLOAT
#define MXO_BFLOAT(op)                                                                          \
  constexpr bool operator op(bfloat a, bfloat b) { return float(a) op float(b); }               \
  template <Scalar T> constexpr bool operator op(bfloat a, T b) { return float(a) op float(b); } \
  template <Scalar T> constexpr bool operator op(T a, bfloat b) { return float(a) op float(b); }
MXO_BFLOAT(<) MXO_BFLOAT(>) MXO_BFLOAT(<=) MXO_BFLOAT(>=) MXO_BFLOAT(==) MXO_BFLOAT(!=)
#undef MXO_BFLOAT
constexpr bfloat operator-(bfloat a) { return bfloat(-float(a)); }
constexpr bfloat operator+(bfloat a) { return a; }
constexpr bfloat& operator++(bfloat& a) { return a = bfloat(float(a) + 1); }
constexpr bfloat& operator--(bfloat& a) { return a = bfloat(float(a) - 1); }

constexpr half operator""h(long double x) { return static_cast<half>(x); }
constexpr half operator""h(unsigned long long x) { return static_cast<half>(x); }
constexpr bfloat operator""bf(long double x) { return bfloat(static_cast<float>(x)); }

using float16_t = half;
using bfloat16_t = bfloat;

struct complex64_t {
  float real, imag;
  complex64_t() = default;
  constexpr complex64_t(float r, float i) : real(r), imag(i) {}
  template <Scalar T> constexpr complex64_t(T r) : real(static_cast<float>(r)), imag(0) {}
  template <Scalar T> constexpr explicit operator T() const { return static_cast<T>(real); }
};
constexpr complex64_t operator+(complex64_t a, complex64_t b) { return {a.real + b.real, a.imag + b.imag}; }
constexpr complex64_t operator-(complex64_t a, complex64_t b) { return {a.real - b.real, a.imag - b.imag}; }
constexpr complex64_t operator-(complex64_t a) { return {-a.real, -a.imag}; }
constexpr complex64_t operator*(complex64_t a, complex64_t b) {
  return {a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real};
}
constexpr complex64_t operator/(complex64_t a, complex64_t b) {
  const float d = b.real * b.real + b.imag * b.imag;
  return {(a.real * b.real + a.imag * b.imag) / d, (a.imag * b.real - a.real * b.imag) / d};
}
constexpr bool operator==(complex64_t a, complex64_t b) { return a.real == b.real && a.imag == b.imag; }
constexpr complex64_t& operator+=(complex64_t& a, complex64_t b) { return a = a + b; }
constexpr complex64_t& operator-=(complex64_t& a, complex64_t b) { return a = a - b; }
constexpr complex64_t& operator*=(complex64_t& a, complex64_t b) { return a = a * b; }

}  // namespace mxo

#define M_PI_F 3.14159265358979323846f
#define M_PI_2_F 1.57079632679489661923f
#define M_PI_4_F 0.785398163397448309616f
#define M_1_PI_F 0.318309886183790671538f
#define M_2_PI_F 0.636619772367581343076f
#define M_E_F 2.71828182845904523536f
#define M_LN2_F 0.693147180559945309417f
#define M_LN10_F 2.30258509299404568402f
#define M_LOG2E_F 1.44269504088896340736f
#define M_LOG10E_F 0.434294481903251827651f
#define M_SQRT2_F 1.41421356237309504880f
#define M_SQRT1_2_F 0.707106781186547524400f
#define M_2_SQRTPI_F 1.12837916709551257390f
#define M_PI_H (static_cast<mxo::half>(3.14159265358979323846f))
#define MAXFLOAT FLT_MAX
#define HALF_MAX (static_cast<mxo::half>(65504.0f))
#define HALF_MIN (static_cast<mxo::half>(6.103515625e-05f))
#define HALF_EPSILON (static_cast<mxo::half>(0.0009765625f))
