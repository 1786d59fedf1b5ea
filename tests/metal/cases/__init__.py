"""Kernels of our own, by construct: each is a `Case`, which g++ computes, and mxcompat in NumPy and in XLA."""

from .case import Case, case
from .control import CONTROL
from .cooperation import COOPERATION
from .functions import FUNCTIONS
from .idioms import IDIOMS
from .memory import MEMORY
from .numbers import NUMBERS
from .oddities import ODDITIES
from .passes import PASSES
from .programs import PROGRAMS
from .rows import ROWS
from .searches import SEARCHES
from .threads import THREADS

__all__ = ["CASES", "Case", "case"]

CASES = {
    **NUMBERS,
    **FUNCTIONS,
    **CONTROL,
    **MEMORY,
    **THREADS,
    **PROGRAMS,
    **SEARCHES,
    **IDIOMS,
    **COOPERATION,
    **ODDITIES,
    **PASSES,
    **ROWS,
}
"""Every case by its name."""
