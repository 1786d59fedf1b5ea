"""Policy: every threshold, with the measurement behind it.

Nothing here looks at a graph: `run/schedule` decides by these numbers, `ir` bounds what it remembers by them, and ops
choose between ways to compute the same. Times are of a 2-core x86-64 machine; ratios between them hold elsewhere, and
that is all that the decisions use.
"""

from __future__ import annotations

import os

# --- What is remembered -----------------------------------------------------------------------------------------------


def _default_cache_bytes() -> int:
    """A quarter of a gigabyte, or 2 % of the memory of a machine that has little."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1 << 26, min(1 << 28, memory // 50))


CACHE_BYTES = int(os.environ.get("MXCOMPAT_CACHE_LIMIT") or _default_cache_bytes())
"""How many bytes of memory structures and executables may hold, by the estimates below."""

STRUCTURE_SHARE = 0.25
"""What of that is for structures."""

HELD_SHARE = 0.75
"""What is left of either when room is made, so that it is not made each time: it sorts them."""


def structure_bytes() -> int:
    """How many bytes structures may hold."""
    return int(STRUCTURE_SHARE * CACHE_BYTES)


def executable_bytes() -> int:
    """How many bytes executables may hold."""
    return CACHE_BYTES - structure_bytes()


BYTES_PER_STRUCTURE = 3000
BYTES_PER_INSTRUCTION = 300
"""What a structure takes in Python objects, with its Programs and their records: 3 000 structures of 33 instructions
took 35 MB."""

BYTES_PER_EXECUTABLE = 80_000
BYTES_PER_SERIALIZED = 17
"""What an executable takes, by the length of what it serializes to, on a CPU: gradients of a 3-layer MLP 111 kB and
1.75 MB, of a loop of 60 products 394 kB and 6.6 MB, of a 2-layer transformer 281 kB and 4.3 MB, small expressions 37 kB
and 0.69 MB; compiled for speed a fifth more."""

COMPILED_PER_INSTRUCTION = 30_000
"""What an executable takes for each instruction of its Program, as long as its serialized form is not known."""

MOST_LOWERED = 4
"""The number of executables for which what they were lowered from is kept, for the compile for speed that is to come:
1.1 MB for the gradient of a 3-layer MLP."""

TRIES = 4
"""The number of structures to try for roots of a kind: the road of a training loop takes the first, a loop that takes
turns between a few programs one of the next. Each try that fails costs 1 us."""

MOST_KINDS_OF_ROOTS = 4096
MOST_SINGLE_NODES = 4096
MOST_INFERRED = 4096
MOST_TRACES = 512
MOST_PLANS = 4096
MOST_COMPOSED = 256
MOST_NUMBERS = 512
MOST_AVALS = 1 << 16
"""At most so many are remembered of: kinds of roots, for which structures are known; executables of single nodes, which
are found without linearizing; results of shape rules, for each op; traces of a compiled function; plans of how to do
work of a kind, for each op that makes some; losses, or updates of an optimizer, that are one node; leaves of numbers;
avals."""

STORED_SECONDS = 0.01
"""What took less time to compile is not stored on the disk. Loading one op takes 3 ms, compiling it 30 to 75; loading a
train step of a 4-layer GPT 0.17 s, compiling it for speed 13 s on the same busy machine."""

STORED_BYTES = 1 << 30
"""The size of all executables on the disk, at most: one op has 8 kB, a train step of a 4-layer GPT 1 MB."""

STORED_SHARE = 0.9
"""What of that is left when room is made, so that it is not made at each store: it reads the whole directory."""

ABANDONED_SECONDS = 3600.0
"""A file that is not whole after so many seconds was left behind by a process that is no more."""

# --- The size of programs ---------------------------------------------------------------------------------------------

TREE_FRAMES = 25_000
"""The number of Python calls that walking a tree may take, one in the other: two for each of 5 000 levels, which MLX
takes, in a program that is deep itself. They are on the heap, 100 bytes each."""

LARGE_GRAPH = 2000
"""The number of nodes up to which a subgraph is one program: XLA's compile time is superlinear (3 000 ops 0.6
s, 9 000 ops 7.7 s)."""

FEW_NESTED = 30
"""A nested program of no more instructions is compiled with what is around it, not on its own first."""

SEGMENT_SIZE = 150
"""About how many instructions a segment of a split derivative has."""

SMALLEST_SPLIT = 2 * SEGMENT_SIZE
"""Derivatives of programs with fewer instructions stay whole."""

LONGEST_PERIOD, PERIODIC_SHARE = 400, 0.8
"""Up to how many instructions the body of a loop may have for its repetitions to become the same segment, and which
share of a program's instructions has to repeat for it to be a loop."""

PADDED_ROOM = 256
"""The room of an array that grows is no smaller than this, if its buffer is not. mlx-lm makes its buffers a multiple of
it."""

PADDED_DEPTH = 64
"""How many ops may lie between a read of a buffer and where it is summed over."""

PADDED_NEAR = 8
"""How many ops may lie between a read and the operand that says how long the buffer is."""

HEAVY_NESTED = 300
"""A nested program of more instructions may be run in segments."""

HUGE_NESTED = 800
"""One of more instructions always is: compiling it would take minutes."""

MANY_INSTRUCTIONS = 50
"""A program of more instructions is heavy: running it takes much longer than calling it."""

LARGE_BYTES = 1 << 14
"""One that reads or returns an array of more bytes is heavy too."""

DONATED_BYTES = 1 << 16
"""Buffers below this size are not worth donating: finding out who holds them takes longer than copying them."""

LARGE_SCAN = 1 << 15
"""From this many elements on a scan is compiled as one over pairs. Of a million, cumsum takes 2.3 ms instead of 3.7,
cummax 3.2 instead of 11, logcumsumexp 19 instead of 221, and half a second more to compile."""

# --- Memory -----------------------------------------------------------------------------------------------------------

LARGE_ALLOCATION = 1 << 28
"""From this many bytes on it is asked first whether they are there, which takes 30 us."""

LONGEST_AXIS = (1 << 31) - 1
"""The length of an axis, at most: MLX has 32 bits for it."""

MOST_BYTES = (1 << 63) - 1
"""The size of an array, at most: XLA ends the process if it has to count further."""

# --- When to compile --------------------------------------------------------------------------------------------------

PATIENCE_LIGHT = 30
"""How often a light program that was compiled in a hurry runs before it is compiled for speed."""

PATIENCE_HEAVY = 2
"""The same for a heavy one: that it runs again is sign enough, as its faster version takes a third of the time."""

ENOUGH = 16
"""How often a program runs slowly, in segments or compiled in a hurry, before it waits for what is being compiled for
speed. By then it is sure to return, and running beside the compiler would only keep both from their work."""

MISSING = 2
MISSING_SHARE = 6
"""A new structure runs op by op if no more of its ops than `MISSING`, or one in `MISSING_SHARE`, have yet to be
compiled on their own: it may never return, and then compiling it would have been most of the work."""

# --- The same bits --------------------------------------------------------------------------------------------------

REPRODUCIBLE = os.environ.get("MXCOMPAT_REPRODUCIBLE", "") not in ("", "0")
"""Whether a structure is computed in the same way whenever it is: by one executable, compiled for speed, or in the same
segments. What comes after this in the file then decides nothing."""

# --- The host tier ----------------------------------------------------------------------------------------------------

HOST = os.environ.get("MXCOMPAT_HOST", "1") != "0"
"""Whether anything at all runs in NumPy because it is new."""

OP_SECONDS = 2e-6
BYTE_SECONDS = 5e-10
"""What an op takes in NumPy: something for the call, and something for each byte of the result."""

FLOP_SECONDS = 5e-11
"""What a multiplication and addition takes in a product of matrices."""

SINGLE_BYTES = 1 << 14
"""A single op on arrays of no more bytes never leaves the host: NumPy adds two arrays of 8x8 in 0.3 us, where calling
an executable of XLA's takes 7 us."""

SINGLE_SECONDS = 1e-4
"""The same for one that takes NumPy no longer than this."""

HEAVY_SECONDS = 2e-2
"""What takes this long on the host is compiled when it is seen for the second time."""

HEAVY_RUNS = 50
"""The same, unless compiling it is likely to take longer than so many runs. The gradient of a loop of 2 048 steps takes
0.25 s, and compiling it minutes."""

HOPELESS = 3.0
"""A program is compiled at once if NumPy is likely to take this many times as long as compiling it."""

LIGHT_SECONDS = 5e-4
"""What NumPy is likely to do in this time is done there at once; of more, what reads only small data is done first if
the rest is known."""

TRIALS = 8
"""How often to time an executable, where it may be slower than the host."""

MARGIN = 0.5
"""What the host's best time has to be of the executable's best, for a program to stay there. The host's is the best of
many more runs, and while XLA runs Python goes on: the gradient of a 4-layer MLP took 0.17 ms in NumPy and 0.18 ms in
XLA by those times, 0.25 ms and 0.17 ms in a loop."""

TRIED_SECONDS = 2e-4
"""Up to this time on the host, it may be: what is slower there gains by XLA whatever calling it costs."""


def compile_seconds(weight: int) -> float:
    """What tracing, lowering and compiling a program of so many instructions takes: one op 15 ms, the gradient of a
    4-layer MLP (84) 100 ms, a train step of a 4-layer GPT (800) 2 to 3 s.

    When a program has taken as long on the host it is compiled: at most twice the optimum, whatever the program does.
    """
    return 0.015 + 8e-4 * weight + 2.5e-6 * weight * weight


WORTH_WAITING = 0.5
"""What is being compiled is waited for if running it once on the host takes this share of the time to compile it. Of
less, what the host gets done meanwhile is worth more: a 4-layer GPT trains in 80 ms a step there, then in 63; waiting
for its executable took 0.9 s."""

LONG_SUM = 1 << 20
"""From how many elements on narrow ones are summed block by block."""

BLOCK_OF_SUM = 1 << 17
"""The number of elements of such a block: widened they take half a megabyte."""

SMALL_BYTES = 1 << 16
"""Up to how many bytes an array is small: what reads only such data had better be done with NumPy."""

SURE = 2
"""What is left once that is done had to be the same this often, for it to be the same the next time."""

# --- Waiting ----------------------------------------------------------------------------------------------------------

SPIN_SECONDS = 3e-4
"""For how many seconds to look for a result before going to sleep: being woken takes longer than many programs run.
A vmap that XLA takes 0.17 ms for was seen after 0.30 ms with 8e-5 here, after 0.26 with this."""

# --- Ways to compute an op --------------------------------------------------------------------------------------------

ALIGNED_BYTES = 1 << 16
"""From this many bytes on, a copy lies where XLA can take it over without copying it again."""

CHUNK_BYTES = 1 << 24
"""What is read at a time of a file that Python opened."""

COPIED_BYTES = 1 << 14
"""Up to how many bytes copying costs less than `np.broadcast_to`."""

COPIED_MATRICES = 1 << 14
"""Up to how many elements of matrices it is faster to copy those that are chosen than to take them one by one."""

CACHED_ELEMENTS = 1 << 13
"""How many elements NumPy takes through all steps of a long computation at a time: what fits into a cache."""

LOOPED_FLOAT64 = 1 << 16
LOOPED_ERF = 48
"""Up to how many elements a loop over float64 is quicker than compiling for it, one of `erf` quicker than NumPy."""

FEW_PAIRS = 128
"""Up to how many pairs of random words Python's integers are faster than NumPy."""

SINGLE_DRAWS = 16
"""Up to how many draws of a vmap are made one by one."""

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

SORTED_BY_KEYS = 256
"""From so many elements on, to sort numbers that hold key and place is faster than to sort places by keys."""

PARTITIONED_AXIS = 1 << 12
PARTITIONED_SHARE = 1 / 16
"""An axis of at least so many elements is partitioned without sorting it, if at most this share is on one side."""

SHIFTED_TAPS = 64
SINGLE_GROUPS = 16
"""XLA has no fast code for groups on CPUs, least of all for their gradients. A kernel of at most so many elements that
sees one channel is a sum of shifted inputs, 10 to 40 times as fast; so many groups run one by one, up to 40 times."""

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
"""How many settings of one optimizer are worth a compile."""
