"""Control flow: branches, loops whose length differs from thread to thread, early returns, switches."""

from .case import case

__all__ = ["CONTROL"]

CONTROL = {
    "branches": case(
        """
            float v = 1; if (f[I] > 0) v = 2; else if (f[I] < -5) { v = 3; if (k[I] > 5) v += 10; } else v *= 4;
            y[I] = v; if (k[I] & 1) { y1[I] = 7; }
        """,
        "fk", "float32 int32",
    ),
    "early return": case("""
            if (k[I] > 6) return; y[I] = 1; if (k[I] > 3) { y[I] = 2; return; } y[I] = 3;
        """, "k", "int32", init=-1),
    "no thread stays": case("if (I >= 0) { y[I] = 4; return; } y[I] = 5;", "", "int32"),
    "loops": case(
        """
            float t = 0; for (int j = 0; j < 8; j++) t += f[(I + j) % 70]; y[I] = t; int n = 0, w = k[I];
            while (w > 0) { w /= 2; n++; } y1[I] = n; int m = 0; do { m += 3; } while (m < k[I]); y2[I] = m;
            for (uint j = I; j < 70; j += 16) y3[I] += j; int q = 0; for (;;) { if (++q > k[I]) break;
            } y4[I] = q;
        """, "fk", "float32 int32 int32 int32 int32",
    ),
    "backwards": case("""
            int t = 0; for (int j = k[I]; j >= 0; --j) t = t * 3 + j; y[I] = t; uint s = 64; uint c = 0;
            while (s >>= 1) c += s & I; y1[I] = c;
        """, "k", "int32 uint32"),
    "divergent nests": case(
        """
            int t = 0; for (int a = 0; a < k[I]; a++) { for (int q = a; q < k[69 - I]; q += 2) {
            if (q == 5) continue; if (t > 60) break; t += q * a + 1; } if (t % 11 == 3) break; t++; } y[I] = t;
        """, "k", "int32",
    ),
    "return within loops": case(
        """
            int t = 0; for (int a = 0; a < 6; a++) { for (int q = 0; q < a; q++) { t += q; if (t > k[I] * 3) {
            y[I] = t * 100 + a; return; } } } y[I] = t;
        """, "k", "int32", init=-5,
    ),
    "continue in a while": case(
        """
            int j = 0, t = 0; while (j < 12) { j++; if (j % 3 == k[I] % 3) continue; t += j; } y[I] = t; j = 0;
            do { j++; if (j == 2) continue; t += 100; } while (j < k[I]); y1[I] = t;
        """,
        "k", "int32 int32",
    ),
    "switch": case(
        """
            int v = 0; switch (k[I]) { case 0: v = 1; break; case 1: case 2: v = 2; break; case 3: v = 10;
            case 4: v += 3; break; case 9: return; default: v = 9; } y[I] = v; switch (I & 1) {
            case 0: y1[I] = 5; }
        """, "k", "int32 int32", init=-1,
    ),
    "declared in conditions": case("""
            int a = 5; { int a = k[I]; a += 1; y[I] = a; } y1[I] = a; for (int a = 0, q = 9; a < q;
            a++, q--) y2[I] += a * q;
        """, "k", "int32 int32 int32"),
    "what a condition excludes is not read": case(
        """
            int j = k[I] - 3; y[I] = j >= 0 && f[j] > 0; y1[I] = j >= 0 ? f[j] : -1; y2[I] = j < 0 || f[j] > 1;
            if (j >= 0) y3[I] = f[j];
        """, "kf", "bool float32 bool float32",
    ),
    "binary search": case(
        """
            int low = 0, high = 70; while (low < high) { int mid = (low + high) / 2;
            if (mid * mid < k[I] * 50) low = mid + 1; else high = mid; } y[I] = low;
        """, "k", "int32",
    ),
    "bubble sort": case(
        """
            float v[6]; for (int j = 0; j < 6; j++) v[j] = f[(I * 3 + j) % 70]; for (int a = 0; a < 6;
            a++) for (int q = 0; q + 1 < 6 - a; q++) if (v[q] > v[q + 1]) {float t = v[q]; v[q] = v[q + 1];
            v[q + 1] = t; } for (int j = 0; j < 6; j++) y[I] = y[I] * 0.5f + v[j];
        """, "f", tol=1e-6,
    ),
    "newton": case("""
            float x = p[I] * 9, r = 1; for (int j = 0; j < 40; j++) { float n = 0.5f * (r + x / r);
            if (fabs(n - r) < 1e-6f) break; r = n; } y[I] = r;
        """, "p", tol=1e-5),
    "collatz": case("""
            uint n = k[I] + 7, c = 0; while (n != 1) { n = n & 1 ? 3 * n + 1 : n / 2; c++; } y[I] = c;
        """, "k", "uint32"),
}  # fmt: skip
