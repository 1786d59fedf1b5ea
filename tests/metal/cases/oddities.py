"""Small uses of the language that programs make, each a way in which a translation can go wrong."""

import numpy as np

from .case import DATA, F, H, S, U, flat, normal, program

__all__ = ["ODDITIES"]

X = {"x": normal(64)}

ODDITIES = {
    "pragmas as operators": flat(
        """
        #define ADD(n) { _Pragma("unroll") for (int k = 0; k < n; ++k) sum += x[(i + k) % 64]; }
        uint i = thread_position_in_grid.x;
        float sum = 0;
        ADD(3);
        _Pragma("clang loop unroll(full)")
        for (int k = 0; k < 2; ++k) sum *= 2;
        y[i] = sum;
        """, X, (F,), tol=1e-6,
    ),
    "functions of struct templates": flat(
        """
        uint i = thread_position_in_grid.x;
        Dual<float, 2> a;
        a.v = x[i]; a.d[0] = 1; a.d[1] = 0;
        Dual<float, 2> b = product(a, turned(a));
        y[i] = b.v; y1[i] = b.d[0] + 10 * total(b);
        """, X, (F, F),
        header="""
        template <typename T, int N> struct Dual { T v; T d[N]; };
        template <typename T, int N> inline Dual<T, N> turned(Dual<T, N> a) {
            a.v = -a.v;
            for (int k = 0; k < N; k++) a.d[k] = -a.d[k];
            return a;
        }
        template <typename T, int N> inline Dual<T, N> product(thread const Dual<T, N>& a, thread const Dual<T, N>& b) {
            Dual<T, N> c;
            c.v = a.v * b.v;
            for (int k = 0; k < N; k++) c.d[k] = a.v * b.d[k] + b.v * a.d[k];
            return c;
        }
        template <int N> inline float total(Dual<float, N> a) { float s = 0; for (float v : a.d) s += v; return s; }
        """, tol=1e-6,
    ),
    "functions that return references": flat(
        """
        uint i = thread_position_in_grid.x;
        Pair p;
        p.a = p.b = x[i];
        p.at(0) = x[i];
        p.at(1) = 2;
        p.at(i % 2) += 1;
        reinterpret_cast<thread float&>(larger(p.a, p.b)) *= 10;
        y[i] = p.a; y1[i] = p.b; y2[i] = p.at(1) + larger(p.a, p.b);
        """, X, (F, F, F),
        header="""
        struct Pair {
            float a, b, held[2];
            thread float& at(int k) { return held[k]; }
        };
        inline thread float& larger(thread float& a, thread float& b) { a = b + 1; return a; }
        """, tol=1e-6,
    ),
    "large arrays of two axes": flat(
        """
        uint i = thread_position_in_grid.x;
        float a[4][40];
        for (int r = 0; r < 4; r++) for (int c = 0; c < 40; c++) a[r][c] = r * 100 + c;
        int r = int(i) % 4, c = int(i * 7) % 40;
        a[r][c] += x[i];
        a[(r + 1) % 4][3] = -1;
        float sum = 0;
        for (int k = 0; k < 40; k++) sum += a[r][k];
        y[i] = sum; y1[i] = a[(r + 1) % 4][c % 5];
        """, X, (F, F), tol=1e-6,
    ),
    "loops over elements": flat(
        """
        uint i = thread_position_in_grid.x;
        float a[4] = {x[i], 1, 2, 3}, s = 0;
        for (float v : a) s += v;
        for (auto& v : a) { if (v == 2) continue; v *= 2; }
        for (thread float& v : a) { s += v; if (s > 12) break; }
        y[i] = s;
        """, X, (F,), tol=1e-6,
    ),
    "helpers with arrays": flat(
        """
        uint i = thread_position_in_grid.x;
        float v[6];
        fill(v, x[i], 6);
        sort6(v);
        y[i] = v[0] + 10 * v[5];
        float best; int where;
        if (find(v, 6, 0.1f, best, where)) y[i] += best;
        y1[i] = where;
        float4 acc[2] = {float4(0), float4(1)};
        for (int k = 0; k < 6; ++k) acc[k & 1][k / 2] += v[k];
        y2[i] = dot(acc[0], acc[1]);
        """, X, (F, S, F), tol=1e-5,
        header="""
        void fill(thread float* v, float x, int n) { for (int k = 0; k < n; k++) v[k] = sin(x * (k + 1)); }
        inline void sort6(thread float (&v)[6]) {
            for (int a = 1; a < 6; a++) {
                float key = v[a];
                int b = a - 1;
                while (b >= 0 && v[b] > key) { v[b + 1] = v[b]; b = b - 1; }
                v[b + 1] = key;
            }
        }
        inline bool find(const thread float* v, int n, float above, thread float& best, thread int& where) {
            where = -1;
            best = 0;
            for (int k = 0; k < n; ++k) if (v[k] > above) { best = v[k]; where = k; return true; }
            return false;
        }
        """,
    ),
    "a struct that is returned": flat(
        """
        uint i = thread_position_in_grid.x;
        Dual a = Dual(x[i], 1), b = 2.0f;
        Dual c = a * a + b * a - Dual(1.0f);
        y[i] = c.v; y1[i] = c.d;
        State s = State();
        for (int k = 0; k < 5; k++) s.step(x[(i + k) % 64]);
        State copy = s; copy.best += 1;
        y2[i] = s.best + copy.best; y3[i] = s.at[1] * 10 + s.count;
        """, X, (F, F, F, S), tol=1e-5,
        header="""
        struct Dual {
            float v, d;
            Dual(float v_, float d_ = 0) : v(v_), d(d_) {}
            Dual operator*(const thread Dual& o) const { return Dual(v * o.v, v * o.d + d * o.v); }
        };
        inline Dual operator+(Dual a, Dual b) { return Dual(a.v + b.v, a.d + b.d); }
        inline Dual operator-(Dual a, Dual b) { return Dual(a.v - b.v, a.d - b.d); }
        struct State {
            float best = -1e30f;
            int at[2] = {7, 8}, count = 0;
            void step(float v) { if (v > best) { best = v; at[1] = at[0]; at[0] = count; } ++count; }
        };
        """,
    ),
    "templates of functions and numbers": flat(
        """
        uint i = thread_position_in_grid.x;
        y[i] = reduce<Sum, 4>(x, i) + reduce<Max<float>, 8>(x, i);
        y1[i] = unrolled<3>::run(int(i)) + power<5>(2);
        y2[i] = pick<true>(1, 2.5f) + pick<false>(1, 2.5f);
        constexpr int n = sizeof(T) * 2, m = ceildiv(n, 3);
        T local[n] = {T(1)};
        y3[i] = local[0] + local[n - 1] + m;
        """, X, (F, S, F, F), template=(("T", H),), tol=1e-5,
        header="""
        struct Sum { static constexpr constant float init = 0.0f; float operator()(float a, float b) { return a + b; } };
        template <typename T> struct Max {
            static constexpr constant T init = -1000;
            T operator()(T a, T b) { return metal::max(a, b); }
        };
        template <typename Op, int N> inline float reduce(const device float* x, uint i) {
            Op op;
            float r = Op::init;
            for (int k = 0; k < N; ++k) r = op(r, x[(i + k) % 64]);
            return r;
        }
        template <int N> struct unrolled { static int run(int i) { return i + unrolled<N - 1>::run(i * 2); } };
        template <> struct unrolled<0> { static int run(int i) { return i; } };
        template <int N> constexpr int power(int x) { if constexpr (N == 0) return 1; else return x * power<N - 1>(x); }
        template <bool B> inline float pick(int a, float b) { if (B) return a; return b; }
        """,
    ),
    "tables in the body": flat(
        """
        constexpr float lut[16] = {-1.0f, -0.69f, -0.52f, -0.39f, -0.28f, -0.18f, -0.09f, 0.0f,
                                   0.08f, 0.16f, 0.25f, 0.34f, 0.44f, 0.56f, 0.72f, 1.0f};
        const int offsets[3][2] = {{0, 1}, {1, 0}, {-1, -1}};
        uint i = thread_position_in_grid.x;
        uchar packed = bytes[i];
        y[i] = lut[packed & 0xF] + lut[packed >> 4] * 10;
        int total = 0;
        for (auto k = 0; k < 3; k++) total += offsets[k][0] * 10 + offsets[(k + i) % 3][1];
        y1[i] = total;
        """, {"bytes": DATA["d"][:64]}, (F, S),
    ),
    "bytes to halves": flat(
        """
        uint i = thread_position_in_grid.x;
        const device uchar* block = blocks + i * 6;
        half d = *(const device half*)block;
        half2 dm = as_type<half2>(*(const device uint*)(blocks + (i & ~1u) * 6));
        const device packed_uchar4* q = (const device packed_uchar4*)(block + 2);
        uchar4 v = uchar4(*q);
        char4 s = as_type<char4>(v);
        y[i] = float(d) * (v.x + v.w) + s.y;
        y1[i] = isnan(dm.x) ? 0 : 1;
        ushort2 pair = ushort2(v.xy) << 4 | ushort2(1, 2);
        y2[i] = pair.x + pair.y * 65536;
        float4 f = float4(v) / 255.0f;
        y3[i] = uint(f.w * 255.0f + 0.5f);
        """,
        {"blocks": np.random.default_rng(1).integers(0, 100, 64 * 6).astype(np.uint8)}, (F, S, U, U),
    ),
    "vectors at any place": flat(
        """
        uint i = thread_position_in_grid.x;
        const device float4* v = (const device float4*)(x + at[i]);
        float sum = 0;
        for (int k = 0; k < n[0]; k++, v++) sum += dot(*v, float4(1, 2, 3, 4)) + v->y;
        v -= 2;
        y[i] = sum + v[1].z + float(v - (const device float4*)(x + at[i]));
        const device float* back = (const device float*)v;
        y1[i] = back[3] + (&v->z)[1];
        device float2* out = (device float2*)(y2 + (i & 7) * 3 + 1);
        if (i < 8) *out = v->xy;
        """,
        {"x": normal(64), "at": (DATA["k"][:64] * 3).astype(np.int32), "n": np.array([4], np.int32)}, (F, F, F),
        tol=1e-6,
    ),
    "threads alone": program(
        """
        threadgroup float best_value[1];
        threadgroup int best_index[1];
        threadgroup bool done;
        uint tid = thread_index_in_threadgroup;
        if (tid == 0) { best_value[0] = -INFINITY; done = false; }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (int round = 0; round < 6 && !done; round++) {
            float v = tid < 40 ? x[round * 40 + tid] : -INFINITY;
            float m = simd_max(v);
            if (simd_is_first()) { }
            threadgroup float per[2];
            if (thread_index_in_simdgroup == 0) per[simdgroup_index_in_threadgroup] = m;
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (tid == 0) {
                float g = max(per[0], per[1]);
                if (g > best_value[0]) { best_value[0] = g; best_index[0] = round; }
                if (g > 2.3f) done = true;
            }
            threadgroup_barrier(mem_flags::mem_threadgroup);
        }
        if (tid == 0) { y[0] = best_value[0]; y1[0] = best_index[0]; }
        """, {"x": normal(240)}, (((1,), F), ((1,), S)), (64, 1, 1), (64, 1, 1),
    ),
    "scan by doubling": program(
        """
        threadgroup float2 s[64];
        uint t = thread_position_in_threadgroup.x, n = 64;
        float2 v = float2(a[t], b[t]);
        s[t] = v;
        threadgroup_barrier(mem_flags::mem_threadgroup);
        for (uint d = n >> 1, o = 1; d > 0; d >>= 1, o <<= 1) {
            threadgroup_barrier(mem_flags::mem_threadgroup);
            if (t < d) {
                uint i = o * (2 * t + 1) - 1, j = o * (2 * t + 2) - 1;
                s[j] = float2(s[i].x * s[j].x, s[j].x * s[i].y + s[j].y);
            }
        }
        threadgroup_barrier(mem_flags::mem_threadgroup);
        y[t] = s[t].x; y1[t] = s[63].y;
        """, {"a": normal(64) / 4 + 1, "b": normal(64)}, (((64,), F), ((64,), F)), (64, 1, 1), (64, 1, 1), tol=1e-5,
    ),
    "an array of pointers": flat(
        """
        uint i = thread_position_in_grid.x;
        const device float* sources[3] = {x, x + 10, w};
        float sum = 0;
        for (int k = 0; k < 3; k++) sum += sources[k][i % 20];
        y[i] = sum;
        const device float* chosen = i % 2 ? x : w;
        y1[i] = chosen[i % 20] + (i % 3 == 0 ? x : w)[1];
        device float* out = i < 32 ? y2 : y3;
        out[i] = 1;
        """, {**X, "w": normal(32)}, (F, F, F, F), tol=1e-6,
    ),
    "integers of all sizes": flat(
        """
        uint i = thread_position_in_grid.x;
        char c = char(i * 5);
        uchar u = uchar(i * 9);
        short s = short(c * 300);
        y[i] = c + u + s + (c << 3) + (u >> 1) + (s >> 2);
        y1[i] = uint(c) ^ (uint(u) << 24) | ushort(s);
        c += 100; u -= 3; s *= 2; u <<= 2; s >>= 1; c ^= 0x55;
        y2[i] = c * 65536 + u * 256 + s;
        bool b = i & 4;
        y3[i] = b + true + !b * 2 + (b ? -1 : 1u) + -b + ~u;
        int big = INT_MAX;
        y4[i] = big + int(i) < 0 ? 1 : (int)UINT_MAX + abs_diff_(c, u);
        """, {}, (S, U, S, S, S), header="inline int abs_diff_(int a, int b) { return a > b ? a - b : b - a; }",
    ),
    "floats of all sizes": flat(
        """
        uint i = thread_position_in_grid.x;
        bfloat16_t b = w[i];
        half h = half(x[i]);
        y[i] = b * h;
        y1[i] = b + bfloat16_t(1) > 1 ? b : -b;
        y2[i] = h / 3 + 0.1h;
        b += x[i]; h *= 1.0001f; h -= 1;
        y3[i] = float(b) + float(h);
        y4[i] = metal::max(b, bfloat16_t(0)) + (bfloat)metal::exp((float)h);
        y2[i] += fma(h, h, half(1)) + (half)clamp(x[i], -1.f, 1.f);
        """, {**X, "w": DATA["b"][:64]}, (F, "bfloat16", H, F, "bfloat16"), tol=8e-3,
    ),
    "complex numbers": flat(
        """
        uint i = thread_position_in_grid.x;
        complex64_t a = z[i], b = z[(i + 1) % 64];
        complex64_t c = a * b + complex64_t(1, 2) - b;
        y[i] = c;
        y1[i] = c.real * c.real + c.imag * c.imag;
        float2 p = float2(a.real, -a.imag);
        ((device float2*)y2)[i] = p * 2;
        """, {"z": DATA["z"][:64]}, ("complex64", F, "complex64"), tol=1e-5,
    ),
    "loops of all kinds": flat(
        """
        uint i = thread_position_in_grid.x;
        int n = 0;
        for (;;) { if (++n > int(i % 9)) break; }
        float x0 = x[i], g = 1;
        int it = 0;
        while (fabs(g * g - fabs(x0)) > 1e-4f && it++ < 30) g = 0.5f * (g + fabs(x0) / g);
        y[i] = g; y1[i] = n + it * 100;
        int total = 0;
        for (uint k = i; k != 0; k &= k - 1) total++;
        for (int k = 10; k --> 0;) { if (k % 3) continue; total += k; }
        for (float f = 0.0f; f < 1.0f; f += 0.25f) total += f > 0.4f;
        for (int a = 0; a < 4; ++a)
            for (int b = a; b < 4; ++b) {
                if ((a + b + int(i)) % 5 == 0) continue;
                total += 1;
            }
        uint lo = 0, hi = 64;
        while (lo + 1 < hi) { uint mid = (lo + hi) >> 1; if (mid * mid <= i) lo = mid; else hi = mid; }
        y2[i] = total * 100 + lo;
        """, X, (F, S, S), tol=1e-5,
    ),
    "outputs as scratch": flat(
        """
        uint i = thread_position_in_grid.x;
        device float* mine = y + i * 4;
        for (int k = 0; k < 4; k++) mine[k] = x[(i * 4 + k) % 64];
        for (int a = 0; a < 3; a++) for (int b = 0; b < 3 - a; b++)
            if (mine[b] > mine[b + 1]) { float t = mine[b]; mine[b] = mine[b + 1]; mine[b + 1] = t; }
        int n = 0;
        for (int k = 0; k < 4; k++) if (mine[k] > 0) y1[i * 4 + n++] = k;
        y1[i * 4 + 3] += n * 10;
        """, X, (((64,), F), ((64,), S)), size=16, init_value=0,
    ),
    "groups of two axes": program(
        """
        threadgroup float t[8][9];
        uint2 l = thread_position_in_threadgroup.xy, g = threadgroup_position_in_grid.xy;
        uint2 size = threads_per_threadgroup.xy;
        uint2 in = g * 8 + l;
        if (in.x < 20 && in.y < 13) t[l.y][l.x] = x[in.y * 20 + in.x];
        threadgroup_barrier(mem_flags::mem_threadgroup);
        uint2 out = uint2(g.y * 8 + l.x, g.x * 8 + l.y);
        if (out.x < 13 && out.y < 20) y[out.y * 13 + out.x] = t[l.x][l.y];
        y1[in.y * 24 + in.x] = simd_sum(int(l.x)) + int(thread_index_in_threadgroup) * 1000;
        """, {"x": normal(13, 20)}, (((20, 13), F), ((16, 24), S)), (24, 16, 1), (8, 8, 1),
    ),
    "vectors with all names": flat(
        """
        uint i = thread_position_in_grid.x;
        float4 c = float4(x[i], 1, 2, 3);
        c.rgb = c.bgr; c.a *= 2; c.xz = float2(c.w); c[1] = 9; c.yw += c.ww;
        int3 v = int3(i, 2, 3) % 3; v.xy += 1; v = -v; v = v & 7; v = max(v, 2);
        uint2 s = uint2(i) >> uint2(1, 2);
        bool4 m = c > 2.0f; m.x = !m.x;
        y[i] = c.x + c.y * 10 + c.z * 100 + c.w; y1[i] = v.x * 100 + v.y * 10 + v.z; y2[i] = s.x + s.y;
        y3[i] = all(m) + any(m) * 2 + m.y * 4;
        float3 n = normalize(float3(x[i], 0.5, 1)), r = reflect(float3(0, 0, -1), n), p = c.xyz;
        y4[i] = dot(r, cross(n, float3(0, 1, 0))) + length(fract(p)) + distance(p.xy, p.yz) + min3(p.x, p.y, p.z);
        packed_float3 q = packed_float3(n); y4[i] += float3(q).y;
        """, X, (F, S, U, S, F), tol=1e-5,
    ),
    "what a name hides": flat(
        """
        uint i = thread_position_in_grid.x;
        float x0 = x[i];
        { float x0 = 2; { int x0 = 3; y[i] = x0; } y[i] += x0; }
        if (float t = x0; t > 0) y[i] += t; else y[i] -= t;
        for (int i = 0; i < 2; i++) y[thread_position_in_grid.x] += i;
        auto f = [&](auto v) { x0 += v; return x0; };
        y1[i] = f(1) + f(2.5f) + x0;
        auto copy = [x0](float a) mutable { return a + x0; };
        x0 = 100;
        y1[i] += copy(1);
        using namespace detail;
        y2[i] = detail::twice(3) + twice(4) + metal::abs(-2);
        """, X, (F, F, S), tol=1e-5, header="namespace detail { inline int twice(int a) { return 2 * a; } }",
    ),
    "base classes and conditional arguments": flat(
        """
        uint i = thread_position_in_grid.x;
        Derived made(x[i]), plain;
        y[i] = made.a + made.b * 10 + made.twice() + plain.a + plain.b;
        y1[i] = times<LIMIT == 3 ? 5 : 7>(i) + times<(LIMIT > 3) ? 2 : LIMIT < 2 ? 4 : 6>(1);
        """, X, (F, S), header="""
            constant int LIMIT = 3;
            struct Base { float a = 3; Base() {} Base(float v) : a(v + 1) {} float twice() { return 2 * a; } };
            struct Derived : public Base { float b = 4; Derived() {} Derived(float v) : Base(v * 2), b(5) {} };
            template <int K> int times(int v) { return K * v; }
        """,
    ),
}  # fmt: skip
