"""How kernels in the Metal language are translated."""

from __future__ import annotations

MOST_SPLITS = 8
"""How often an axis of threads is split at most."""

MOST_REGISTERS = 32
"""Up to how many elements a local array is kept as single values."""

MOST_UNROLLED = 256
"""A loop of known length is unrolled if its steps have no more nodes of the syntax tree than this in all."""

FEW_STEPS = 4
"""A loop of known length with no more steps than this is unrolled, if it is small. Longer ones are not, as XLA computes
what is read in each step anew in the next: a softmax of 4096x4096 by groups of 256 threads, 16 steps a loop, took
770 ms."""

MOST_TRIED = 16
"""How many steps of a loop are walked in the hope that they are few, if its length is not known beforehand."""

MOST_KERNELS = 1 << 9
"""How many kernels are kept that have been parsed."""

LINE_SECONDS, THREAD_SECONDS = 1e-4, 4e-9
"""What a line of a kernel takes in NumPy: something for walking it, and something for each thread."""

MOST_KERNEL_STEPS = 256
"""How often NumPy goes round a kernel's loops, in all, before the kernel is left to XLA: a step takes about 1 ms of
walking, and compiling most kernels 0.2 to 1 s."""

MOST_THREADS, MOST_HOST_THREADS, ARRAY_SHARE = 1 << 25, 1 << 20, 1 << 4
"""How many threads are computed at a time, by XLA and by NumPy: a value of all of them takes 128 MB and 4 MB. XLA
computes fewer, by that factor, of a kernel with local arrays."""
