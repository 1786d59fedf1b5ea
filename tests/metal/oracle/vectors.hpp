// Metal's vectors for g++: structs with swizzles, of which each is a member of a union that knows its components.
#pragma once
#include "types.hpp"

namespace mxo {

template <class T, int N> struct vec;

template <class T, int N, int... I> struct swizzle {
  static constexpr int size = sizeof...(I);
  T v_[N == 3 ? 4 : N];
  operator vec<T, size>() const { return vec<T, size>(v_[I]...); }
  swizzle& operator=(const vec<T, size>& value) {
    const vec<T, size> copy = value;
    int k = 0;
    ((v_[I] = copy[k++]), ...);
    return *this;
  }
  swizzle& operator=(const swizzle& other) { return *this = vec<T, size>(other); }
  swizzle& operator=(T value) { return *this = vec<T, size>(value); }
};

template <class T> struct is_vector : std::false_type {};
template <class T, int N> struct is_vector<vec<T, N>> : std::true_type {};
template <class T, int N, int... I> struct is_vector<swizzle<T, N, I...>> : std::true_type {};
template <class T> concept Vector = is_vector<std::remove_cvref_t<T>>::value;

template <class T, int N> vec<T, N> plain(const vec<T, N>& v) { return v; }
template <class T, int N, int... I> vec<T, sizeof...(I)> plain(const swizzle<T, N, I...>& v) { return v; }
template <Scalar T> T plain(T v) { return v; }
template <class V> using plain_t = decltype(plain(std::declval<V>()));

template <class T> struct element { using type = T; static constexpr int size = 1; };
template <class T, int N> struct element<vec<T, N>> { using type = T; static constexpr int size = N; };
template <class V> using element_t = typename element<plain_t<V>>::type;
template <class V> constexpr int width = element<plain_t<V>>::size;

#define MXO_COMMON(N)                                                                                     \
  using value_type = T;                                                                                   \
  vec() = default;                                                                                        \
  vec(const vec& o) { std::memcpy(v_, o.v_, sizeof(v_)); }                                                \
  vec& operator=(const vec& o) { std::memcpy(v_, o.v_, sizeof(v_)); return *this; }                       \
  template <Scalar S> vec(S s) {                                                                          \
    for (int k = 0; k < N; k++) v_[k] = static_cast<T>(s);                                                \
  }                                                                                                       \
  template <class S> requires(!std::is_same_v<S, T>) explicit vec(const vec<S, N>& o) {                   \
    for (int k = 0; k < N; k++) v_[k] = static_cast<T>(o.v_[k]);                                          \
  }                                                                                                       \
  template <class S, int M, int... I> requires(sizeof...(I) == N && !std::is_same_v<S, T>)                \
  explicit vec(const swizzle<S, M, I...>& o) : vec(plain(o)) {}                                           \
  template <class... A> requires(sizeof...(A) > 1 && (width<A> + ...) == N) vec(const A&... parts) {      \
    int k = 0;                                                                                            \
    (put(k, plain(parts)), ...);                                                                          \
  }                                                                                                       \
  template <Scalar S> void put(int& k, S s) { v_[k++] = static_cast<T>(s); }                              \
  template <class S, int M> void put(int& k, const vec<S, M>& o) {                                        \
    for (int j = 0; j < M; j++) v_[k++] = static_cast<T>(o.v_[j]);                                        \
  }                                                                                                       \
  T& operator[](int k) { return v_[k]; }                                                                  \
  const T& operator[](int k) const { return v_[k]; }

#include "swizzles.inc"

template <class T> struct alignas(2 * sizeof(T)) vec<T, 2> {
  union { T v_[2]; struct { T x, y; }; struct { T r, g; }; MXO_SWIZZLES_2 };
  MXO_COMMON(2)
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 3> {
  union { T v_[4]; struct { T x, y, z; }; struct { T r, g, b; }; MXO_SWIZZLES_3 };
  MXO_COMMON(3)
};
template <class T> struct alignas(4 * sizeof(T)) vec<T, 4> {
  union { T v_[4]; struct { T x, y, z, w; }; struct { T r, g, b, a; }; MXO_SWIZZLES_4 };
  MXO_COMMON(4)
};

#define MXO_NAMES(T) using T##2 = vec<T, 2>; using T##3 = vec<T, 3>; using T##4 = vec<T, 4>;
MXO_NAMES(float) MXO_NAMES(half) MXO_NAMES(bfloat) MXO_NAMES(int) MXO_NAMES(uint) MXO_NAMES(short) MXO_NAMES(ushort)
MXO_NAMES(char) MXO_NAMES(uchar) MXO_NAMES(long) MXO_NAMES(ulong) MXO_NAMES(bool)
#undef MXO_NAMES

// A packed vector has no padding: its components alone, three of them in 12 bytes.
template <class T, int N> struct packed {
  T v_[N];
  packed() = default;
  packed(const vec<T, N>& o) { for (int k = 0; k < N; k++) v_[k] = o[k]; }
  template <class... A> requires(sizeof...(A) > 1) packed(A... parts) : packed(vec<T, N>(parts...)) {}
  operator vec<T, N>() const { vec<T, N> r; for (int k = 0; k < N; k++) r[k] = v_[k]; return r; }
  T& operator[](int k) { return v_[k]; }
  const T& operator[](int k) const { return v_[k]; }
};
using packed_float2 = packed<float, 2>; using packed_float3 = packed<float, 3>; using packed_float4 = packed<float, 4>;
using packed_half2 = packed<half, 2>; using packed_half3 = packed<half, 3>; using packed_half4 = packed<half, 4>;
using packed_uchar4 = packed<uchar, 4>; using packed_uint3 = packed<uint, 3>; using packed_int3 = packed<int, 3>;

// One function for all that go component by component: f takes the components of each operand, scalars repeat.
template <Scalar T> T part(const T& v, int) { return v; }
template <class T, int N> T part(const vec<T, N>& v, int k) { return v.v_[k]; }
template <class F, class... A> auto each(F f, const A&... a) {
  constexpr int N = std::max({width<A>...});
  vec<decltype(f(part(a, 0)...)), N> r;
  for (int k = 0; k < N; k++) r.v_[k] = f(part(a, k)...);
  return r;
}

template <class A, class B> concept Pair = (Vector<A> || Vector<B>) && (Vector<A> || Scalar<A>) && (Vector<B> || Scalar<B>);
// The scalar beside a vector becomes one of the vector's elements.
template <class A, class B> auto like(const B& b) {
  if constexpr (Scalar<B> && Vector<A>) return static_cast<element_t<A>>(b);
  else return plain(b);
}
#define MXO_ARITHMETIC(op)                                                                                 \
  template <class A, class B> requires Pair<A, B> auto operator op(const A& a, const B& b) {               \
    using T = std::conditional_t<Vector<A>, element_t<A>, element_t<B>>;                                   \
    return each([](auto x, auto y) { return static_cast<T>(x op y); }, like<B>(a), like<A>(b));            \
  }                                                                                                        \
  template <class A, class B> requires(Pair<A, B> && Vector<A>) A& operator op##=(A& a, const B& b) {      \
    return a = a op b;                                                                                     \
  }
MXO_ARITHMETIC(+) MXO_ARITHMETIC(-) MXO_ARITHMETIC(*) MXO_ARITHMETIC(/) MXO_ARITHMETIC(%) MXO_ARITHMETIC(&)
MXO_ARITHMETIC(|) MXO_ARITHMETIC(^) MXO_ARITHMETIC(<<) MXO_ARITHMETIC(>>)
#undef MXO_ARITHMETIC
#define MXO_COMPARISON(op)                                                                                 \
  template <class A, class B> requires Pair<A, B> auto operator op(const A& a, const B& b) {               \
    return each([](auto x, auto y) { return bool(x op y); }, like<B>(a), like<A>(b));                      \
  }
MXO_COMPARISON(<) MXO_COMPARISON(>) MXO_COMPARISON(<=) MXO_COMPARISON(>=) MXO_COMPARISON(==) MXO_COMPARISON(!=)
MXO_COMPARISON(&&) MXO_COMPARISON(||)
#undef MXO_COMPARISON
template <Vector V> auto operator-(const V& v) { return each([](auto x) { return decltype(x)(-x); }, plain(v)); }
template <Vector V> auto operator+(const V& v) { return plain(v); }
template <Vector V> auto operator~(const V& v) { return each([](auto x) { return decltype(x)(~x); }, plain(v)); }
template <Vector V> auto operator!(const V& v) { return each([](auto x) { return !x; }, plain(v)); }
template <class T, int N> vec<T, N>& operator++(vec<T, N>& v) { return v = v + T(1); }
template <class T, int N> vec<T, N>& operator--(vec<T, N>& v) { return v = v - T(1); }

template <class T, int C, int R> struct matrix {
  vec<T, R> columns[C];
  matrix() = default;
  explicit matrix(T diagonal) {
    for (int c = 0; c < C; c++) for (int r = 0; r < R; r++) columns[c][r] = c == r ? diagonal : T(0);
  }
  template <class... A> requires(sizeof...(A) == C && C > 1) matrix(const A&... a) : columns{vec<T, R>(a)...} {}
  template <class... A> requires(sizeof...(A) == C * R && C * R > C && (Scalar<A> && ...)) matrix(const A&... a) {
    int k = 0;
    ((columns[k / R][k % R] = a, k++), ...);
  }
  vec<T, R>& operator[](int c) { return columns[c]; }
  const vec<T, R>& operator[](int c) const { return columns[c]; }
};
template <class T, int C, int R> vec<T, R> operator*(const matrix<T, C, R>& m, const vec<T, C>& v) {
  vec<T, R> r(T(0));
  for (int c = 0; c < C; c++) r = r + m[c] * v[c];
  return r;
}
template <class T, int C, int R> vec<T, C> operator*(const vec<T, R>& v, const matrix<T, C, R>& m) {
  vec<T, C> r(T(0));
  for (int c = 0; c < C; c++) for (int k = 0; k < R; k++) r[c] = r[c] + v[k] * m[c][k];
  return r;
}
template <class T, int K, int R, int C> matrix<T, C, R> operator*(const matrix<T, K, R>& a, const matrix<T, C, K>& b) {
  matrix<T, C, R> r;
  for (int c = 0; c < C; c++) r[c] = a * b[c];
  return r;
}
template <class T, int C, int R> matrix<T, R, C> transpose(const matrix<T, C, R>& m) {
  matrix<T, R, C> t;
  for (int c = 0; c < C; c++) for (int r = 0; r < R; r++) t[r][c] = m[c][r];
  return t;
}
template <class T> T determinant(const matrix<T, 2, 2>& m) { return m[0][0] * m[1][1] - m[1][0] * m[0][1]; }
template <class T> T determinant(const matrix<T, 3, 3>& m) {
  return m[0][0] * (m[1][1] * m[2][2] - m[2][1] * m[1][2]) - m[1][0] * (m[0][1] * m[2][2] - m[2][1] * m[0][2]) +
         m[2][0] * (m[0][1] * m[1][2] - m[1][1] * m[0][2]);
}
using float2x2 = matrix<float, 2, 2>; using float3x3 = matrix<float, 3, 3>; using float4x4 = matrix<float, 4, 4>;
using half2x2 = matrix<half, 2, 2>; using half3x3 = matrix<half, 3, 3>; using half4x4 = matrix<half, 4, 4>;

template <class T, size_t N> struct array {
  T v_[N];
  T& operator[](size_t k) { return v_[k]; }
  const T& operator[](size_t k) const { return v_[k]; }
  constexpr size_t size() const { return N; }
};

}  // namespace mxo
