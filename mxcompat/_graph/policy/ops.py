"""Which of several ways an op is computed in."""

from __future__ import annotations

ALIGNED_BYTES = 1 << 16
"""From this many bytes on, a copy lies where XLA can take it over without copying it again."""

CHUNK_BYTES = 1 << 24
"""What is read at a time of a file that Python opened."""

COPIED_BYTES = 1 << 14
"""Up to how many bytes copying costs less than `np.broadcast_to`."""

COPIED_MATRICES = 1 << 14
"""Up to how many elements of matrices it is faster to copy those that are chosen than to take them one by one."""

PAIRED_ELEMENTS = 1 << 18
"""Up to how many elements of a matrix a row or a column is multiplied with it as one of two. That takes 2 us more, and
with a matrix of 1024x1024 5 to 13 times as long: BLAS then copies it first."""

ORDERED_TERMS, ORDERED_ELEMENTS = 4, 1 << 10
"""Up to how many products in a sum, and up to how many such sums, are added up one after the other and each rounded, as
MLX has it. It takes NumPy 5 us more for two matrices of 4x4, 10 for 300 points by one of 3x3, and 23 for 1000."""

ORDERED_BYTES = 1 << 14
"""Up to how many bytes an array is put in order before it is added up. A transposed one of this size takes 7 us then,
and 2 as it is; one of 1 KB 1.5 and 1.2."""

TILED_BYTES, TILED_AXIS = 1 << 15, 4
"""From so many bytes on, with so many elements along both axes, a transposed array is copied in tiles. One of 4096x100
floats takes 50 us then, and 245 in NumPy; of 128x128 2.4 and 10, of 64x64 1.0 and 1.6; of 100x4096, whose columns
collide in the cache, 70, and 265 by tiles alone. A picture of 512x512 pixels takes 250 us with three colours, and 215
in NumPy."""

SHORT_ROW, SHORT_ROW_OF_CHOICES, SHORT_ROW_OF_TWO = 8, 16, 4
FEW_ROWS, ROWS_AT_A_TIME = 256, 1 << 13
"""Up to this length of a row it is reduced column by column, so many rows at a time, if there are more than a few; and
two arrays that broadcast differently are combined so. The sums of 40 000 rows of 2 take 20 us then, of 7 100, and 440
and 540 in NumPy, which adds up nine and more in an order of its own; the largest of 2 and of 16 take 17 and 310 us for
1070 and 3260; the differences of 200 points of 2 coordinates from each other 80 for 280."""

SHORT_ROW_AFTER = 16
"""Up to so many elements after an axis it is reduced in C: the sum of 100 000 rows of 3 takes 55 us so, of 1000 times
50 of 16 120, and 1100 and 850 in NumPy; the largest of 16 480 for 1000."""

REUSED_BYTES = 1 << 15
"""From so many bytes on, a result takes the place of an operand that nothing reads any more. A chain of 60 elementwise
ops on 10 000 floats takes 160 us so and 182 with new arrays, on a million 11.8 ms and 15.5."""

CACHED_ELEMENTS = 1 << 13
"""How many elements NumPy takes through all steps of a long computation at a time: what fits into a cache."""

QUANTIZED_ELEMENTS = 1 << 16
"""The same where a step has some 30 calls of NumPy: 9 million numbers are quantized in 4 bits in 60 ms so, in 94 with
1 << 13, and in 190 all at a time."""

LOOPED_FLOAT64 = 1 << 16
LOOPED_ERF = 48
"""Up to how many elements a loop over float64 is quicker than compiling for it, one of `erf` quicker than NumPy."""

FEW_PAIRS = 128
"""Up to how many pairs of random words Python's integers are faster than NumPy."""

SINGLE_DRAWS = 16
LOOPED_DRAWS = 1 << 10
"""Up to how many draws of a vmap are nodes of their own; up to how many NumPy makes one after the other."""

DRAW_SECONDS = 2e-5
"""What one of these takes."""

REMEMBERED_ANGLES = 1 << 15
"""Up to so many angles of `rope` are remembered for the next layer, or for the keys after the queries."""

SHIFTED_FRAMES = 32
"""Frames that overlap this many times at most are added as shifted signals; beyond it, a scatter is less to compile."""

NARROW_ROW = 128
"""Rows of fewer elements are updated element by element, which NumPy does fast, longer ones row by row."""

SCANNED_LINES = 128
"""From so many lines on, which do not lie along memory, NumPy scans them all together, step by step: a cumsum of 128
lines of 256 takes 0.16 ms so and 0.26 ms line by line, one of 64 lines 0.16 ms and 0.05 ms."""

SEARCHED_AXIS = 1 << 12
"""From this size on a CPU searches for a maximum in two passes, a fifth of the time of XLA's argmax."""

SELECTED_ELEMENTS = 1 << 12
"""From so many elements on NumPy chooses between two arrays by their bits: of a million floats, by a mask without a
pattern, in 0.5 ms, where `np.where` takes 4.3; with one they take the same."""

SORTED_BY_KEYS = 256
"""From so many elements on, to sort numbers that hold key and place is faster than to sort places by keys."""

PARTITIONED_AXIS = 1 << 12
PARTITIONED_SHARE = 1 / 16
"""An axis of at least so many elements is partitioned without sorting it, if at most this share is on one side."""

SHIFTED_TAPS = 64
SINGLE_GROUPS = 16
"""XLA has no fast code for groups on CPUs, least of all for their gradients. A kernel of at most so many elements that
sees one channel is a sum of shifted inputs, 10 to 40 times as fast; so many groups run one by one, up to 40 times."""

UNROLLED_TAPS = 9
"""Of a larger kernel such a sum has the derivative of a loop over its rows: for 64 channels of 8x32x32 and a kernel of
7x7 it takes 10 ms instead of 198, in plain XLA 46 instead of 190, and 0.3 s to compile instead of 1.2; there, of 5x5 it
takes 23 instead of 38, of 3x3 8 instead of 7."""

PATCHES_BYTES, PATCHES_ROWS, PATCHES_TAPS = 8 << 20, 1 << 11, 9
THIN_INPUTS, THIN_OUTPUTS = 4, 16
WIDE_INPUTS, WIDE_OUTPUTS, WIDE_IMAGES = 8, 32, 8
"""Where a product with patches of the input is faster than XLA's convolution, values and gradients counted: a kernel of
one element takes 0.3 to 0.5 of the time; few channels (thin) 0.4 to 0.8; more output channels than input channels
(wide) 0.5 to 0.9, as long as the patches fit the cache."""

PATCHES_AT_A_TIME = 1 << 26
"""How many bytes patches take at a time in NumPy; more images than that go one part after the other."""

PHASES_WORK, PHASES_OUTPUTS = 1 << 22, 4
"""From how many multiplications, and above how many channels, a dilated input is convolved by phases: what is small had
better be compiled quickly."""

POOLED_SLICES = 64
"""Windows of up to this many places that overlap are cut out as slices, which XLA fuses; larger ones are gathered."""

COMPILED_SETTINGS = 8
"""How many settings of one optimizer, or numbers given to one loss, are worth a compile."""

LARGE_SCAN = 1 << 15
"""From this many elements on a scan is compiled as one over pairs, or in steps. Over pairs cumsum of a million takes
2.3 ms instead of 3.7, cummax 3.2 instead of 11, and half a second more to compile. In steps cumprod and logcumsumexp of
1000 rows take a third of the time of pairs to compile, their gradients 0.5 s instead of 2.4 and 1 s instead of 7, and a
sixth to run; cumsum took twice as long as over pairs in rows of 512 of 1024."""

STEPPED_LINES, STEPPED_LINE = 16, 1 << 21
"""Every scan is compiled in steps where so many lines of it lie side by side in memory, or the only one is no longer
than this. Along the columns of 1000x1000 the gradient of cumsum takes 0.6 ms so instead of 2.3, and 90 ms to compile
instead of 300; of a million in one line a cumsum takes the same, 1.1 ms, and 0.12 s to compile instead of 0.42; of four
million 8 to 11 ms instead of 4.4."""

SCAN_STEPS = 1 << 10
"""How long an axis is at most that is gone along in one piece. Of a million in one axis cumprod takes twice as long to
run as over pairs, but its gradient 0.8 s to compile instead of 3.5."""

LONG_SUM = 1 << 20
"""From how many elements on a reduction goes block by block."""

BLOCK_OF_SUM = 1 << 17
"""The number of elements of such a block: widened they take half a megabyte."""

BYTES_SUMMED = 32
"""How many bytes are summed in 16 bits before they are widened. 134 million, of a matrix: all of them, its rows, its
columns take 14, 15, 12 ms so, one by one 56, 65, 12; 8 at a time 13, 16, 59, 128 at a time 14, 38, 10."""

SUMMED_SIDE, SUMMED_ELEMENTS = 16, 1 << 14
"""From how many rows and columns, and elements, on sums over several leading axes are products with a row of ones on a
CPU. Of 8x64 rows of 512, as in a GPT, they take 0.06 ms so and 0.37 ms as sums, of 128 columns 0.03 and 0.11. What the
others read, too, is then computed by itself: else XLA would compute it anew in the loops of its other readers, and a
step of the GPT take a fifth longer, where so it takes an eighth less."""

TRANSPOSED_ROWS, TRANSPOSED_PRODUCTS, MOST_TRANSPOSED = 8, 1 << 12, 1 << 20
"""From how many rows and how many products of two elements on a product that sums over the first axes is made of the
transposed matrix on a CPU, and up to how large a matrix. The four in the gradient of an MLP 32 wide, with 32 examples,
take 4 us less of 100 so, those of one 16 wide 7 of 88. What XLA computes at once in the caller's thread, below 1000
operations, takes three times as long with one more: it wakes another."""

TRANSPOSED_LENGTH, TRANSPOSED_COLUMNS = 256, 512
"""Up to how long a sum this is worth it, whatever the columns, and from how many columns on for longer ones: 256x64 by
256x256 takes 143 us so and 171 otherwise, 1024x32 by 1024x512 296 and 459, but 1024x64 by 1024x128 279 and 221."""

UNROLLED, UNROLLED_ELEMENTS = 9, 1 << 12
"""Up to how many elements of several axes are reduced one by one on a CPU, and of how large an array. The largest of
2x2 neighbours of 400 000 take XLA 0.3 ms when it computes them on the way, and 0.12 ms so. More of them, or a single
axis, XLA reduces as fast."""

MOST_IN_BRANCH = 32
"""How many operations are computed in a branch again, at most, rather than that they are stored for it."""

COSTLY = 16
"""From how many operations on what is broadcast counts as costly to compute; a cosine or an exponential does by itself.
Steps of nine convolutional nets took 0.75 to 1 of their time with 8 to 24, and as long as before with 6."""

REPEATED_ELEMENTS, REPEATED_TIMES = 1 << 14, 4
"""From how many elements on, and how many for each that it is made of, what is broadcast is computed apart on a CPU if
it is costly. A rotary embedding of 64 heads of 512x64 took XLA 12 ms, which computes each cosine 64 times, and 0.9 ms
so; the gradient of a convolution behind pooling, nine arrays that are padded and added, 1.0 ms and 0.5. Where XLA would
have kept them apart anyway the call costs a copy of what is broadcast."""

CHAIN, NEAR, RECOMPUTED, RECOMPUTED_TIMES = 32, 4, 1 << 12, 8
"""From how many elementwise operations on a chain is cut, on a CPU, where a value is wanted, and up to how many what is
read behind the cut is computed again; if XLA would compute so many operations, so many times what there is, to have
each value that is wanted by itself. A filter with two states, all of whose 50 outputs are stacked, took 3.8 s to
compile and takes 0.8; with 200 outputs it was given up after 150 s, and takes 5."""

STAGE, LANES, STAGED_ELEMENTS = 32, (8, 16, 4), 1 << 18
"""How many elements a stage of a reduction has at most: XLA takes apart what is longer, in its own way. To how many
sums neighbours go: the first of these that divides their number. From how many elements on that is worth the other
loops: with a sixteenth of them a step of a GPT took half as long again. Of two million floats, in rows of 64 to
100 000, sums, maxima and sums of products take a third to two thirds of the time, sums of products over an axis in the
middle a tenth, distances of points to each other a thirtieth."""

FOLDED_ELEMENTS = 1 << 12
"""From how many elements on windows over a constant are left for the run: XLA's interpreter takes 20 microseconds for
an element of a running product."""

MOST_SCORES, SCORES_AT_A_TIME = 1 << 24, 1 << 23
"""Bytes of attention scores up to which a CPU computes them all at once, and bytes of a tile of more. (8 heads of 64,
1500 by 1500: 107 ms at once, 50 in tiles; 12 heads, 1024 by 1024, causal: 72, 35; 12 heads, 256 by 256: 2.1, 2.3.)"""
