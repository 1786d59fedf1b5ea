"""Kernels as programs write them. Together they use most of the language."""

import numpy as np

from .case import BF16, DATA, RNG, F, H, S, U, flat, normal

__all__ = ["IDIOMS"]

_TREE = {
    "boxes": np.stack([np.arange(15) % 5 - 2.0, np.arange(15) % 5 - 0.5], 1).astype(np.float32), "q": normal(64) * 2,
}  # fmt: skip

IDIOMS = {
    "microscaling": flat(
        """
        constexpr float GAMMA = 0x1p-3f;
        uint row = threadgroup_position_in_grid.x, lane = thread_index_in_simdgroup;
        const device uint8_t* crow = (const device uint8_t*)codes + size_t(row) * 512;
        float acc = 0.0f;
        for (uint gg = 0; gg < 1; ++gg) {
            const device uint4* cptr = (const device uint4*)(crow + lane * 16);
            uint4 packed0 = cptr[0];
            const device ushort4* xrow = (const device ushort4*)(x + lane * 16);
            #pragma clang loop unroll(full)
            for (uint w = 0; w < 4; ++w) {
                uint word = packed0[w & 3u];
                float4 c4 = decode4(word);
                float4 x4 = as_type<float4>(uint4(xrow[w]) << 16);
                acc += dot(c4, x4);
            }
        }
        acc = simd_sum(acc) * e8m0(scales[row]);
        if (simd_is_first()) y[row] = acc * GAMMA;
        """,
        {
            "codes": RNG.integers(0, 2**32, (2, 128)).astype(np.uint32) & np.uint32(0xB7B7B7B7) | np.uint32(0x08080808),
            "x": normal(512, dtype=BF16), "scales": np.array([126, 129], np.uint8),
        },
        (((2,), F),), tol=1e-5,
        header="""
        inline float e8m0(uint8_t s) { return as_type<float>(uint(s) << 23); }
        inline float4 decode4(uint word) {
            uint4 b = uint4(word, word >> 8, word >> 16, word >> 24) & 0xffu;
            uint4 bits = ((b & 0x80u) << 24) | ((b & 0x7fu) << 20);
            return as_type<float4>(bits) * 0x1p120f;
        }
        """,
    ),
    "packed bits": flat(
        """
        uint index = thread_position_in_grid.x;
        if (index >= COUNT) return;
        ulong bit = ulong(index) * 13;
        uint shift = uint(bit % 32);
        uint high = words[bit / 32] >> shift;
        if (shift > 19) high |= words[bit / 32 + 1] << (32 - shift);
        y[index] = as_type<half>(ushort(((high & 2047u) << 3) | (index & 7u)));
        volatile float twice = float(y[index]) * 2.0f;
        y1[index] = twice;
        """,
        {"words": DATA["u"]}, (H, F), template=(("COUNT", 60),),
    ),
    "blocks of four bits": flat(
        """
        uint block = thread_position_in_grid.x;
        float values[32];
        float most = weights[block * 32], largest = metal::abs(most);
        for (uint k = 0; k < 32; ++k) {
            values[k] = weights[block * 32 + k];
            if (metal::abs(values[k]) > largest) { largest = metal::abs(values[k]); most = values[k]; }
        }
        float scale = most / -8.0f, inverse = scale == 0.0f ? 0.0f : 1.0f / scale;
        ushort bits = as_type<ushort>(half(scale));
        uint offset = block * 18;
        packed[offset] = uchar(bits & 255);
        packed[offset + 1] = uchar(bits >> 8);
        for (uint k = 0; k < 16; ++k) {
            uint low = min(15u, uint(values[k] * inverse + 8.5f)), high = min(15u, uint(values[k + 16] * inverse + 8.5f));
            packed[offset + 2 + k] = uchar(low | (high << 4));
        }
        """.replace("packed[", "y["),
        {"weights": normal(8 * 32)}, (((8 * 18,), "uint8"),), size=8,
    ),
    "stack of a tree": flat(
        """
        uint i = thread_position_in_grid.x;
        int stack[16];
        int sp = 0, found = 0;
        float sum = 0;
        stack[sp++] = 0;
        while (sp > 0) {
            int node = stack[--sp];
            if (q[i] < boxes[2 * node] || q[i] > boxes[2 * node + 1]) continue;
            if (2 * node + 2 >= 15) { found++; sum += node * q[i]; continue; }
            stack[sp++] = 2 * node + 1;
            stack[sp++] = 2 * node + 2;
        }
        y[i] = found;
        y1[i] = sum;
        """,
        _TREE, (S, F), tol=1e-5,
    ),
    "union-find": flat(
        """
        uint i = thread_position_in_grid.x;
        int a = parent[i];
        while (true) {
            int up = parent[a];
            if (up == a) break;
            a = up;
        }
        y[i] = a;
        int depth = 0;
        do { depth += 1; a = parent[a]; } while (a != parent[a] && depth < 5);
        y1[i] = depth;
        """,
        {"parent": (np.arange(64) * (RNG.uniform(size=64) > 0.2) * 3 // 4).astype(np.int32)}, (S, S),
    ),
    "edit distance": flat(
        """
        uint i = thread_position_in_grid.x;
        ushort row[9];
        for (ushort k = 0; k <= 8; ++k) row[k] = k;
        for (int r = 1; r <= 8; ++r) {
            ushort diagonal = row[0];
            row[0] = r;
            for (int c = 1; c <= 8; ++c) {
                ushort up = row[c];
                ushort cost = a[i * 8 + r - 1] == b[c - 1] ? 0 : 1;
                row[c] = min(min(ushort(up + 1), ushort(row[c - 1] + 1)), ushort(diagonal + cost));
                diagonal = up;
            }
        }
        y[i] = row[8];
        """,
        {"a": RNG.integers(0, 3, 64 * 8).astype(np.uint8), "b": RNG.integers(0, 3, 8).astype(np.uint8)}, (U,),
    ),
    "philox": flat(
        """
        uint i = thread_position_in_grid.x;
        uint4 counter = uint4(i, 0, 7, 0);
        uint2 key = uint2(seed, seed >> 3);
        for (int round = 0; round < 10; ++round) {
            counter = philox_round(counter, key);
            key += uint2(0x9E3779B9u, 0xBB67AE85u);
        }
        y[i] = counter.x ^ counter.w;
        float u1 = (counter.x + 0.5f) * 2.3283064e-10f, u2 = float(counter.y >> 8) * (1.0f / 16777216.0f);
        y1[i] = metal::sqrt(-2.0f * metal::log(u1)) * metal::cos(2.0f * M_PI_F * u2);
        uint64_t state = uint64_t(i) * 6364136223846793005ULL + 1442695040888963407ULL;
        uint32_t xorshifted = uint32_t(((state >> 18u) ^ state) >> 27u), rot = uint32_t(state >> 59u);
        y2[i] = (xorshifted >> rot) | (xorshifted << ((-rot) & 31));
        """,
        {"seed": 12345}, (U, F, U), tol=1e-5,
        header="""
        inline uint4 philox_round(uint4 c, uint2 k) {
            const uint M0 = 0xD2511F53u, M1 = 0xCD9E8D57u;
            return uint4(mulhi(M1, c.z) ^ c.y ^ k.x, M1 * c.z, mulhi(M0, c.x) ^ c.w ^ k.y, M0 * c.x);
        }
        """,
    ),
    "eigenvalues": flat(
        """
        uint i = thread_position_in_grid.x;
        float a[3][3], v[3][3] = {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}};
        for (int r = 0; r < 3; ++r) for (int c = 0; c < 3; ++c) a[r][c] = m[i * 9 + r * 3 + c] + m[i * 9 + c * 3 + r];
        for (int sweep = 0; sweep < 6; sweep++) {
            int p = 0, q = 1;
            float big = fabs(a[0][1]);
            if (fabs(a[0][2]) > big) { big = fabs(a[0][2]); q = 2; }
            if (fabs(a[1][2]) > big) { p = 1; q = 2; }
            if (fabs(a[p][q]) < 1e-12f) break;
            float theta = 0.5f * atan2(2 * a[p][q], a[q][q] - a[p][p]), c = cos(theta), s = sin(theta);
            for (int k = 0; k < 3; ++k) {
                float x = a[p][k], z = a[q][k];
                a[p][k] = c * x - s * z;
                a[q][k] = s * x + c * z;
            }
            for (int k = 0; k < 3; ++k) {
                float x = a[k][p], z = a[k][q];
                a[k][p] = c * x - s * z;
                a[k][q] = s * x + c * z;
                x = v[k][p];
                v[k][p] = c * x - s * v[k][q];
                v[k][q] = s * x + c * v[k][q];
            }
        }
        float3x3 rot = float3x3(float3(v[0][0], v[1][0], v[2][0]), float3(v[0][1], v[1][1], v[2][1]),
                                float3(v[0][2], v[1][2], v[2][2]));
        y[i] = a[0][0] + a[1][1] + a[2][2];
        y1[i] = max(a[0][0], max(a[1][1], a[2][2]));
        y2[i] = abs(determinant(rot)) + length(transpose(rot) * (rot * float3(1, 2, 3)));
        """,
        {"m": normal(64 * 9)}, (F, F, F), tol=2e-5,
    ),
    "fourier": flat(
        """
        uint i = thread_position_in_grid.x;
        float2 z[8];
        for (int k = 0; k < 8; ++k) z[bit_reverse(k)] = ((const device float2*)x)[i * 8 + k];
        #pragma unroll
        for (int n = 2; n <= 8; n *= 2) {
            for (int s = 0; s < 8; s += n) {
                for (int k = 0; k < n / 2; ++k) {
                    float angle = -2 * M_PI_F * k / n;
                    float2 t = cmul(float2(cos(angle), sin(angle)), z[s + k + n / 2]);
                    z[s + k + n / 2] = z[s + k] - t;
                    z[s + k] += t;
                }
            }
        }
        device float2* out = (device float2*)y + i * 8;
        for (int k = 0; k < 8; ++k) out[k] = z[k];
        """,
        {"x": DATA["z"][:64]}, (((64,), "complex64"),), size=8, tol=1e-5,
        header="""
        #include <metal_stdlib>
        using namespace metal;
        static inline float2 cmul(float2 a, float2 b) { return float2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
        constexpr int bit_reverse(int k) { return ((k & 1) << 2) | (k & 2) | (k >> 2); }
        """,
    ),
    "atomic maximum": flat(
        """
        uint i = thread_position_in_grid.x;
        float v = x[i];
        uint key = as_type<uint>(v);
        key = (key & 0x80000000u) != 0 ? ~key : key | 0x80000000u;
        atomic_fetch_max_explicit((device atomic_uint*)&y[i % 5], key, memory_order_relaxed);
        atomic_fetch_min_explicit((device atomic_int*)(y1 + i % 3), int(v * 100), memory_order_relaxed);
        device atomic_uint* flags = reinterpret_cast<device atomic_uint*>(y2);
        atomic_fetch_or_explicit(flags + (i >> 5), 1u << (i & 31), metal::memory_order_relaxed);
        """,
        {"x": normal(64)}, (((5,), U), ((3,), S), ((2,), U)), init_value=0,
    ),
    "types": flat(
        """
        uint i = thread_position_in_grid.x;
        if constexpr (metal::is_same_v<T, half>) { y[i] = half(1.5h) * x[i]; }
        else if (is_same<T, float>::value) y[i] = 0;
        union { float f; uint u; } bits;
        bits.f = float(x[i]);
        bits.u &= 0xffff0000u;
        y1[i] = bits.f;
        Word w = {1.5f};
        w.h[1] = 0x4100;
        y1[i] += w.f + w.u % 7;
        y2[i] = -metal::numeric_limits<float>::infinity() < bits.f ? numeric_limits<short>::max() : 0;
        typedef struct { int a; half b; } pair_t;
        pair_t p{3, x[i]};
        auto [first, second] = p;
        y3[i] = first * float(second) + (float)Traits<T>::lanes + Traits<float>::lanes;
        y4[i] = apply([](float a, float b) { return a * 2 - b; }, 3.0f, float(x[i])) + Twice()(2);
        """,
        {"x": normal(64, dtype=np.float16)}, (H, F, S, F, F), template=(("T", H),), tol=1e-6,
        header="""
        template <typename T> struct Traits { static constant constexpr int lanes = 4; };
        template <> struct Traits<half> { static constant constexpr int lanes = 8; };
        union Word { float f; uint u; ushort h[2]; };
        struct Twice { int operator()(int x) const { return x * 2; } };
        template <typename F> float apply(F f, float a, float b) { return f(a, b); }
        """,
    ),
    "pointers that walk": flat(
        """
        uint i = thread_position_in_grid.x;
        const device float* p = x + i;
        const device float* end = x + min(i + 5, 64u);
        float sum = 0;
        while (p < end) sum += *p++;
        y[i] = sum;
        device float& out = y1[i];
        out = p[-1];
        out *= 2;
        const device float *lo = x, *hi = x + 64;
        while (lo < hi) {
            const device float* mid = lo + (hi - lo) / 2;
            if (*mid < sum) lo = mid + 1; else hi = mid;
        }
        y2[i] = int(lo - x);
        for (int a = 0, b = 7; a < b; ++a, --b) y3[i] += a * b;
        """,
        {"x": np.sort(normal(64))}, (F, F, S, S), tol=1e-6,
    ),
    "macros of several lines": flat(
        """
        uint i = thread_position_in_grid.x;
        float4 v = LOAD4(x, i * 4);
        SWAP_IF(v.x, v.y) SWAP_IF(v.z, v.w) SWAP_IF(v.x, v.z) SWAP_IF(v.y, v.w) SWAP_IF(v.y, v.z)
        *((device float4*)(y + i * 4)) = v;
        for (uint k = 0; k < 4; k++) { CHECK(v[k] > 0, y1[i]); }
        y1[i] += MAX3(1, 2, 3) * int(bool4(v < float4(0.5)).w);
        #undef LOAD4
        #ifndef LOAD4
        y1[i] += 1000;
        #endif
        """,
        {"x": normal(64)}, (((64,), F), ((16,), S)), size=16, init_value=0,
        header="""
        #define LOAD4(p, o) (*(const device float4*)((p) + (o)))
        #define SWAP_IF(a, b) { \\
            float lo = min(a, b); \\
            b = max(a, b); a = lo; }
        #define CHECK(c, out) do { if (!(c)) break; out += 1; } while (0)
        #define MAX2(a, b) ((a) > (b) ? (a) : (b))
        #define MAX3(a, b, c) MAX2(MAX2(a, b), c)
        """,
    ),
    "bilinear with a switch": flat(
        """
        uint i = thread_position_in_grid.x;
        int c = kinds[i] % 5;
        float r;
        switch (c) {
            case 0: r = 1; break;
            case 1:
            case 2: r = x[i]; if (r > 0) break; r = -1; break;
            case 3: { float t = x[i]; r = t * t; }
            default: r = c + 10;
        }
        y[i] = r;
        Mode mode = Mode(c % 3);
        y1[i] = mode == Mode::Zero ? weight<Mode::Zero>(x[i]) : mode == Mode::Border ? weight<Mode::Border>(x[i]) : 7;
        bool3 inside = bool3(x[i] > 0, c == 1, true);
        y2[i] = all(inside) ? 2 : any(inside.xy) ? 1 : 0;
        float3 s = select(float3(1), float3(2), inside) + (inside.x ? float3(0.5) : float3(x[i], 0, 0));
        y3[i] = s.x + 10 * s.y + 100 * s.z;
        """,
        {"x": normal(64), "kinds": DATA["k"][:64]}, (F, F, S, F), tol=1e-6,
        header="""
        enum class Mode : uint { Zero = 0, Border, Reflect };
        template <Mode M> inline float weight(float x) { if (M == Mode::Zero) return x < 0 ? 0 : x; return x * int(M); }
        """,
    ),
    "long offsets": flat(
        """
        uint gid = thread_position_in_grid.x;
        const int64_t row_stride = x_strides[0], col_stride = x_strides[1];
        size_t r = gid / x_shape[1], c = gid % (size_t)x_shape[1];
        int64_t at = int64_t(r) * row_stride + int64_t(c) * col_stride;
        y[gid] = x[at] + (at >= 40 ? 100 : 0);
        long long big = (long long)gid * 1000000007LL - (1ll << 40);
        y1[gid] = big / 3 % 1000 + (big < 0 ? -1 : 1);
        uint hash = gid * 2654435761u;
        hash ^= hash >> 16; hash *= 0x85ebca6b; hash ^= hash >> 13;
        y2[gid] = hash & ~7u;
        y3[gid] = (char)(hash) + (uchar)(hash >> 3) - (short)hash;
        """,
        {"x": normal(8, 8)}, (F, "int64", U, S),
    ),
}  # fmt: skip
