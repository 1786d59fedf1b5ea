"""Metal kernels compiled by g++, the oracle of the tests of `mx.fast.metal_kernel`: g++ decides the meaning of C.

The headers beside this file define Metal in C++20: types, functions, and threads as fibers. A kernel's text becomes a
function of a shared library, which runs on NumPy arrays. Libraries are kept in a temporary folder, by their text.
"""

from .build import Compiled, CompileError, compile_kernels, missing
from .run import run

__all__ = ["CompileError", "Compiled", "compile_kernels", "missing", "run"]
