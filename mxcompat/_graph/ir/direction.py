"""The direction in which XLA differentiates: forward (`jvp`) or backward (`vjp`).

JAX has one rule for both directions and transposes it. MLX has two, which differ at ties and next to NaN. The few ops
affected ask for the direction while their rule is traced.
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
    """Set the direction of derivatives that are traced within this context."""
    token, around = _forward.set(forward), _around.set(forward or _around.get())
    try:
        yield
    finally:
        _forward.reset(token)
        _around.reset(around)


def is_forward() -> bool:
    """Return True if the current derivative pushes tangents forward."""
    return _forward.get()


def is_within_forward() -> bool:
    """Return True if the current derivative, or an enclosing one, pushes tangents forward."""
    return _around.get()
