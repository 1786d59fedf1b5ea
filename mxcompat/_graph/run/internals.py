"""JAX's internals, where its public functions do not reach. No other file needs them."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from mxcompat._jax import jax

__all__ = ["is_for_one_device", "make_cpu_client", "put", "runtime_state", "trace_cache"]


def runtime_state() -> Any:
    """What the distributed runtime has found out of the other processes."""
    from jax._src.distributed import global_state

    return global_state


def make_cpu_client(collectives: Any) -> Any:
    """A back-end for CPUs, with collectives of one's own."""
    from jax._src.xla_bridge import make_cpu_client

    return make_cpu_client(collectives)


def trace_cache() -> Any:
    """Jitted functions, traced at each shape that they have met: of JAX's caches the one without a bound."""
    from jax._src.interpreters.partial_eval import trace_to_jaxpr

    return trace_to_jaxpr


def is_for_one_device(ctx: Any) -> bool:
    """Whether what is lowered in this context runs on a single device, in this process: it is not to be exported."""
    module = ctx.module_context
    exported = getattr(getattr(module, "lowering_parameters", None), "for_export", True)
    return not exported and getattr(getattr(module, "axis_context", None), "num_devices", None) == 1


def put(data: np.ndarray) -> jax.Array:
    """`jax.device_put`, of any dtype, which takes eight times as long before it does this."""
    shaped, batched_put, sharding, devices = _to_default_place()
    return batched_put(shaped(data.shape, data.dtype), sharding, [data], devices, committed=False, enable_x64=True)


@cache
def _to_default_place() -> tuple[Any, Any, Any, list[Any]]:
    from jax._src.interpreters.pxla import batched_device_put

    device = jax.local_devices()[0]
    return jax.core.ShapedArray, batched_device_put, jax.sharding.SingleDeviceSharding(device), [device]
