"""What is decided about several processes: how long they wait for each other, and what they remember."""

from __future__ import annotations

GRACE_SECONDS = 5.0
"""How much longer a rank waits for one that itself waits for all, and how long the launcher lets the others say what is
wrong before it ends them: a traceback on two cores under full load took 2 s."""

LAUNCH_PORT = 32323
"""Where rank 0 is met on another machine, whose free ports are not known here: the port that MLX's launcher takes."""

MOST_COLLECTIVES = 1024
"""How many programs of collectives are kept. An executable of one takes about 50 KB."""

MOST_FLYING = 256
"""Among how many collectives that may be under way the one is looked for that has failed."""

LINE_SECONDS = 0.1
"""How long the launcher waits for the rest of a line: the parts that one `print` writes come within a millisecond, or a
few tens of them on a busy machine."""

MOST_EXCHANGED = 1 << 14
"""How many bytes a rank receives at most where, between CPUs, the ranks send each other a small array whole and each
combines them. An `all_sum` of 4 KB between two processes takes 0.12 ms so, and 1.5 ms as a program of XLA's. Twice as
many have to fit into the buffers of a connection."""

LINK_SPIN_SECONDS = 2e-4
"""How long a message of another rank is looked for before going to sleep, from which to wake takes 0.05 ms."""

SLOWEST_LINK = 1e6
"""How many bytes of a collective have to arrive in a second, beyond the limit, for it not to be given up."""

LONGEST_PAUSE = 1e-3
"""How often, in seconds, to look whether a collective of large arrays has ended: one of 16 MB takes 20 ms."""
