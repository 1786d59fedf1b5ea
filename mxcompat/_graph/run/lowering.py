"""Lowering: what JAX has traced as StableHLO, in words of which XLA's compiler for CPUs makes right and fast code."""

from __future__ import annotations

from typing import Any

import jax
from jaxlib.mlir import ir

from .interrupts import uninterrupted
from .platform import backend
from .repeats import compute_once
from .rounding import round_products
from .stages import reduce_in_stages
from .sums import multiply_sums

__all__ = ["lower"]


def lower(traced: jax.stages.Traced) -> jax.stages.Lowered:
    """The StableHLO of a traced function, for the back-end that JAX has."""
    lowered = _lowered(traced)
    if backend() == "cpu":
        module = lowered.compiler_ir("stablehlo")
        multiply_sums(module)
        round_products(module)
        if _is_for_one_device(module):
            reduce_in_stages(module)
            compute_once(module)
    return lowered


_has_lowered = False


def _lowered(traced: jax.stages.Traced) -> jax.stages.Lowered:
    """What JAX makes of it. The first time it imports dialects of MLIR for that, and those cannot be imported again if
    an interrupt has cut that short."""
    global _has_lowered
    if _has_lowered:
        return traced.lower()
    found: list[jax.stages.Lowered] = []
    uninterrupted(lambda: found.append(traced.lower()))
    _has_lowered = True
    return found[0]


def _is_for_one_device(module: Any) -> bool:
    return ir.IntegerAttr(module.operation.attributes["mhlo.num_partitions"]).value == 1
