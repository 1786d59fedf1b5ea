"""Undocumented parts of XLA: its options, its texts, its memory analysis, and its threads."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Iterable
from inspect import signature
from pathlib import Path
from typing import Any

from mxcompat._jax import jax

from .registry import unpromised

__all__ = [
    "TASKS", "compile_options", "compiler_threads", "deserialized", "hash_recognition", "is_out_of_memory", "is_runner",
    "memory_of", "refused_option", "serialized", "serialized_executables", "text_of",
]  # fmt: skip


@unpromised(
    "compile-options",
    "XLA compiles quickly or for speed, rounds as written, and divides only long loops among threads",
    "XLA compiles with its defaults",
)
def compile_options() -> bool:
    return "compiler_options" in signature(jax.stages.Lowered.compile).parameters


@unpromised(
    "error-texts",
    "if memory runs out, MLX's error is raised, and only options that XLA does not know are left out",
    "JAX's error is raised, and all options are left out if XLA does not know one",
)
def error_texts() -> bool:
    return issubclass(jax.errors.JaxRuntimeError, RuntimeError)


def refused_option(error: Exception, names: Iterable[str]) -> str | None:
    """Return the name of the option that XLA does not know, from XLA's error. Return None for other errors."""
    if not error_texts.holds:
        return None
    return next((name for name in names if f"No such compile option: '{name}'" in str(error)), None)


def is_out_of_memory(error: Exception) -> bool:
    """Return True for the error that JAX raises if XLA does not have enough memory."""
    # the text is tested first, because the probe imports JAX
    return "RESOURCE_EXHAUSTED" in str(error) and error_texts.holds


@unpromised(
    "executable-text",
    "the text of an executable shows which loops are divided among threads, and which collectives it has",
    "the program blocks while it waits for results, and `mx.ext.sharding.collectives` raises an error",
)
def executable_text() -> bool:
    return callable(jax.stages.Compiled.as_text)


def text_of(compiled: Any) -> str | None:
    """Return the HLO text of an executable, or None if JAX does not give it."""
    if not executable_text.holds:
        return None
    text = compiled.as_text()
    if isinstance(text, str) and text.startswith("HloModule "):
        return text
    executable_text.fails(ValueError(f"an executable's text begins with {str(text)[:40]!r}"))
    return None


@unpromised(
    "memory-analysis",
    "an executable's allocations are known before it runs, so that one that does not fit is refused",
    "only the sizes of its results are known",
)
def memory_analysis() -> bool:
    return callable(jax.stages.Compiled.memory_analysis) and callable(jax.stages.Compiled.runtime_executable)


def memory_of(compiled: Any) -> tuple[int, int] | None:
    """Return the bytes that a run of an executable allocates on all devices of this process, or None if XLA does not
    tell.

    The first number counts results and temporary buffers, the second one temporary buffers alone.
    """
    if not memory_analysis.holds:
        return None
    try:
        analysis = compiled.memory_analysis()
        if analysis is None:
            return None
        devices = len(compiled.runtime_executable().local_devices())
        temporary = analysis.temp_size_in_bytes * devices
        return temporary + (analysis.output_size_in_bytes - analysis.alias_size_in_bytes) * devices, temporary
    except (AttributeError, TypeError) as error:
        memory_analysis.fails(error)
        return None


@unpromised(
    "serialized-executables",
    "compiled programs are stored on disk for later processes",
    "each process compiles all its programs",
)
def serialized_executables() -> bool:
    from jax.experimental import serialize_executable

    return callable(serialize_executable.serialize) and callable(serialize_executable.deserialize_and_load)


def serialized(compiled: Any) -> bytes:
    """Serialize an executable. Return b"" if that is impossible, so that each process must compile it."""
    if not serialized_executables.holds:
        return b""
    from jax.experimental.serialize_executable import serialize

    try:
        return pickle.dumps(serialize(compiled))
    except (
        AttributeError, ValueError, TypeError, NotImplementedError, pickle.PicklingError, jax.errors.JaxRuntimeError,
    ):  # fmt: skip
        # pickle raises AttributeError for a nested function, such as the callback of host code
        return b""


def deserialized(payload: bytes) -> Any:
    """Load a serialized executable, for the first device. Errors of pickle, JAX and XLA are raised as they are."""
    from jax.experimental.serialize_executable import deserialize_and_load

    return deserialize_and_load(*pickle.loads(payload), execution_devices=jax.local_devices()[:1])


@unpromised(
    "hash-recognition",
    "LLVM does not search loops over random bits for checksums, which would never end",
    "it does, so the compile of a loop over random bits may never end",
)
def hash_recognition() -> bool:
    return (0, 10) <= jax.__version_info__ < (0, 13)  # LLVM ends the process at an unknown flag


TASKS = Path("/proc/self/task")
"""A directory with an entry for each thread of this process, on Linux."""


@unpromised(
    "compiler-threads",
    "XLA's compiler threads have a lower priority than the threads that run the program",
    "they have the same priority",
)
def compiler_threads() -> bool:
    own = TASKS / str(threading.get_native_id()) / "schedstat"
    return sys.platform == "linux" and len([int(n) for n in own.read_text().split()]) == 3


def is_runner(name: str) -> bool:
    """Return True if a thread of XLA only runs programs and never compiles, judged by its name."""
    return name.startswith("tf_")
