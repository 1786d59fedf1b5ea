"""Lowering: what JAX has traced as StableHLO, in words of which XLA's compiler for CPUs makes right and fast code."""

from __future__ import annotations

import jax

from .platform import backend
from .rounding import round_products
from .sums import multiply_sums

__all__ = ["lower"]


def lower(traced: jax.stages.Traced) -> jax.stages.Lowered:
    """The StableHLO of a traced function, for the back-end that JAX has."""
    lowered = traced.lower()
    if backend() == "cpu":
        module = lowered.compiler_ir("stablehlo")
        multiply_sums(module)
        round_products(module)
    return lowered
