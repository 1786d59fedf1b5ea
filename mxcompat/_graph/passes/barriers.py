"""Barriers: test that XLA does not look through `modules.hidden`, and does not inline functions of `modules.keep`. Some
passes depend on that."""

from __future__ import annotations

from typing import Any

import numpy as np

from mxcompat._compat.dialects import ir
from mxcompat._compat.registry import unpromised
from mxcompat._compat.xla import text_of
from mxcompat._jax import jax, jnp, lax

from .modules import hidden, keep, named

__all__ = ["require_barriers"]


def require_barriers() -> None:
    """Raise RuntimeError if XLA looks through a barrier, so that a pass that needs one fails. The test runs once."""
    if not barriers.holds:
        raise RuntimeError(f"XLA sees through a barrier ({barriers.reason})")


@unpromised(
    "barriers",
    "XLA does not simplify the logarithm of a power, which may be infinite, or overwrite operands that it still reads",
    "it neither simplifies nor fuses programs in which it might do so",
)
def barriers() -> bool:
    """Compile the logarithm of a power, which is infinite for large numbers, and a sine in a separate function."""
    lowered = jax.jit(lambda x: jnp.sin(x) + jnp.log(lax.pow(x, x))).lower(jax.ShapeDtypeStruct((2,), np.float32))
    module: Any = lowered.compiler_ir("stablehlo")
    (power,), (sine,) = named(module, "stablehlo.power"), named(module, "stablehlo.sine")
    with module.context, ir.Location.unknown():
        hidden(power.results[0])
        keep(module, sine.results[0])
    compiled = lowered.compile()
    is_kept = jax.default_backend() != "cpu" or " call(" in (text_of(compiled) or " call(")
    return is_kept and bool(np.isinf(np.asarray(compiled(np.full(2, 1000, np.float32)))).all())
