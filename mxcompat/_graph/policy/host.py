"""What runs in NumPy, and for how long; how a result is waited for."""

from __future__ import annotations

OP_SECONDS = 2e-6
BYTE_SECONDS = 5e-10
"""What an op takes in NumPy: something for the call, and something for each byte of the result."""

FLOP_SECONDS = 5e-11
"""What a multiplication and addition takes in a product of matrices."""

SINGLE_BYTES = 1 << 14
"""A single op on arrays of no more bytes never leaves the host: NumPy adds two arrays of 8x8 in 0.3 us, where calling
an executable of XLA's takes 7 us."""

THREADED_SECONDS = 2e-5
"""What has products of matrices and is likely to take longer is kept to one thread of BLAS, which takes 4 us: OpenBLAS
shares 2^18 multiplications and more among threads, which wait for each other where other work is on the machine. 299
products of (n, 64) and (64, 64) took 0.4 to 0.5 s so, 0.05 with one thread."""

SINGLE_SECONDS = 1e-4
"""The same for one that takes NumPy no longer than this."""

HEAVY_SECONDS = 2e-2
HEAVY_SHARE = 1 / 32
"""What takes this long on the host is compiled once it has taken this share of the time to compile it. A step of a
4-layer GPT takes 60 ms there, and its compile 2.6 s beside others: three steps and the end of the process took 3.1 s
when it began with the second, and take 0.7; 80 steps take the same."""

HOT_SHARE = 1 / 2
"""The same for what takes less. Compiling goes on beside the runs, which it holds up by a fifth (`COMPILER_NICENESS`):
what it costs is the wait for it where the process ends meanwhile."""

HEAVY_RUNS = 200
"""The same, unless compiling it is likely to take longer than so many runs. The gradient of a loop of 2 048 steps takes
0.25 s, and compiling it minutes."""

HOPELESS = 3.0
"""A program is compiled at once if NumPy is likely to take this many times as long as compiling it."""

LIGHT_SECONDS = 5e-4
"""What NumPy is likely to do in this time is done there at once; of more, what reads only small data is done first if
the rest is known."""

TRIALS, HOST_TRIALS, FEW_TRIALS, TRIAL_SECONDS = 24, 8, 3, 2e-2
"""How often to time an executable, where it may be slower than the host, and how often the host then; how often at
least, if that takes longer. First runs are slow, as threads get their memory: XLA's of the sum of a transposed array
and another, 1.6 MB each, took 1 ms in most of the first 8, and 0.2 after 10 one after the other; NumPy's 1.2 ms, and
0.11 after 5. In turn neither got there: 0.2 to 0.4 ms for NumPy, 0.35 to 0.64 for XLA."""

MARGIN, CLEAR_MARGIN = 0.8, 0.5
"""What the host's best time has to be of the executable's, for a program to stay there; and what for one that is not
light, as a compile in the background may have taken XLA one of two cores while it was timed."""

CLEARLY_SLOWER = 4
"""An executable whose first run takes this many times what the host took, and more than `TRIAL_SECONDS`, is not tried
again: XLA sorts a million floats in 150 to 300 ms, NumPy in 9."""

RESULT_SECONDS = 1e-5
"""What it takes besides to wait for a result of an executable's and to look at it. Six ops on two numbers and `item()`
took 80 us in NumPy, of which running them 30, and 85 us in XLA, of which 43."""

TRIED_SECONDS, TRIED_WEIGHT = 1e-3, 64
"""Up to this time on the host, or so many instructions, it may be. (The sum of above took 0.43 ms and more in each of
the first 8 runs of one process of ten.) A larger program gains by XLA, which fuses its ops.
Of few ops NumPy has the faster code for some: a million floats are sorted in 1.5 ms, where XLA takes 40 and more, their
sines take 0.5 ms (8), the places of the largest in a thousand rows 0.1 ms (5)."""


def compile_seconds(weight: int) -> float:
    """What tracing, lowering and compiling a program of so many instructions takes, in a hurry: one op 15 ms, the
    gradient of a 4-layer MLP (84) 100 ms, a train step of a 4-layer GPT (800) 1.7 s, twice that beside the steps. For
    speed small ones take four times as long, but another core does that: with 4.5e-3 * weight, tokens of a small llama
    stayed in NumPy for 800 tokens, at twice to four times XLA's time.

    When a program has taken a share of it on the host it is compiled: at most about twice the optimum in all.
    """
    return 0.015 + 8e-4 * weight + 2.5e-6 * weight * weight


IMPORT_SECONDS = 0.35
"""What it takes besides where JAX has not been imported. The training of a small network in 400 steps takes 0.5 s where
this keeps it in NumPy, and 1.1 s without; in 3000 steps 2.2 s, and 2.1."""

WORTH_WAITING = 0.5
"""What is being compiled is waited for if running it once on the host takes this share of the time to compile it. Of
less, what the host gets done meanwhile is worth more: a 4-layer GPT trains in 80 ms a step there, then in 63; waiting
for its executable took 0.9 s."""

LONGEST_END = 0.1
"""For what share of the time that a program took its end may wait for what is being compiled: with that, the next
process finds it on the disk. Six of 21 small programs of 2 to 4 s waited for 1 to 7.5 s."""

COMPILER_NICENESS = 5
"""The niceness of the threads that compile. Beside them on two cores, tokens of a small llama that take 2.8 ms in NumPy
took 5.0 (0); 3.8 (3); 3.3 (5); 3.2 (10), and the compile 1.4 s (0); 1.9 (5)."""

WATCH_SECONDS, BUSY_SHARE, QUIET_SECONDS = 3e-2, 0.5, 1.0
"""How often to look what XLA's threads do; for what share of that time one has to be busy to be one that compiles; and
how long ago the last run has to have begun, and been seen under way: JAX lets the same threads run programs."""

SMALL_BYTES = 1 << 16
"""Up to how many bytes an array is small: what reads only such data had better be done with NumPy."""

SURE = 2
"""What is left once that is done had to be the same this often, for it to be the same the next time."""

SPIN_SECONDS = 1e-3
"""For how many seconds to look for a result before going to sleep: being woken takes 0.1 ms. A step that XLA takes
0.6 ms for took 1.03 ms with 3e-4 here, 0.94 with this. What took longer the last time is slept for at once, since
looking for it takes a core from XLA: a product of 2.8 ms took 3.3 with 2e-3 here, and 3.9 with 8e-3."""

MOST_HOST_STEPS = 2000
"""How many steps of a loop with an unknown end NumPy goes before the loop is compiled after all: at 2 us an op, a body
of five has taken as long by then as compiling it would."""

LIKELY_STEPS = 50
"""How many steps such a loop is taken to have, as long as it is not known."""
