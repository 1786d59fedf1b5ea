"""Lowering: turn a traced function into StableHLO, and change it by passes so that XLA's code is correct and fast."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from mxcompat._compat.dialects import attempt, ir, stablehlo_edits
from mxcompat._jax import in_a_thread, jax

from ..passes.aliases import pair_updates
from ..passes.branches import compute_in_branches
from ..passes.chains import cut_chains
from ..passes.constants import compute_when_run
from ..passes.convolutions import convolve_in_c, cut_before_convolving
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

__all__ = ["Lowered", "lower"]

_Pass = Callable[[Any], None]

_FOR_ALL: tuple[_Pass, ...] = (wrap_around, keep_identities_apart, pair_updates)
_FOR_ONE_CPU: tuple[_Pass, ...] = (
    convolve_in_c, add_in_order, multiply_sums, multiply_rows, transpose_first
)  # fmt: skip
_FOR_CPUS: tuple[_Pass, ...] = (cut_before_convolving, add_to_rows_apart, round_products)
_FOR_ONE_CPU_LATER: tuple[_Pass, ...] = (
    unroll_reductions, reduce_in_stages, compute_once, cut_chains, compute_in_branches
)  # fmt: skip
_FOR_CPUS_LAST: tuple[_Pass, ...] = (read_before_writing, compute_when_run)

_FOR_RIGHT_CODE = frozenset([
    wrap_around, keep_identities_apart, add_in_order, cut_before_convolving, round_products, read_before_writing
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
