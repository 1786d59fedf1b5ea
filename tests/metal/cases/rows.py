"""Indices whose base is known modulo a number: rows chosen by data, counters of loops that are divided."""

from __future__ import annotations

import numpy as np

from .case import RNG, U, case

__all__ = ["ROWS"]

_X = {"x": RNG.integers(-50, 50, 96).astype(np.float32)}
_ODD = {"x": RNG.integers(-50, 50, 73).astype(np.float32)}
_AT = {"at": np.array([3, 0, 7, -1, 8, 2, 2, 5], np.int32)}
_WRAPS = {"at": np.array([1, 0, 2**32 - 1, 4, 2**31, 2, 6, 5], U)}
_P = "uint c = I % 12, r = I / 12;"

ROWS = {
    "rows chosen by data": case(
        _P + "int row = at[r]; y[I] = row >= 0 && row < 8 ? x[row * 12 + c] : -1; y1[I] = row == 3 ? x[row * 12 + 3] : 0;",
        "", "float32 float32", arrays={**_X, **_AT}, size=96,
    ),
    "rows of unsigned numbers that wrap around": case(
        _P + """
            uint first = (at[r] + 1) * 12; if (first < 84) y[I] = x[first + c];
            y1[I] = at[r] * 12 % 12 + at[r] * 12 / 12 % 100;
        """,
        "", "float32 float32", arrays={**_X, **_WRAPS}, size=96, init=0,
    ),
    "rows that fill no whole number of rows": case(
        _P + "int j = abs(at[r]) % 6 * 12 + 4 + c / 2; y[I] = x[j % 73]; if (j < 73) y1[I] = x[j];",
        "", "float32 float32", arrays={**_ODD, **_AT}, size=96, init=0,
    ),
    "writes of rows": case(
        _P + "if (r == 2 || r > 5) return; uint to = (r * 5 % 8) * 12; y[to + c] = x[I]; y1[to + 11 - c] = x[I];",
        "", "float32 float32", arrays=_X, size=96, init=0,
    ),
    "atomic rows": case(
        _P + """
            int to = abs(at[r]) % 4 * 12; atomic_fetch_add_explicit(&y[to + c], x[I], memory_order_relaxed);
            if (c > 2) atomic_fetch_add_explicit(&y[to + c], 1.0f, memory_order_relaxed);
        """,
        "", "float32", arrays={**_X, **_AT}, size=96, init=0, atomic_outputs=True,
    ),
    "a divided counter": case(
        """
            uint q = thread_position_in_threadgroup.x; float total = 0;
            for (uint j = q; j < 96; j += 32) total += x[j / 8 * 8 + (j + 1) % 8] * (j / 4) + j % 16;
            for (uint j = q + 5; j < 90; j += 8) total += x[j / 8 * 8 + j % 8];
            y[I] = total;
        """,
        "", "float32", arrays=_X, size=64,
    ),
    "a divided counter of unknown length": case(
        """
            uint j = I % 8; float total = 0; int most = at[I % 8] + 3;
            while (int(j / 8) < most) { total += x[j / 8 % 12 * 8 + j % 8] * (j / 16); j += 24; }
            y[I] = total;
        """,
        "", "float32", arrays={**_X, **_AT}, size=64,
    ),
    "a counter in a narrow type": case(
        """
            int total = 0;
            for (int k = 0; k < 40; k++) {
                ushort u = ushort(k * 1048576 + 70000), v = ushort(k * 98304 + 40000); short s = short(k * 24576 + 5);
                total += u / 16 + u % 16 + v / 24 + v % 24 + s / 3 + s % 3;
            }
            y[I] = total + I;
        """,
        "", "int32", size=32,
    ),
}  # fmt: skip
