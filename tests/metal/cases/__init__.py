"""Kernels of our own, by construct: each is a `Case`, which g++ computes, and mxcompat in NumPy and in XLA."""

from .case import Case, case
from .control import CONTROL
from .functions import FUNCTIONS
from .memory import MEMORY
from .numbers import NUMBERS
from .threads import THREADS

__all__ = ["CASES", "Case", "case"]

CASES = {**NUMBERS, **FUNCTIONS, **CONTROL, **MEMORY, **THREADS}
"""Every case by its name."""
