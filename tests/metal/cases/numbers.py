"""Numbers: C's types, promotion, integer arithmetic, rounding, literals, casts, bits."""

from .case import DATA, case

__all__ = ["NUMBERS"]

_INTS = "iustcdlm"
_NAMES = {
    "i": "int32", "u": "uint32", "s": "int16", "t": "uint16", "c": "int8", "d": "uint8", "l": "int64", "m": "uint64",
    "f": "float32", "h": "float16", "b": "bfloat16", "o": "bool",
}  # fmt: skip
_METAL = {
    "i": "int", "u": "uint", "s": "short", "t": "ushort", "c": "char", "d": "uchar", "l": "long", "m": "ulong",
    "f": "float", "h": "half", "b": "bfloat16_t", "o": "bool",
}  # fmt: skip

# Pairs of integer types: the type in which an operation is computed, and the truncation of its result.
_MIXED = {
    f"integers {a}{b}": case(
        f"y[I] = {a}[I] + {b}[I]; y1[I] = {a}[I] * {b}[I] - {b}[I]; y2[I] = {a}[I] / ({b}[I] | 1);"
        f"y3[I] = {a}[I] % (({b}[I] & 63) + 1); y4[I] = {a}[I] < {b}[I]; y5[I] = ({a}[I] & {b}[I]) ^ ({a}[I] | 3);"
        f"y6[I] = {a}[I] >> ({b}[I] & 7); y7[I] = ~{a}[I] << 3; y8[I] = -{a}[I] - 1 > {b}[I] ? {a}[I] : {b}[I];",
        a + b if a != b else a,
        "int64 int64 int64 int64 bool int64 int64 int64 int64",
    )
    for a, b in ("iu", "us", "st", "tc", "cd", "dl", "lm", "mi", "ii", "uu", "ll", "mm", "cl", "ud", "ti", "sm")
}

_ROUNDED = {
    f"halves {a}{b}": case(
        f"{_METAL[a]} p = {a}[I]; {_METAL[b]} q = {b}[I]; y[I] = p * q + p; y1[I] = (p - q) * (p + q);"
        "y2[I] = p * 3 - q * 0.1f; p += q; p *= 2; p -= 0.3f; y3[I] = p; y4[I] = p < q; y5[I] = -p + 1;"
        "y6[I] = p > 0 ? p : -p; y7[I] = p * p * p - q;",
        a + b if a != b else a,
        f"{_NAMES[a]} float32 float32 {_NAMES[a]} bool float32 float32 float32",
        tol=1e-6 if "f" in (a, b) else 0.0,  # XLA may fuse a product and a sum of floats
    )
    for a, b in ("hh", "bb", "hf", "bf", "ff")
}

_CASTS = {
    f"cast to {b}": case(
        f"y[I] = {_METAL[b]}(f[I]); y1[I] = ({_METAL[b]})i[I]; y2[I] = static_cast<{_METAL[b]}>(l[I]); y3[I] = d[I];"
        f"y4[I] = {_METAL[b]}(h[I] * 4.0h); y5[I] = o[I];",
        "fildho",
        " ".join([_NAMES[b]] * 6),
        arrays={"f": abs(DATA["f"])} if b in "utdm" else None,
    )
    for b in "iustcdlmfho"
    if b not in "utdm"  # of negative floats that is undefined
}

NUMBERS = {
    **_MIXED,
    **_ROUNDED,
    **_CASTS,
    "casts to unsigned": case(
        """
            float a = fabs(f[I]); y[I] = uint(a); y1[I] = uchar(a); y2[I] = ushort(a); y3[I] = ulong(a);
            y4[I] = uint(i[I]);
        """,
        "fi", "uint32 uint8 uint16 uint64 uint32",
    ),
    "literals": case(
        "y[I] = f[I] + 1e-9 + 0.1; y1[I] = f[I] * 1e-3f; y2[I] = 0xFFu + I; y3[I] = 0x7fffffff + 1u; y4[I] = 'a' + 010;"
        "y5[I] = 1ul << 40; y6[I] = 0b101 + 1'000; y7[I] = h[I] + 0.5h; y8[I] = .5 + 2. + 1.e1; y9[I] = 4294967295;",
        "fh", "float32 float32 uint32 int64 int32 int64 int32 float16 float32 int64", tol=1e-7,
    ),
    "unsigned wraps": case("""
            y[I] = I - 1 > 5; y1[I] = I - 3; y2[I] = int(I) - 3; y3[I] = (I - 3) / 2;
        """, "", "bool uint32 int32 uint32"),
    "division": case("""
            y[I] = i[I] / 7; y1[I] = i[I] % 7; y2[I] = i[I] / -16; y3[I] = l[I] % 1000; y4[I] = s[I] / k[I] + 1;
        """, "ilsk",
        "int32 int32 int32 int64 int32", arrays={"k": abs(DATA["k"]) + 1}),
    "shifts": case(
        "y[I] = i[I] >> 5; y1[I] = u[I] >> 5; y2[I] = u[I] << k[I]; y3[I] = c[I] << 9; y4[I] = l[I] >> (k[I] * 6);"
        "y5[I] = d[I] >> k[I]; int v = i[I]; v >>= 3; v <<= 1; y6[I] = v;",
        "iukcld", "int32 uint32 uint32 int32 int64 int32 int32",
    ),
    "bits": case(
        """
            y[I] = popcount(u[I]); y1[I] = clz(u[I] >> k[I]); y2[I] = ctz(u[I] << k[I]);
            y3[I] = reverse_bits(u[I]); y4[I] = rotate(u[I], uint(k[I])); y5[I] = extract_bits(u[I], 3u, 7u);
            y6[I] = insert_bits(u[I], 5u, 4u, 6u); y7[I] = clz(0u) + ctz(0u); y8[I] = extract_bits(i[I], 3u, 7u);
            y9[I] = popcount(d[I]) + popcount(ulong(m[I]));
        """,
        "ukidm", "uint32 uint32 uint32 uint32 uint32 uint32 uint32 uint32 int32 uint32",
    ),
    "high products": case(
        """
            y[I] = mulhi(u[I], 0x9E3779B9u); y1[I] = mulhi(i[I], i[69 - I]);
            y2[I] = mulhi(m[I], m[69 - I]); y3[I] = mad24(k[I], k[I], 3); y4[I] = absdiff(i[I], i[69 - I]);
            y5[I] = addsat(i[I], i[69 - I]); y6[I] = hadd(u[I], 7u); y7[I] = subsat(u[I], u[69 - I]);
        """,
        "uimk", "uint32 int32 uint64 int32 uint32 int32 uint32 uint32",
    ),
    "halves of sums": case(
        "y[I] = hadd(m[I], m[69 - I]); y1[I] = rhadd(m[I], m[69 - I]); y2[I] = hadd(l[I], l[69 - I]);"
        "y3[I] = rhadd(i[I], i[69 - I]); y4[I] = hadd(c[I], c[69 - I]); y5[I] = rhadd(d[I], d[69 - I]);",
        "mlicd", "uint64 uint64 int64 int32 int8 uint8",
    ),
    "fused products": case(
        "float p = g[I] * f[I]; y[I] = fma(g[I], f[I], -p); y1[I] = fma(g[I], f[I], 3 * g[I]);"
        "y2[I] = fma(h[I], h[I], h[I]);",
        "gfh", "float32 float32 float16",
    ),
    "operators in words": case(
        "y[I] = (k[I] > 3 and not o[I]) or (k[I] xor 1) == 5; y1[I] = compl k[I] bitand 12; y1[I] or_eq 64;", "ko",
        "bool int32",
    ),
    "hash": case(
        """
            uint x = u[I] ^ 61u ^ (u[I] >> 16); x *= 9u; x ^= x >> 4; x *= 0x27d4eb2du; x ^= x >> 15;
            y[I] = x; ulong s = ulong(x) * 6364136223846793005ul + 1442695040888963407ul;
            y1[I] = uint(((s >> 18) ^ s) >> 27); y2[I] = s;
        """,
        "u", "uint32 uint32 uint64",
    ),
    "as_type": case(
        """
            y[I] = as_type<uint>(g[I]); y1[I] = as_type<float>(u[I] & 0x3fffffffu);
            y2[I] = as_type<ushort>(h[I]); y3[I] = as_type<half2>(u[I] & 0x3bff3bffu).y;
            y4[I] = as_type<uint>(half2(h[I], half(1)));
            y5[I] = as_type<uchar4>(u[I]).z; y6[I] = as_type<int2>(l[I]).y; y7[I] = as_type<long>(int2(k[I], 1));
        """,
        "guhlk", "uint32 float32 uint16 float16 uint32 uint8 int32 int64",
    ),
    "bfloat by hand": case(
        """
            y[I] = as_type<float>(uint(t[I] & 0x3fff) << 16);
            uint b = as_type<uint>(g[I]); y1[I] = ushort((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
            y2[I] = bfloat16_t(g[I]); y3[I] = float(bfloat16_t(g[I]));
        """,
        "tg", "float32 uint16 bfloat16 float32",
    ),
    "increments": case(
        """
            int a = k[I]; int q = a++ + 2; int r = --a * 3; y[I] = a; y1[I] = q; y2[I] = r; uchar w = d[I]; w++;
            y3[I] = w; float e = f[I]; e--; y4[I] = e++ + ++e;
        """, "kdf", "int32 int32 int32 uint8 float32",
    ),
    "logic": case(
        """
            bool a = o[I], q = f[I] > 0; y[I] = a && q || !a; y1[I] = a + q; y2[I] = !k[I];
            y3[I] = a ? 1.5f : k[I]; y4[I] = a & !q; bool z = k[I]; y5[I] = z; y6[I] = a ^ true;
        """,
        "ofk", "bool int32 bool float32 bool bool bool",
    ),
    "comma and conditional": case(
        """
            int a, q; a = 1, q = a + k[I]; y[I] = (a += 2, a * q);
            y1[I] = k[I] > 5 ? k[I] > 7 ? 1 : 2 : k[I] > 2 ? 3 : 4;
        """, "k", "int32 int32",
    ),
    "constants": case(
        """
            y[I] = M_PI_F + INFINITY; y1[I] = isnan(NAN) + FLT_MAX; y2[I] = INT_MAX; y3[I] = UINT_MAX;
            y4[I] = FLT_EPSILON; y5[I] = true; y6[I] = INT_MIN; y7[I] = M_E_F + M_LN2_F; y8[I] = -FLT_MIN;
        """, "", """
            float32 float32 int32 uint32 float32 int32 int32 float32 float32
        """,
    ),
    "sizeof": case("""
            y[I] = sizeof(float) + 10 * sizeof(f[I]) + 100 * sizeof(float3) + 1000 * sizeof(half) + sizeof(1.0);
        """, "f", "int32"),
    "complex": case(
        """
            complex64_t a = z[I], q = z[69 - I]; y[I] = a * q + a; y1[I] = a - q;
            y2[I] = complex64_t(a.real, -a.imag); y3[I] = a.real * q.imag;
        """,
        "z", "complex64 complex64 complex64 float32", tol=1e-6,
    ),
    "enumerations and typedefs": case(
        """
            typedef float real; using index = uint; enum { A = 3, B, C = 10 }; constexpr int N = A + B;
            real r = f[I]; index j = I + N; y[I] = r * N + C; y1[I] = j; const auto w = j * 2; y2[I] = w;
            decltype(r) v = r; y3[I] = v;
        """, "f", "float32 uint32 uint32 float32",
    ),
}  # fmt: skip
