"""Choose the compiler options for XLA, and compile without those that it refuses."""

from __future__ import annotations

from typing import Any

from mxcompat._compat.dialects import attempt
from mxcompat._compat.xla import compile_options, is_out_of_memory, refused_option, text_of
from mxcompat._jax import jax

from .. import policy
from ..passes.loops import longest_loop
from . import background
from .lowering import Lowered
from .platform import on_cpu

__all__ = ["FAST", "QUICK", "REPRODUCIBLE", "compile_with", "has_divided_loops"]

_YNN = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION,LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
"""The kinds of ops that YNN may fuse. Its sums of broadcast arrays are wrong and vary from run to run (jaxlib 0.10,
plain JAX too), so sums are left out."""
FAST = {"xla_allow_excess_precision": False, "xla_cpu_experimental_ynn_fusion_type": _YNN}
QUICK = {
    **FAST,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}
REPRODUCIBLE = {**FAST, "xla_gpu_deterministic_ops": True}
"""Options for the same bits in each run: on a GPU, no atomic sums and no autotuning of kernels."""

_WHOLE_LOOPS = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}
_PLAIN = {"xla_disable_hlo_passes": "algsimp,fusion"}
"""Options that switch off the algebraic simplifier and fusion."""

_unknown: set[str] = set()
"""Options that this version of XLA has rejected."""


def compile_with(lowered: Lowered, options: dict[str, Any]) -> jax.stages.Compiled:
    """Compile a lowered function with those of the options that this version of XLA knows."""
    if lowered.is_plain:
        options = options | _PLAIN
    elif on_cpu() and _is_quick(lowered):
        options = options | _WHOLE_LOOPS
    return _compile(lowered, options)


def _is_quick(lowered: Lowered) -> bool:
    """Return True if even the longest loop is too short for several threads."""
    is_known, seconds = attempt(longest_loop, lowered.compiler_ir("stablehlo"))
    return is_known and seconds < policy.WAKE_SECONDS  # type: ignore[operator]


def has_divided_loops(compiled: jax.stages.Compiled) -> bool:
    """Return True if XLA divides a loop of this CPU executable among threads, or if that is unknown."""
    if not on_cpu():
        return False
    text = text_of(compiled)
    return text is None or 'outer_dimension_partitions":["' in text


def _compile(lowered: Lowered, options: dict[str, Any]) -> jax.stages.Compiled:
    unfit = "xla_gpu_" if on_cpu() else "xla_cpu_"
    known = {name: value for name, value in options.items() if not name.startswith(unfit) and name not in _unknown}
    if not compile_options.holds:
        known = {}
    if lowered.is_plain and _PLAIN.keys().isdisjoint(known):
        compile_options.note(RuntimeError("XLA simplifies all the same: rare cases of overflow and of writes in place"))
    try:
        with background.behind():
            return lowered.compile(known)
    except jax.errors.JaxRuntimeError as error:
        if not known or is_out_of_memory(error):
            raise
        refused = refused_option(error, known)
        if refused is None:
            return _compile_by_defaults(lowered, error)
        _unknown.add(refused)  # versions of XLA have different options
    return _compile(lowered, options)


def _compile_by_defaults(lowered: Lowered, error: Exception) -> jax.stages.Compiled:
    """Compile without options. If that fails, too, the options were not the cause, and the given error is raised."""
    try:
        with background.behind():
            compiled = lowered.compile({})
    except jax.errors.JaxRuntimeError:
        raise error from None
    compile_options.note(error)
    return compiled
