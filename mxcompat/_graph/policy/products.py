"""Thresholds between several ways to compute matrix products."""

from __future__ import annotations

STORED_ROWS = 32
"""The number of rows up to which XLA's programs call C for this. (By the transpose of 4864x896 in bfloat16, ms in XLA's
code and in C, on a busy machine: 1 row 2.4, 0.3; 8 4.2, 1.1; 16 3.6, 2.6; 24 4.1, 3.5; 32 4.8, 4.9; 256 17, 30.)

Products of bfloat16 by a transposed matrix have no limit on processors with AMX. (The same matrix, ms of a processor's
time in C without AMX and with it, on a busy machine: 1 row 0.54, 0.55; 8 1.7, 0.7; 32 4.7, 1.1; 256 32, 7.2.)"""

TRANSPOSED_ROWS, MOST_TRANSPOSED = 8, 1 << 20
"""The number of rows from which (with `MANY_ELEMENTS` products of two elements) a product that sums over the first axes
uses the transposed matrix on a CPU; and the largest such matrix.

The four products in the gradient of an MLP of width 32, with 32 examples, take 4 us less of 100; those of width 16, 7
us less of 88. XLA computes fewer than 1000 operations at once in the caller's thread. One more takes three times as
long, since it wakes another thread.
"""

TRANSPOSED_LENGTH, TRANSPOSED_COLUMNS = 256, 512
"""The length of a sum up to which this pays off for any number of columns, and the number of columns from which it does
for longer sums.

256x64 by 256x256 takes 143 us instead of 171, and 1024x32 by 1024x512 takes 296 us instead of 459. But 1024x64 by
1024x128 takes 279 us instead of 221.
"""

DIVIDED_PRODUCTS, PARTS_PER_THREAD, PART_MULTIPLE = 1 << 25, 2, 64
"""The number of multiplications from which NumPy's product is divided among threads; the number of parts for each
thread, so that an interrupted thread delays the others little; and the multiple of rows or columns of a part.

Measured in milliseconds: one thread, these parts, and two threads of OpenBLAS took 24, 17 and 12 for 512x768 by
768x3072, and 394, 204 and 204 for 512x768 by 768x50257, on two free cores. While other processes took one core, the
first product took 24, 26 and 29 to 39; while they took three quarters of both cores, 47, 49 and 84.
"""
