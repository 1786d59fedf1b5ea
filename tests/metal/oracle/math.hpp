// Metal's functions of numbers for g++: of float by the C library, of half and bfloat the same and rounded once.
#pragma once
#include <algorithm>
#include "vectors.hpp"

namespace mxo {

#define MXO_EACH_1(name) \
  template <Vector V> auto name(const V& v) { return each([](auto x) { return name(x); }, plain(v)); }
#define MXO_EACH_2(name)                                                                    \
  template <class A, class B> requires Pair<A, B> auto name(const A& a, const B& b) {       \
    return each([](auto x, auto y) { return name(x, y); }, like<B>(a), like<A>(b));         \
  }
#define MXO_EACH_3(name)                                                                                         \
  template <class A, class B, class C> requires(Vector<A> || Vector<B> || Vector<C>)                             \
  auto name(const A& a, const B& b, const C& c) {                                                                \
    using V = std::conditional_t<Vector<A>, A, std::conditional_t<Vector<B>, B, C>>;                             \
    return each([](auto x, auto y, auto z) { return name(x, y, z); }, like<V>(a), like<V>(b), like<V>(c));       \
  }
#define MXO_1(name, body)                                                    \
  inline float name(float x) { return body; }                                \
  inline half name(half x) { return static_cast<half>(name(float(x))); }     \
  inline bfloat name(bfloat x) { return bfloat(name(float(x))); }            \
  MXO_EACH_1(name)
#define MXO_2(name, body)                                                                         \
  inline float name(float x, float y) { return body; }                                            \
  inline half name(half x, half y) { return static_cast<half>(name(float(x), float(y))); }        \
  inline bfloat name(bfloat x, bfloat y) { return bfloat(name(float(x), float(y))); }             \
  MXO_EACH_2(name)
#define MXO_3(name, body)                                                                                   \
  inline float name(float x, float y, float z) { return body; }                                             \
  inline half name(half x, half y, half z) { return static_cast<half>(name(float(x), float(y), float(z))); } \
  inline bfloat name(bfloat x, bfloat y, bfloat z) { return bfloat(name(float(x), float(y), float(z))); }    \
  MXO_EACH_3(name)

MXO_1(exp, ::expf(x)) MXO_1(exp2, ::exp2f(x)) MXO_1(exp10, ::powf(10.0f, x)) MXO_1(log, ::logf(x))
MXO_1(log2, ::log2f(x)) MXO_1(log10, ::log10f(x)) MXO_1(sqrt, ::sqrtf(x)) MXO_1(rsqrt, 1.0f / ::sqrtf(x))
MXO_1(sin, ::sinf(x)) MXO_1(cos, ::cosf(x)) MXO_1(tan, ::tanf(x)) MXO_1(asin, ::asinf(x)) MXO_1(acos, ::acosf(x))
MXO_1(atan, ::atanf(x)) MXO_1(sinh, ::sinhf(x)) MXO_1(cosh, ::coshf(x)) MXO_1(tanh, ::tanhf(x))
MXO_1(asinh, ::asinhf(x)) MXO_1(acosh, ::acoshf(x)) MXO_1(atanh, ::atanhf(x)) MXO_1(floor, ::floorf(x))
MXO_1(ceil, ::ceilf(x)) MXO_1(trunc, ::truncf(x)) MXO_1(round, ::roundf(x)) MXO_1(rint, ::rintf(x))
MXO_1(fabs, ::fabsf(x)) MXO_1(sinpi, ::sinf(x * M_PI_F)) MXO_1(cospi, ::cosf(x * M_PI_F))
MXO_1(tanpi, ::tanf(x * M_PI_F)) MXO_1(fract, std::fmin(x - ::floorf(x), 0x1.fffffep-1f))
MXO_1(saturate, ::fminf(::fmaxf(x, 0.0f), 1.0f)) MXO_1(sign, x > 0 ? 1.0f : x < 0 ? -1.0f : x == 0 ? x : 0.0f)
MXO_1(log1p, ::log1pf(x)) MXO_1(expm1, ::expm1f(x))
MXO_2(pow, ::powf(x, y)) MXO_2(powr, ::powf(x, y)) MXO_2(atan2, ::atan2f(x, y)) MXO_2(fmod, ::fmodf(x, y))
MXO_2(fmin, ::fminf(x, y)) MXO_2(fmax, ::fmaxf(x, y)) MXO_2(copysign, ::copysignf(x, y)) MXO_2(fdim, ::fdimf(x, y))
MXO_2(nextafter, ::nextafterf(x, y)) MXO_2(step, y < x ? 0.0f : 1.0f)
MXO_3(fma, ::fmaf(x, y, z)) MXO_3(smoothstep, [](float t) { return t * t * (3 - 2 * t); }(saturate((z - x) / (y - x))))
MXO_3(fmin3, ::fminf(x, ::fminf(y, z))) MXO_3(fmax3, ::fmaxf(x, ::fmaxf(y, z)))
MXO_3(fmedian3, ::fmaxf(::fminf(x, y), ::fminf(::fmaxf(x, y), z)))
// Each step of mix is of the type of its operands.
template <Floating T> T mix_(T x, T y, T a) { return T(x + T(T(y - x) * a)); }
inline float mix(float x, float y, float a) { return mix_(x, y, a); }
inline half mix(half x, half y, half a) { return mix_(x, y, a); }
inline bfloat mix(bfloat x, bfloat y, bfloat a) { return mix_(x, y, a); }
MXO_EACH_3(mix)

template <Integer T> constexpr T highest_(T) { return std::is_signed_v<T> ? T(std::make_unsigned_t<T>(~std::make_unsigned_t<T>(0)) >> 1) : T(~T(0)); }
template <Integer T> constexpr T lowest_(T) { return std::is_signed_v<T> ? T(-highest_(T()) - 1) : T(0); }
template <class T> using wide_ = std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>;
#define MXO_OF(T)                                                                                                 \
  inline T min(T a, T b) { return b < a || b == b && a != a ? b : a; }                                              \
  inline T max(T a, T b) { return a < b || b == b && a != a ? b : a; }                                              \
  inline T clamp(T x, T low, T high) { return min(max(x, low), high); }                                           \
  inline T min3(T a, T b, T c) { return min(a, min(b, c)); }                                                      \
  inline T max3(T a, T b, T c) { return max(a, max(b, c)); }                                                      \
  inline T median3(T a, T b, T c) { return max(min(a, b), min(max(a, b), c)); }                                   \
  inline T select(T a, T b, bool c) { return c ? b : a; }
#define MXO_INT(T)                                                                                                \
  MXO_OF(T)                                                                                                       \
  inline T abs(T x) { return x < T(0) ? T(-x) : x; }                                                              \
  inline std::make_unsigned_t<T> absdiff(T a, T b) { using U = std::make_unsigned_t<T>; return a < b ? U(b) - U(a) : U(a) - U(b); } \
  inline T popcount(T x) { return T(__builtin_popcountll(std::make_unsigned_t<T>(x))); }                          \
  inline T clz(T x) { return x ? T(__builtin_clzll(std::make_unsigned_t<T>(x)) - (64 - 8 * int(sizeof(T)))) : T(8 * sizeof(T)); } \
  inline T ctz(T x) { return x ? T(__builtin_ctzll(std::make_unsigned_t<T>(x))) : T(8 * sizeof(T)); }             \
  inline T reverse_bits(T x) {                                                                                    \
    std::make_unsigned_t<T> r = 0;                                                                                \
    for (size_t k = 0; k < 8 * sizeof(T); k++) r |= std::make_unsigned_t<T>((x >> k) & 1) << (8 * sizeof(T) - 1 - k); \
    return T(r);                                                                                                  \
  }                                                                                                               \
  inline T rotate(T v, T n) {                                                                                     \
    using U = std::make_unsigned_t<T>;                                                                            \
    const int w = 8 * sizeof(T), k = int(n) & (w - 1);                                                            \
    return T(k ? U(U(U(v) << k) | U(U(v) >> (w - k))) : U(v));                                                    \
  }                                                                                                               \
  inline T mulhi(T a, T b) { return T((wide_<T>(a) * wide_<T>(b)) >> (8 * sizeof(T))); }                          \
  inline T madhi(T a, T b, T c) { return T(mulhi(a, b) + c); }                                                    \
  inline T addsat(T a, T b) { T r; return __builtin_add_overflow(a, b, &r) ? (b < T(0) ? lowest_(T()) : highest_(T())) : r; } \
  inline T subsat(T a, T b) { T r; return __builtin_sub_overflow(a, b, &r) ? (b < T(0) ? highest_(T()) : lowest_(T())) : r; } \
  inline T hadd(T a, T b) { return T((__int128(a) + b) >> 1); }                                                   \
  inline T rhadd(T a, T b) { return T((__int128(a) + b + 1) >> 1); }                                              \
  inline T extract_bits(T x, uint offset, uint bits) {                                                            \
    if (bits == 0) return T(0);                                                                                   \
    using U = std::make_unsigned_t<T>;                                                                            \
    const uint w = 8 * sizeof(T);                                                                                 \
    const U moved = U(U(x) << (w - bits - offset));                                                               \
    return T(std::is_signed_v<T> ? T(T(moved) >> (w - bits)) : T(U(moved >> (w - bits))));                         \
  }                                                                                                               \
  inline T insert_bits(T base, T put, uint offset, uint bits) {                                                   \
    using U = std::make_unsigned_t<T>;                                                                            \
    const U mask = bits >= 8 * sizeof(T) ? U(~U(0)) : U(U((U(1) << bits) - 1) << offset);                         \
    return T((U(base) & U(~mask)) | (U(U(put) << offset) & mask));                                                \
  }
#define MXO_FLOAT(T)                                                        \
  MXO_OF(T)                                                                 \
  inline T abs(T x) { return fabs(x); }                                     \
  inline bool isnan(T x) { return __builtin_isnan(float(x)); }              \
  inline bool isinf(T x) { return __builtin_isinf(float(x)); }              \
  inline bool isfinite(T x) { return __builtin_isfinite(float(x)); }        \
  inline bool isnormal(T x) { return __builtin_isnormal(float(x)); }        \
  inline bool signbit(T x) { return __builtin_signbit(float(x)); }          \
  inline bool isordered(T x, T y) { return x == x && y == y; }              \
  inline bool isunordered(T x, T y) { return x != x || y != y; }            \
  inline T ldexp(T x, int k) { return T(::ldexpf(float(x), k)); }           \
  inline int ilogb(T x) { return ::ilogbf(float(x)); }                      \
  inline T frexp(T x, int& e) { return T(::frexpf(float(x), &e)); }         \
  inline T modf(T x, T& whole) { whole = trunc(x); return T(x - whole); }   \
  inline T sincos(T x, T& c) { c = cos(x); return sin(x); }                 \
  inline T divide(T x, T y) { return x / y; }
MXO_INT(int) MXO_INT(uint) MXO_INT(short) MXO_INT(ushort) MXO_INT(int8_t) MXO_INT(char) MXO_INT(uchar)
MXO_INT(long) MXO_INT(ulong) MXO_FLOAT(float) MXO_FLOAT(half) MXO_FLOAT(bfloat)
inline bool select(bool a, bool b, bool c) { return c ? b : a; }
inline uint mul24(uint a, uint b) { return (a & 0xffffff) * (b & 0xffffff); }
inline int mul24(int a, int b) { return ((a << 8) >> 8) * ((b << 8) >> 8); }
inline uint mad24(uint a, uint b, uint c) { return mul24(a, b) + c; }
inline int mad24(int a, int b, int c) { return mul24(a, b) + c; }

MXO_EACH_2(min) MXO_EACH_2(max) MXO_EACH_3(clamp) MXO_EACH_1(abs) MXO_EACH_1(popcount) MXO_EACH_1(clz) MXO_EACH_1(ctz)
MXO_EACH_1(reverse_bits) MXO_EACH_2(rotate) MXO_EACH_2(mulhi) MXO_EACH_2(absdiff) MXO_EACH_2(addsat) MXO_EACH_2(subsat)
MXO_EACH_1(isnan) MXO_EACH_1(isinf) MXO_EACH_1(isfinite) MXO_EACH_1(signbit)
template <Vector A, Vector B, class C> auto select(const A& a, const B& b, const C& c) {
  return each([](auto x, auto y, auto z) { return z ? y : x; }, plain(a), plain(b), plain(c));
}

template <Vector V> bool any(const V& v) { bool r = false; for (int k = 0; k < width<V>; k++) r |= bool(plain(v)[k]); return r; }
template <Vector V> bool all(const V& v) { bool r = true; for (int k = 0; k < width<V>; k++) r &= bool(plain(v)[k]); return r; }
inline bool any(bool b) { return b; }
inline bool all(bool b) { return b; }
template <Vector A, Vector B> auto dot(const A& a, const B& b) {
  const auto x = plain(a);
  const auto y = plain(b);
  auto r = x[0] * y[0];
  for (int k = 1; k < width<A>; k++) r = r + x[k] * y[k];
  return element_t<A>(r);
}
template <Vector V> auto length_squared(const V& v) { return dot(v, v); }
template <Vector V> auto length(const V& v) { return sqrt(dot(v, v)); }
template <Vector A, Vector B> auto distance(const A& a, const B& b) { return length(a - b); }
template <Vector A, Vector B> auto distance_squared(const A& a, const B& b) { return dot(a - b, a - b); }
template <Vector V> auto normalize(const V& v) { return v * rsqrt(dot(v, v)); }
template <Vector A, Vector B> auto cross(const A& a_, const B& b_) {
  const auto a = plain(a_);
  const auto b = plain(b_);
  using T = element_t<A>;
  return vec<T, 3>(T(a[1] * b[2] - a[2] * b[1]), T(a[2] * b[0] - a[0] * b[2]), T(a[0] * b[1] - a[1] * b[0]));
}
template <Vector A, Vector B> auto reflect(const A& i, const B& n) { return i - element_t<A>(2) * dot(n, i) * n; }

template <class To, class From> To as_type(const From& from) {
  const auto value = plain(from);
  static_assert(sizeof(To) == sizeof(value));
  To to;
  std::memcpy(&to, &value, sizeof(To));
  return to;
}
inline float4 unpack_unorm4x8_to_float(uint x) {
  return float4(x & 255, (x >> 8) & 255, (x >> 16) & 255, x >> 24) / 255.0f;
}
inline float4 unpack_snorm4x8_to_float(uint x) {
  return max(float4(int8_t(x), int8_t(x >> 8), int8_t(x >> 16), int8_t(x >> 24)) / 127.0f, -1.0f);
}
inline uint pack_float_to_unorm4x8(float4 v) {
  uint r = 0;
  for (int k = 0; k < 4; k++) r |= uint(rint(saturate(v[k]) * 255.0f)) << (8 * k);
  return r;
}

namespace precise { using namespace mxo; }
namespace fast { using namespace mxo; }

}  // namespace mxo
