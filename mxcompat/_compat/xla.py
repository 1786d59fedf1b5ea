"""What XLA does not promise: its options, the texts that it writes, what it says of memory, and its threads."""

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
    "XLA compiles in a hurry or for speed, rounds as written, and divides among threads what is worth it",
    "XLA compiles by its own defaults",
)
def compile_options() -> bool:
    return "compiler_options" in signature(jax.stages.Lowered.compile).parameters


@unpromised(
    "error-texts",
    "what does not fit into the memory raises MLX's error, and options that XLA does not know are left out one by one",
    "JAX's error is raised, and options are left out together",
)
def error_texts() -> bool:
    return issubclass(jax.errors.JaxRuntimeError, RuntimeError)


def refused_option(error: Exception, names: Iterable[str]) -> str | None:
    """The name of the option that XLA does not know, by the error that it raised; None for other errors."""
    if not error_texts.holds:
        return None
    return next((name for name in names if f"No such compile option: '{name}'" in str(error)), None)


def is_out_of_memory(error: Exception) -> bool:
    """True for the error that JAX raises where XLA has not enough memory."""
    return "RESOURCE_EXHAUSTED" in str(error) and error_texts.holds  # to ask the latter imports JAX


@unpromised(
    "executable-text",
    "the text of an executable says which loops its threads divide, and what its devices exchange",
    "the program sleeps while it waits for results, and `mx.ext.sharding.collectives` raises",
)
def executable_text() -> bool:
    return callable(jax.stages.Compiled.as_text)


def text_of(compiled: Any) -> str | None:
    """The text of an executable, in HLO; None where it is something else."""
    if not executable_text.holds:
        return None
    text = compiled.as_text()
    if isinstance(text, str) and text.startswith("HloModule "):
        return text
    executable_text.fails(ValueError(f"an executable's text begins with {str(text)[:40]!r}"))
    return None


@unpromised(
    "memory-analysis",
    "what an executable allocates is known before it runs, so that what does not fit is refused",
    "only its results are",
)
def memory_analysis() -> bool:
    return callable(jax.stages.Compiled.memory_analysis) and callable(jax.stages.Compiled.runtime_executable)


def memory_of(compiled: Any) -> tuple[int, int] | None:
    """The bytes that running an executable allocates on all devices of this process, for its results and on the way,
    and on the way alone; None where XLA does not tell."""
    if not memory_analysis.holds:
        return None
    try:
        found = compiled.memory_analysis()
        if found is None:
            return None
        devices = len(compiled.runtime_executable().local_devices())
        passing = found.temp_size_in_bytes * devices
        return passing + (found.output_size_in_bytes - found.alias_size_in_bytes) * devices, passing
    except (AttributeError, TypeError) as error:
        memory_analysis.fails(error)
        return None


@unpromised(
    "serialized-executables",
    "what one process has compiled is kept on disk for the next ones",
    "each process compiles for itself",
)
def serialized_executables() -> bool:
    from jax.experimental import serialize_executable

    return callable(serialize_executable.serialize) and callable(serialize_executable.deserialize_and_load)


def serialized(compiled: Any) -> bytes:
    """An executable as bytes; none if it holds what no file can, so that it is compiled in each process."""
    if not serialized_executables.holds:
        return b""
    from jax.experimental.serialize_executable import serialize

    try:
        return pickle.dumps(serialize(compiled))
    except (
        AttributeError, ValueError, TypeError, NotImplementedError, pickle.PicklingError, jax.errors.JaxRuntimeError,
    ):  # fmt: skip
        # an AttributeError is what pickle raises of a function within another, such as the callback of host code
        return b""


def deserialized(payload: bytes) -> Any:
    """The executable that was serialized, for the first device. Raises what pickle, JAX and XLA raise."""
    from jax.experimental.serialize_executable import deserialize_and_load

    return deserialize_and_load(*pickle.loads(payload), execution_devices=jax.local_devices()[:1])


@unpromised(
    "hash-recognition",
    "LLVM does not look for checksums in loops over random bits, where it never comes to an end",
    "it does; a loop over random bits may take it for ever to compile",
)
def hash_recognition() -> bool:
    return (0, 10) <= jax.__version_info__ < (0, 13)  # LLVM ends the process for a flag that it does not know


TASKS = Path("/proc/self/task")
"""A folder for each thread of this process, on Linux."""


@unpromised(
    "compiler-threads",
    "the threads of XLA that compile have a lower priority than those that run the program",
    "they have the same",
)
def compiler_threads() -> bool:
    own = TASKS / str(threading.get_native_id()) / "schedstat"
    return sys.platform == "linux" and len([int(n) for n in own.read_text().split()]) == 3


def is_runner(name: str) -> bool:
    """True for the name of a thread of XLA that runs programs and never compiles, for all its name tells."""
    return name.startswith("tf_")
