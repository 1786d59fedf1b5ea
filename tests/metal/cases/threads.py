"""Threads: positions and sizes, barriers, SIMD groups, atomics."""

import numpy as np

from .case import DATA, case

__all__ = ["THREADS"]

_ALL = """
            uint3 p = thread_position_in_grid, n = threads_per_grid;
            uint at = p.x + n.x * (p.y + n.y * p.z);
            uint3 l = thread_position_in_threadgroup, g = threadgroup_position_in_grid,
            s = threads_per_threadgroup, m = threadgroups_per_grid, w = dispatch_threads_per_threadgroup;
            y[at] = l.x + 10 * l.y + 100 * l.z + 1000 * g.x + 10000 * g.y + 100000 * g.z;
            y1[at] = s.x + 10 * s.y + 100 * s.z + 1000 * m.x + 10000 * m.y + 100000 * m.z + 1000000 * w.x;
            y2[at] = thread_index_in_threadgroup + 100 * thread_index_in_simdgroup
            + 10000 * simdgroup_index_in_threadgroup + 100000 * simdgroups_per_threadgroup;
            y3[at] = threads_per_simdgroup + 100 * thread_execution_width
            + 10000 * dispatch_simdgroups_per_threadgroup + 100000 * thread_index_in_quadgroup;
        """

_TREE = """
            uint q = thread_position_in_threadgroup.x, n = threads_per_threadgroup.x; threadgroup float s[64];
            s[q] = f[I]; threadgroup_barrier(mem_flags::mem_threadgroup); for (uint w = 32; w > 0; w >>= 1) {
            if (q < w && q + w < n) s[q] += s[q + w]; threadgroup_barrier(mem_flags::mem_threadgroup); }
            y[I] = s[0];
        """

_SCAN = """
            uint q = thread_position_in_threadgroup.x, n = threads_per_threadgroup.x; threadgroup int s[64];
            s[q] = k[I]; threadgroup_barrier(mem_flags::mem_threadgroup); for (uint w = 1; w < n; w *= 2) {
            int t = q >= w ? s[q - w] : 0; threadgroup_barrier(mem_flags::mem_threadgroup); s[q] += t;
            threadgroup_barrier(mem_flags::mem_threadgroup); } y[I] = s[q];
        """

_SOFTMAX = """
            uint lane = thread_index_in_simdgroup, group = simdgroup_index_in_threadgroup,
            row = threadgroup_position_in_grid.x, q = thread_position_in_threadgroup.x;
            threadgroup float part[32]; const device float* in = x + row * 50; float best = -INFINITY;
            for (uint j = q; j < 50; j += threads_per_threadgroup.x) best = max(best, in[j]);
            best = simd_max(best); if (lane == 0) part[group] = best;
            threadgroup_barrier(mem_flags::mem_threadgroup); if (group == 0) {
            best = lane < simdgroups_per_threadgroup ? part[lane] : -INFINITY; best = simd_max(best);
            if (lane == 0) part[0] = best; } threadgroup_barrier(mem_flags::mem_threadgroup); best = part[0];
            threadgroup_barrier(mem_flags::mem_threadgroup); float total = 0; for (uint j = q; j < 50;
            j += threads_per_threadgroup.x) total += exp(in[j] - best); total = simd_sum(total);
            if (lane == 0) part[group] = total; threadgroup_barrier(mem_flags::mem_threadgroup); total = 0;
            for (uint j = 0; j < simdgroups_per_threadgroup; j++) total += part[j]; for (uint j = q; j < 50;
            j += threads_per_threadgroup.x) y[row * 50 + j] = exp(in[j] - best) / total;
        """

THREADS = {
    "positions": case(_ALL, "", "uint32 uint32 uint32 uint32", grid=(5, 4, 3), group=(4, 3, 2), size=60),
    "one axis of three": case(
        """
            uint2 p = thread_position_in_grid.xy; uint z = thread_position_in_grid.z;
            y[p.x + 7 * (p.y + 5 * z)] = z * 100 + p.y * 10 + p.x;
        """, "", "int32", grid=(7, 5, 2), group=(32, 1, 1),
    ),
    "a group cut to its grid": case("""
            y[I] = threads_per_threadgroup.x * 100 + threadgroups_per_grid.x; y1[I] = simd_sum(1);
        """, "", "int32 int32", grid=(3, 1, 1), group=32, size=3),
    "tree": case(_TREE, "f", group=64),
    "scan": case(_SCAN, "k", "int32", group=64),
    "softmax": case(
        _SOFTMAX, "", arrays={"x": np.random.default_rng(3).normal(size=(4, 50)).astype(np.float32)}, grid=(256, 1, 1),
        group=64, outputs=[(4, 50)], tol=2e-6,
    ),
    "reductions": case(
        """
            y[I] = simd_sum(k[I]); y1[I] = simd_max(f[I]); y2[I] = simd_min(f[I]);
            y3[I] = simd_product(1 + (k[I] == 3)); y4[I] = simd_and(u[I]); y5[I] = simd_or(u[I] & 0xff00u);
            y6[I] = simd_xor(u[I]); y7[I] = simd_sum(f[I]); float2 v = simd_sum(float2(k[I], 1));
            y8[I] = v.x * 100 + v.y;
        """, "kfu", """
            int32 float32 float32 int32 uint32 uint32 uint32 float32 float32
        """,
    ),
    "reductions of halves": case("""
            y[I] = simd_max(h[I]); y1[I] = simd_sum(half(k[I])); y2[I] = simd_min(b[I]);
        """, "hkb", "float16 float16 bfloat16"),
    "prefixes": case(
        """
            y[I] = simd_prefix_inclusive_sum(k[I]); y1[I] = simd_prefix_exclusive_sum(k[I]);
            y2[I] = simd_prefix_inclusive_product(1 + (k[I] == 3));
            y3[I] = simd_prefix_exclusive_sum(u[I] & 0x10001u); y4[I] = simd_prefix_exclusive_product(2.0f);
        """,
        "ku", "int32 int32 int32 uint32 float32",
    ),
    "shuffles": case(
        """
            uint q = thread_index_in_simdgroup; y[I] = simd_shuffle(k[I], ushort((q * 7) % 32));
            y1[I] = simd_shuffle_xor(f[I], 5); y2[I] = simd_shuffle_down(f[I], 3);
            y3[I] = simd_shuffle_up(k[I], 2);
            y4[I] = simd_broadcast(k[I], 9); y5[I] = simd_broadcast_first(f[I]);
            y6[I] = simd_shuffle_rotate_down(k[I], 4); y7[I] = simd_shuffle_rotate_up(k[I], 5);
            y8[I] = simd_shuffle(f[I], k[I] + 3); y9[I] = simd_shuffle_and_fill_down(k[I], 100 + k[I], 2);
        """,
        "kf", "int32 float32 float32 int32 int32 float32 int32 int32 float32 int32", size=64,
    ),
    "quads": case(
        """
            y[I] = quad_sum(k[I]); y1[I] = quad_shuffle_xor(k[I], 1); y2[I] = quad_broadcast(f[I], 2);
            y3[I] = quad_max(f[I]);
        """, "kf", "int32 int32 float32 float32", size=64,
    ),
    "votes": case(
        """
            bool v = k[I] > 3; y[I] = simd_all(v); y1[I] = simd_any(k[I] == 9);
            y2[I] = uint(ulong(simd_ballot(v))); y3[I] = simd_is_first();
            y4[I] = popcount(uint(simd_vote::vote_t(simd_active_threads_mask()))); if (v) {
            y5[I] = simd_all(k[I] > 3) + 2 * simd_is_first() + 4 * simd_sum(1); } else { y5[I] = -simd_sum(1); }
        """, "k", "bool bool uint32 bool uint32 int32",
    ),
    "those that have returned": case("""
            if (k[I] % 3 == 0) return; y[I] = simd_sum(1); y1[I] = simd_is_first();
            y2[I] = uint(ulong(simd_ballot(true))); y3[I] = simd_prefix_exclusive_sum(1);
            y4[I] = simd_max(k[I]);
        """, "k", "int32 bool uint32 int32 int32", init=1),
    "sums in divergent loops": case(
        """
            int t = 0; for (int a = 0; a < k[I] % 5; a++) { t += simd_sum(a + 1); for (int q = a; q < k[I] % 3;
            q++) if ((q + k[I]) & 1) t += 100 * simd_sum(1); else t += simd_max(k[I]); if (t > 900) break; }
            y[I] = t + 10000 * simd_sum(1);
        """,
        "k", "int32",
    ),
    "returns around barriers": case(
        """
            uint q = thread_position_in_threadgroup.x; threadgroup int s[32]; s[q] = k[I];
            threadgroup_barrier(mem_flags::mem_threadgroup); if (k[I] > 7) return; for (int a = 0; a < 3; a++) {
            int t = s[(q + 1) % threads_per_threadgroup.x]; threadgroup_barrier(mem_flags::mem_threadgroup);
            s[q] += t; threadgroup_barrier(mem_flags::mem_threadgroup); if (a == 1 && k[I] == 5) return;
            y[I] = s[q]; }
        """, "k", "int32", init=-1,
    ),
    "barriers in loops of computed length": case(
        """
            uint q = thread_position_in_threadgroup.x, n = threads_per_threadgroup.x; threadgroup int s[32];
            s[q] = 1; int turns = many[threadgroup_position_in_grid.x]; for (int a = 0; a < turns; a++) {
            threadgroup_barrier(mem_flags::mem_threadgroup); int t = s[(q + 1) % n];
            threadgroup_barrier(mem_flags::mem_threadgroup); s[q] += t; } y[I] = s[q];
        """, "", "int32", arrays={"many": np.array([2, 0, 5], np.int32)},
    ),
    "a barrier in a macro": case(
        """
            uint q = thread_position_in_threadgroup.x; threadgroup int s[32]; PUT(k[I]) y[I] = s[0];
            threadgroup_barrier(mem_flags::mem_threadgroup); PUT(2 * k[I]) y1[I] = s[0];
        """, "k", "int32 int32",
        header="#define PUT(v) s[q] = v; threadgroup_barrier(mem_flags::mem_threadgroup);",
    ),
    "atomics": case(
        """
            atomic_fetch_add_explicit(&y[k[I]], k[I], memory_order_relaxed);
            atomic_fetch_max_explicit(&y1[k[I] % 3], k[I], memory_order_relaxed);
            atomic_fetch_min_explicit(&y2[0], k[I] - 4, memory_order_relaxed);
            atomic_fetch_or_explicit(&y3[0], 1u << k[I], memory_order_relaxed);
            if (k[I] > 100) atomic_store_explicit(&y3[1], 5u, memory_order_relaxed);
        """,
        "k", "int32 int32 int32 uint32", atomic_outputs=True, outputs=[(10,), (3,), (1,), (2,)],
    ),
    "atomics of floats": case(
        """
            atomic_fetch_add_explicit(&y[k[I]], f[I], memory_order_relaxed);
            atomic_fetch_sub_explicit(&y1[0], 1.0f, memory_order_relaxed);
        """, "kf", "float32 float32", atomic_outputs=True, outputs=[(10,), (1,)], init=3, tol=1e-6,
    ),
    "atomics by a cast": case(
        """
            device atomic_uint* q = (device atomic_uint*)y;
            atomic_fetch_add_explicit(q + (I & 3), 1u, memory_order_relaxed);
            atomic_fetch_add_explicit((device atomic_float*)&y1[k[I]], f[I], memory_order_relaxed);
        """, "kf", "uint32 float32",
        outputs=[(4,), (10,)], tol=1e-6,
    ),
    "atomics in group memory": case(
        """
            threadgroup atomic_int n[4]; uint q = thread_position_in_threadgroup.x;
            if (q < 4) atomic_store_explicit(&n[q], 0, memory_order_relaxed);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            atomic_fetch_add_explicit(&n[k[I] & 3], 1, memory_order_relaxed);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            y[I] = atomic_load_explicit(&n[I & 3], memory_order_relaxed);
        """, "k", "int32",
    ),
    "images": case(
        """
            uint c = thread_position_in_grid.x, r = thread_position_in_grid.y;
            if (c >= uint(x_shape[1]) || r >= uint(x_shape[0])) return; float t = 0; for (int a = -1; a <= 1;
            a++) for (int q = -1; q <= 1; q++) {
            int i = int(r) + a, j = int(c) + q;
            if (i >= 0 && i < x_shape[0] && j >= 0 && j < x_shape[1]) t += x[i * x_shape[1] + j];
            } y[r * x_shape[1] + c] = t;
        """,
        "", arrays={"x": DATA["f"].reshape(7, 10)}, grid=(16, 8, 1), group=(8, 8, 1), tol=1e-6,
    ),
}  # fmt: skip
