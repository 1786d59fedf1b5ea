"""What is remembered, in memory and on the disk, and how large an array may be."""

from __future__ import annotations

import os

HELD_SHARE = 0.75
"""What is left of the structures, or of the executables, when room is made, so that it is not made each time: it sorts
them."""

TRIMMED_BYTES = 1 << 25
"""After so many bytes were given up, what Python and the allocator keep of them is looked for: a collection takes a
second where a process has ten million objects."""

OBJECTS_PER_ARRAY = 3
"""How many times as many objects a lazy array takes as in MLX, of those that Python's collector counts: a network of
scalars made 3.4 times as many in all, and its collections took 3.9 of 5.6 s; with this they take 1.3 of 3.3."""

DEFAULT_THRESHOLD = 2000
"""After how many new objects Python collects the youngest, at most, if nobody has set it: 700 until 3.12."""

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

BYTES_PER_TRACE = 7000
"""What JAX keeps for each call of a jitted function, such as most of `jax.numpy`'s, at each shape: gradients of a
3-layer MLP at 120 batch sizes left 9 563 traces, 29 MB and 498 000 Python objects."""

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

NOTED = 4096
"""After so many contractions that were noted and not evaluated those are forgotten that nobody holds any more."""

STORED_SECONDS = 0.01
"""What took less time to compile is not stored on the disk. Loading one op takes 3 ms, compiling it 30 to 75; loading a
train step of a 4-layer GPT 0.17 s, compiling it for speed 13 s on the same busy machine."""

STORED_BYTES = 1 << 30
"""The size of all executables on the disk, at most: one op has 8 kB, a train step of a 4-layer GPT 1 MB."""

STORED_SHARE = 0.9
"""What of that is left when room is made, so that it is not made at each store: it reads the whole directory."""

ABANDONED_SECONDS = 3600.0
"""A file that is not whole after so many seconds was left behind by a process that is no more."""

COUNTED_BYTES = 1 << 18
"""Values of this size are always counted as memory in use, smaller ones once a program asks how much that is: counting
takes 0.5 us, making an array of this size 30 us."""

LARGE_ALLOCATION = 1 << 28
"""From this many bytes on it is asked first whether they are there, which takes 30 us."""


def physical_memory() -> int | None:
    """The machine's memory in bytes; None where the system does not tell."""
    if not hasattr(os, "sysconf") or not {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        return None
    return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 0) or None


KEPT_BYTES = min(1 << 28, (physical_memory() or 1 << 33) // 64)
"""How many free bytes stay in the process until a program sets another number. Six times `x = sin(x) * y` and the six
evaluated at once, again and again, by what may stay (us; in NumPy, then by XLA):

| arrays of | glibc as it is | 8 MiB | 32 MiB | 256 MiB | by XLA: as it is | 256 MiB |
|---|---|---|---|---|---|---|
| 64 kB | 390 to 480 | 111 | 110 | 110 | 112 | 113 |
| 256 kB | 810 to 870 | 334 | 334 | 341 | 335 to 540 | 334 |
| 1 MB | 4300 to 4500 | 1150 | 1170 | 1150 | 3000 to 3100 | 1600 to 1700 |
| 4 MB | 9900 to 11500 | 9800 | 4900 | 4600 | 10300 to 12000 | 4800 to 6600 |
"""

LARGEST_KEPT = 1 << 25
"""Larger arrays have pages of their own, that go back at once. More than this glibc does not take."""

MOST_KEPT_BYTES = (1 << 31) - 1
"""The number is an int to glibc."""

LONGEST_AXIS = (1 << 31) - 1
"""The length of an axis, at most: MLX has 32 bits for it."""

MOST_BYTES = (1 << 63) - 1
"""The size of an array, at most: XLA ends the process if it has to count further."""
