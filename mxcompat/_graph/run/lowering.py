"""Lowering: turn a traced function into StableHLO, and change it by passes so that XLA's code is correct and fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mxcompat._compat.dialects import attempt, ir, stablehlo_edits
from mxcompat._jax import in_a_thread, jax

from ..passes.aliases import pair_updates
from ..passes.chains import cut_chains
from ..passes.constants import hide_window_constants
from ..passes.convolutions import convolve_in_c, cut_before_convolving
from ..passes.in_place_hazard import materialize_operands
from ..passes.integers import wrap_around
from ..passes.materialize_shared import materialize_shared
from ..passes.matvec_layout import add_after_matvec, multiply_by_column
from ..passes.no_fp_rewrite import prevent_fp_rewrites
from ..passes.rounding import round_products
from ..passes.sink_into_branch import sink_into_branches
from ..passes.small_dot import expand_small_dots
from ..passes.stored_products import multiply_halves_in_c
from ..passes.sum_to_matmul import sums_to_matmuls
from ..passes.transpose_lhs import transpose_lhs
from ..passes.tree_reduce import tree_reduce
from ..passes.unroll import unroll_reductions
from . import background
from .platform import backend

__all__ = ["Lowered", "lower"]

_Pass = Callable[[Any], None]

_FOR_ALL: tuple[_Pass, ...] = (wrap_around, prevent_fp_rewrites, pair_updates)
_FOR_ONE_CPU: tuple[_Pass, ...] = (
    convolve_in_c, expand_small_dots, multiply_halves_in_c, sums_to_matmuls, multiply_by_column, transpose_lhs
)  # fmt: skip
_FOR_CPUS: tuple[_Pass, ...] = (cut_before_convolving, add_after_matvec, round_products)
_FOR_ONE_CPU_LATER: tuple[_Pass, ...] = (
    unroll_reductions, tree_reduce, materialize_shared, cut_chains, sink_into_branches
)  # fmt: skip
_FOR_CPUS_LAST: tuple[_Pass, ...] = (materialize_operands, hide_window_constants)

_FOR_RIGHT_CODE = frozenset([
    wrap_around, prevent_fp_rewrites, expand_small_dots, cut_before_convolving, round_products, materialize_operands
])  # fmt: skip
"""Passes without which XLA's code would be wrong in some cases or in the last digits. The others make it faster."""


class Lowered:
    """A lowered function, like `jax.stages.Lowered`. `is_plain` is True if a pass that is needed for correct code
    failed, so that XLA must compile without its optimizations."""

    __slots__ = ("_lowered", "compiler_ir", "is_plain")

    def __init__(self, lowered: jax.stages.Lowered, is_plain: bool) -> None:
        self._lowered = lowered
        self.compiler_ir: Callable[..., Any] = lowered.compiler_ir
        self.is_plain = is_plain

    def compile(self, options: dict[str, Any]) -> jax.stages.Compiled:
        """Compile the function with these options."""
        return self._lowered.compile(compiler_options=options) if options else self._lowered.compile()


def lower(traced: jax.stages.Traced, again: Callable[[], jax.stages.Traced] | None = None) -> Lowered:
    """Lower a traced function to StableHLO for JAX's back-end, and apply the passes.

    Args:
        again: traces the function once more. It is called if a pass fails half-way, because JAX caches the module that
            the pass has changed. Without it, the error of the pass is raised.
    """
    _import_dialects()
    background.give_up_at_exit()
    if not stablehlo_edits.holds:
        return Lowered(traced.lower(), True)
    failed: set[_Pass] = set()
    while True:
        lowered = traced.lower()
        module = lowered.compiler_ir("stablehlo")
        one = _first_that_fails(module, [one for one in _passes(module) if one not in failed], again is None)
        if one is None:
            return Lowered(lowered, not failed.isdisjoint(_FOR_RIGHT_CODE))
        failed.add(one)
        traced = again()  # type: ignore[misc]


def _first_that_fails(module: Any, passes: Sequence[_Pass], raises: bool) -> _Pass | None:
    """Apply passes to a module in order. Return the first one that fails, or None."""
    for one in passes:
        if raises:
            one(module)
        elif not attempt(one, module)[0]:
            return one
    return None


def _passes(module: Any) -> tuple[_Pass, ...]:
    """Return the passes for a module, in order."""
    if backend() != "cpu":
        return _FOR_ALL
    if attempt(_is_for_one_device, module)[1]:
        return _FOR_ALL + _FOR_ONE_CPU + _FOR_CPUS + _FOR_ONE_CPU_LATER + _FOR_CPUS_LAST
    return _FOR_ALL + _FOR_CPUS + _FOR_CPUS_LAST


@cache
def _import_dialects() -> None:
    """Let JAX import the dialects of MLIR, by lowering an empty function in a thread. If an interrupt stopped the
    import half-way, it could not be repeated."""
    in_a_thread(lambda: jax.jit(lambda: 0).lower())


def _is_for_one_device(module: Any) -> bool:
    return ir.IntegerAttr(module.operation.attributes["mhlo.num_partitions"]).value == 1
