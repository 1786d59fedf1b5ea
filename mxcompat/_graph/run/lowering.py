"""Lowering: what JAX has traced as StableHLO, in words of which XLA's compilers make right and fast code."""

from __future__ import annotations

from functools import cache
from typing import Any

from mxcompat._jax import in_a_thread, ir, jax

from ..passes.aliases import pair_updates
from ..passes.branches import compute_in_branches
from ..passes.chains import cut_chains
from ..passes.constants import compute_when_run
from ..passes.identities import keep_identities_apart
from ..passes.integers import wrap_around
from ..passes.order import add_in_order
from ..passes.overlaps import read_before_writing
from ..passes.products import transpose_first
from ..passes.repeats import compute_once
from ..passes.rounding import round_products
from ..passes.rows import add_to_rows_apart, multiply_rows
from ..passes.stages import reduce_in_stages
from ..passes.sums import multiply_sums
from ..passes.unroll import unroll_reductions
from . import background
from .platform import backend

__all__ = ["lower"]


def lower(traced: jax.stages.Traced) -> jax.stages.Lowered:
    """The StableHLO of a traced function, for the back-end that JAX has."""
    _import_dialects()
    background.give_up_at_exit()
    lowered = traced.lower()
    module = lowered.compiler_ir("stablehlo")
    wrap_around(module)
    keep_identities_apart(module)
    pair_updates(module)
    if backend() == "cpu":
        alone = _is_for_one_device(module)
        if alone:
            add_in_order(module)
            multiply_sums(module)
            multiply_rows(module)
            transpose_first(module)
        add_to_rows_apart(module)
        round_products(module)
        if alone:
            unroll_reductions(module)
            reduce_in_stages(module)
            compute_once(module)
            cut_chains(module)
            compute_in_branches(module)
        read_before_writing(module)
        compute_when_run(module)
    return lowered


@cache
def _import_dialects() -> None:
    """Have JAX import the dialects of MLIR, as it does when it lowers something. They cannot be imported again if an
    interrupt cuts that short."""
    in_a_thread(lambda: jax.jit(lambda: 0).lower())


def _is_for_one_device(module: Any) -> bool:
    return ir.IntegerAttr(module.operation.attributes["mhlo.num_partitions"]).value == 1
