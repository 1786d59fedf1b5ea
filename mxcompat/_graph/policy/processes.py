"""Thresholds for several processes: their time limits, and the sizes of their caches and messages."""

from __future__ import annotations

GRACE_SECONDS = 5.0
"""The time that a rank adds to its time limit when the awaited rank itself waits for all others. The launcher also uses
it: after a failure, the other processes have this time to report errors before it ends them. (A traceback on two cores
under full load: 2 s.)"""

REST_OF_LINE_SECONDS = 0.1
"""The time for which the launcher waits for the rest of a line. The parts that one `print` writes come within a
millisecond, or within a few tens of milliseconds on a busy machine."""

MOST_EXCHANGED = 1 << 14
"""The largest number of bytes that a rank receives if the ranks exchange whole arrays. Between CPUs, the collective of
a small array is computed in this way: each rank combines the arrays of all ranks.

An `all_sum` of 4 KB between two processes takes 0.12 ms, and 1.5 ms as an XLA program. Twice as many bytes must fit
into the buffers of a connection.
"""

SLOWEST_LINK = 1e6
"""The number of bytes of a collective that must arrive each second, beyond the time limit, to keep it alive."""
