"""How large programs are, and when they are compiled."""

from __future__ import annotations

TREE_FRAMES = 25_000
"""The number of Python calls that walking a tree may take, one in the other: two for each of 5 000 levels, which MLX
takes, in a program that is deep itself. They are on the heap, 100 bytes each."""

LARGE_GRAPH = 2000
"""The number of nodes up to which a subgraph is one program: XLA's compile time is superlinear (3 000 ops 0.6
s, 9 000 ops 7.7 s)."""

DRAWS_AT_ONCE = 16
"""How many random draws of a large graph are computed at once: one is 200 lines of code. The 300 of a loop of 150 steps
took 20 s to compile for speed as one program; 16 take 1 s, and the next 16 are the same program."""

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

FAR_ARGUMENT = 32
"""How many nodes a compiled function looks through for an argument of the transform around it: to look through all took
a chain of 2 000 calls 2 s. If it finds none, and the function reads what the transform traces, that is run twice."""

NOTICE_SECONDS = 2.0
"""How long somebody at a terminal waits for a compile before being told of it. Most take less than one second."""

SPLIT_SECONDS = 2e-4
"""A program with a longer loop has its loops divided among XLA's threads. Two threads took, us, against one: the sum of
two arrays of 262 000 floats 122, 104, of a million 312, 282; AdamW's step for 65 000 weights 148, 93, 262 000 297, 207,
524 000 446, 409; `tanh` of 262 000 186, 156, 524 000 260, 301; `sin(x) * exp(y) + tanh(z)` of 33 000 243, 199, 131 000
806, 850. The training step of a convolutional network takes 2.8 ms with two and 3.5 with one."""

MOVED_NANOSECONDS, STEP_NANOSECONDS = 0.25, 0.03
"""What a loop takes to read and write an element, and for an operation that is not among these."""

LOOP_NANOSECONDS = {
    f"{dialect}.{name}": nanoseconds
    for nanoseconds, dialect, names in (
        (0.15, "stablehlo", "divide sqrt"),
        (0.45, "stablehlo", "transpose"),
        (0.5, "stablehlo", "exponential log logistic tanh"),
        (0.5, "chlo", "erf"),
        (1.5, "stablehlo", "exponential_minus_one log_plus_one rsqrt"),
        (2.0, "chlo", "asinh atanh cosh erf_inv erfc sinh"),
        (5.0, "stablehlo", "cosine power sine"),
        (10.0, "stablehlo", "cbrt tan"),
        (10.0, "chlo", "acosh atan lgamma tan"),
        (15.0, "stablehlo", "atan2 remainder"),
        (15.0, "chlo", "acos asin"),
    )
    for name in names.split()
}
"""What one thread takes for an element of float32."""
