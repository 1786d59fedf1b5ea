"""Memory: local arrays, vectors, pointers, other views of a buffer, outputs that are read back, group memory."""

import numpy as np

from .case import DATA, case

__all__ = ["MEMORY"]

_IMAGE = np.random.default_rng(1).normal(size=(2, 5, 8)).astype(np.float32)
_BYTES = np.random.default_rng(2).integers(0, 256, 280).astype(np.uint8)

MEMORY = {
    "local arrays": case(
        """
            int a[4] = {1, 2}; a[k[I] & 3] += 5; float m[2][3]; for (int r = 0; r < 2; r++) for (int c = 0;
            c < 3; c++) m[r][c] = f[I] * r + c;
            y[I] = a[0] * 1000 + a[1] * 100 + a[2] * 10 + a[3]; y1[I] = m[k[I] & 1][k[I] % 3];
            uchar n[] = {3, 4, 5}; y2[I] = n[I % 3] + sizeof(n); half w[3] = {}; y3[I] = w[k[I] % 3];
        """,
        "kf", "int32 float32 int32 float32",
    ),
    "vectors": case(
        """
            float4 v = float4(f[I], 1, 2, 3); float2 q = v.xy * 2 + v.zw; v.yz = q;
            y[I] = v.x + v.y * 10 + v.z * 100 + v.w; y1[I] = dot(v.xyz, float3(1, 2, 3));
            y2[I] = length(float2(3, 4)) + v[k[I] & 3]; int3 n = int3(k[I], 2, -1); n %= 3; n.x <<= 2;
            y3[I] = n.x + n.y + n.z; bool2 c = v.xy > float2(0, 1); y4[I] = any(c) + 10 * all(c);
            y5[I] = select(float2(1), float2(2), c).y; float3 e = cross(float3(1, 0, 0), float3(f[I], 2, 3));
            y6[I] = e.y * 10 + e.z; y7[I] = max(v, 1.5f).x + clamp(v, 0.0f, 1.0f).y + abs(float2(-3, 4)).x;
            v += 1; v[2] = 9; y8[I] = v.z + v.r;
        """,
        "fk", "float32 float32 float32 int32 int32 float32 float32 float32 float32", tol=1e-6,
    ),
    "vectors of others": case(
        """
            half4 a = half4(h[I]); a *= half(1.3); y[I] = a.w; uchar4 w = uchar4(d[I], 1, 2, 3); w += 200;
            y1[I] = w.x + w.y; uint2 q = uint2(u[I], 5) >> 3; y2[I] = q.x ^ q.y; float4 g4 = float4(w);
            y3[I] = g4.x; ushort2 s2 = ushort2(t[I]); y4[I] = (s2 + ushort(1)).x; long2 l2 = long2(l[I], 3);
            y5[I] = l2.x + l2.y; vec<float, 3> g3 = vec<float, 3>(1, 2, 3); y6[I] = g3.z; int4 i4 = -int4(k[I]);
            y7[I] = (~i4).w;
        """,
        "hdutlk", "float16 int32 uint32 float32 uint16 int64 float32 int32",
    ),
    "matrices": case(
        """
            float2x2 m = float2x2(float2(1, 2), float2(3, 4)); float2 v = m * float2(f[I], 1);
            y[I] = v.x * 10 + v.y; y1[I] = (float2(1, f[I]) * m).y; y2[I] = m[1][0]; m[0].y = 7;
            y3[I] = (m * m)[0].x; y4[I] = transpose(m)[1].x;
        """,
        "f", "float32 float32 float32 float32 float32", tol=1e-6,
    ),
    "pointers": case(
        """
            const device float* q = f + I / 2; y[I] = *q + q[1]; q += 3; y1[I] = *q++; y2[I] = q - f;
            device int* w = y3 + I; *w = 5; w[0] += k[I]; auto r = g; r += I; y4[I] = *r;
            const device float* e = q > f + 30 ? f : g; y5[I] = e[2];
        """,
        "fgk", "float32 float32 int32 int32 float32 float32", size=60,
    ),
    "parameters that are moved": case("""
            f += I; y += I; *y = f[0] * 2; k += 2 * (I / 2); y1[I] = *k;
        """, "fk", "float32 int32", size=60),
    "pointers as arguments": case(
        """
            float s[4]; fill(s, f[I]); y[I] = total(s, 4) + first(f, I); accumulate(y1 + I, 3);
            accumulate(y1 + I, 4);
        """, "f", "float32 int32",
        header="""
            inline void fill(thread float* a, float x) { for (int k = 0; k < 4; k++) a[k] = x + k; }
            inline float total(const thread float* a, int n) { float t = 0; for (int k = 0; k < n;
            k++) t += a[k]; return t; }
            inline float first(const device float* a, uint k) { return a[k]; }
            inline void accumulate(device int* a, int x) { *a += x; }
        """,
    ),
    "references": case(
        """
            float a = f[I]; thread float& r = a; r += 2; y[I] = a; const device float& c = f[69 - I]; y1[I] = c;
            device float& w = y2[I]; w = 1; w += c;
        """, "f", "float32 float32 float32",
    ),
    "other views": case(
        """
            const device uchar* q = (const device uchar*)u; y[I] = q[4 * I + 2];
            const device float4* v = (const device float4*)w; y1[I] = v[I % 5].z;
            const device ushort* s = reinterpret_cast<const device ushort*>(u); y2[I] = s[2 * I + 1];
            y3[I] = ((const device half2*)x)[I % 10].y; ((device uint*)y4)[I] = as_type<uint>(f[I]);
            y5[I] = *(const device uint*)(e + 4 * I); y6[I] = ((const device float2*)(w + 2 * (I % 4)))->y;
        """,
        "uf", "int32 float32 int32 float16 float32 uint32 float32",
        arrays={"w": DATA["g"][:20], "x": DATA["h"][:20], "e": _BYTES},
    ),
    "writing other views": case(
        """
            if (I % 2 == 0) { ((device half2*)y)[I / 2] = half2(h[I], h[I + 1]);
            ((device float2*)y1)[I / 2] = float2(1, f[I]); } ((device uchar*)y2)[4 * I + 1] = 7;
            ((device uchar*)y2)[4 * I + 3] = d[I];
        """,
        "hfd", "float16 float32 uint32",
    ),
    "three of four": case(
        """
            const device float3* v = (const device float3*)w; y[I] = v[I % 4].z;
            const device packed_float3* q = (const device packed_float3*)w; y1[I] = float3(q[I % 5]).z;
        """, "", "float32 float32", arrays={"w": DATA["g"][:20]},
    ),
    "outputs read back": case("""
            y[I] = f[I]; y[I] += 3; y1[I] = y[I] * y[I]; for (int j = 0; j < 3; j++) y1[I] = y1[I] + j;
            y2[I] = y1[I] - y[I];
        """, "f", "float32 float32 float32"),
    "added onto an initial value": case("y[I] += f[I]; if (k[I] > 4) y1[I] -= 1;", "fk", "float32 int32", init=2),
    "numbers": case(
        "y[I] = f[I] * scale + count; y1[I] = one[0] + scale; y2[I] = flag ? many : -1;", "f", "float32 float32 int32",
        arrays={"scale": 2.5, "count": 3, "one": np.array([7.0], np.float32), "flag": True, "many": np.int32(4)},
    ),
    "shapes and strides": case(
        """
            uint c = thread_position_in_grid.x, r = thread_position_in_grid.y, n = thread_position_in_grid.z;
            int place = n * x_strides[0] + r * x_strides[1] + c * x_strides[2];
            y[place] = x[place] + x_shape[2] * 10 + x_ndim;
            y1[elem_to_loc(uint(place), x_shape, x_strides, x_ndim)] = x_shape[0];
        """,
        "", "float32 int32", arrays={"x": _IMAGE}, grid=(8, 5, 2), group=(4, 4, 1), outputs=[(2, 5, 8), (80,)],
    ),
    "an input for its shape": case(
        "y[I] = I % shaped_shape[1];", "", "int32", arrays={"shaped": np.zeros((3, 5), np.float32)},
    ),
    "several outputs of several sizes": case(
        "y[I] = 1; if (I < 5) y1[I] = I; if (I == 0) y2[0] = 9;", "", "float32 int32 float16",
        outputs=[(70,), (5,), (1,)],
    ),
    "scatter": case("y[(I * 37) % 70] = f[I]; if (k[I] == 3) y1[0] = 1;", "fk", "float32 int32"),
    "group memory": case(
        """
            uint n = threads_per_threadgroup.x, q = thread_position_in_threadgroup.x; threadgroup float s[32];
            s[q] = f[I]; threadgroup_barrier(mem_flags::mem_threadgroup);
            y[I] = s[n - 1 - q]; threadgroup_barrier(mem_flags::mem_threadgroup); threadgroup int total;
            if (q == 0) total = 0; threadgroup float m[4][8]; m[q / 8][q % 8] = q;
            threadgroup_barrier(mem_flags::mem_threadgroup); if (q == 1) { for (uint j = 0; j < n;
            j++) total += j; } threadgroup_barrier(mem_flags::mem_threadgroup); y1[I] = total;
            y2[I] = m[(q % n) / 8][q % 8];
        """,
        "f", "float32 int32 float32",
    ),
    "pointers into group memory": case(
        """
            uint q = thread_position_in_threadgroup.x; threadgroup float s[64];
            threadgroup float* mine = s + 2 * q; mine[0] = f[I]; mine[1] = q;
            threadgroup_barrier(mem_flags::mem_none);
            y[I] = row(s, (q + 1) % threads_per_threadgroup.x); threadgroup float2* pairs = (threadgroup float2*)s;
            y1[I] = pairs[0].x;
        """,
        "f", "float32 float32", header="""
            inline float row(const threadgroup float* a, uint k) { return a[2 * k] + a[2 * k + 1]; }
        """,
    ),
}  # fmt: skip
