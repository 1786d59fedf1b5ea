"""Thresholds for the size of programs, and for when they are compiled."""

from __future__ import annotations

TREE_FRAMES = 25_000
"""The depth of nested Python calls for a walk through a tree: two calls for each of 5 000 levels, which MLX accepts, in
a program that is itself deep. They are on the heap, 100 bytes each."""

LARGE_GRAPH = 2000
"""The number of nodes up to which a subgraph is one program. XLA's compile time is superlinear (3 000 ops 0.6 s, 9 000
ops 7.7 s)."""

DRAWS_AT_ONCE = 16
"""The number of random draws of a large graph that one program computes; one draw is 200 lines of code. Also the number
of draws of a vmap up to which each is a separate node. NumPy loops over up to `FEW_ELEMENTS`, and XLA over more.

The 300 draws of a loop of 150 steps took 20 s to compile for speed as one program. 16 draws take 1 s, and the next 16
share the program.
"""

FEW_NESTED = 30
"""The number of instructions up to which a nested program is compiled with its surroundings, not first on its own."""

SEGMENT_SIZE = 150
"""The approximate number of instructions in a segment of a split derivative."""

SMALLEST_SPLIT = 2 * SEGMENT_SIZE
"""The number of instructions below which a derivative is not split."""

LONGEST_PERIOD, PERIODIC_SHARE = 400, 0.8
"""A program counts as an unrolled loop if at least `PERIODIC_SHARE` of its instructions repeat. The repetitions become
the same segment if the loop body has at most `LONGEST_PERIOD` instructions."""

PADDED_ROOM = 256
"""The smallest room of an array that grows, if its buffer is large enough. mlx-lm makes its buffers a multiple of
this."""

PADDED_DEPTH = 64
"""The number of ops that may lie between a read of a buffer and the sum over it."""

PADDED_NEAR = 8
"""The number of ops that may lie between a read and the operand that gives the length of the buffer."""

HEAVY_NESTED = 300
"""The number of instructions from which a nested program may run in segments."""

HUGE_NESTED = 800
"""The number of instructions from which a nested program always runs in segments: its compile would take minutes."""

MANY_INSTRUCTIONS = 50
"""The number of instructions from which a program is heavy: its run takes much longer than its call."""

PATIENCE_LIGHT = 30
"""The number of runs after which a light program, which was compiled quickly, is compiled for speed."""

PATIENCE_HEAVY = 2
"""The number of runs after which a heavy program, which was compiled quickly, is compiled for speed. Its second run is
enough, as the faster executable takes a third of the time."""

WAIT_MIN_RUNS = 16
"""The number of slow runs (in segments, or compiled quickly) after which a program waits for its compile for speed.

By then, further runs are likely, and a run beside the compiler would only slow down both.
"""

MISSING = 2
MISSING_SHARE = 6
"""A new structure runs op by op if at most `MISSING` of its ops, or one in `MISSING_SHARE`, have no executable of their
own. It may never run again, and then its compile would have been most of the work."""

FAR_ARGUMENT = 32
"""The number of nodes in which a compiled function searches for an argument of the surrounding transform.

If the search finds no argument, and the function reads a traced value, the transform runs the function twice. (A search
through all nodes of a chain of 2 000 calls: 2 s.)
"""

NOTICE_SECONDS = 2.0
"""The time that a user at a terminal waits for a compile before a message about it. Most take less than one second."""

SMALL_LOOP_BYTES = 1 << 10
"""The bytes that an iteration of a loop may move for XLA to compile the loop into one function.

In such a function, each write into an array copies the array. The limit of JAX 0.12 is higher: a recurrence that writes
256 rows of 8 KB took 190 ms and takes 2 ms, 1000 rows of 2 KB took 12.5 and take 4.2 ms. Loops without writes into
arrays take the same.
"""

STEPS_BETWEEN_CHECKS = 128
"""The number of steps of a loop of unknown length after which it checks if a signal should stop it."""

SPLIT_SECONDS = 2e-4
"""The length of a loop, in seconds, from which a program's loops are divided among XLA's threads.

One thread and two threads took, in us: for the sum of two arrays of 262 000 floats 122 and 104, of a million 312 and
282; for AdamW's step on 65 000 weights 148 and 93, on 262 000 297 and 207, on 524 000 446 and 409; for `tanh` of 262
000 186 and 156, of 524 000 260 and 301; for `sin(x) * exp(y) + tanh(z)` of 33 000 243 and 199, of 131 000 806 and 850.
The training step of a convolutional network takes 2.8 ms with two threads and 3.5 ms with one.
"""

MOVED_NANOSECONDS, STEP_NANOSECONDS = 0.25, 0.03
"""The time of a loop to read and write an element, and for an operation that is not in the table below."""

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
"""Nanoseconds that one thread takes for an operation on a float32 element, by dialect and name."""
