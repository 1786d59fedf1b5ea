"""Passes over arrays: neighbours at the ends, two buffers that take turns, tables that a later loop reads."""

from .case import F, flat, normal

__all__ = ["PASSES"]

X = {"x": normal(64)}

PASSES = {
    "neighbours behind a condition": flat(
        """
        uint i = thread_position_in_grid.x;
        float a[8], sum = 0, back = 0;
        float4 v = float4(x[i], 1, 2, 3);
        for (int t = 0; t < 8; t++) { sum += x[(i + t) % 64]; a[t] = sum; }
        for (int t = 7; t >= 0; t--) {
            float before = t > 0 ? a[t - 1] : -1;
            if (t < 7 && a[t + 1] > before) back += before * x[t];
            if (int(i) + t < 7) a[t + 1] += 1;
            if (t < 4) back += t > 0 ? v[t - 1] : v[t + 1];
        }
        y[i] = back; y1[i] = a[7];
        """, X, (F, F), tol=1e-5,
    ),
    "pointers that take turns": flat(
        """
        uint i = thread_position_in_threadgroup.x;
        threadgroup float p[32], q[32];
        threadgroup float* from = p;
        threadgroup float* to = q;
        from[i] = x[thread_position_in_grid.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint by = 1;
        for (int s = 0; s < 7; s++) {
            for (uint t = i; t < 32; t += 32) to[t] = 0.5f * (from[t] + from[(t + by) % 32]);
            threadgroup_barrier(mem_flags::mem_threadgroup);
            threadgroup float* other = from; from = to; to = other;
            by <<= 1;
        }
        by = 1;
        while (by < 32) {
            to[i] = from[i] - 0.25f * from[(i + by) % 32] * from[(i + 3 * by) % 32] * from[(i + 5 * by) % 32];
            threadgroup_barrier(mem_flags::mem_threadgroup);
            threadgroup float* other = from; from = to; to = other;
            by *= 2;
        }
        y[thread_position_in_grid.x] = from[i];
        """, X, (F,), tol=1e-5,
    ),
    "arrays that a later loop reads after a return": flat(
        """
        uint i = thread_position_in_grid.x;
        if (i >= 61) return;
        float a[24], b[24];
        for (int k = 0; k < 24; ++k) { a[k] = x[(i + k) % 64]; b[k] = x[(i + 2 * k) % 64]; }
        float sum = 0;
        for (int f = 0; f < 24; ++f) {
            float s = 0, r = 0;
            for (int k = 0; k < 24; ++k) {
                float w = x[(f * k) % 24];
                s = metal::fma(a[k], w, metal::fma(-b[k], x[(f + k) % 24], s));
                r = metal::fma(a[k], x[(f + k) % 24], metal::fma(b[k], w, r));
            }
            sum += s * r;
        }
        y[i] = sum;
        """, X, (F,), tol=1e-5,
    ),
}  # fmt: skip
"""The kernels, by the construct that is repeated."""
