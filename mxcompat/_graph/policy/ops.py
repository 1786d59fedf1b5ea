"""Thresholds between several algorithms for the same op."""

from __future__ import annotations

ORDERED_TERMS = 4
"""The number of terms of a sum up to which a small product (`FEW_ELEMENTS` sums) adds the terms in order and rounds
each, as MLX does. It takes NumPy 5 us more for two matrices of 4x4, and 23 us for 1000 points."""

SHORT_ROW = 8
"""The row length up to which rows are reduced column by column, if there are more than `MANY_ROWS` (maxima and minima:
`VECTOR_ELEMENTS`). Half of it is the longest row of two arrays that broadcast differently and are combined in this way
(200 by 200 points, us by columns and in NumPy: 2 coordinates 79, 345; 4 168, 375; 8 515, 417), and the number of
elements along both axes from which a transposed array is copied in tiles (4096x100 floats: 50 us, 245 us in NumPy).

The sums of 40 000 rows of 2 take 20 us, and of 7 100 us; NumPy takes 440 and 540 us, and adds nine and more in another
order. The maxima of rows of 2 and of 16 take 17 and 310 us (1070 and 3260 us). The differences of 200 points with 2
coordinates take 80 us (280 us).
"""

PARTITIONED_SHARE = 1 / 16
"""The share of a long axis up to which a partition does not sort everything, if no more is on one side."""

COMPILED_SETTINGS = 8
"""The number of settings of one optimizer, or of numbers for one loss, that are worth a compile."""

STEPPED_LINE = 1 << 21
"""The length of a single line up to which a scan is compiled in steps. A cumsum of a million takes the same, 1.1 ms,
and 0.12 s to compile instead of 0.42. One of four million takes 8 to 11 ms instead of 4.4."""

MOST_SLICES = 64
"""The number of overlapping windows or frames up to which they are cut out as slices, which XLA fuses. More are
gathered or scattered, which compiles faster."""

UNROLLED = 9
"""A reduction over several axes is unrolled on a CPU if each result has at most `UNROLLED` operands, and if the array
has at least `MANY_ELEMENTS` elements.

XLA reduces more operands, or a single axis, just as fast without it (maxima of 2x2 neighbours of 400 000 elements: 0.12
ms unrolled, 0.3 ms if XLA fuses them with other ops).
"""

COSTLY = 16
"""The number of operations from which a value that is broadcast counts as costly. A cosine or an exponential always
does. Steps of nine convolutional nets took 0.75 to 1 of their time with 8 to 24 here, and the old time with 6."""

REPEATED_TIMES = 4
"""The number of results for each element of a costly operand from which it is computed separately on a CPU, if the
broadcast result has `SEPARATE_ELEMENTS`. A long chain is cut if XLA would compute its operations as often, but values
that take at most as many operations are recomputed.

A rotary embedding of 64 heads of 512x64 took 12 ms in XLA, which computes each cosine 64 times, and takes 0.9 ms now.
The gradient of a convolution after pooling, nine arrays that are padded and added, took 1.0 ms and takes 0.5 ms. If XLA
would have kept them separate anyway, the call costs a copy of the operand.
"""

STAGE, LANES = 32, (8, 16, 4)
"""`STAGE` is the largest number of elements in a stage of a reduction; XLA splits longer ones in its own way. `LANES`
are the numbers of sums for neighbours; the first that divides their number is used. Bytes are summed in 16 bits in
stages of the same size (134 million bytes, all elements, rows, columns in ms: 14, 15, 12 with 32; 56, 65, 12 without
stages; 13, 16, 59 with 8; 14, 38, 10 with 128).

For two million floats in rows of 64 to 100 000, sums, maxima and sums of products take a third to two thirds of the
time. Sums of products over a middle axis take a tenth, and distances between points a thirtieth.
"""
