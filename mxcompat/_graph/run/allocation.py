"""Allocation: refuse results that would not fit into memory before they are computed, with MLX's error.

Linux overcommits memory and kills a process that uses too much of it, so no error could be caught later.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mxcompat._compat.xla import is_out_of_memory, memory_of
from mxcompat._jax import jax

from .. import policy
from ..ir.analyses import analysis
from ..ir.aval import Aval, check_size
from ..ir.program import Program
from .platform import on_cpu

__all__ = ["largest", "largest_result", "nbytes", "needs", "out_of_memory", "require", "require_possible", "results"]


def require(nbytes: int) -> None:
    """Raise RuntimeError if fewer than `nbytes` bytes are available."""
    if nbytes < policy.LARGE_ALLOCATION:
        return
    there = _available()
    if there is not None and nbytes > there:
        raise RuntimeError(f"[malloc] Unable to allocate {nbytes} bytes, of which {there} are available.")


def _available() -> int | None:
    """Return the number of bytes that this process can still allocate, or None if it is unknown."""
    limits = [n for n in (_free_on_machine(), _free_in_container()) if n is not None]
    return min(limits, default=None)


def _free_on_machine() -> int | None:
    """Return the machine's available memory, or its physical memory if that is unknown."""
    match = re.search(r"^MemAvailable:\s+(\d+) kB", _text("/proc/meminfo"), re.MULTILINE)
    return int(match[1]) * 1024 if match else policy.physical_memory()


def _free_in_container() -> int | None:
    """Return the memory left under the container's limit (control groups, version 1 or 2)."""
    for limit, used in (
        ("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes")
    ):  # fmt: skip
        most, now = (_text(f"/sys/fs/cgroup/{name}").strip() for name in (limit, used))
        if most.isdigit() and now.isdigit():
            return max(int(most) - int(now), 0)
    return None


def _text(path: str) -> str:
    return Path(path).read_text() if os.path.exists(path) else ""


def needs(compiled: jax.stages.Compiled) -> tuple[int, int]:
    """Return two sizes of a run's allocations on all devices of this process, in bytes.

    The first is 0 unless the run also needs temporary buffers. The second is 0 unless the run allocates a large part of
    the process's own memory. Both are 0 if XLA does not report the size.
    """
    size, temporary = memory_of(compiled) or (0, 0)
    much = on_cpu() and size >= policy.LARGE_ALLOCATION
    return (size if temporary else 0), (size if much else 0)


def require_possible(jaxpr: Any) -> None:
    """Raise an error for a result of an impossible size, also in nested jaxprs: XLA would end the process."""
    from jax.extend.core import jaxprs_in_params  # imported here because the import is slow

    for equation in jaxpr.eqns:
        for out in equation.outvars:
            shape, dtype = getattr(out.aval, "shape", ()), getattr(out.aval, "dtype", None)
            check_size(shape, getattr(dtype, "itemsize", 1))
        for inner in jaxprs_in_params(equation.params):
            require_possible(inner)


def results(program: Program) -> int:
    """Return the size of all outputs, in bytes."""
    return sum(map(nbytes, program.out_avals))


def nbytes(aval: Any) -> int:
    """Return the size in bytes of a result, or of all results of an op with several."""
    return aval.nbytes if isinstance(aval, Aval) else sum(map(nbytes, aval))


@analysis
def largest_result(program: Program) -> int:
    """Return the size in bytes of the largest result of an instruction."""
    return largest(program.avals)


def largest(avals: Iterable[Any]) -> int:
    """Return the size in bytes of the largest result."""
    return max((a.nbytes if isinstance(a, Aval) else largest(a) for a in avals), default=0)


def out_of_memory(error: Exception) -> RuntimeError | None:
    """Return MLX's error for an error that says that memory ran out, and None for other errors."""
    text = str(error)
    if isinstance(error, RuntimeError) and text.startswith("[malloc]"):
        return error
    if not isinstance(error, MemoryError) and not is_out_of_memory(error) and "array is too big" not in text:
        return None
    match = re.search(r"(\d+) bytes", text)
    size = f"{match[1]} bytes" if match else _size_of(text)
    raised = RuntimeError(f"[malloc] Unable to allocate {size}.")
    raised.__cause__ = error
    return raised


def _size_of(text: str) -> str:
    """Return the size with its unit, as NumPy's message gives it."""
    match = re.search(r"Unable to allocate ([\d.]+ \w+)", text)
    return match[1] if match else "an array of this size"
