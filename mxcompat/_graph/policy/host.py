"""Thresholds for the choice between NumPy and XLA, for background compiles, and for waiting for results."""

from __future__ import annotations

OP_SECONDS = 2e-6
BYTE_SECONDS = 5e-10
"""The time of an op in NumPy: for a call, plus for each byte of the result."""

FLOP_SECONDS = 5e-11
"""The time of one multiplication and one addition in a matrix product in NumPy."""

MEASURED_PRODUCTS, SAMPLE_SIZE = 1 << 27, 512
"""The number of multiplications in an op from which the time of each is measured on this machine, once in a process;
and the size of the matrices that are multiplied three times for this, which takes 4 to 20 ms.

Processors differ by a factor of five: 0.9e-11 s with AVX-512, 3e-11 with AVX2. With `FLOP_SECONDS` alone, programs of
large products went to XLA at once that NumPy computes sooner than XLA compiles them. The first step on a processor with
AVX-512, with `FLOP_SECONDS` and with the measured time: GPT-2 small, trained, 13.4 and 5.7 s; BERT base 3.2 and 1.4 s.
"""

THREADED_SECONDS = 2e-5
"""The estimated time from which a program with matrix products is limited to one BLAS thread; the limit takes 4 us.

OpenBLAS divides 2^18 or more multiplications among threads, which wait for each other when other work is on the
machine. 299 products of (n, 64) and (64, 64) took 0.4 to 0.5 s with its threads, and 0.05 s with one thread.
"""

HEAVY_SECONDS = 2e-2
HEAVY_SHARE = 1 / 32
"""A program that takes longer than `HEAVY_SECONDS` on the host is compiled once it has run there for this share of its
compile time.

A step of a 4-layer GPT takes 60 ms on the host, and its compile takes 2.6 s beside other steps. When the compile began
with the second step, three steps and the end of the process took 3.1 s; they take 0.7 s now. 80 steps take as long as
before.
"""

SAVED_SHARE = 1 / 2
"""The share of a run in NumPy that a compile must be able to save, for the program to count as heavy.

A compile saves none of the time in C code that XLA's programs call, too, and in BLAS, whose large products take as long
as XLA's. Only the other CPU time counts here, for `HEAVY_SHARE` and for `HOT_SHARE`. (With wall time, a program would
become hot too early on a busy machine, where its compile takes longer, too.)

A token of Qwen2 0.5B with 4 bits takes 57 ms in NumPy, of which C takes 36. In XLA it takes 42 to 51 ms. When its
compile began after two tokens, the import of JAX stopped the third one for 1 to 1.4 s. 16 tokens then took 3 s. They
take 1.1 s, and the compile begins after 40 tokens. BERT base takes 1.2 s in NumPy, and 0.95 s after a compile of 1.9 s.
"""

HOT_SHARE = 1 / 2
"""A program that takes at most `HEAVY_SECONDS` on the host is compiled once it has run there for this share of its
compile time. The compile runs beside the steps, which it slows by a fifth (`COMPILER_NICENESS`). If the process ends
before the compile, it must wait for the compile."""

HEAVY_RUNS = 200
"""A heavy program is not compiled early if its compile is estimated to take longer than this number of runs.

The gradient of a loop of 2 048 steps takes 0.25 s on the host, and minutes to compile.
"""

HOPELESS = 3.0
"""A program is compiled at once if NumPy is estimated to take this many times as long as the compile."""

LONG_RUN = 3.0
"""A program is compiled for speed at once if NumPy is estimated to take this many times as long as a quick compile. The
executable of a quick compile takes two to four times as long as one for speed. (A training step of GPT-2 small, quickly
and for speed: core seconds to compile 6.4 and 13, to run 9.6 and 5.2.)"""

LIGHT_SECONDS = 5e-4
"""A program below this estimated time runs in NumPy at once. In a longer one, the ops that read only small data run
first, if the rest of its graph is a known structure (`KNOWN_MIN_RUNS`)."""

AUTOTUNE_RUNS, AUTOTUNE_MIN_RUNS, AUTOTUNE_SECONDS = 16, 3, 2e-2
"""The numbers of timed runs that decide between an executable and the host.

First the executable runs `AUTOTUNE_RUNS` times, then the host. Either stops after `AUTOTUNE_SECONDS`, but not before
`AUTOTUNE_MIN_RUNS` runs.

The runs of one side follow each other, since first runs are slow, while threads get their memory. (The sum of a
transposed array and another, 1.6 MB each: XLA took 1 ms in most of the first 8 runs, and 0.2 ms after 10 in a row.
NumPy took 1.2 ms, and 0.11 ms after 5. In alternating runs, XLA took 0.35 to 0.64 ms, and NumPy 0.2 to 0.4 ms.)
"""

MARGIN, LARGE_MARGIN = 0.8, 0.5
"""A program stays on the host if the host's best time is below this share of the executable's best time. The second
number is for programs above `AUTOTUNED_SECONDS` and `FEW_INSTRUCTIONS`. Of these, only the executable is timed, for at
most `AUTOTUNE_MIN_RUNS` runs, until one takes less time than the host.

A token of a Jamba model with experts (768 wide, 8 layers) takes 80 to 140 ms in NumPy, and 340 to 480 ms in XLA.
"""

CLEARLY_SLOWER = 4
"""An executable whose first run takes this many times the host's time, and more than `AUTOTUNE_SECONDS`, is not tried
again. XLA sorts a million floats in 150 to 300 ms, NumPy in 9 ms."""

RESULT_SECONDS = 1e-5
"""The extra time to wait for the result of an executable and to read it. Six ops on two numbers and `item()` took 80 us
in NumPy, of which the ops took 30; in XLA 85 us, of which 43."""

AUTOTUNED_SECONDS = 1e-3
"""A program may stay on the host up to this time, or up to `FEW_INSTRUCTIONS`.

The sum at `AUTOTUNE_RUNS` took at least 0.43 ms in each of the first 8 runs of one process in ten. A larger program
gains from XLA, which fuses its ops. For some single ops NumPy has the faster code. A million floats are sorted in 1.5
ms (XLA: 40 ms or more), their sines take 0.5 ms (8 ms), and the argmax of a thousand rows 0.1 ms (5 ms).
"""


def compile_seconds(weight: int, kinds: int, compound: int, draws: int) -> float:
    """Return the estimated time to trace, lower and quickly compile a program.

    Each instruction costs tracing, lowering and XLA's passes. Each different one also costs LLVM's time. Core seconds
    of a quick compile, and this estimate (Python 3.13 and JAX 0.12 | 3.11 and 0.10; 2 cores, busy):

    - elementwise ops, 200: 0.10 | 0.08, 0.15; 1000: 0.46 | 0.30, 0.55
    - BERT, 1 layer: 0.28 | 0.21, 0.29; 12 layers: 0.72 | 0.96, 0.92; Qwen2, 24 layers, bfloat16: 3.1 (very busy), 2.1
    - ResNet-50: 1.0 | 0.7, 1.3; a training step of a small ResNet: 5.3 | 2.8, 5.0; 16 random draws: 1.9 | 1.3, 1.8
    - a training step of GPT-2, 1 layer: 1.5 | 0.8, 1.8; 12 layers: 6.4 | 7.7, 7.5; of an MLP, 16 layers: 0.6 | 0.5, 1.5
    - the gradient of an LSTM, 8 steps: 1.5 | 0.9, 1.1; 30 steps: 4.7 | 3.2, 3.9

    A compile for speed takes 1.6 to 2 times as long with JAX 0.12, and 2 to 4 times with 0.10. A program is compiled
    after it has run on the host for a share of this time, so that the total is at most about twice the optimum.

    Args:
        weight: number of instructions.
        kinds: number of different ops.
        compound: number of ops that are not elementwise.
        draws: number of random draws.
    """
    return 0.015 + 5e-4 * weight + 9e-3 * kinds + 2e-3 * compound + 5e-2 * draws


IMPORT_SECONDS = 0.35
HEAVY_IMPORT_SHARE = 1 / 2
"""The time to import JAX, and the share of it for which NumPy must have computed, all programs together, before JAX is
imported for a heavy program.

The import stops the program. When it came after a thirtieth of its time, the first three of 200 ops on a million floats
took 1.1 s (now 0.18 s, MLX 0.13 to 0.19). The first hundred took as long as now.

For other programs, NumPy must have computed for `HOPELESS` times the import, because the import and the compile pay off
late. The gradient of a small MLP takes 0.26 ms in NumPy and 0.19 ms in XLA; the import and its compile take 0.8 s of
CPU time, half of it in the program's thread. When the import came after 0.25 s in NumPy, 3000 steps took 1.2 s; at 0.26
ms each, they take 0.8 s without it.
"""

WORTH_WAITING = 0.5
"""A run waits for the compile in progress if one run on the host takes this share of the compile time.

For a smaller share, it is better to go on in NumPy. A 4-layer GPT trains at 80 ms a step on the host, and then at 63
ms; the wait for its executable took 0.9 s.
"""

LONGEST_END = 0.1
"""The share of a program's run time for which its end may wait for compiles in progress, so that the next process finds
them on the disk. Six of 21 small programs of 2 to 4 s waited for 1 to 7.5 s."""

COMPILER_NICENESS = 5
"""The niceness of the compiling threads. A token of a small llama takes 2.8 ms in NumPy. Beside a compile on two cores
it took 5.0 ms (niceness 0), 3.8 (3), 3.3 (5) and 3.2 (10). The compile took 1.4 s (0) and 1.9 s (5)."""

WATCH_SECONDS, BUSY_SHARE, QUIET_SECONDS = 3e-2, 0.5, 1.0
"""The settings of the search for XLA's compiling threads, by their use of the CPU.

`WATCH_SECONDS` is the interval between two looks at the threads. A thread counts as compiling if it was busy for
`BUSY_SHARE` of the interval. JAX runs programs in the same threads, so the last run must have begun at least
`QUIET_SECONDS` ago.
"""

WAKE_SECONDS = 2e-4
"""The time that another thread must save to be worth waking. To wake it takes 0.05 to 0.1 ms.

- An op that takes less time runs on the host.
- A rank polls for a message for this time before it sleeps.
- A loop that takes less time is not divided among XLA's threads.

| us, on floats | one thread | two threads |
|---|---|---|
| sum of two arrays of 262 000 | 122 | 104 |
| sum of two arrays of a million | 312 | 282 |
| AdamW's step on 65 000 | 148 | 93 |
| AdamW's step on 262 000 | 297 | 207 |
| AdamW's step on 524 000 | 446 | 409 |
| `tanh` of 262 000 | 186 | 156 |
| `tanh` of 524 000 | 260 | 301 |
| `sin(x) * exp(y) + tanh(z)` of 33 000 | 243 | 199 |
| `sin(x) * exp(y) + tanh(z)` of 131 000 | 806 | 850 |
| training step of a convolutional network | 3500 | 2800 |
"""

SPIN_SECONDS = 1e-3
"""The time for which a thread polls for a result before it sleeps, and the longest pause between two looks at a
collective of large arrays.

With 1e-3, a step that XLA computes in 0.6 ms took 0.94 ms; with 3e-4 it took 1.03 ms. If the last result took longer
than this, the thread sleeps at once, since polling takes a core from XLA. A product of 2.8 ms took 3.3 ms with 2e-3,
and 3.9 ms with 8e-3.
"""

MOST_HOST_STEPS = 2000
"""The number of steps that a loop with an unknown end runs in NumPy before it is compiled. At 2 us for each op, a body
of five ops has then taken as long as its compile."""

LIKELY_STEPS = 50
"""The assumed number of steps of a loop with an unknown end."""
