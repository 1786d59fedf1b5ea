"""Sizes of arrays at which another way to compute pays off.

Many ops share one size, because the reason is the same: the fixed time of a call, or the size of a cache. An op gets a
separate size only if it gains 5 % in a benchmark.
"""

from __future__ import annotations

VECTOR_ELEMENTS = 16
"""The number of float32 elements that one vector instruction takes.

- C reduces an axis before a last axis of up to this length (the sum of 100 000 rows of 3: 55 us, NumPy 1100; of 1000
  times 50 rows of 16: 120 us, NumPy 850).
- NumPy computes maxima of rows of up to this length by columns.
- Scans and sums of at least this many adjacent lines add whole lines to each other (the gradient of cumsum along the
  columns of 1000x1000: 0.6 ms instead of 2.3, and 90 ms to compile instead of 300).
"""

MANY_ROWS = 256
"""The number of rows, or of elements of a row, from which one call of NumPy for all rows pays off. It does more work
than a call for each row, but takes less time.

- Sums of short rows.
- Scans of lines that are not contiguous (cumsum of 128 lines of 256: 0.16 ms in one call, 0.26 ms line by line; of 64
  lines 0.16 and 0.05 ms).
- Updates of rows shorter than this (100 rows of 128 elements: 28 us in one call, 51 us row by row; of 256 50 and 49).
- Sorts by integers that combine key and index.
- Random words that are made in pairs.
- A Python loop of `math.erf` takes no longer than a fitted function in NumPy up to this size (8 numbers: 1.3 and 13 us;
  48: 4 and 14; 128: 9 and 14).
"""

FEW_ELEMENTS = 1 << 10
"""The number of elements or steps up to which a Python loop, or a sum of terms in order, replaces another algorithm.

- Small products whose terms are added in order (`ORDERED_TERMS`), and draws of a vmap in NumPy.
- Scans in one piece. A cumprod of a million elements in one piece runs twice as long as over pairs, but its gradient
  compiles in 0.8 s instead of 3.5.
"""

MANY_ELEMENTS = 1 << 12
"""The number of elements from which a better algorithm is worth its fixed time of a few microseconds.

- A search for a maximum in two passes takes a fifth of the time of XLA's argmax.
- `where` by bits takes 0.5 ms for a million floats and a mask without a pattern; `np.where` takes 4.3 ms.
- A partition does not sort all elements.
- C multiplies by a matrix of half precision as it is stored (one row, us in C and in NumPy: 16x16 3.0, 2.1 to 3.1;
  64x64 3.6, 4.0; 4096x4096 900, 6600; in float16 900, 24000).
- Windows over a constant are computed in the run: XLA's constant folding takes 20 us for each element of a running
  product.
"""

CACHED_ELEMENTS = 1 << 13
"""The number of elements that pass together through all steps of a long NumPy computation; they fit into a cache."""

SEPARATE_ELEMENTS = 1 << 15
"""The number of elements from which a result is worth a separate loop, and up to which NumPy keeps a result instead of
computing it again.

- Sums of rows as products, repeated costly operands (`REPEATED_TIMES`), angles of `rope`, and gathered matrices.
- Scans over pairs or in steps. Over pairs, a cumsum of a million elements takes 2.3 ms instead of 3.7, and a cummax 3.2
  ms instead of 11, with half a second more to compile. In steps, cumprod and logcumsumexp of 1000 rows compile in a
  third of the time of pairs. For 512 by 1024 elements, cumsum took twice as long in steps as over pairs.
"""

BLOCK_ELEMENTS = 1 << 17
"""The number of elements of a block of a long computation, half a megabyte of float32.

- Blocks of a reduction.
- Blocks of a quantization of some 30 NumPy calls (9 million numbers to 4 bits: 60 ms; 94 ms with 1 << 13; 190 ms in one
  block).
- Up to this size, a Python loop over float64 numbers takes less time than a compile.
"""

LARGE_ELEMENTS = 1 << 18
"""The number of elements of a megabyte of float32.

- Up to this size, a vector is multiplied as a matrix of two equal rows or columns, so that BLAS adds in the same order
  as for matrices. (It takes 2 us more; for 1024x1024, 5 to 13 times as long.)
- From this size, NumPy's error function is divided among threads.
- From this size, C computes chains of elementwise ops. (Eight ops on a million floats: 0.9 ms, NumPy 3.2; a step of
  AdamW on 30 matrices of 1000x1000: 68 ms, NumPy 190. Two ops on 130 000 floats: as long as in NumPy.)
- From this size, a long reduction goes in stages. (With a sixteenth of it, a GPT step took half as long again.)
"""

HUGE_ELEMENTS = 1 << 20
"""The number of elements from which a reduction goes block by block. Also the largest number of elements of a matrix
that is transposed, by a copy, before a product."""

CALL_BYTES = 1 << 14
"""The size up to which the fixed time of a call is most of an op's time.

- A single op up to this size always runs on the host (NumPy adds two arrays of 8x8 in 0.3 us; the call of an XLA
  executable takes 7 us).
- A copy costs less than `np.broadcast_to`.
- An array is made contiguous before its sum (7 us instead of 2).
- A program that reads or returns a larger array is heavy.
"""

CACHED_BYTES = 1 << 15
"""The size from which memory that is not in a cache costs time.

- A transposed array is copied in tiles (128x128: 2.4 us, NumPy 10; 64x64: 1.0 us, NumPy 1.6).
- A result overwrites an operand that has no other reader (60 elementwise ops on 10 000 floats: 160 us, with new arrays
  182; on a million floats 11.8 and 15.5 ms).
"""

SMALL_BYTES = 1 << 16
"""The size up to which an array is small: ops that read only small arrays run better in NumPy. Larger arrays are copied
such that XLA can use them without another copy. They are also donated, since the search for their owners takes less
time than a copy."""

COUNTED_BYTES = 1 << 18
"""The size from which values are always counted as memory in use; smaller ones only once a program asks for the number.
Counting takes 0.5 us, and making an array of this size 30 us."""

LARGE_BYTES = 1 << 20
"""The size of memory that comes from the system page by page.

- An input of this size that only elementwise ops read is donated on a CPU, too: XLA fills new memory more slowly than
  it overwrites old memory. (An AdamW step of 30 arrays of 4 MB: 25 ms, donated 18; of one array of 120 MB 96 and 11.)
- `mx.eval` lets the background thread read such an array from its file. (`load` of mlx-lm: 1000 ms when it read all
  arrays, 90 ms now.)
- Two threads read such an array. (1 GB of arrays of 9 MB: 2.2 to 4.5 s by one thread, 1.4 to 2.5 s by two.)
"""

PIECE_BYTES = 1 << 24
"""The size of a piece of a computation whose whole could be too large for memory.

- Pieces of a file that Python opened, and of patches of a convolution in NumPy.
- Attention scores, in tiles of half this size (8 heads of 64, 1500 by 1500: 107 ms at once, 50 in tiles; 12 heads, 1024
  by 1024, causal: 72, 35; 12 heads, 256 by 256: 2.1, 2.3).
"""

FREED_BYTES = 1 << 25
"""The bytes of an array, or of several arrays, whose memory goes back to the system.

- An array of this size gets separate memory pages (glibc accepts no larger value).
- After as many freed bytes a garbage collection runs (it takes a second in a process with ten million objects).
- After as many bytes of NumPy's arrays are copied for XLA, the heap is trimmed.
"""
