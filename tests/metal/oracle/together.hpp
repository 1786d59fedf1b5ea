// What Metal's threads do together, for g++: barriers, reductions, scans, shuffles and votes of a SIMD group, and atomics.
#pragma once
#include "threads.hpp"

namespace mxo {

enum class mem_flags { mem_none = 0, mem_device = 1, mem_threadgroup = 2, mem_texture = 4, mem_threadgroup_imageblock = 8 };
inline mem_flags operator|(mem_flags a, mem_flags b) { return mem_flags(int(a) | int(b)); }
enum memory_order { memory_order_relaxed };
enum thread_scope { thread_scope_thread, thread_scope_simdgroup, thread_scope_threadgroup, thread_scope_device };
__attribute__((noinline)) inline void threadgroup_barrier(mem_flags = mem_flags::mem_none) { meet(GROUP, nullptr, 0); }
__attribute__((noinline)) inline void simdgroup_barrier(mem_flags = mem_flags::mem_none) { meet(SIMD, nullptr, 0); }

template <class T> T brought(const Meeting& m, uint lane) {
  T value;
  std::memcpy(&value, m.brought[lane], sizeof(T));
  return value;
}
inline uint lane() { return running->position.thread_index_in_simdgroup; }

// The active lanes' values in order, of the first lane to the last of the scope.
template <class T, class F> T fold(Scope scope, T value, F f, uint from, uint to, const Meeting& m, T start, bool has_start) {
  T result = start;
  bool has = has_start;
  const uint base = scope == QUAD ? lane() / 4 * 4 : 0;
  for (uint k = base + from; k < base + to; k++) {
    if (!(m.who >> k & 1)) continue;
    result = has ? T(f(result, brought<T>(m, k))) : brought<T>(m, k);
    has = true;
  }
  return result;
}

#define MXO_REDUCTION(name, expression)                                                                          \
  template <class V> __attribute__((noinline)) plain_t<V> simd_##name(const V& v) {                              \
    using T = plain_t<V>;                                                                                        \
    const T value = plain(v);                                                                                    \
    const auto m = meet(SIMD, &value, sizeof(T));                                                                \
    return fold<T>(SIMD, value, [](T a, T b) { return expression; }, 0, 32, *m, T(), false);                     \
  }                                                                                                              \
  template <class V> __attribute__((noinline)) plain_t<V> quad_##name(const V& v) {                              \
    using T = plain_t<V>;                                                                                        \
    const T value = plain(v);                                                                                    \
    const auto m = meet(QUAD, &value, sizeof(T));                                                                \
    return fold<T>(QUAD, value, [](T a, T b) { return expression; }, 0, 4, *m, T(), false);                      \
  }
MXO_REDUCTION(sum, T(a + b)) MXO_REDUCTION(product, T(a * b)) MXO_REDUCTION(min, min(a, b)) MXO_REDUCTION(max, max(a, b))
MXO_REDUCTION(and, T(a & b)) MXO_REDUCTION(or, T(a | b)) MXO_REDUCTION(xor, T(a ^ b))

#define MXO_SCAN(name, op, neutral)                                                                              \
  template <class V> __attribute__((noinline)) plain_t<V> simd_prefix_inclusive_##name(const V& v) {             \
    using T = plain_t<V>;                                                                                        \
    const T value = plain(v);                                                                                    \
    const auto m = meet(SIMD, &value, sizeof(T));                                                                \
    return fold<T>(SIMD, value, [](T a, T b) { return T(a op b); }, 0, lane() + 1, *m, T(neutral), true);        \
  }                                                                                                              \
  template <class V> __attribute__((noinline)) plain_t<V> simd_prefix_exclusive_##name(const V& v) {             \
    using T = plain_t<V>;                                                                                        \
    const T value = plain(v);                                                                                    \
    const auto m = meet(SIMD, &value, sizeof(T));                                                                \
    return fold<T>(SIMD, value, [](T a, T b) { return T(a op b); }, 0, lane(), *m, T(neutral), true);            \
  }
MXO_SCAN(sum, +, 0) MXO_SCAN(product, *, 1)

// The value of another lane. Beyond the ends a lane keeps its own; an inactive lane's is 0 here (undefined in Metal).
template <class T> T taken(const Meeting& m, long from, long low, long high, T own) {
  if (from < low || from >= high) return own;
  return m.who >> from & 1 ? brought<T>(m, uint(from)) : T();
}
#define MXO_SHUFFLE(name, argument, expression)                                                                   \
  template <class V> __attribute__((noinline)) plain_t<V> simd_##name(const V& v, argument) {                     \
    const auto value = plain(v);                                                                                  \
    const auto m = meet(SIMD, &value, sizeof(value));                                                             \
    const long i = lane(), base = 0, size = 32;                                                                   \
    return taken(*m, expression, 0, 32, value);                                                                   \
  }                                                                                                               \
  template <class V> __attribute__((noinline)) plain_t<V> quad_##name(const V& v, argument) {                     \
    const auto value = plain(v);                                                                                  \
    const auto m = meet(QUAD, &value, sizeof(value));                                                             \
    const long i = lane(), base = i / 4 * 4, size = 4;                                                            \
    return taken(*m, expression, base, base + 4, value);                                                          \
  }
MXO_SHUFFLE(shuffle, ushort k, base + k) MXO_SHUFFLE(broadcast, ushort k, base + k) MXO_SHUFFLE(shuffle_up, ushort k, i - k)
MXO_SHUFFLE(shuffle_down, ushort k, i + k) MXO_SHUFFLE(shuffle_xor, ushort k, base + ((i - base) ^ k))
MXO_SHUFFLE(shuffle_rotate_up, ushort k, base + (i - base - k + 32 * size) % size)
MXO_SHUFFLE(shuffle_rotate_down, ushort k, base + (i - base + k) % size)

template <class V> __attribute__((noinline)) plain_t<V> simd_broadcast_first(const V& v) {
  const auto value = plain(v);
  const auto m = meet(SIMD, &value, sizeof(value));
  return brought<plain_t<V>>(*m, __builtin_ctzll(m->who));
}
template <class V> __attribute__((noinline)) plain_t<V> simd_shuffle_and_fill_up(const V& v, const V& fill, ushort k) {
  const plain_t<V> pair[2] = {plain(v), plain(fill)};
  const auto m = meet(SIMD, pair, sizeof(pair));
  const long from = long(lane()) - k;
  plain_t<V> got[2];
  std::memcpy(got, m->brought[from < 0 ? from + 32 : from], sizeof(got));
  return got[from < 0];
}
template <class V> __attribute__((noinline)) plain_t<V> simd_shuffle_and_fill_down(const V& v, const V& fill, ushort k) {
  const plain_t<V> pair[2] = {plain(v), plain(fill)};
  const auto m = meet(SIMD, pair, sizeof(pair));
  const long from = long(lane()) + k;
  plain_t<V> got[2];
  std::memcpy(got, m->brought[from % 32], sizeof(got));
  return got[from >= 32];
}

struct simd_vote {
  using vote_t = uint64_t;
  uint64_t bits = 0;
  simd_vote() = default;
  explicit simd_vote(uint64_t b) : bits(b) {}
  explicit operator uint64_t() const { return bits; }
  bool all() const { return bits == 0xffffffffull; }
  bool any() const { return bits != 0; }
};
inline uint64_t votes(const Meeting& m) {
  uint64_t bits = 0;
  for (uint k = 0; k < 32; k++) if (m.who >> k & 1 && brought<bool>(m, k)) bits |= uint64_t(1) << k;
  return bits;
}
__attribute__((noinline)) inline bool simd_all(bool b) { const auto m = meet(SIMD, &b, 1); return votes(*m) == m->who; }
__attribute__((noinline)) inline bool simd_any(bool b) { const auto m = meet(SIMD, &b, 1); return votes(*m) != 0; }
__attribute__((noinline)) inline simd_vote simd_ballot(bool b) { const auto m = meet(SIMD, &b, 1); return simd_vote(votes(*m)); }
__attribute__((noinline)) inline simd_vote simd_active_threads_mask() { return simd_vote(meet(SIMD, nullptr, 0)->who); }
__attribute__((noinline)) inline bool simd_is_first() { return __builtin_ctzll(meet(SIMD, nullptr, 0)->who) == int(lane()); }

template <class T> struct atomic { T value; };
using atomic_int = atomic<int>; using atomic_uint = atomic<uint>; using atomic_bool = atomic<bool>;
using atomic_float = atomic<float>; using atomic_ulong = atomic<ulong>;
#define MXO_ATOMIC(name, expression)                                                                          \
  template <class T> T atomic_fetch_##name##_explicit(atomic<T>* a, std::type_identity_t<T> v, memory_order) { \
    const T old = a->value;                                                                                   \
    a->value = T(expression);                                                                                 \
    return old;                                                                                               \
  }
MXO_ATOMIC(add, old + v) MXO_ATOMIC(sub, old - v) MXO_ATOMIC(and, old & v) MXO_ATOMIC(or, old | v)
MXO_ATOMIC(xor, old ^ v) MXO_ATOMIC(min, min(old, v)) MXO_ATOMIC(max, max(old, v))
template <class T> T atomic_exchange_explicit(atomic<T>* a, std::type_identity_t<T> v, memory_order) {
  return std::exchange(a->value, v);
}
template <class T> T atomic_load_explicit(const atomic<T>* a, memory_order) { return a->value; }
template <class T> void atomic_store_explicit(atomic<T>* a, std::type_identity_t<T> v, memory_order) { a->value = v; }
template <class T>
bool atomic_compare_exchange_weak_explicit(atomic<T>* a, T* wanted, std::type_identity_t<T> v, memory_order, memory_order) {
  if (std::memcmp(&a->value, wanted, sizeof(T)) == 0) return a->value = v, true;
  return *wanted = a->value, false;
}

}  // namespace mxo
