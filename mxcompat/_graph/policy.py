"""Policy: every threshold of the graph, with the measurement behind it.

Nothing here looks at a graph: `run/schedule` decides by these numbers, `ir` bounds what it remembers by them. Times are
of a 2-core x86-64 machine; ratios between them hold elsewhere, and that is all that the decisions use.
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

MOST_KINDS_OF_ROOTS = 4096
"""The number of kinds of roots for which structures are remembered, at most."""

TRIES = 4
"""The number of structures to try for roots of a kind: the road of a training loop takes the first, a loop that takes
turns between a few programs one of the next. Each try that fails costs 1 us."""

MOST_SINGLE_NODES = 4096
"""The number of executables of single nodes that are found without linearizing."""

MOST_INFERRED = 4096
"""The number of results of shape rules to remember, for each op."""

MOST_TRACES = 512
"""The number of traces that a compiled function remembers."""

MOST_AVALS = 1 << 16
"""The number of avals to keep unique."""

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
"""The number of nodes up to which a stretch of graph is one program: XLA's compile time is superlinear (3 000 ops 0.6
s, 9 000 ops 7.7 s)."""

FEW_NESTED = 30
"""A nested program of no more instructions is compiled with what is around it, not on its own first."""

SEGMENT_SIZE = 150
"""About how many instructions a segment of a split derivative has."""

SMALLEST_SPLIT = 2 * SEGMENT_SIZE
"""Derivatives of programs with fewer instructions stay whole."""

LONGEST_PERIOD = 400
"""Up to how many instructions a part of a loop may have for its repetitions to become the same segment."""

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
"""A program that takes this long on the host is compiled when it is met for the second time."""

HOPELESS = 3.0
"""A program is compiled at once if NumPy is likely to take this many times as long as compiling it."""

LIGHT_SECONDS = 5e-4
"""What NumPy is likely to do in this time is done there at once; of more, what only moves small data is done first if
the rest is known."""

TRIALS = 8
"""How often to time an executable, where it may be slower than the host."""

MARGIN = 0.5
"""What the host's best time has to be of the executable's best, for a program to stay there. The host's is the best of
many more runs, and while XLA runs Python goes on: the gradient of a 4-layer MLP took 0.17 ms in NumPy and 0.18 in XLA
by those times, 0.25 ms and 0.17 ms in a loop."""

TRIED_SECONDS = 2e-4
"""Up to this time on the host, it may be: what is slower there gains by XLA whatever calling it costs."""


def compile_seconds(weight: int) -> float:
    """What tracing, lowering and compiling a program of so many instructions takes: one op 15 ms, the gradient of a
    4-layer MLP (84) 100 ms, a train step of a 4-layer GPT (800) 2 to 3 s.

    When a program has taken as long on the host it is compiled, and when it has taken that long while it was being
    compiled it waits: at most twice the optimum, whatever the program does.
    """
    return 0.015 + 8e-4 * weight + 2.5e-6 * weight * weight


LONG_SUM = 1 << 20
"""From how many elements on narrow ones are summed block by block."""

BLOCK_OF_SUM = 1 << 17
"""The number of elements of such a block: widened they take half a megabyte."""

SMALL_BYTES = 1 << 16
"""Up to how many bytes an array is small: what only moves such data had better be done with NumPy."""

SURE = 2
"""What is left after moving small data had to be the same this often, for it to be the same the next time."""

# --- Waiting ----------------------------------------------------------------------------------------------------------

SPIN_SECONDS = 3e-4
"""For how many seconds to look for a result before going to sleep: being woken takes longer than many programs run.
A vmap that XLA takes 0.17 ms for was seen after 0.30 ms with 8e-5 here, after 0.26 with this."""
