"""Options: what XLA is told about how to compile."""

from __future__ import annotations

from typing import Any

from mxcompat._jax import jax

from .. import policy
from ..passes.loops import longest_loop
from . import background
from .platform import on_cpu

__all__ = ["FAST", "QUICK", "REPRODUCIBLE", "compile_with", "has_divided_loops"]

_YNN = "LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION,LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"
"""Not its sums: of arrays that are broadcast they are wrong, each time in another way (jaxlib 0.10, plain JAX too)."""
FAST = {"xla_allow_excess_precision": False, "xla_cpu_experimental_ynn_fusion_type": _YNN}
QUICK = {
    **FAST,
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
    "xla_cpu_parallel_codegen_split_count": 1,
    "xla_cpu_use_fusion_emitters": False,
}
REPRODUCIBLE = {**FAST, "xla_gpu_deterministic_ops": True}
"""On a GPU no sums in the order in which threads arrive, and no choice of kernels by how long each takes."""

_WHOLE_LOOPS = {"xla_disable_hlo_passes": "cpu-parallel-task-assigner"}

_unknown: set[str] = set()
"""The options that this version of XLA does not know."""


def compile_with(lowered: jax.stages.Lowered, options: dict[str, Any]) -> jax.stages.Compiled:
    """What XLA makes of a lowered function with those of these options that it knows."""
    if on_cpu() and longest_loop(lowered.compiler_ir("stablehlo")) < policy.SPLIT_SECONDS:
        options = options | _WHOLE_LOOPS
    return _compile(lowered, options)


def has_divided_loops(compiled: jax.stages.Compiled) -> bool:
    """Whether several threads of XLA's go through a loop of an executable for CPUs."""
    return on_cpu() and 'outer_dimension_partitions":["' in compiled.as_text()


def _compile(lowered: jax.stages.Lowered, options: dict[str, Any]) -> jax.stages.Compiled:
    unfit = "xla_gpu_" if on_cpu() else "xla_cpu_"
    known = {name: value for name, value in options.items() if not name.startswith(unfit) and name not in _unknown}
    try:
        with background.behind():
            return lowered.compile(compiler_options=known)
    except jax.errors.JaxRuntimeError as error:
        refused = next((name for name in known if f"No such compile option: '{name}'" in str(error)), None)
        if refused is None:
            raise
        _unknown.add(refused)  # versions of XLA differ in what can be set
    return _compile(lowered, options)
