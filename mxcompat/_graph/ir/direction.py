"""Which way XLA differentiates: forward (`jvp`) or backward (`vjp`).

JAX has one rule for both, and transposes it. MLX has two, which differ at ties and beside NaN; the few ops where they
do ask here, while their rule is traced.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["differentiating", "is_forward", "is_within_forward"]

_forward: ContextVar[bool] = ContextVar("forward", default=False)
_around: ContextVar[bool] = ContextVar("around", default=False)


@contextmanager
def differentiating(*, forward: bool) -> Iterator[None]:
    """Within this context, derivatives are traced for this direction."""
    token, around = _forward.set(forward), _around.set(forward or _around.get())
    try:
        yield
    finally:
        _forward.reset(token)
        _around.reset(around)


def is_forward() -> bool:
    """Whether the derivative that is being traced pushes tangents forward."""
    return _forward.get()


def is_within_forward() -> bool:
    """Whether that derivative, or one around it, pushes tangents forward."""
    return _around.get()
