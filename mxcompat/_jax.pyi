from collections.abc import Callable
from typing import Any, TypeGuard

import jax as jax
import jax as lazy
import jax.core
from jax import lax as lax
from jax import numpy as jnp
from jax.interpreters import ad as ad
from jax.interpreters import batching as batching
from jax.interpreters import mlir as mlir

__all__ = [
    "ad", "batching", "import_jax", "in_a_thread", "is_array", "is_imported", "is_tracer", "jax", "jnp", "lax", "lazy",
    "mlir", "module_proxy", "when_imported",
]  # fmt: skip

def import_jax() -> None: ...
def is_imported() -> bool: ...
def is_array(value: Any) -> TypeGuard[jax.Array]: ...
def is_tracer(value: Any) -> TypeGuard[jax.core.Tracer]: ...
def when_imported(call: Callable[[], Any]) -> None: ...
def in_a_thread(imports: Callable[[], Any]) -> None: ...
def module_proxy(name: str) -> Any: ...
