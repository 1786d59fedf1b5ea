"""Thresholds for the size of programs, and for when they are compiled."""

from __future__ import annotations

TREE_FRAMES = 25_000
"""The limit of nested Python calls during a walk through a tree. MLX accepts 5 000 levels, each takes two calls, and
the program around may be deep itself. The frames are on the heap, 100 bytes each."""

LARGE_GRAPH = 2000
"""The number of nodes up to which a subgraph is one program. XLA's compile time is superlinear (3 000 ops 0.6 s, 9 000
ops 7.7 s)."""

DRAWS_AT_ONCE = 16
"""The number of random draws of a large graph that one program computes; one draw is 200 lines of code. Also the number
of draws of a vmap up to which each is a separate node. Up to `FEW_ELEMENTS` draws of a vmap run in a loop in NumPy, and
more run in XLA.

The 300 draws of a loop of 150 steps took 20 s to compile for speed as one program. 16 draws take 1 s, and the next 16
share the program.
"""

FEW_INSTRUCTIONS = 32
"""The number of instructions up to which a program, a search or a chain is short.

- A short nested program is compiled together with the program around it, not separately before it.
- A run of a short program takes about as long as its call. A short program may stay on the host after it was timed.
- A search through a graph ends after this many nodes. It looks for an argument of the enclosing transform (a search
  through all nodes of a chain of 2 000 calls: 2 s), or for the sum over a buffer that grows.
- A branch recomputes up to this many operations instead of reading their stored results.
- On a CPU, a longer chain of elementwise operations is cut if several of its values are read (`passes.chains`). A
  filter with two states, whose 50 outputs are all stacked, took 3.8 s to compile and takes 0.8 s. With 200 outputs its
  compile was stopped after 150 s; now it takes 5 s.
"""

SEGMENT_SIZE = 150
"""The approximate number of instructions in a segment of a split derivative."""

LARGE_PROGRAM = 2 * SEGMENT_SIZE
"""The number of instructions from which a nested program may run in segments, and a derivative is split. Also the limit
for the body of an unrolled loop whose repetitions become equal segments."""

PERIODIC_SHARE = 0.8
"""A program counts as an unrolled loop if at least this share of its instructions repeat."""

PADDED_ROOM = 256
"""The smallest padded length of an array that grows, if its buffer is large enough. mlx-lm makes its buffers a multiple
of this."""

PADDED_BYTES = 1 << 20
"""Up to this size, the buffer of an array that grows is made four times as large when it is full; beyond, twice as
large. The empty rest is read too, but each size needs a new executable (2000 tokens of a llama 256 wide with 4 layers,
processor seconds beside other work: 33; 47 if buffers only double)."""

PADDED_NEAR = 8
"""The number of ops that may lie between a read and the operand that gives the length of the buffer."""

HUGE_NESTED = 800
"""The number of instructions from which a nested program always runs in segments: its compile would take minutes."""

KNOWN_MIN_RUNS = 2
"""The number of runs after which a structure counts as known.

- A heavy program that was compiled quickly is then compiled for speed, since the faster executable takes a third of the
  time.
- If the rest of a graph is known, the ops on small data run before it.
"""

LIKELY_MIN_RUNS = 16
"""The number of runs after which further runs are likely.

- A light program that was compiled quickly is then compiled for speed.
- A program that runs slowly (in segments, or compiled quickly) then waits for its compile for speed, since a run beside
  the compiler would slow down both.
"""

MISSING_SHARE = 6
"""A new structure of n ops runs op by op if at most 1 + n / `MISSING_SHARE` of them have no executable of their own.
The structure may never run again, and then its compile would have been most of the work."""

NOTICE_SECONDS = 2.0
"""The time that a user at a terminal waits for a compile before a message about it. Most take less than one second."""

SMALL_LOOP_BYTES = 1 << 10
"""The largest number of bytes that an iteration of a loop may move, for XLA to compile the loop into one function.

In such a function, each write into an array copies the array. The limit of JAX 0.12 is higher: a recurrence that writes
256 rows of 8 KB took 190 ms and takes 2 ms, 1000 rows of 2 KB took 12.5 and take 4.2 ms. Loops without writes into
arrays take as long as before.
"""

STEPS_BETWEEN_CHECKS = 128
"""The number of steps of a loop of unknown length after which it checks if a signal should stop it."""

MOVED_NANOSECONDS, STEP_NANOSECONDS = 0.25, 0.03
"""The nanoseconds of a loop for an element that it reads and writes, and for an operation that is not in
`LOOP_NANOSECONDS`."""

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
