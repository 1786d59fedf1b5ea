"""Thresholds between several algorithms for the same op."""

from __future__ import annotations

ORDERED_TERMS = 4
"""The number of terms of a sum up to which a small product (`FEW_ELEMENTS` sums) adds the terms in order and rounds
each, as MLX does. It takes NumPy 5 us more for two matrices of 4x4, and 23 us for 1000 points."""

SHORT_ROW = 8
"""The largest length of a short row. Short rows are computed column by column.

- Sums and products of at least `MANY_ROWS` rows (40 000 rows, us by columns and in NumPy: rows of 2: 20, 440; rows of
  7: 100, 540). NumPy adds rows of nine and more elements in another order.
- Maxima and minima, up to `VECTOR_ELEMENTS` instead (rows of 2: 17, 1070; rows of 16: 310, 3260).
- Scans of many rows.
- Elementwise ops on two arrays that broadcast differently, up to half this length (differences of 200 points with 2
  coordinates: 80, 280; 200 by 200 points with 2 coordinates: 79, 345; with 4: 168, 375; with 8: 515, 417).

A transposed array is copied in tiles if both axes have at least half this length (4096x100 floats: 50 us, NumPy 245).
"""

PARTITIONED_SHARE = 1 / 16
"""A partition of a long axis does not sort the whole axis if at most this share of the axis is on one side of it."""

COMPILED_SETTINGS = 8
"""The largest number of different settings of one optimizer, or of numbers of one loss, that are compiled."""

STEPPED_LINE = 1 << 21
"""The length of a single line up to which a scan is compiled in steps. A cumsum of a million elements takes 1.1 ms with
and without steps, and 0.12 s to compile instead of 0.42. A cumsum of four million takes 8 to 11 ms instead of 4.4."""

MOST_SLICES = 64
"""The number of overlapping windows or frames up to which they are cut out as slices, which XLA fuses. More are
gathered or scattered, which compiles faster."""

UNROLLED = 9
"""A reduction over several axes is unrolled on a CPU if each result has at most `UNROLLED` operands, and if the array
has at least `MANY_ELEMENTS` elements.

Otherwise XLA's own reduction is as fast (maxima of 2x2 neighbours of 400 000 elements: 0.12 ms unrolled, 0.3 ms if XLA
fuses them with other ops).
"""

COSTLY = 16
"""The number of operations for an element from which the operand of a broadcast counts as costly. A cosine or an
exponential always counts as costly. With 8 to 24 here, steps of nine convolutional nets took 0.75 to 1 of the time
without this rule; with 6, they took as long as without it."""

REPEATED_TIMES = 4
"""The number of times from which computing an operation again is too slow, on a CPU.

- A costly operand (`COSTLY`) is computed separately if its broadcast result has at least this many elements for each of
  its own, and at least `SEPARATE_ELEMENTS` in all.
- A long chain of elementwise operations is cut if fusion would compute its operations more often than this on average.
  Values that take at most this many operations are recomputed instead.

A rotary embedding of 64 heads of 512x64 took 12 ms in XLA, which computes each cosine 64 times, and takes 0.9 ms now.
The gradient of a convolution after pooling, nine arrays that are padded and added, took 1.0 ms and takes 0.5 ms. If XLA
would have computed the operand separately anyway, the pass costs a copy of the operand.
"""

STAGE, LANES = 32, (8, 16, 4)
"""`STAGE` is the largest number of elements that a stage of a reduction combines; XLA splits longer reductions in its
own way. `LANES` are the possible numbers of partial sums, to which neighbouring elements are added in turn; the first
one that divides the number of elements is used.

Bytes are summed in 16 bits, in stages of the same size (134 million bytes, all elements, rows, columns in ms: 14, 15,
12 with 32; 56, 65, 12 without stages; 13, 16, 59 with 8; 14, 38, 10 with 128).

For two million floats in rows of 64 to 100 000, sums, maxima and sums of products take a third to two thirds of the
time. Sums of products over a middle axis take a tenth, and distances between points a thirtieth.
"""
