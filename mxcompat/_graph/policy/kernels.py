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
