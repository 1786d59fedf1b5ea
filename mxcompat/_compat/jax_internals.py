"""What JAX does not promise: its internal functions, caches and settings.

That an array of JAX's has Python's buffer protocol is not promised either. The extension in C asks each array, and
NumPy reads one that has none.
"""

from __future__ import annotations

import socket
from functools import cache
from typing import Any

import numpy as np

from mxcompat._jax import jax

from .registry import unpromised

__all__ = [
    "address_from_first", "clear_traces", "client_listening_at", "device_put", "gloo_address", "is_for_one_device",
    "put", "recoverability", "setting_names", "trace_count",
]  # fmt: skip


@unpromised("device-put", "NumPy's data become a JAX array in an eighth of the time", "`jax.device_put`")
def device_put() -> bool:
    data = np.arange(3, dtype=np.int64)
    made = put(data)
    return isinstance(made, jax.Array) and made.dtype == np.int64 and bool((np.asarray(made) == data).all())


def put(data: np.ndarray) -> jax.Array:
    """What `jax.device_put` returns under `jax.enable_x64`, for the first device. `device_put` has to hold."""
    shaped, batched_put, sharding, devices = _to_default_place()
    return batched_put(shaped(data.shape, data.dtype), sharding, [data], devices, committed=False, enable_x64=True)


@cache
def _to_default_place() -> tuple[Any, Any, Any, list[Any]]:
    from jax._src.interpreters.pxla import batched_device_put

    device = jax.local_devices()[0]
    return jax.core.ShapedArray, batched_device_put, jax.sharding.SingleDeviceSharding(device), [device]


def is_for_one_device(ctx: Any) -> bool:
    """Return True if the code that is lowered in this context runs on one device of this process and is not exported.

    False where JAX does not tell.
    """
    module = ctx.module_context
    exported = getattr(getattr(module, "lowering_parameters", None), "for_export", True)
    return not exported and getattr(getattr(module, "axis_context", None), "num_devices", None) == 1


@unpromised(
    "trace-cache",
    "the memory is bounded in which JAX keeps each function for each shape that it has met",
    "it is not; `mx.ext.debug.clear_cache` clears all of JAX's caches",
)
def trace_cache() -> bool:
    return isinstance(_traces().cache_info().currsize, int) and callable(_traces().cache_clear)


def _traces() -> Any:
    """Jitted functions, traced at each shape that they have met: of JAX's caches the one without a bound."""
    from jax._src.interpreters.partial_eval import trace_to_jaxpr

    return trace_to_jaxpr


def trace_count() -> int:
    """The number of traces that JAX keeps; 0 where that is not known."""
    return _traces().cache_info().currsize if trace_cache.holds else 0


def clear_traces() -> None:
    """Let JAX forget its traces."""
    if trace_cache.holds:
        _traces().cache_clear()
    else:
        jax.clear_caches()


@unpromised(
    "settings",
    "compiled programs are kept on disk under names that include JAX's settings",
    "compiled programs are not kept on disk",
)
def settings() -> bool:
    return "jax_enable_x64" in jax.config.values and hasattr(jax.config, "jax_enable_x64")


def setting_names() -> list[str] | None:
    """The names of JAX's settings; None where they are not known."""
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
    "ranks that JAX finds by itself learn from its coordinator where the first is to be met",
    "they learn it by a collective of JAX's, at the first one's host name",
)
def cluster() -> bool:
    state = _state()
    return all(hasattr(state, name) for name in ("process_id", "num_processes", "coordinator_address", "client"))


def _state() -> Any:
    """What JAX's distributed runtime has found out of the other processes."""
    from jax._src.distributed import global_state

    return global_state


_MEETING = "mxcompat/meeting"
_LONGEST_ADDRESS = 1024


def address_from_first(port: int, seconds: float) -> tuple[int, int, str]:
    """This process's rank, the number of ranks, and "host:port" of the first, whose `port` it is. JAX knows all ranks.

    Args:
        port: a free port of this machine.
        seconds: how long to wait for the first.
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
    """The same by public functions, which start JAX's back-end."""
    from jax.experimental.multihost_utils import broadcast_one_to_all

    text = f"{socket.gethostname()}:{port}".encode()
    letters = np.frombuffer(text.ljust(_LONGEST_ADDRESS, b"\0"), np.uint8)
    found = np.asarray(broadcast_one_to_all(letters)).tobytes().rstrip(b"\0").decode()
    return jax.process_index(), jax.process_count(), found


@unpromised(
    "gloo-address",
    "gloo, which carries arrays between CPUs, listens at the address at which other machines reach this one",
    "it listens at what this machine's name stands for",
)
def gloo_address() -> bool:
    from jax._src.xla_bridge import make_cpu_client
    from jaxlib import _jax  # type: ignore[attr-defined]

    return cluster.holds and callable(make_cpu_client) and callable(_jax.make_gloo_tcp_collectives)


def client_listening_at(host: str) -> Any:
    """A back-end for CPUs whose gloo listens at an address of this machine."""
    from jax._src.xla_bridge import make_cpu_client
    from jaxlib import _jax  # type: ignore[attr-defined]

    try:
        collectives = _jax.make_gloo_tcp_collectives(distributed_client=_state().client, hostname=host)
    except (TypeError, AttributeError) as error:
        gloo_address.fails(error)
        return make_cpu_client()
    return make_cpu_client(collectives)
