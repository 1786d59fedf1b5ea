"""JAX's internals, where its public functions do not reach. No other file needs them."""

from __future__ import annotations

from typing import Any

from jax._src import distributed, xla_bridge
from jax._src.interpreters import partial_eval

__all__ = ["make_cpu_client", "runtime_state", "trace_cache"]

runtime_state: Any = distributed.global_state
"""What the distributed runtime has found out of the other processes."""

make_cpu_client: Any = xla_bridge.make_cpu_client
"""A back-end for CPUs, with collectives of one's own."""

trace_cache: Any = partial_eval.trace_to_jaxpr
"""Jitted functions, traced at each shape that they have met: of JAX's caches the one without a bound."""
