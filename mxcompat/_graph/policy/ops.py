"""Thresholds between several algorithms for the same op."""

from __future__ import annotations

ALIGNED_BYTES = 1 << 16
"""The size from which a copy is aligned such that XLA can use it without another copy."""

CHUNK_BYTES = 1 << 24
"""The number of bytes that are read together from a file that Python opened."""

READ_IN_TWO_BYTES = 1 << 22
"""The size from which an array is read from its file by two threads. 1 GB of arrays of 9 MB took 2.2 to 4.5 s by one
thread and 1.4 to 2.5 s by two, on a busy machine; most of it is for new memory."""

READ_AHEAD_BYTES = 1 << 20
"""The size from which `mx.eval` lets the background thread read an array from its file. (Of 988 MB of Qwen2's weights,
14 MB are in smaller ones. `load` of mlx-lm took 1000 ms when it read all, and takes 90 now.)"""

COPIED_BYTES = 1 << 14
"""The size up to which a copy costs less than `np.broadcast_to`."""

COPIED_MATRICES = 1 << 14
"""The number of elements up to which it is faster to gather all selected matrices than to loop over them."""

PAIRED_ELEMENTS = 1 << 18
"""The matrix size up to which a vector is multiplied as a matrix of two equal rows or columns, so that BLAS adds in the
same order as for matrices. It costs 2 us; for a matrix of 1024x1024, 5 to 13 times the time, since BLAS copies it."""

ORDERED_TERMS, ORDERED_ELEMENTS = 4, 1 << 10
"""The number of terms of a sum, and the number of sums, up to which a product adds the terms in order and rounds each,
as MLX does. It takes NumPy 5 us more for two matrices of 4x4, 10 us for 300 points by a 3x3 matrix, and 23 us for 1000
points."""

ORDERED_BYTES = 1 << 14
"""The size up to which an array is made contiguous before its sum. A transposed array of this size then takes 7 us
instead of 2; one of 1 KB 1.5 us instead of 1.2."""

TILED_BYTES, TILED_AXIS = 1 << 15, 4
"""The size, and the number of elements along both axes, from which a transposed array is copied in tiles.

One of 4096x100 floats takes 50 us with tiles, and 245 us in NumPy; 128x128 takes 2.4 and 10 us, 64x64 1.0 and 1.6 us.
In one of 100x4096, columns collide in the cache: it takes 70 us, and would take 265 us with plain tiles. A picture of
512x512 pixels with three colours takes 250 us, and 215 us in NumPy.
"""

SHORT_ROW, SHORT_ROW_OF_CHOICES, SHORT_ROW_OF_TWO = 8, 16, 4
FEW_ROWS, ROWS_AT_A_TIME = 256, 1 << 13
"""The row length up to which rows are reduced column by column, if there are more than `FEW_ROWS`, and `ROWS_AT_A_TIME`
together. Two arrays that broadcast differently are combined in the same way.

The sums of 40 000 rows of 2 take 20 us, and of 7 100 us; NumPy takes 440 and 540 us, and adds nine and more in another
order. The maxima of rows of 2 and of 16 take 17 and 310 us (1070 and 3260 us). The differences of 200 points with 2
coordinates take 80 us (280 us).
"""

SHORT_ROW_AFTER = 16
"""The number of elements after an axis up to which it is reduced in C. The sum of 100 000 rows of 3 takes 55 us, and of
1000 times 50 rows of 16 120 us; NumPy takes 1100 and 850 us. The maximum of rows of 16 takes 480 us (1000 us)."""

REUSED_BYTES = 1 << 15
"""The size from which a result overwrites an operand that nothing reads any more. A chain of 60 elementwise ops on 10
000 floats takes 160 us, and 182 us with new arrays; on a million floats 11.8 ms and 15.5 ms."""

CACHED_ELEMENTS = 1 << 13
"""The number of elements that pass together through all steps of a long NumPy computation; they fit into a cache."""

QUANTIZED_ELEMENTS = 1 << 16
"""The number of elements that pass together through a computation of some 30 NumPy calls. (9 million numbers quantized
to 4 bits: 60 ms; 94 ms with 1 << 13; 190 ms with all elements together.)"""

LOOPED_FLOAT64 = 1 << 16
LOOPED_ERF = 48
"""The number of elements up to which a function that NumPy lacks is computed in a Python loop. For float64, the loop is
then faster than a compile; for `erf` of float32, it is faster than a fitted function in NumPy."""

FEW_PAIRS = 128
"""The number of pairs of random words up to which Python integers are faster than NumPy."""

SINGLE_DRAWS = 16
LOOPED_DRAWS = 1 << 10
"""The number of draws of a vmap up to which each draw is a separate node, and the number up to which NumPy loops over
them."""

DRAW_SECONDS = 2e-5
"""The time in seconds of one draw in NumPy's loop."""

REMEMBERED_ANGLES = 1 << 15
"""The number of angles of `rope` up to which they are kept for the next layer, or for the keys after the queries."""

SHIFTED_FRAMES = 32
"""The number of overlapping frames up to which they are added as shifted signals. Beyond it, a scatter compiles
faster."""

NARROW_ROW = 128
"""The row length below which the elements of all rows are updated in one call of NumPy. Longer rows are updated one row
at a time."""

SCANNED_LINES = 128
"""The number of lines from which NumPy scans them all together, step by step, if they are not contiguous. A cumsum of
128 lines of 256 takes 0.16 ms, and 0.26 ms line by line; one of 64 lines 0.16 ms and 0.05 ms."""

SEARCHED_AXIS = 1 << 12
"""The size from which a CPU searches for a maximum in two passes, in a fifth of the time of XLA's argmax."""

SELECTED_ELEMENTS = 1 << 12
"""The number of elements from which NumPy chooses between two arrays by their bits. For a million floats and a mask
without a pattern that takes 0.5 ms, and `np.where` 4.3 ms; with a pattern both take the same."""

SORTED_BY_KEYS = 256
"""The number of elements from which it is faster to sort integers made of key and index than to sort indices by
keys."""

PARTITIONED_AXIS = 1 << 12
PARTITIONED_SHARE = 1 / 16
"""The axis length from which a partition does not sort everything, if at most this share of the axis is on one side."""

PATCHES_AT_A_TIME = 1 << 26
"""The size of the patches that NumPy makes together; more images are processed part by part."""

POOLED_SLICES = 64
"""The number of places up to which overlapping windows are cut out as slices, which XLA fuses. Larger ones are
gathered."""

COMPILED_SETTINGS = 8
"""The number of settings of one optimizer, or of numbers for one loss, that are worth a compile."""

LARGE_SCAN = 1 << 15
"""The number of elements from which a scan is compiled as a scan over pairs, or in steps.

Over pairs, a cumsum of a million elements takes 2.3 ms instead of 3.7, and a cummax 3.2 ms instead of 11, with half a
second more to compile. In steps, cumprod and logcumsumexp of 1000 rows compile in a third of the time of pairs. Their
gradients compile in 0.5 s instead of 2.4 and in 1 s instead of 7, and run in a sixth of the time. In rows of 512 of
1024, cumsum took twice as long in steps as over pairs.
"""

STEPPED_LINES, STEPPED_LINE = 16, 1 << 21
"""Every scan is compiled in steps if at least `STEPPED_LINES` lines are side by side in memory, or if the only line is
at most `STEPPED_LINE` long.

Along the columns of 1000x1000, the gradient of cumsum takes 0.6 ms instead of 2.3, and 90 ms to compile instead of 300.
A cumsum of a million in one line takes the same, 1.1 ms, and 0.12 s to compile instead of 0.42. One of four million
takes 8 to 11 ms instead of 4.4.
"""

SCAN_STEPS = 1 << 10
"""The axis length up to which steps process it in one piece. A cumprod of a million in one axis runs twice as long as
over pairs, but its gradient compiles in 0.8 s instead of 3.5."""

LONG_SUM = 1 << 20
"""The number of elements from which a reduction goes block by block."""

BLOCK_OF_SUM = 1 << 17
"""The number of elements of such a block: half a megabyte after widening."""

BYTES_SUMMED = 32
"""The number of int8 or uint8 elements that are summed in 16 bits before the sums are widened.

Times in ms for a matrix of 134 million bytes (all elements, rows, columns): 14, 15, 12 with groups of 32; 56, 65, 12
without groups; 13, 16, 59 with groups of 8; 14, 38, 10 with groups of 128.
"""

SUMMED_SIDE, SUMMED_ELEMENTS = 16, 1 << 14
"""The number of rows and columns, and of elements, from which a sum over several leading axes is a product with a row
of ones, on a CPU.

8x64 rows of 512, as in a GPT, take 0.06 ms, and 0.37 ms as sums; with 128 columns 0.03 and 0.11 ms. Values with other
readers are then computed on their own. Otherwise XLA would recompute them in the loops of those readers: a GPT step
would take a fifth longer; now it takes an eighth less.
"""

UNROLLED, UNROLLED_ELEMENTS = 9, 1 << 12
"""A reduction over several axes is unrolled on a CPU if each result has at most `UNROLLED` operands, and if the array
has at least `UNROLLED_ELEMENTS` elements.

XLA reduces more operands, or a single axis, just as fast without it (maxima of 2x2 neighbours of 400 000 elements: 0.12
ms unrolled, 0.3 ms if XLA fuses them with other ops).
"""

MOST_IN_BRANCH = 32
"""The largest number of operations that a branch recomputes instead of storing their results."""

COSTLY = 16
"""The number of operations from which a value that is broadcast counts as costly. A cosine or an exponential always
does. Steps of nine convolutional nets took 0.75 to 1 of their time with 8 to 24 here, and the old time with 6."""

REPEATED_ELEMENTS, REPEATED_TIMES = 1 << 14, 4
"""The number of elements of a broadcast result, and of results for each operand element, from which a costly operand is
computed separately on a CPU.

A rotary embedding of 64 heads of 512x64 took 12 ms in XLA, which computes each cosine 64 times, and takes 0.9 ms now.
The gradient of a convolution after pooling, nine arrays that are padded and added, took 1.0 ms and takes 0.5 ms. If XLA
would have kept them separate anyway, the call costs a copy of the operand.
"""

CHAIN, NEAR, RECOMPUTED, RECOMPUTED_TIMES = 32, 4, 1 << 12, 8
"""`CHAIN` is the number of elementwise operations from which a chain is cut, on a CPU, where a value is wanted. `NEAR`
is the number of operations up to which a value that is read behind the cut is recomputed.

A chain is cut only if XLA would compute more than `RECOMPUTED` operations, and more than `RECOMPUTED_TIMES` the number
of operations, to get each wanted value on its own. A filter with two states, whose 50 outputs are all stacked, took 3.8
s to compile and takes 0.8 s. With 200 outputs its compile was stopped after 150 s; now it takes 5 s.
"""

STAGE, LANES, STAGED_ELEMENTS = 32, (8, 16, 4), 1 << 18
"""`STAGE` is the largest number of elements in a stage of a reduction; XLA splits longer ones in its own way. `LANES`
are the numbers of sums for neighbours; the first that divides their number is used. `STAGED_ELEMENTS` is the size from
which the other loops are worth it.

With a sixteenth of that size, a GPT step took half as long again. For two million floats in rows of 64 to 100 000,
sums, maxima and sums of products take a third to two thirds of the time. Sums of products over a middle axis take a
tenth, and distances between points a thirtieth.
"""

FOLDED_ELEMENTS = 1 << 12
"""The number of elements from which windows over a constant are left for the run. XLA's constant folding takes 20 us
for each element of a running product."""
