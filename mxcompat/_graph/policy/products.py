"""Thresholds between several ways to compute matrix products."""

from __future__ import annotations

STORED_ROWS = 32
"""The largest number of rows of x for which XLA's programs call C to multiply x by a stored matrix. (By the transpose
of 4864x896 in bfloat16, ms in XLA's code and in C, on a busy machine: 1 row 2.4, 0.3; 8 4.2, 1.1; 16 3.6, 2.6; 24 4.1,
3.5; 32 4.8, 4.9; 256 17, 30.)

Products of bfloat16 by a transposed matrix have no limit on processors with AMX. (The same matrix, ms of a processor's
time in C without AMX and with it, on a busy machine: 1 row 0.54, 0.55; 8 1.7, 0.7; 32 4.7, 1.1; 256 32, 7.2.)"""

FEW_QUERIES = 16
"""The largest number of queries with the same keys for which C computes attention.

Microseconds in XLA's code and in C, float32 | bfloat16, on a busy machine with AMX:

- 8 heads with 4 heads of keys, 250 keys, 64 wide: 125, 28 | 158, 42
- 32 heads with 8, 3000 keys, 128 wide: 25 200, 3 490 | 4 100, 905
- 8 heads with 8, 8192 keys, 128 wide: 28 300, 4 300 | 44 600, 2 360
- 16 queries of 16 heads with 16, 512 keys, 64 wide: 1 371, 855 | 575, 829

For more queries, C's products of float32 were 0.4 to 2 times as fast as XLA's, and those of bfloat16 slower.
"""

TRANSPOSED_LENGTH, TRANSPOSED_COLUMNS = 256, 512
"""Limits for a product on a CPU that sums over the first axes of both matrices. The left one is transposed if the sum
has at most `TRANSPOSED_LENGTH` terms, or if the result has at least `TRANSPOSED_COLUMNS` columns.

256x64 by 256x256 takes 143 us instead of 171, and 1024x32 by 1024x512 takes 296 us instead of 459 (core time with JAX
0.12: 360 and 460, 1140 to 1510 and 1950). But 1024x64 by 1024x128 takes 279 us instead of 221.

The matrix is not transposed in three other cases: if it has fewer than `SHORT_ROW` columns (with 16 instead, a gradient
of the MLP of 32 took 247 us instead of 200); if it has more than `HUGE_ELEMENTS`; or if the product has fewer than
`MANY_ELEMENTS` multiplications, since XLA then computes it in the caller's thread.
"""

DIVIDED_PRODUCTS, PARTS_PER_THREAD, PART_MULTIPLE = 1 << 25, 2, 64
"""Sizes of the parts in which NumPy's product is divided among threads.

- DIVIDED_PRODUCTS: a product with this number of multiplications is divided.
- PARTS_PER_THREAD: the number of parts for each thread. With several, an interrupted thread delays the others little.
- PART_MULTIPLE: the number of rows or columns of a part is a multiple of this.

The table shows milliseconds on two cores. On busy cores, other processes take the given share of the time.

| product | cores | one thread | these parts | two threads of OpenBLAS |
|---|---|---|---|---|
| 512x768 by 768x3072 | free | 24 | 17 | 12 |
| 512x768 by 768x50257 | free | 394 | 204 | 204 |
| 512x768 by 768x3072 | one of two is busy | 24 | 26 | 29 to 39 |
| 512x768 by 768x3072 | both are busy by three quarters | 47 | 49 | 84 |
"""

KERNEL_ROWS = 16
"""The largest number of rows of x that a kernel in Pallas multiplies by a quantized matrix, on a GPU or TPU. None of
the numbers for this kernel is measured, for want of a device. They follow from the sizes of registers and memories."""

TPU_TILE, TPU_WORDS, TPU_UNEVEN = 128, 4096, 256
"""Sizes of the kernel on a TPU.

- TPU_TILE: the number of columns of the result for each program of the kernel. A program also reads this many words of
  a row at a time, because a vector register has 128 lanes.
- TPU_WORDS: the largest number of words in a row. Two blocks of 128 such rows, of 2 MB each, and the other arrays fit
  the 16 MB that a kernel may use.
- TPU_UNEVEN: the largest number of words in a row that is no multiple of `TPU_TILE`. It is read in one piece.
"""

GPU_WORDS, GPU_COLUMNS = (16, 128), (4, 16)
"""Ranges on a GPU: for the words of a row that the kernel reads at a time (64 to 512 bytes), and for the columns of the
result for each program."""

GPU_SUMS, GPU_WARPS = 64, 4
"""Sizes of the kernel on a GPU.

- GPU_SUMS: up to this number of rows times columns, a program has more than the fewest columns. A thread then has 64
  sums in registers.
- GPU_WARPS: the number of warps of a program.
"""
