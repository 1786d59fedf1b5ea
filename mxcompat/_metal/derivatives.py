"""Values that have a derivative in forward mode alone: those that a loop of unknown length gives.

JAX cannot go backwards through such a loop. Its own error names no kernel, so the values pass through a primitive that
is nothing but the identity, and raises the error when a cotangent comes to it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NoReturn

from mxcompat._jax import ad, batching, mlir

__all__ = ["forward_only"]


def forward_only(x: Any, message: str) -> Any:
    """The array itself. Raises ValueError with the message if it is differentiated in reverse mode."""
    return _primitive().bind(x, message=message)


@cache
def _primitive() -> Any:
    from jax.extend.core import Primitive  # here, since what it imports takes long to import

    found = Primitive("forward_only")
    found.def_impl(_identity)
    found.def_abstract_eval(lambda x, *, message: x)
    mlir.register_lowering(found, mlir.lower_fun(_identity, multiple_results=False))
    ad.deflinear2(found, _transposed)
    batching.primitive_batchers[found] = lambda xs, axes, *, message: (found.bind(*xs, message=message), axes[0])
    return found


def _identity(x: Any, *, message: str) -> Any:
    return x


def _transposed(cotangent: Any, x: Any, *, message: str) -> NoReturn:
    raise ValueError(message)
