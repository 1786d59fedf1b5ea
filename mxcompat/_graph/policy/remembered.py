"""Limits of the caches, in memory and on the disk, and of the size of arrays."""

from __future__ import annotations

import os

HELD_SHARE = 0.75
"""The share of the structures, of the executables, or of the bytes on the disk that remains after an eviction. An
eviction sorts them all, and on the disk reads the whole directory, so it should be rare."""

TRIMMED_SECONDS = 0.3
"""The duration of a run from which free memory is returned to the system: after a compile, after a run op by op, and
before an executable runs again.

400 MB are free after a forward pass of BERT, in several threads' heaps. To return them and allocate them again takes
0.05 s. The training of GPT-2 small keeps 1 GB after its first step, and 0.7 GB after later ones. Its peak is 3.0 GB,
and 3.7 without this. Its steps take as long as before, as do those of ViT, BERT and Whisper's encoder.
"""

BYTES_PER_INSTRUCTION = 300
"""The estimated memory of one instruction of a structure, in Python objects, with its Programs and their records. The
structure adds ten times this number (3 000 structures of 33 instructions took 35 MB)."""

BYTES_PER_EXECUTABLE = 80_000
BYTES_PER_SERIALIZED = 17
"""The estimated memory of an executable on a CPU: a constant, plus this number of bytes for each serialized byte.

Serialized length and memory: small expressions 37 kB and 0.69 MB; gradient of a 3-layer MLP 111 kB and 1.75 MB, of a
2-layer transformer 281 kB and 4.3 MB, of a loop of 60 products 394 kB and 6.6 MB. An executable that is compiled for
speed takes a fifth more.
"""

COMPILED_PER_INSTRUCTION = 30_000
"""The memory of an executable for each instruction of its Program, until its serialized length is known."""

BYTES_PER_TRACE = 7000
"""The memory that JAX keeps for each call of a jitted function (such as most of `jax.numpy`) at each shape. Gradients
of a 3-layer MLP at 120 batch sizes left 9 563 traces, 29 MB and 498 000 Python objects."""

MOST_LOWERED = 4
"""The number of executables whose lowered module is kept for the later compile for speed: 1.1 MB for the gradient of a
3-layer MLP."""

TRIES = 4
"""The largest number of structures that are compared with a graph whose roots are of one kind. A training loop hits the
first; a loop that alternates between a few programs hits one of the next. Each miss costs 1 us."""

MOST_ENTRIES = 4096
"""The largest number of entries of a cache of small objects (a hundred bytes to 3 kB each).

These are kinds of roots, executables of single nodes, and recorded contractions; for each op also the results of its
shape rule, and its plans if it makes any.
"""

MOST_PROGRAMS = 512
"""The largest number of entries of a cache of programs (up to 50 kB each): traces of one compiled function, optimizer
updates that are one node, and programs of collectives. Also the largest number of cached leaves for numbers, and of
pending effects."""

MOST_AVALS = 1 << 16
"""The largest number of cached avals."""

STORED_SECONDS = 0.01
"""The compile time below which an executable is not stored on the disk. One op takes 3 ms to load and 30 to 75 ms to
compile. A train step of a 4-layer GPT takes 0.17 s to load, and 13 s to compile for speed on the same busy machine."""

STORED_BYTES = 1 << 30
"""The largest size of all executables on the disk. One op has 8 kB, a train step of a 4-layer GPT 1 MB."""

ABANDONED_SECONDS = 3600.0
"""The age after which an incomplete file counts as left behind by a process that has ended."""

LARGE_ALLOCATION = 1 << 28
"""The size from which an allocation first checks the available memory, which takes 30 us."""


def physical_memory() -> int | None:
    """Return the machine's memory in bytes; None if the system does not report it."""
    if not hasattr(os, "sysconf") or not {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= os.sysconf_names.keys():
        return None
    return max(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), 0) or None


KEPT_BYTES = min(1 << 28, (physical_memory() or 1 << 33) // 64)
"""The number of free bytes that stay in the process, until a program sets another number.

The table shows the time in us of six times `x = sin(x) * y`, evaluated together, again and again. The columns are the
bytes that may stay; first in NumPy, then in XLA:

| arrays of | glibc as it is | 8 MiB | 32 MiB | 256 MiB | by XLA: as it is | 256 MiB |
|---|---|---|---|---|---|---|
| 64 kB | 390 to 480 | 111 | 110 | 110 | 112 | 113 |
| 256 kB | 810 to 870 | 334 | 334 | 341 | 335 to 540 | 334 |
| 1 MB | 4300 to 4500 | 1150 | 1170 | 1150 | 3000 to 3100 | 1600 to 1700 |
| 4 MB | 9900 to 11500 | 9800 | 4900 | 4600 | 10300 to 12000 | 4800 to 6600 |
"""
