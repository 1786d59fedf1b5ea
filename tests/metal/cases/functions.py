"""Functions: Metal's own, by type; helpers of the header, macros, templates, structs, lambdas, overloads."""

from .case import DATA, case

__all__ = ["FUNCTIONS"]

_UNARY = [
    "exp", "exp2", "exp10", "log", "log2", "log10", "sqrt", "rsqrt", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "atanh",
]  # fmt: skip
_EXACT = ["floor", "ceil", "trunc", "round", "rint", "fabs", "abs", "sign", "saturate", "fract"]
_METAL = {"g": "float", "h": "half", "b": "bfloat16_t"}
_DTYPES = {"g": "float32", "h": "float16", "b": "bfloat16"}
_TOL = {"g": 3e-6, "h": 2e-3, "b": 1.6e-2}  # XLA's functions and the C library's differ by some units in the last place

_OF_TYPES = {
    f"functions of {_METAL[t]}": case(
        "".join(f"y{k or ''}[I] = metal::{name}({_METAL[t]}(p[I]));" for k, name in enumerate(_UNARY)),
        "p", " ".join([_DTYPES[t]] * len(_UNARY)), tol=_TOL[t],
    )
    for t in "ghb"
} | {
    f"exact functions of {_METAL[t]}": case(
        "".join(f"y{k or ''}[I] = {name}({t}[I] * 4);" for k, name in enumerate(_EXACT)),
        t, " ".join([_DTYPES[t]] * len(_EXACT)),
    )
    for t in "ghb"
}  # fmt: skip

_CHOSEN_BY_TRAITS = """
    template <typename T, enable_if_t<is_floating_point_v<T>, bool> = true> int kind(T) { return 1; }
    template <typename T, enable_if_t<is_integral_v<T> && sizeof(T) == 4, bool> = true> int kind(T) { return 2; }
    template <typename T, enable_if_t<is_integral_v<T> && sizeof(T) < 4, bool> = true> int kind(T) { return 3; }
    template <typename T, typename = enable_if_t<is_floating_point_v<T>>> int named(T) { return 4; }
    template <typename T, typename = enable_if_t<!is_floating_point_v<T>>, int = 0> int named(T) { return 5; }
    template <typename T> enable_if_t<is_floating_point_v<T>, T> half_of(T x) { return x * T(0.5); }
    template <typename T> typename enable_if<is_integral<T>::value, T>::type half_of(T x) { return x >> 1; }
    template <typename T> int given(enable_if_t<is_floating_point_v<T>, T> x) { return 6; }
    template <typename T> int given(enable_if_t<is_integral_v<T>, T> x) { return 7; }
"""
_SPECIAL = """
    template <typename T, int N> struct Count { static constexpr constant int value = 1; };
    template <typename T> struct Count<T, 4> { static constexpr constant int value = 2; };
    template <int N> struct Count<int, N> { static constexpr constant int value = 10 * N; };
    template <> struct Count<int, 4> { static constexpr constant int value = 3; };
    template <typename T> struct Of { static constexpr constant int value = 4; };
    template <typename T> struct Of<thread T*> { static constexpr constant int value = 5; };
    template <typename A, typename B> struct Both { static int same() { return 6; } };
    template <typename A> struct Both<A, A> { static int same() { return 7; } };
    template <typename T> struct Of<Both<T, T>> { static constexpr constant int value = 8; };
    template <typename T, typename Enable = void> struct Sign { T of(T x) const { return -x; } };
    template <typename T> struct Sign<T, enable_if_t<is_floating_point_v<T>>> { T of(T x) const { return x; } };
    template <typename T, int N> struct Power { static T of(T x) { return x * Power<T, N - 1>::of(x); } };
    template <typename T> struct Power<T, 0> { static T of(T x) { return T(1); } };
    struct Scaled { template <int N> float by(float x) const { return x * N; } };
    template <typename T> struct Held { T x; template <int N> T by() const { return x * N; } };
"""

FUNCTIONS = {
    **_OF_TYPES,
    "overloads that traits choose": case(
        """
            y[I] = kind(g[I]) + 10 * kind(k[I]) + 100 * kind(short(k[I]));
            y1[I] = named(g[I]) + 10 * named(k[I]);
            y2[I] = half_of(g[I]); y3[I] = half_of(k[I]); y4[I] = given<float>(1) + 10 * given<int>(1);
        """,
        "gk", "int32 int32 float32 int32 int32", header=_CHOSEN_BY_TRAITS,
    ),
    "specializations of struct templates": case(
        """
            y[I] = Count<float, 3>::value + 10 * Count<float, 4>::value;
            y1[I] = Count<int, 5>::value + 100 * Count<int, 4>::value;
            y2[I] = Of<float>::value + 10 * Of<thread float*>::value + 100 * Of<Both<int, int>>::value;
            y3[I] = Both<int, float>::same() + 10 * Both<int, int>::same();
            Sign<float> a; Sign<int> b; y4[I] = a.of(g[I]); y5[I] = b.of(k[I]);
            y6[I] = Power<float, 3>::of(f[I]);
            Scaled scaled; Held<float> held{g[I]}; y7[I] = scaled.by<3>(g[I]) + held.by<2>();
        """,
        "gkf", "int32 int32 int32 int32 float32 int32 float32 float32", header=_SPECIAL, tol=1e-6,
    ),
    "functions of two": case(
        """
            float a = p[I], q = g[I]; y[I] = pow(a, q); y1[I] = atan2(a, q); y2[I] = fmod(q * 9, a);
            y3[I] = copysign(a, q); y4[I] = step(a, q); y5[I] = fdim(a, q); y6[I] = powr(a, 2.0f);
            y7[I] = pow(q, 3.0f);
        """,
        "pg", "float32 float32 float32 float32 float32 float32 float32 float32", tol=3e-6,
    ),
    "exponents and order": case(
        """
            float z = I % 3 ? g[I] : NAN; y[I] = ilogb(g[I]); y1[I] = ilogb(h[I] * 1024.0h); y2[I] = ilogb(0.0f);
            y3[I] = ilogb(INFINITY); y4[I] = isordered(z, f[I]); y5[I] = isunordered(f[I], z);
            y6[I] = fmedian3(f[I], g[I], 0.1f); y7[I] = ilogb(g[I] * 1e-30f);
        """,
        "gfh", "int32 int32 int32 int32 bool bool float32 int32",
    ),
    "functions of three": case(
        """
            float a = p[I], q = g[I]; y[I] = mix(a, q, 0.25f); y1[I] = clamp(q, -0.5f, 0.5f);
            y2[I] = smoothstep(0.0f, 1.0f, q); y3[I] = fma(a, q, a); y4[I] = clamp(k[I], 2, 6);
            y5[I] = median3(k[I], 4, 7); y6[I] = max3(a, q, 0.1f); y7[I] = select(a, q, o[I]);
            y8[I] = min3(1, 2, k[I]);
        """,
        "pgko", "float32 float32 float32 float32 int32 int32 float32 float32 int32", tol=2e-6,
    ),
    "rounding": case(
        """
            float a = f[I] * 2; y[I] = rint(a); y1[I] = round(a); y2[I] = trunc(a); y3[I] = floor(a);
            y4[I] = ceil(a); y5[I] = int(a); y6[I] = rint(2.5f); y7[I] = round(-2.5f);
        """, "f", "float32 float32 float32 float32 float32 int32 float32 float32",
    ),
    "minimum and nan": case(
        """
            float a = f[I] > 0 ? NAN : f[I]; y[I] = min(a, 1.0f); y1[I] = max(a, -1.0f); y2[I] = fmin(2.0f, a);
            y3[I] = isnan(a); y4[I] = max(k[I], 5); y5[I] = min(u[I], 77u); y6[I] = isinf(a / 0.0f);
            y7[I] = isfinite(a); y8[I] = max(1.0f, a); y9[I] = a == a;
        """,
        "fku", "float32 float32 float32 bool int32 uint32 bool bool float32 bool",
    ),
    "decompositions": case(
        """
            float w; y[I] = modf(f[I], w); y1[I] = w; int e; y2[I] = frexp(f[I], e); y3[I] = e;
            y4[I] = ldexp(f[I], 3); float c; y5[I] = sincos(f[I], c); y6[I] = c; y7[I] = signbit(f[I]);
        """, "f", "float32 float32 float32 int32 float32 float32 float32 bool", tol=1e-6,
    ),
    "name spaces": case(
        """
            y[I] = metal::precise::exp(p[I]) + metal::fast::log(p[I]) + precise::sqrt(p[I]) + metal::max(p[I], 0.5f);
        """, "p", tol=3e-6,
    ),
    "integers' absolute values": case(
        "y[I] = abs(i[I]); y1[I] = abs(s[I]); y2[I] = abs(c[I]);", "isc", "int32 int32 int32",
    ),
    "helpers": case(
        """
            y[I] = area(p[I], 3) + twice(p[I]); int a = k[I], q = 7; swap(a, q); y1[I] = a * 100 + q;
            y2[I] = fact(k[I] % 5);
        """,
        "pk", "float32 int32 int32",
        header="""
            inline float area(float a, float b = 2.0f) { return a * b; }
            static inline float twice(const float a) { if (a > 0.5f) return a + a; return 2 * a; }
            inline void swap(thread int& a, thread int& b) { int t = a; a = b; b = t; }
            int fact(int n) { int r = 1; for (int k = 2; k <= n; ++k) { r *= k; } return r; }
        """,
    ),
    "returns within a helper": case(
        "y[I] = find(k[I], I % 7);", "k", "int32",
        header="""
            int find(int wanted, uint start) {
                for (uint j = start; j < 12; j++) {
                    if (j % 3 == 0) continue;
                    if (int(j) >= wanted) return int(j) * 10;
                    if (j == 10) break;
                }
                return -1;
            }
        """,
    ),
    "templates": case(
        """
            y[I] = pick<float, 3>(f[I]) + pick<half, 2>(1.3f); y1[I] = larger(k[I], 4);
            y2[I] = larger<float>(f[I], 2); y3[I] = N * D + (B ? 1000 : 0); T w = f[I] / 3; y4[I] = w;
            y5[I] = Sum<T, 2>::of(w);
        """,
        "fk", "float32 int32 float32 int32 float16 float32",
        template=[("T", "float16"), ("N", 3), ("D", -2), ("B", True)],
        header="""
            template <typename T, int N> inline T pick(T x) { T r = T(0); for (int k = 0; k < N; k++) r += x;
            return r; }
            template <typename T> T larger(T a, T b) { return a < b ? b : a; }
            template <typename T, int N> struct Sum { static T of(T x) { return x * T(N); } };
        """,
    ),
    "overloads": case(
        "y[I] = kind(1) + kind(1.0f) * 10 + kind(half(1)) * 100 + kind(uint(1)) * 1000 + kind(I) * 10000;", "", "int32",
        header="""
            inline int kind(int x) { return 1; } inline int kind(float x) { return 2; }
            inline int kind(half x) { return 3; } inline int kind(uint x) { return 4; }
        """,
    ),
    "structs": case(
        """
            Point a = {f[I], 2.0f}; Point q; q.x = 1; q.y = g[I]; Point r = add(a, q); y[I] = r.x * r.length2();
            Line line; line.from = a; line.to = q; line.to.x += 5; y1[I] = line.to.x + line.from.y;
            Point all[2] = {a, q}; y2[I] = all[k[I] & 1].x; q = a; y3[I] = q.x;
        """,
        "fgk", "float32 float32 float32 float32", tol=1e-6,
        header="""
            struct Point { float x; float y; float length2() const { return x * x + y * y; } };
            struct Line { Point from, to; };
            inline Point add(Point a, thread const Point& b) { Point r; r.x = a.x + b.x; r.y = a.y + b.y; return r; }
        """,
    ),
    "lambdas": case(
        """
            auto square = [](float x) { return x * x; }; float scale = 3; auto scaled = [&](float x) -> float {
            if (x < 0) return -scale; return scale * x; }; auto count = [&]() { scale += 1; };
            y[I] = square(f[I]); y1[I] = scaled(f[I]); count(); count(); y2[I] = scale;
        """, "f", "float32 float32 float32",
    ),
    "macros": case(
        """
            y[I] = SQUARE(f[I] + 1) + TWICE; ADD(y1[I], k[I]) y2[I] = CAT(va, lue); y3[I] = FOURTH(f[I]);
            #if LEVEL > 2 && defined(TWICE)
            y4[I] = 1;
            #elif LEVEL
            y4[I] = 2;
            #else
            y4[I] = 3;
            #endif
            #ifdef NOTHING
            y5[I] = 1;
            #else
            y5[I] = 2;
            #endif
            #undef TWICE
            #define TWICE 5
            y6[I] = TWICE;
            #if (D % 4)
            y7[I] = 1;
            #else
            y7[I] = 4;
            #endif
        """,
        "fk", "float32 int32 int32 float32 int32 int32 int32 int32", template=[("D", 3)],
        header="""
            #define SQUARE(x) ((x) * (x))
            #define FOURTH(x) SQUARE(SQUARE(x))
            #define TWICE (2 * 3)
            #define LEVEL 2
            #define ADD(where, what) \\
                for (int j = 0; j < 3; j++) { \\
                    if (j == 1) continue; \\
                    where += (what) + j; \\
                }
            #define CAT(a, b) a##b
            constant int value = 12;
        """,
    ),
    "tables": case(
        "y[I] = TABLE[k[I] & 3] * WEIGHT; y1[I] = GRID[I % 2][k[I] % 3]; y2[I] = N;", "k", "float32 int32 int32",
        header="constant float TABLE[4] = {1.0f, 2.5f, -3.0f, 4.0f}; constant constexpr float WEIGHT = 0.5f;"
        "constant int GRID[2][3] = {{1, 2, 3}, {4, 5, 6}}; static constant constexpr const int N = 6;",
    ),
    "prelude": case(
        """
            y[I] = Limits<float>::min; y1[I] = Limits<int>::max; y2[I] = ceildiv(I, 4u);
            y3[I] = elem_to_loc(I, x_shape, x_strides, x_ndim); float16_t q = float16_t(f[I]); y4[I] = q;
            y5[I] = Limits<half>::finite_max;
        """,
        "f", "float32 int32 uint32 int64 float16 float16", arrays={"x": DATA["g"].reshape(7, 10)},
    ),
    "more of the prelude": case(
        """
            y[I] = ceildiv(int(I), 2) - 9; y1[I] = sizeof(ceildiv(k[I], 2)) + sizeof(ceildiv(ulong(I), 2));
            y2[I] = x[elem_to_loc(uint3(I % 5, I % 2, I % 7), x_shape, x_strides, x_ndim)];
            y3[I] = elem_to_loc_2(uint2(I, 1), x_strides + 1) + elem_to_loc_3(uint3(I, 2, 3), x_strides);
            y4[I] = elem_to_loc_1<int>(I, x_strides[0]) + elem_to_loc<int>(I, x_shape, x_strides, x_ndim);
        """,
        "k", "float32 int32 float32 int64 int32", arrays={"x": DATA["g"].reshape(7, 2, 5)},
    ),
}  # fmt: skip
