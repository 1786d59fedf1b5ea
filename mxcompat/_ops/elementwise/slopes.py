"""Functions of real numbers with MLX's derivative, where JAX's derivative differs or is rounded differently."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mxcompat._jax import lazy

__all__ = ["with_slope"]


def with_slope(function: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return `function` with `slope` as its derivative."""

    @lazy.custom_jvp
    def real(x: Any) -> Any:
        return function(x)

    @real.defjvp
    def real_jvp(primals: Any, tangents: Any) -> tuple[Any, Any]:
        (x,) = primals
        return real(x), tangents[0] * slope(x)

    return real
