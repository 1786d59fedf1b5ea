"""Undocumented parts of JAX: its internal functions, caches and settings.

JAX does not document that its arrays have Python's buffer protocol either. The C extension checks each array, and NumPy
reads arrays that do not have it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from mxcompat._jax import jax

from .registry import unpromised

__all__ = [
    "address_from_first", "clear_traces", "client_listening_at", "device_put", "gloo_address", "is_for_one_device",
    "put", "recoverability", "setting_names", "trace_count",
]  # fmt: skip


@unpromised(
    "device-put",
    "NumPy arrays become JAX arrays in an eighth of the time, and none is kept while it is copied in the background",
    "`jax.device_put` is called",
)
def device_put() -> bool:
    data = np.arange(3, dtype=np.int64)
    arrays = [put(data), put(data, copied=True)]
    return all(isinstance(x, jax.Array) and x.dtype == np.int64 and bool((np.asarray(x) == data).all()) for x in arrays)


def put(data: np.ndarray, copied: bool = False) -> jax.Array:
    """Return the same array as `jax.device_put` under `jax.enable_x64`, on the first device. Requires
    `device_put.holds`.

    Args:
        copied: True to copy the data before the function returns. Otherwise the array may share the memory of `data`.
    """
    device, sharding, batched_put, shared, own = _to_default_place()
    return batched_put(
        jax.core.ShapedArray(data.shape, data.dtype), sharding, [data], [device], committed=False,
        host_buffer_semantics=own if copied else shared, enable_x64=True,
    )  # fmt: skip


@cache
def _to_default_place() -> tuple[Any, Any, Any, Any, Any]:
    from jax._src.lib import xla_client

    device = jax.local_devices()[0]
    ways = xla_client.HostBufferSemantics
    return (
        device, jax.sharding.SingleDeviceSharding(device), xla_client.batched_device_put, ways.ZERO_COPY,
        ways.IMMUTABLE_ONLY_DURING_CALL,
    )  # fmt: skip


def is_for_one_device(ctx: Any) -> bool:
    """Return True if the code that is lowered in this context runs on one device of this process and is not exported.

    Return False if JAX does not tell.
    """
    module = ctx.module_context
    exported = getattr(getattr(module, "lowering_parameters", None), "for_export", True)
    return not exported and getattr(getattr(module, "axis_context", None), "num_devices", None) == 1


@unpromised(
    "trace-cache",
    "the memory of JAX's cache of traces is bounded",
    "it is not bounded, and `mx.ext.debug.clear_cache` clears all of JAX's caches",
)
def trace_cache() -> bool:
    return isinstance(_traces().cache_info().currsize, int) and callable(_traces().cache_clear)


def _traces() -> Any:
    """Return JAX's cache of the traces of jitted functions for each shape, its only unbounded cache."""
    from jax._src.interpreters.partial_eval import trace_to_jaxpr

    return trace_to_jaxpr


def trace_count() -> int:
    """Return the number of traces in JAX's cache, or 0 if it is unknown."""
    return _traces().cache_info().currsize if trace_cache.holds else 0


def clear_traces() -> None:
    """Clear JAX's cache of traces, or all its caches if that one cannot be accessed."""
    if trace_cache.holds:
        _traces().cache_clear()
    else:
        jax.clear_caches()


@unpromised(
    "settings",
    "compiled programs are stored on disk under names that depend on JAX's settings",
    "compiled programs are not stored on disk",
)
def settings() -> bool:
    return "jax_enable_x64" in jax.config.values and hasattr(jax.config, "jax_enable_x64")


def setting_names() -> list[str] | None:
    """Return the names of JAX's settings, or None if they are unknown."""
    return list(jax.config.values) if settings.holds else None


@unpromised(
    "recoverability",
    "a rank whose peer has ended raises an error",
    "JAX ends a rank whose peer has ended",
)
def recoverability() -> bool:
    return "jax_enable_recoverability" in jax.config.values


@unpromised(
    "cluster",
    "ranks that JAX detects get the address of the first rank from JAX's coordinator",
    "they get it by a collective of JAX, as the host name of the first rank",
)
def cluster() -> bool:
    state = _state()
    return all(hasattr(state, name) for name in ("process_id", "num_processes", "coordinator_address", "client"))


def _state() -> Any:
    """Return the state of JAX's distributed runtime."""
    from jax._src.distributed import global_state

    return global_state


_MEETING = "mxcompat/meeting"
_LONGEST_ADDRESS = 1024


def address_from_first(port: int, seconds: float) -> tuple[int, int, str]:
    """Return this process's rank, the number of ranks, and "host:port" of the first rank. JAX must know all ranks.

    Args:
        port: a free port of this machine. Only the first rank's port is used.
        seconds: the longest time to wait for the first rank.
    """
    if not cluster.holds:
        return _address_by_collective(port)
    state = _state()
    if state.process_id == 0:
        host = state.coordinator_address.rpartition(":")[0]
        state.client.key_value_set(_MEETING, f"{host}:{port}")
    address = state.client.blocking_key_value_get(_MEETING, int(1000 * seconds))
    return state.process_id, state.num_processes, address


def _address_by_collective(port: int) -> tuple[int, int, str]:
    """Return the result of `address_from_first` by public functions, which start JAX's back-end."""
    import socket

    from jax.experimental.multihost_utils import broadcast_one_to_all

    text = f"{socket.gethostname()}:{port}".encode()
    letters = np.frombuffer(text.ljust(_LONGEST_ADDRESS, b"\0"), np.uint8)
    address = np.asarray(broadcast_one_to_all(letters)).tobytes().rstrip(b"\0").decode()
    return jax.process_index(), jax.process_count(), address


@unpromised(
    "gloo-address",
    "gloo, which sends arrays between CPUs, listens at the address at which other machines reach this one",
    "it listens at the address of this machine's host name",
)
def gloo_address() -> bool:
    from jax._src.xla_bridge import make_cpu_client
    from jaxlib import _jax  # type: ignore[attr-defined]

    return cluster.holds and callable(make_cpu_client) and callable(_jax.make_gloo_tcp_collectives)


def client_listening_at(host: str) -> Any:
    """Return a back-end for CPUs whose gloo listens at this address of the machine."""
    from jax._src.xla_bridge import make_cpu_client
    from jaxlib import _jax  # type: ignore[attr-defined]

    try:
        collectives = _jax.make_gloo_tcp_collectives(distributed_client=_state().client, hostname=host)
    except (TypeError, AttributeError) as error:
        gloo_address.fails(error)
        return make_cpu_client()
    return make_cpu_client(collectives)
