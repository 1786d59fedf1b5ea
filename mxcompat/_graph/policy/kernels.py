"""Thresholds for the translation of kernels in the Metal language."""

from __future__ import annotations

MOST_SPLITS = 8
"""The largest number of times that a kernel's axes of threads are split."""

MOST_REGISTERS = 32
"""The largest number of elements of a local array that is kept as single values."""

MOST_UNROLLED = 256
"""The largest number of nodes of the syntax tree in all steps together of a small loop that is unrolled.

XLA computes several steps of a longer loop in one pass over the threads, if they write no memory. The limit is then for
the nodes of one pass (distances of all pairs of 1024 rows, 16 steps: 14 ms in separate passes, 3 ms in one pass).
"""

FEW_STEPS = 4
"""The largest number of steps of a small loop of known length that is unrolled. In a longer loop, XLA would recompute
the values of each step in the next (a softmax of 4096x4096 by groups of 256 threads, with 16 steps: 770 ms)."""

MOST_TRIED = 16
"""The largest number of steps that are traced of a loop of unknown length, to find out if it is short."""

LINE_SECONDS, THREAD_SECONDS = 1e-4, 4e-9
"""The time of a line of a kernel in NumPy: the constant part, and the part for each thread."""

MOST_KERNEL_STEPS = 256
"""The total number of loop iterations that a kernel may take in NumPy. A kernel that takes more is left to XLA (an
iteration: about 1 ms; a compile of most kernels: 0.2 to 1 s)."""

MOST_THREADS, MOST_HOST_THREADS, ARRAY_SHARE = 1 << 25, 1 << 20, 1 << 4
"""The number of threads that XLA and NumPy compute at a time, so that a value of all of them takes 128 MB and 4 MB. For
a kernel with local arrays, XLA's number is divided by `ARRAY_SHARE`."""
