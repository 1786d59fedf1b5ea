"""Identity primitives that raise an error when they are differentiated, in all modes or only in reverse mode.

JAX has no reverse-mode derivative of a loop of unknown length, and its error does not name the kernel. For bits that
are reinterpreted as another type, JAX silently gives zero as the derivative. These primitives raise clear errors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any, NoReturn

from mxcompat._jax import ad, batching, mlir

__all__ = ["forward_only", "shapes_alone", "without_derivative"]

_SHAPES_ALONE: ContextVar[bool] = ContextVar("shapes_alone", default=False)


@contextmanager
def shapes_alone() -> Iterator[None]:
    """Trace derivatives within this context only for their shapes, so that missing derivatives raise no error."""
    token = _SHAPES_ALONE.set(True)
    try:
        yield
    finally:
        _SHAPES_ALONE.reset(token)


def forward_only(x: Any, message: str) -> Any:
    """Return the array itself. Its derivative in reverse mode raises ValueError with the message."""
    return _primitive().bind(x, message=message)


def without_derivative(x: Any, message: str) -> Any:
    """Return the array itself. Any derivative with respect to it raises ValueError with the message."""
    return _constant().bind(x, message=message)


def _identity_primitive(name: str) -> Any:
    from jax.extend.core import Primitive  # imported here because the import is slow

    primitive = Primitive(name)
    primitive.def_impl(_identity)
    primitive.def_abstract_eval(lambda x, *, message: x)
    mlir.register_lowering(primitive, mlir.lower_fun(_identity, multiple_results=False))
    batching.primitive_batchers[primitive] = lambda xs, axes, *, message: (
        primitive.bind(*xs, message=message),
        axes[0],
    )
    return primitive


@cache
def _primitive() -> Any:
    primitive = _identity_primitive("forward_only")
    ad.deflinear2(primitive, _transposed)
    return primitive


@cache
def _constant() -> Any:
    primitive = _identity_primitive("without_derivative")

    def rule(primals: Any, tangents: Any, *, message: str) -> Any:
        known = tangents[0]
        if type(known) is not ad.Zero:
            if not _SHAPES_ALONE.get():
                raise ValueError(message)
            known = ad.Zero(known.aval)
        return primitive.bind(*primals, message=message), known

    ad.primitive_jvps[primitive] = rule
    return primitive


def _identity(x: Any, *, message: str) -> Any:
    return x


def _transposed(cotangent: Any, x: Any, *, message: str) -> NoReturn:
    raise ValueError(message)
