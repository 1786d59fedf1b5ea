"""Access to JAX's distributed runtime beyond its public functions: the processes that JAX detected, and the address at
which gloo listens, which carries arrays between CPUs."""

from __future__ import annotations

from mxcompat._graph.run.internals import make_cpu_client, runtime_state
from mxcompat._jax import jax

from .links import free_port

__all__ = ["found_by_jax", "listen_at"]

_MEETING = "mxcompat/meeting"


def found_by_jax(seconds: float) -> tuple[int, int, str]:
    """Return this process's rank, the number of ranks and the address of rank 0, once JAX knows them."""
    state = runtime_state()
    if state.process_id == 0:
        host = state.coordinator_address.rpartition(":")[0]
        state.client.key_value_set(_MEETING, f"{host}:{free_port()}")
    address = state.client.blocking_key_value_get(_MEETING, int(1000 * seconds))
    return state.process_id, state.num_processes, address


def listen_at(host: str) -> None:
    """Make gloo listen at this address. By default it uses the address of the machine's name, which is often a loopback
    address that others cannot reach."""
    from jax.extend.backend import register_backend_factory  # imported here because its imports are slow

    if jax.config.jax_cpu_collectives_implementation == "gloo":  # type: ignore[attr-defined]
        register_backend_factory("cpu", lambda: _cpu(host), fail_quietly=False)


def _cpu(host: str) -> object:
    from jaxlib import _jax  # type: ignore[attr-defined]

    client = runtime_state().client
    return make_cpu_client(_jax.make_gloo_tcp_collectives(distributed_client=client, hostname=host))
