"""Kernels in the way that programs write them, whose threads work together."""

import numpy as np

from .case import F, H, S, U, flat, normal, program

__all__ = ["COOPERATION"]


COOPERATION = {
    "attention": program(
        """
        const uint lane = thread_index_in_simdgroup, q_index = threadgroup_position_in_grid.y;
        constexpr int per = D / 32;
        typedef float U;
        thread U q[per], k[per], o[per];
        threadgroup U tile[4][D], maxima[4], sums[4];
        const uint sg = simdgroup_index_in_threadgroup;
        queries += q_index * D + lane * per;
        keys += sg * D + lane * per;
        values += sg * D + lane * per;
        for (int j = 0; j < per; j++) { q[j] = scale * queries[j]; o[j] = 0; }
        U best = Limits<U>::finite_min, total = 0;
        for (int t = sg; t < N; t += 4) {
            U score = 0;
            for (int j = 0; j < per; j++) { k[j] = keys[j]; score += q[j] * k[j]; }
            score = simd_sum(score);
            if (t > int(q_index) + 3) score = -INFINITY;
            U larger = max(best, score), factor = fast::exp(best - larger), e = fast::exp(score - larger);
            best = larger;
            total = total * factor + e;
            for (int j = 0; j < per; j++) o[j] = o[j] * factor + e * values[j];
            keys += 4 * D;
            values += 4 * D;
        }
        for (int j = 0; j < per; j++) tile[sg][lane * per + j] = o[j];
        if (lane == 0) { maxima[sg] = best; sums[sg] = total; }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        if (sg == 0) {
            U top = maxima[0];
            for (int s = 1; s < 4; s++) top = max(top, maxima[s]);
            U whole = 0;
            for (int s = 0; s < 4; s++) whole += sums[s] * exp(maxima[s] - top);
            for (int j = 0; j < per; j++) {
                U v = 0;
                for (int s = 0; s < 4; s++) v += tile[s][lane * per + j] * exp(maxima[s] - top);
                y[q_index * D + lane * per + j] = static_cast<T>(whole == 0 ? v : v / whole);
            }
        }
        """,
        {"queries": normal(5, 64), "keys": normal(11, 64), "values": normal(11, 64), "scale": 0.125},
        (((5, 64), F),), (128, 5, 1), (128, 1, 1), template=(("T", F), ("D", 64), ("N", 11)), tol=1e-5,
    ),
    "cholesky": program(
        """
        threadgroup float l[6][6];
        uint r = thread_position_in_threadgroup.x, b = threadgroup_position_in_grid.x;
        for (uint c = 0; c < 6; ++c) l[r][c] = a[b * 36 + r * 6 + c];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint k = 0; k < 6; ++k) {
            if (r == k) l[k][k] = sqrt(l[k][k]);
            threadgroup_barrier(mem_flags::mem_threadgroup | mem_flags::mem_device);
            if (r > k) l[r][k] /= l[k][k];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            for (uint c = k + 1; c <= r; ++c) l[r][c] -= l[r][k] * l[c][k];
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        for (uint c = 0; c < 6; ++c) y[b * 36 + r * 6 + c] = c <= r ? l[r][c] : 0.0f;
        """,
        {"a": np.stack([np.eye(6) * 6 + (m := normal(6, 6)) @ m.T for _ in range(3)]).astype(np.float32)},
        (((3, 6, 6), F),), (18, 1, 1), (6, 1, 1), tol=1e-5,
    ),
    "halo": program(
        """
        const int R = 2;
        threadgroup T tile[32 + 4];
        int lid = thread_position_in_threadgroup.x, gid = thread_position_in_grid.x, n = x_shape[1];
        int row = thread_position_in_grid.y;
        auto load = [=](int p) -> T { return (p < 0 || p >= n) ? T(0) : x[row * n + p]; };
        tile[lid + R] = load(gid);
        if (lid < R) { tile[lid] = load(gid - R); tile[lid + 32 + R] = load(gid + 32); }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        float acc = 0;
        for (int k = -R; k <= R; ++k) acc += w[k + R] * float(tile[lid + R + k]);
        if (gid < n) y[row * n + gid] = T(acc);
        """,
        {"x": normal(3, 50, dtype=np.float16), "w": normal(5)}, (((3, 50), H),), (64, 3, 1), (32, 1, 1),
        template=(("T", H),), tol=2e-3,
    ),
    "shuffles": flat(
        """
        uint lane = thread_index_in_simdgroup, i = thread_position_in_grid.x;
        float v = x[i];
        for (ushort offset = 16; offset > 0; offset >>= 1) v += simd_shuffle_down(v, offset);
        y[i] = simd_broadcast_first(v);
        float m = x[i];
        for (uint mask = 1; mask < 32; mask <<= 1) m = max(m, simd_shuffle_xor(m, mask));
        y1[i] = m;
        int best = int(i);
        float d = x[i];
        for (ushort off = 16; off > 0; off /= 2) {
            float od = simd_shuffle_down(d, off);
            int oi = simd_shuffle_down(best, off);
            if (lane + off < 32 && (od < d || (od == d && oi < best))) { d = od; best = oi; }
        }
        y2[i] = simd_broadcast(best, 0);
        uint scan = uint(x[i] > 0);
        for (uint off = 1; off < 32; off *= 2) { uint up = simd_shuffle_up(scan, off); if (lane >= off) scan += up; }
        y3[i] = scan;
        ulong votes = static_cast<ulong>(simd_ballot(x[i] > 0));
        y4[i] = popcount(uint(votes)) + ctz(uint(votes | 0x80000000ul)) * 100;
        """,
        {"x": normal(64)}, (F, F, S, U, U), tol=1e-5,
    ),
    "structs in group memory": flat(
        """
        threadgroup Item items[32];
        threadgroup float4 quads[8];
        threadgroup int count;
        uint lid = thread_position_in_threadgroup.x, i = thread_position_in_grid.x;
        if (lid == 0) count = 0;
        items[lid].key = x[i];
        items[lid].id = int(i);
        items[lid].weight = 0;
        if (lid < 8) quads[lid] = float4(lid, x[i], 0, 1);
        threadgroup_barrier(mem_flags::mem_threadgroup);
        Item other = items[(lid + 1) & 31];
        if (other.key > items[lid].key) { items[lid].weight = other.key - items[lid].key; }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[i] = items[lid ^ 1].weight + quads[lid & 7].y;
        y1[i] = helper(items, lid) + (int)quads[3].x;
        threadgroup float* flat = (threadgroup float*)quads;
        y2[i] = flat[lid];
        """,
        {"x": normal(64)}, (F, S, F), tol=1e-6,
        header="""
        struct Item { float key; int id; float weight; };
        inline int helper(threadgroup Item* items, uint at) { return items[at].id * 2 + items[0].id; }
        """,
    ),
    "a struct defined with its group memory": flat(
        """
        threadgroup struct Pair { float a; int b; } pairs[32], last;
        uint lid = thread_position_in_threadgroup.x, i = thread_position_in_grid.x;
        pairs[lid].a = x[i]; pairs[lid].b = int(i);
        if (lid == 31) last.a = x[i];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        Pair other = pairs[31 - lid];
        y[i] = other.a + last.a; y1[i] = other.b;
        """,
        {"x": normal(64)}, (F, S),
    ),
    "sum by halves": flat(
        """
        threadgroup half2 partial[4];
        uint tid = thread_position_in_threadgroup.x, gid = thread_position_in_grid.x;
        const half2 v = ((const device half2*)x)[gid];
        half2 s = v * half2(2) - half(0.5);
        s = max(s, 0.h);
        half2 w = simd_sum(s);
        if (tid % 32 == 0) partial[tid / 32] = w;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        half2 total = partial[0];
        for (uint k = 1; k < 2; ++k) total += partial[k];
        y[gid] = total.x + total.y;
        bfloat16_t b = bfloat16_t(float(v.x));
        y1[gid] = b * b;
        """,
        {"x": normal(128, dtype=np.float16)}, (H, "bfloat16"), group=64, tol=1e-2,
    ),
}  # fmt: skip
